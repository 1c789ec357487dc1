import type { Waiting } from './postgres-call.ts'
import { unavailable } from './postgres-failures.ts'

/** Calls that wait for a connection, in the order they came. */
export class WaitingQueue {
  readonly #waiting: Waiting[] = []

  /** Those that no longer wait are counted until their turn comes. */
  get length(): number {
    return this.#waiting.length
  }

  add(waiting: Waiting): void {
    this.#waiting.push(waiting)
  }

  /** Takes the first that still waits, and may start, out of the queue. */
  take(mayStart: (waiting: Waiting) => boolean = () => true): Waiting | undefined {
    while (this.#waiting[0]?.settled) this.#waiting.shift()
    const index = this.#waiting.findIndex((waiting) => !waiting.settled && mayStart(waiting))
    return index < 0 ? undefined : this.#waiting.splice(index, 1)[0]
  }

  /** Takes all out of the queue. */
  takeAll(): readonly Waiting[] {
    return this.#waiting.splice(0)
  }

  /** Ends waits that are too long. */
  expire(now: number, maxWaitMs: number): void {
    while (this.#waiting[0] && now - this.#waiting[0].since > maxWaitMs) {
      this.#waiting.shift()?.fail(unavailable('No database connection became free in time'))
    }
  }
}
