import { writeSync } from 'node:fs'

/**
 * Slots in the file, each a number. 0: the call whose code runs in the host's own thread; 1: the tenant for which that thread has worked last;
 * the others: the calls whose code runs in threads.
 */
export const slotCount = 256
export const ownSlot = 0
export const tenantSlot = 1
const firstThread = 2

/**
 * Says outside this process whose code runs, so that the supervisor can tell after a death: a file that it opened holds the
 * numbers, and a write there is all that is needed before the code is entered.
 */
export class SlotsFile {
  readonly #fd: number
  readonly #eight = Buffer.alloc(8)
  #owner = 0
  #tenant = 0
  #telling = false
  readonly #free: number[] = Array.from({ length: slotCount - firstThread }, (_, index) => slotCount - 1 - index)

  constructor(fd: number) {
    this.#fd = fd
  }

  /** The host's own thread enters this call. */
  own(tenant: number, call: number): void {
    this.#owner = call
    if (tenant === this.#tenant) {
      this.#write(ownSlot, call)
      return
    }
    this.#tenant = tenant
    this.#eight.writeUInt32LE(call)
    this.#eight.writeUInt32LE(tenant, 4)
    writeSync(this.#fd, this.#eight, 0, 8, ownSlot * 4)
  }

  /** It has left. Told at the end of the turn: most often it enters another call before. */
  ownLeft(): void {
    this.#owner = 0
    if (this.#telling) return
    this.#telling = true
    queueMicrotask(() => {
      this.#telling = false
      if (this.#owner === 0) this.#write(ownSlot, 0)
    })
  }

  /** The host's own thread does something that a tenant wants. */
  workFor(tenant: number): void {
    if (tenant === this.#tenant) return
    this.#tenant = tenant
    this.#write(tenantSlot, tenant)
  }

  /** A thread enters the call. Returns what tells that it has left. */
  thread(tenant: number, call: number): () => void {
    this.workFor(tenant)
    const slot = this.#free.pop()
    if (slot === undefined) return () => this.workFor(tenant)
    this.#write(slot, call)
    return () => {
      this.workFor(tenant)
      this.#write(slot, 0)
      this.#free.push(slot)
    }
  }

  #write(slot: number, number: number): void {
    this.#eight.writeUInt32LE(number)
    writeSync(this.#fd, this.#eight, 0, 4, slot * 4)
  }
}

/** The slots as one tenant uses them. */
export class RunningSlots {
  readonly #file: SlotsFile
  readonly #tenant: number

  constructor(file: SlotsFile, tenant: number) {
    this.#file = file
    this.#tenant = tenant
  }

  own(call: number): void {
    this.#file.own(this.#tenant, call)
  }

  ownLeft(): void {
    this.#file.ownLeft()
  }

  work(): void {
    this.#file.workFor(this.#tenant)
  }

  thread(call: number): () => void {
    return this.#file.thread(this.#tenant, call)
  }
}
