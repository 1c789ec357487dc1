import type { Bus } from '../../bus/connect.ts'

/** So many messages are remembered at least, and at most twice as many. */
const remembered = 32_768
const askMs = 500

/**
 * Which deliveries of calls may be run: nothing may run twice, and the server gives a message to another worker when this one has been
 * silent for long. What came then lies in the socket, and is read when the process (or the network) goes on.
 */
export class CallDeliveries {
  readonly #bus: Bus
  readonly #maxAgeMs: number
  readonly #asking: NodeJS.Timeout
  /** What is read now was sent by the server after this. Epoch ms. */
  #sentSince = 0
  #askedAt = 0
  /** Sequences of messages that were taken, each with the time when it was stored: a stream that is made anew counts anew. */
  #taken = new Map<number, number>()
  #takenBefore = new Map<number, number>()

  /** Deliveries that may be older than `maxAgeMs` are not to be run. */
  constructor(bus: Bus, maxAgeMs: number) {
    this.#bus = bus
    this.#maxAgeMs = maxAgeMs
    this.#asking = setInterval(() => void this.begin(), askMs)
  }

  /** What comes when it has resolved was sent lately. */
  async begin(): Promise<void> {
    await this.#ask(Date.now())
  }

  /** Whether what is read now was sent lately. Where it was not, nobody says anything about it: the server offers it again. */
  isFresh(now: number): boolean {
    if (now - this.#sentSince < this.#maxAgeMs) return true
    if (now - this.#askedAt > askMs) void this.#ask(now)
    return false
  }

  /** False for a message that was taken before. */
  take(sequence: number, storedAt: number): boolean {
    if (this.#taken.get(sequence) === storedAt || this.#takenBefore.get(sequence) === storedAt) return false
    if (this.#taken.size >= remembered) {
      this.#takenBefore = this.#taken
      this.#taken = new Map()
    }
    this.#taken.set(sequence, storedAt)
    return true
  }

  close(): void {
    clearInterval(this.#asking)
  }

  /** What comes behind the server's answer to a ping was sent after the ping was. */
  async #ask(now: number): Promise<void> {
    if (!this.#bus.connected) return
    this.#askedAt = now
    try {
      await this.#bus.connection.flush()
    } catch {
      return
    }
    // What came before the answer in the same piece is looked at first.
    await new Promise<void>((resolve) => setImmediate(resolve))
    this.#sentSince = Math.max(this.#sentSince, now)
  }
}
