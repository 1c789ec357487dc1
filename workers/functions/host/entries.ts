import type { Guest } from './guest.ts'
import type { Occupancy } from './occupancy.ts'
import type { LogLine } from './operations-log.ts'
import type { RunningSlots } from './running-slots.ts'
import type { TenantCall } from './tenant-call.ts'
import type { Trust } from './trust.ts'

/** A way into an isolate. */
export type Entry =
  | { readonly kind: 'start'; readonly call: TenantCall }
  | { readonly kind: 'settle'; readonly id: number; readonly result: string }
  | { readonly kind: 'fire'; readonly id: number }
  | { readonly kind: 'take'; readonly ticket: number }

/** The tenant whose isolate is entered. */
export interface EntryOwner {
  readonly guest: Guest
  readonly ended: boolean
  /** Until when promises given to waitUntil by answered calls may stay open; 0 when none is. */
  readonly waitsUntil: number
  readonly answer: (call: TenantCall, reply: string) => void
  /** An error came out of the isolate. */
  readonly failed: (error: unknown, calls: readonly TenantCall[]) => void
  /** The calls need a new isolate, as though nothing had been since the mark. */
  readonly beginAnew: (mark: number) => void
  readonly logMark: () => number
  readonly log: (line: LogLine) => void
  /** The next entry may come. */
  readonly pump: () => void
}

export interface EntryMeans {
  readonly slots: RunningSlots
  readonly occupancy: Occupancy
  readonly trust: Trust
  readonly cpuLimitMs: number
}

/** Longest time in which one call may hold up the whole host; who needs more runs in a thread of its own. */
const ownThreadMs = 100
/** What code that belongs to no call may take. */
const strayMs = 1_000

/** Enters an isolate: in the host's own thread, or in one of its own. */
export class EntryRunner {
  readonly #owner: EntryOwner
  readonly #means: EntryMeans
  /** Calls that have begun and are not answered, by their ticket. */
  readonly open = new Map<number, TenantCall>()

  constructor(owner: EntryOwner, means: EntryMeans) {
    this.#owner = owner
    this.#means = means
  }

  /**
   * Runs the start of a call in the host's own thread. Nothing that it does is passed on before it ends, and no other call of the
   * function is under way, so that one which takes too long begins anew in a new isolate as if nothing had been.
   */
  startHere(call: TenantCall): void {
    const { slots, trust, occupancy } = this.#means
    const from = performance.now()
    const mark = this.#owner.logMark()
    let value: string | number | undefined
    slots.own(call.id)
    occupancy.call = call
    try {
      value = this.#owner.guest.start.applySync(undefined, [call.start, call.body, call.bodyKind], {
        timeout: ownThreadMs,
      })
      if (typeof value === 'number') {
        const ticket = value
        value = this.#owner.guest.take.applySync(undefined, [ticket], { timeout: ownThreadMs })
        if (value === '') this.open.set(ticket, call)
      }
    } catch (error) {
      if (isTimeout(error)) {
        trust.overran()
        this.#owner.beginAnew(mark)
        return
      }
      call.started = true
      void this.#recover(call, error)
      return
    } finally {
      occupancy.call = null
      slots.ownLeft()
    }
    const ms = performance.now() - from
    call.started = true
    call.cpuMs += ms
    trust.took(ms)
    if (value !== '') this.#owner.answer(call, String(value))
  }

  async inThread(entry: Exclude<Entry, { kind: 'take' }>): Promise<void> {
    const call = entry.kind === 'start' ? entry.call : null
    const timeoutMs = Math.max(1, Math.ceil(this.#allowance(call)))
    const guest = this.#owner.guest
    const options = { timeout: timeoutMs }
    const finish = this.enter(call ?? [...this.open.values()][0] ?? null, timeoutMs)
    const cpuBefore = cpuOf(guest)
    try {
      if (entry.kind === 'start') {
        entry.call.started = true
        const value = await guest.start.apply(
          undefined,
          [entry.call.start, entry.call.body, entry.call.bodyKind],
          options,
        )
        this.#spent(call, cpuBefore)
        if (!finish()) return
        if (typeof value !== 'number') this.#owner.answer(entry.call, String(value))
        else {
          this.open.set(value, entry.call)
          this.take(value)
        }
      } else {
        if (entry.kind === 'settle') await guest.settle.apply(undefined, [entry.id, entry.result], options)
        else await guest.fire.apply(undefined, [entry.id], options)
        this.#spent(null, cpuBefore)
        if (!finish()) return
      }
    } catch (error) {
      this.#spent(call, cpuBefore)
      if (!finish()) return
      if (isTimeout(error) || isDisposed(this.#owner.guest) || call === null) {
        this.#owner.failed(error, call === null ? [...this.open.values()] : [call])
      } else await this.#recover(call, error)
    }
    this.#owner.pump()
  }

  /** Reads a reply that the bootstrap has ready: none of the user's code runs. */
  take(ticket: number): void {
    const call = this.open.get(ticket)
    if (call === undefined || this.#owner.ended) return
    const { slots } = this.#means
    let value: string | number | undefined
    slots.own(call.id)
    try {
      value = this.#owner.guest.take.applySync(undefined, [ticket], { timeout: ownThreadMs })
    } catch (error) {
      this.#owner.failed(error, [call])
      return
    } finally {
      slots.ownLeft()
    }
    if (value === '' || value === undefined) return
    this.open.delete(ticket)
    this.#owner.answer(call, String(value))
  }

  /** A rejection that nobody handles surfaced in the entry: the guest has kept the outcome. */
  async #recover(call: TenantCall, error: unknown): Promise<void> {
    if (isDisposed(this.#owner.guest)) {
      this.#owner.failed(error, [call])
      return
    }
    this.#owner.log(rejectionLine(error))
    this.#means.trust.overran()
    const timeoutMs = Math.max(1, Math.ceil(this.#allowance(call)))
    const finish = this.enter(call, timeoutMs)
    try {
      const kept = String(await this.#owner.guest.take.apply(undefined, [0], { timeout: timeoutMs }))
      if (!finish()) return
      const ticket = Number(kept)
      if (kept === '') throw error
      if (!Number.isInteger(ticket)) this.#owner.answer(call, kept)
      else {
        this.open.set(ticket, call)
        this.take(ticket)
      }
    } catch (second) {
      if (finish()) this.#owner.failed(second, [call])
    }
    this.#owner.pump()
  }

  /** From here the isolate is a thread's. What is returned ends that, and answers whether the tenant is still there. */
  enter(call: TenantCall | null, timeoutMs: number): () => boolean {
    const leave = this.#means.occupancy.enter(call, timeoutMs)
    return () => {
      leave()
      return !this.#owner.ended
    }
  }

  #allowance(call: TenantCall | null): number {
    const now = performance.now()
    const left = (each: TenantCall) => Math.min(each.deadline - now, this.#means.cpuLimitMs - each.cpuMs)
    if (call !== null) return left(call)
    return Math.max(strayMs, ...[...this.open.values()].map(left), this.#owner.waitsUntil - now)
  }

  #spent(call: TenantCall | null, cpuBefore: number): void {
    const ms = Math.max(0, cpuOf(this.#owner.guest) - cpuBefore)
    for (const each of call === null ? this.open.values() : [call]) each.cpuMs += ms
    if (call !== null) this.#means.trust.took(ms)
  }
}

export function isDisposed(guest: Guest | null): boolean {
  try {
    return guest === null ? false : guest.isolate.isDisposed
  } catch {
    return true
  }
}

export function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Script execution timed out.'
}

export function textOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 16_384)
}

export function rejectionLine(error: unknown): LogLine {
  return { at: Date.now(), level: 'error', invocationId: '', text: `Unhandled rejection: ${textOf(error)}` }
}

function cpuOf(guest: Guest): number {
  try {
    return Number(guest.isolate.cpuTime) / 1e6
  } catch {
    return 0
  }
}
