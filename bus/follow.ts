import { type ConsumerMessages, DeliverPolicy, type JsMsg } from '@nats-io/jetstream'
import type { Bus } from './connect.ts'
import { carriedState, load, readMessage } from './load.ts'
import type { Aggregate, Fact } from './message.ts'
import { pause } from './pause.ts'
import { asking } from './publish.ts'
import { unescapeToken } from './subject.ts'

export interface FollowOptions<State, F extends Fact> {
  readonly stream: string
  /** `evt.<component>.<entity>`: all aggregates below it. */
  readonly subject: string
  readonly aggregate: Aggregate<State, F>
  /** Called behind each message, also at the start. */
  readonly onState: (id: string, state: State, sequence: number) => void
  readonly onObservation?: (observation: FollowObservation) => void
}

export type FollowObservation = {
  /** The states are as they were until it is read again. */
  readonly type: 'follow-trouble'
  readonly subject: string
  readonly error: unknown
}

export interface Follower extends AsyncDisposable {
  /** False when the message with this id has not come in time. */
  passed(messageId: string, timeoutMs: number): Promise<boolean>
  close(): Promise<void>
}

const retryMs = 250
const rememberedIds = 4_096

/**
 * Tells the last state of every aggregate of a kind, then each new one, in the order of the stream; resolves when it has caught
 * up. A state may be told again. For kinds of which there are thousands, not millions.
 *
 * @throws {BusUnavailable} when it cannot begin.
 */
export async function follow<State, F extends Fact>(bus: Bus, options: FollowOptions<State, F>): Promise<Follower> {
  const following = new Following(bus, options)
  await following.begin()
  return following
}

class Following<State, F extends Fact> implements Follower {
  readonly #bus: Bus
  readonly #options: FollowOptions<State, F>
  readonly #stop = new AbortController()
  /** Ids of the latest messages. */
  readonly #seen = new Set<string>()
  readonly #waiting = new Map<string, Set<() => void>>()
  #messages: ConsumerMessages | null = null
  #work: Promise<void> = Promise.resolve()
  #unwatch: () => void = () => undefined

  constructor(bus: Bus, options: FollowOptions<State, F>) {
    this.#bus = bus
    this.#options = options
  }

  async begin(): Promise<void> {
    const caughtUp = await this.#open()
    // Its requests are gone with the old connection; it is opened again.
    this.#unwatch = this.#bus.onReconnect(() => void this.#messages?.close())
    this.#work = this.#run(caughtUp.reached)
    await caughtUp.promise
  }

  passed(messageId: string, timeoutMs: number): Promise<boolean> {
    if (this.#seen.has(messageId)) return Promise.resolve(true)
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(messageId) ?? new Set()
      const end = (came: boolean) => {
        clearTimeout(timer)
        waiting.delete(arrive)
        if (waiting.size === 0) this.#waiting.delete(messageId)
        resolve(came)
      }
      const arrive = () => end(true)
      const timer = setTimeout(end, timeoutMs, false)
      this.#waiting.set(messageId, waiting.add(arrive))
    })
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#unwatch()
    await this.#messages?.close()
    await this.#work
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #open() {
    const { stream, subject } = this.#options
    const consumer = await asking(this.#bus, () =>
      this.#bus.jetstream.consumers.get(stream, {
        filter_subjects: `${subject}.*`,
        deliver_policy: DeliverPolicy.LastPerSubject,
      }),
    )
    const { num_pending } = await asking(this.#bus, () => consumer.info())
    this.#messages = await consumer.consume()
    const { promise, resolve } = Promise.withResolvers<void>()
    if (num_pending === 0) resolve()
    return { promise, reached: resolve }
  }

  async #run(caughtUp: () => void): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        for await (const message of this.#messages ?? []) {
          await this.#take(message)
          if (message.info.pending === 0) caughtUp()
        }
      } catch (error) {
        await this.#messages?.close()
        this.#options.onObservation?.({ type: 'follow-trouble', subject: this.#options.subject, error })
      }
      if (!this.#stop.signal.aborted) await this.#openAgain()
    }
  }

  async #openAgain(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await pause(retryMs, this.#stop.signal)
      if (this.#stop.signal.aborted) return
      try {
        await this.#open()
        // Closed meanwhile: nobody else would. Not awaited: the client tells of it once somebody has read on.
        if (this.#stop.signal.aborted) void this.#messages?.close()
        return
      } catch (error) {
        this.#options.onObservation?.({ type: 'follow-trouble', subject: this.#options.subject, error })
      }
    }
  }

  async #take(delivered: JsMsg): Promise<void> {
    const { aggregate, stream, onState } = this.#options
    const message = await readMessage(this.#bus, aggregate.events, delivered)
    const carried = carriedState(aggregate, message)
    const { state, sequence } =
      carried === null
        ? await load(this.#bus, aggregate, { stream, subject: delivered.subject })
        : { state: carried.state, sequence: delivered.seq }
    onState(unescapeToken(delivered.subject.slice(this.#options.subject.length + 1)), state, sequence)
    this.#remember(message.id)
  }

  #remember(id: string): void {
    this.#seen.add(id)
    const [oldest] = this.#seen
    if (oldest !== undefined && this.#seen.size > rememberedIds) this.#seen.delete(oldest)
    for (const arrive of [...(this.#waiting.get(id) ?? [])]) arrive()
  }
}
