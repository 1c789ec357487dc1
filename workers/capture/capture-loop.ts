import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { NatsConnection } from '@nats-io/nats-core'
import type { CaptureStatus } from '../../schemas/data/capture-status.ts'
import type { ChangeLog } from './change-log.ts'
import { PublishConflict } from './change-publisher.ts'
import type { CaptureObservation } from './observation.ts'
import { CaptureBusy, CaptureRefused } from './refusal.ts'
import { announceStatus } from './status.ts'

export interface Capture {
  status(): CaptureStatus
  /** Stops reading; what was read is on the stream and confirmed, or comes again. */
  stop(): Promise<void>
}

export interface CaptureLoopOptions extends Pick<CaptureStatus, 'source' | 'slot' | 'publication'> {
  readonly bus: NatsConnection
  readonly log: ChangeLog
  readonly signal: AbortSignal
  /** How often it is tried again when the database refuses. */
  readonly refusedRetryMs: number
  readonly onObservation: (observation: CaptureObservation) => void
  /** One connection from its set-up to its end. Resolves when stopped, rejects on every fault. */
  readonly session: (signal: AbortSignal) => Promise<void>
  /** What a fault of the database means, where it means more than that it is tried again. */
  readonly meaning: (error: unknown) => unknown
  /** What the status says besides. */
  readonly position: () => string | undefined
}

const firstBackOffMs = 100
const maxBackOffMs = 10_000
const standbyRetryMs = 500

/** Runs sessions one after the other until stopped, whatever fails, and tells how it goes. */
export class CaptureLoop implements Capture {
  readonly #options: CaptureLoopOptions
  readonly #stopping = new AbortController()
  readonly #signal: AbortSignal
  readonly #announcement: { announce(): void; close(): void }
  #finished: Promise<void> = Promise.resolve()
  #status: CaptureStatus
  /** Set when a session has read anything: the next failure starts with a short pause again. */
  #wasRunning = false

  constructor(options: CaptureLoopOptions) {
    this.#options = options
    const { source, slot, publication, bus } = options
    this.#signal = AbortSignal.any([options.signal, this.#stopping.signal])
    this.#status = {
      source,
      captureId: randomUUID(),
      state: 'starting',
      statements: [],
      slot,
      publication,
      unpublished: [],
      at: Date.now(),
    }
    this.#announcement = announceStatus(bus, () => this.status())
  }

  start(): void {
    this.#finished = this.#run()
  }

  status(): CaptureStatus {
    const confirmedLsn = this.#options.position()
    return { ...this.#status, ...(confirmedLsn !== undefined && { confirmedLsn }) }
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#finished
  }

  /** The session has begun to read. */
  running(): void {
    this.#wasRunning = true
    this.#change({ state: 'running', statements: [] })
  }

  /** More of what the status says; told at once when `tell`. */
  note(more: Partial<Pick<CaptureStatus, 'unpublished' | 'retainedBytes'>>, tell: boolean): void {
    this.#status = { ...this.#status, ...more }
    if (tell) this.#announcement.announce()
  }

  async #run(): Promise<void> {
    let failures = 0
    while (!this.#signal.aborted) {
      this.#wasRunning = false
      let pauseMs: number
      try {
        await this.#options.session(this.#signal)
        break
      } catch (thrown) {
        if (this.#signal.aborted) break
        failures = this.#wasRunning ? 1 : failures + 1
        pauseMs = await this.#failed(this.#options.meaning(thrown), failures)
      }
      await delay(pauseMs, undefined, { signal: this.#signal }).catch(() => undefined)
    }
    this.#change({ state: 'stopped', statements: [] })
    this.#announcement.close()
  }

  /** Tells of it, and answers how long to wait. */
  async #failed(error: unknown, failures: number): Promise<number> {
    if (error instanceof CaptureRefused) {
      this.#change({ state: 'refused', reason: error.message, statements: [...error.statements] })
      return this.#options.refusedRetryMs
    }
    if (error instanceof CaptureBusy) {
      this.#change({ state: 'standby', reason: error.message, statements: [] })
      return standbyRetryMs
    }
    const { source, log, onObservation } = this.#options
    const retryInMs = error instanceof PublishConflict ? firstBackOffMs : backOffMs(failures)
    this.#change({ state: 'failing', reason: shortReason(error), statements: [] })
    onObservation({ type: 'capture-failed', source, reason: shortReason(error), retryInMs, error })
    if (error instanceof PublishConflict) {
      await log.state().then(
        (state) => log.noteConflict(state),
        () => undefined,
      )
    }
    return retryInMs
  }

  #change(to: Pick<CaptureStatus, 'state' | 'statements'> & { readonly reason?: string }): void {
    const { reason: before, ...rest } = this.#status
    const same = rest.state === to.state && before === to.reason
    this.#status = { ...rest, ...to, at: Date.now() }
    this.#announcement.announce()
    if (same) return
    const { state, reason } = to
    const { onObservation } = this.#options
    onObservation({ type: 'capture-state', source: rest.source, state, ...(reason === undefined ? {} : { reason }) })
  }
}

function backOffMs(failures: number): number {
  return Math.min(maxBackOffMs, firstBackOffMs * 2 ** Math.min(failures - 1, 10)) * (0.75 + Math.random() / 2)
}

/** Connection errors of several addresses have no message of their own. */
export function shortReason(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return shortReason(error.errors[0])
  return error instanceof Error && error.message !== ''
    ? error.message
    : String((error as { code?: unknown })?.code ?? error)
}
