import type { Bus } from '../../bus/connect.ts'
import { type ConsumeObservation, consume } from '../../bus/consume.ts'
import type { Delivery } from '../../bus/handle.ts'
import { pause } from '../../bus/pause.ts'
import type { SavedTrigger } from '../../schemas/workflows/trigger.ts'
import { bodyOf, fireTrigger, type RefusedObservation } from './fire.ts'
import { liveTrigger, type TriggerView } from './trigger-view.ts'

const searchMs = 2_000

interface Reading {
  readonly subject: string
  readonly stop: AbortController
  readonly work: Promise<void>
}

/** Starts executions with messages of streams that are not the platform's: a durable consumer each, which all schedulers share. */
export class SubjectTriggers {
  readonly #bus: Bus
  readonly #view: () => TriggerView
  readonly #onObservation: (observation: ConsumeObservation | RefusedObservation) => void
  readonly #readings = new Map<string, Reading>()
  readonly #ending = new Set<Promise<void>>()
  #closed = false

  constructor(
    bus: Bus,
    view: () => TriggerView,
    onObservation: (observation: ConsumeObservation | RefusedObservation) => void,
  ) {
    this.#bus = bus
    this.#view = view
    this.#onObservation = onObservation
  }

  /** Reads for those triggers that there are now. */
  update(): void {
    if (this.#closed) return
    const wanted = new Map(
      this.#view()
        .enabled('subject')
        .map((each) => [each.saved.triggerId, each]),
    )
    for (const [id, { subject }] of this.#readings) {
      if (wanted.get(id)?.saved.config.subject !== subject) this.#end(id, !this.#view().triggers.has(id))
    }
    for (const [id, { saved, since }] of wanted) {
      if (this.#readings.has(id)) continue
      const stop = new AbortController()
      const subject = String(saved.config.subject)
      this.#readings.set(id, { subject, stop, work: this.#read(id, subject, since, stop.signal) })
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const id of [...this.#readings.keys()]) this.#end(id, false)
    await Promise.all(this.#ending)
  }

  #end(id: string, gone: boolean): void {
    const { stop, work, subject } = this.#readings.get(id)!
    this.#readings.delete(id)
    stop.abort()
    const end = (gone ? work.then(() => this.#forget(id, subject)) : work).finally(() => this.#ending.delete(end))
    this.#ending.add(end)
  }

  /** The consumer of a trigger that is deleted would hold messages for ever. */
  async #forget(id: string, subject: string): Promise<void> {
    try {
      const stream = await this.#streamOf(subject)
      if (stream !== null) await this.#bus.manager.consumers.delete(stream, consumerOf(id))
    } catch {
      // Another scheduler was faster, or the bus is away: a consumer that nobody reads costs a little.
    }
  }

  async #read(id: string, subject: string, since: number, signal: AbortSignal): Promise<void> {
    let stream: string | null = null
    while (stream === null && !signal.aborted) {
      stream = await this.#streamOf(subject).catch(() => null)
      if (stream === null) await pause(searchMs, signal)
    }
    if (stream === null || signal.aborted) return
    const onObservation = this.#onObservation
    const handle = (delivery: Delivery) => this.#take(id, delivery)
    await consume(
      this.#bus,
      { stream, consumer: consumerOf(id), subjects: [subject], from: { since }, handle, onObservation },
      signal,
    )
  }

  async #take(id: string, { subject, data, stream, sequence, at }: Delivery): Promise<void> {
    const live: SavedTrigger | null = await liveTrigger(this.#bus, id)
    if (live === null || at < live.since) return
    const firing = { cause: `message/${stream}/${sequence}`, brings: { subject, body: bodyOf(data) }, at: Date.now() }
    await fireTrigger(this.#bus, live, firing, this.#onObservation)
  }

  /** Null when no stream holds it, so far. */
  async #streamOf(subject: string): Promise<string | null> {
    for await (const name of this.#bus.manager.streams.names(subject)) return name
    return null
  }
}

function consumerOf(triggerId: string): string {
  return `workers-scheduler-subject-${triggerId}`
}
