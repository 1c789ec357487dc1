import { writeSync } from 'node:fs'

/** Slots in the file, each the number of the call whose code runs, else 0. Slot 0 is the host's own thread. */
export const slotCount = 256

/**
 * Says outside this process whose code runs, so that the supervisor can tell after a death: a file that it opened holds the
 * numbers, and a write there is all that is needed before the code is entered.
 */
export class RunningSlots {
  readonly #fd: number
  readonly #four = Buffer.alloc(4)
  #owner = 0
  #telling = false
  readonly #free: number[] = Array.from({ length: slotCount - 1 }, (_, index) => slotCount - 1 - index)

  constructor(fd: number) {
    this.#fd = fd
  }

  /** The host's own thread enters this call. */
  own(call: number): void {
    this.#owner = call
    this.#write(0, call)
  }

  /** It has left. Told at the end of the turn: most often it enters another call before. */
  ownLeft(): void {
    this.#owner = 0
    if (this.#telling) return
    this.#telling = true
    queueMicrotask(() => {
      this.#telling = false
      if (this.#owner === 0) this.#write(0, 0)
    })
  }

  /** A thread enters the call. Returns what tells that it has left. */
  thread(call: number): () => void {
    const slot = this.#free.pop()
    if (slot === undefined) return () => {}
    this.#write(slot, call)
    return () => {
      this.#write(slot, 0)
      this.#free.push(slot)
    }
  }

  #write(slot: number, call: number): void {
    this.#four.writeUInt32LE(call)
    writeSync(this.#fd, this.#four, 0, 4, slot * 4)
  }
}
