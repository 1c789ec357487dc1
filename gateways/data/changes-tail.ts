import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import type { ConsumerMessages } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/nats-core'
import { type Arrival, ChangeRing } from './changes-ring.ts'
import { asArrival, type ChangeStream, type Tailing } from './changes-stream.ts'

export interface TailOptions {
  readonly ringBytes: number
  readonly onArrival: (arrival: Arrival) => void
  readonly onTailing: (from: number) => void
  readonly onLost: (reason: string) => void
  /** The stream begins anew: sequences known until now mean nothing in it. */
  readonly onReplaced: () => void
}

const retryMs = 250
/** After so much work the sockets get their turn to send what they were given. */
const turnMs = 10

/** Follows the stream's end for as long as it lives: after a fault from where it was, with a gap where that is gone. */
export class ChangeTail {
  readonly #bus: NatsConnection
  readonly #stream: ChangeStream
  readonly #options: TailOptions
  readonly #connection: ReturnType<NatsConnection['status']>
  #ring = new ChangeRing(1, 0)
  #position = 0
  #tailing: Tailing | null = null
  #following = false
  #begun = false
  #work: Promise<void> = Promise.resolve()
  #closed = false

  constructor(bus: NatsConnection, stream: ChangeStream, options: TailOptions) {
    this.#bus = bus
    this.#stream = stream
    this.#options = options
    this.#connection = bus.status()
  }

  /** Last sequence that came. */
  get position(): number {
    return this.#position
  }

  get ring(): ChangeRing {
    return this.#ring
  }

  /** Whether what happens now comes. */
  get following(): boolean {
    return this.#following
  }

  /** Begins at the stream's present end; while the bus or the stream is away, as soon as it is there. */
  async start(): Promise<void> {
    void this.#watchConnection()
    await this.#begin().catch((error: Error) => this.#options.onLost(error.message))
    this.#work = this.#follow()
  }

  async close(): Promise<void> {
    this.#closed = true
    const reachable = this.#following
    this.#following = false
    this.#tailing?.stop()
    await this.#work
    if (reachable) await this.#tailing?.forget()
  }

  /** A server that comes back does not know the consumer any more; without this it would be missed after half a minute. */
  async #watchConnection(): Promise<void> {
    for await (const { type } of this.#connection) {
      if (this.#closed) return
      if (type === 'disconnect') this.#following = false
      else if (type === 'reconnect') this.#tailing?.stop()
    }
  }

  async #begin(): Promise<void> {
    const { last } = await this.#stream.bounds()
    this.#startAt(last)
    await this.#open()
  }

  #startAt(position: number): void {
    this.#position = position
    this.#ring = new ChangeRing(position + 1, this.#options.ringBytes)
    this.#begun = true
    this.#options.onTailing(position + 1)
  }

  async #open(): Promise<void> {
    this.#tailing?.stop()
    this.#tailing = await this.#stream.tail(this.#position + 1)
    this.#following = true
    // Closed meanwhile: nobody else would stop this one.
    if (this.#closed) this.#tailing.stop()
  }

  async #follow(): Promise<void> {
    while (!this.#closed) {
      let reason = 'the consumer ended'
      try {
        if (this.#following) await this.#readOn(this.#tailing!.messages)
      } catch (error) {
        reason = (error as Error).message
      }
      if (this.#closed) return
      if (this.#begun) this.#options.onLost(reason)
      this.#following = false
      await this.#reopen()
    }
  }

  async #readOn(messages: ConsumerMessages): Promise<void> {
    let turnEnds = performance.now() + turnMs
    for await (const message of messages) {
      if (this.#closed) return
      // A stream that was made anew counts from the start: opening the consumer anew finds out.
      if (message.seq <= this.#position) return
      this.#position = message.seq
      const arrival = asArrival(message)
      if (arrival) this.#arrive(arrival)
      if (performance.now() < turnEnds) continue
      await nextTurn()
      turnEnds = performance.now() + turnMs
    }
  }

  async #reopen(): Promise<void> {
    while (!this.#closed && !this.#bus.isClosed()) {
      try {
        return await (this.#begun ? this.#continue() : this.#begin())
      } catch {
        await delay(retryMs)
      }
    }
    this.#closed = true
  }

  async #continue(): Promise<void> {
    const { first, last } = await this.#stream.bounds()
    if (last < this.#position) {
      this.#startAt(last)
      this.#options.onReplaced()
    } else if (first > this.#position + 1) {
      this.#position = first - 1
      this.#arrive({ sequence: first - 1, receivedAt: Date.now(), table: null, change: null, gap: 'expired' })
    }
    await this.#open()
  }

  #arrive(arrival: Arrival): void {
    this.#ring.push(arrival)
    this.#options.onArrival(arrival)
  }
}
