import type { RunningSlots } from './running-slots.ts'
import type { TenantCall } from './tenant-call.ts'

/** Who is in an isolate, and what waits until it has left. One entry at a time. */
export class Occupancy {
  readonly #slots: RunningSlots
  #thread = false
  /** When the entry that runs in a thread must have ended; 0 when none does. */
  #end = 0
  #held: (() => void)[] = []
  /** Of these only the last counts. */
  readonly #latest = new Map<string, () => void>()
  #settled: Promise<void> | undefined
  /** Whose code runs; null for none, and for code that belongs to no call. */
  call: TenantCall | null = null

  constructor(slots: RunningSlots) {
    this.#slots = slots
  }

  /** The isolate is another thread's. */
  get thread(): boolean {
    return this.#thread
  }

  /** Resolves when the last thread has left; absent when none came. */
  get settled(): Promise<void> | undefined {
    return this.#settled
  }

  /** For how long the entry in a thread has had no right to be there; negative when it has, or there is none. */
  overdueMs(now: number): number {
    return this.#end === 0 ? -1 : now - this.#end
  }

  /** From here the isolate is a thread's, until what is returned is called. */
  enter(call: TenantCall | null, timeoutMs: number): () => void {
    const leave = this.#slots.thread(call?.id ?? 0)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#settled = promise
    this.#thread = true
    this.call = call
    this.#end = performance.now() + timeoutMs
    let left = false
    return () => {
      if (left) return
      left = true
      leave()
      resolve()
      this.#thread = false
      this.#end = 0
      this.call = null
      const held = [...this.#held, ...this.#latest.values()]
      this.drop()
      for (const operate of held) operate()
    }
  }

  /** Does it now, or when the thread has left; `instead`: in place of what was to be done under that name. */
  hold(operate: () => void, instead?: string): void {
    if (!this.#thread) operate()
    else if (instead === undefined) this.#held.push(operate)
    else this.#latest.set(instead, operate)
  }

  /** What waits is not done any more. */
  drop(): void {
    this.#held = []
    this.#latest.clear()
  }
}
