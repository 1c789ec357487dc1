import type { Guest } from './guest.ts'
import type { Occupancy } from './occupancy.ts'
import type { LogLine } from './operations-log.ts'
import { readOutcomes } from './operations-reply.ts'
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

/** Of each call its reply, or a ticket while there is none; null for what cannot be read. */
type Outcomes = readonly (string | number)[] | null
/** Is no reply either. */
const noOutcome = '?'

const argumentsOf = (calls: readonly TenantCall[]) =>
  calls.flatMap(({ start, body, bodyKind }) => [start, body, bodyKind])

/** Enters an isolate: in the host's own thread, or in one of its own. */
export class EntryRunner {
  readonly #owner: EntryOwner
  readonly #means: EntryMeans
  /** Calls that have begun and are not answered, by their ticket. */
  readonly open = new Map<number, TenantCall>()
  #synchronous = true

  constructor(owner: EntryOwner, means: EntryMeans) {
    this.#owner = owner
    this.#means = means
  }

  /** No call of this isolate has waited for anything: then calls may enter it together, for what each does is done when the next begins. */
  get synchronous(): boolean {
    return this.#synchronous
  }

  /**
   * Runs the start of calls in the host's own thread. Nothing that they do is passed on before all have ended, and no other call of the
   * function is under way, so that where it takes too long they begin anew in a new isolate as if nothing had been.
   */
  startHere(calls: readonly TenantCall[]): void {
    const { slots, trust, occupancy } = this.#means
    const from = performance.now()
    const mark = this.#owner.logMark()
    const [first] = calls as [TenantCall]
    let answer: string | number | undefined
    slots.own(first.id)
    occupancy.call = first
    try {
      answer = this.#owner.guest.start.applySync(undefined, argumentsOf(calls), { timeout: ownThreadMs })
    } catch (error) {
      // One of several may have used up the memory: each shows by itself whether it is that one.
      if (isTimeout(error) || (calls.length > 1 && isDisposed(this.#owner.guest))) {
        trust.overran()
        this.#owner.beginAnew(mark)
        return
      }
      for (const call of calls) call.started = true
      void this.#recover(calls, error)
      return
    } finally {
      occupancy.call = null
      slots.ownLeft()
    }
    const ms = (performance.now() - from) / calls.length
    for (const call of calls) {
      call.started = true
      call.cpuMs += ms
      trust.took(ms)
    }
    this.#began(calls, readOutcomes(String(answer), calls.length))
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
        const value = await guest.start.apply(undefined, argumentsOf([entry.call]), options)
        this.#spent(call, cpuBefore)
        if (!finish()) return
        this.#began([entry.call], readOutcomes(String(value), 1))
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
      } else await this.#recover([call], error)
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

  /** They have their reply, or wait for it. */
  #began(calls: readonly TenantCall[], outcomes: Outcomes): void {
    for (const [index, call] of calls.entries()) {
      const outcome = outcomes === null ? noOutcome : outcomes[index]!
      if (typeof outcome === 'string') this.#owner.answer(call, outcome)
      else {
        this.#synchronous = false
        this.open.set(outcome, call)
        this.take(outcome)
      }
    }
  }

  /** A rejection that nobody handles surfaced in the entry: the guest has kept the outcomes. */
  async #recover(calls: readonly TenantCall[], error: unknown): Promise<void> {
    if (isDisposed(this.#owner.guest)) {
      this.#owner.failed(error, calls)
      return
    }
    this.#owner.log(rejectionLine(error))
    this.#means.trust.overran()
    const [first] = calls as [TenantCall]
    const timeoutMs = Math.max(1, Math.ceil(this.#allowance(first)))
    const finish = this.enter(first, timeoutMs)
    try {
      const kept = String(await this.#owner.guest.take.apply(undefined, [0], { timeout: timeoutMs }))
      if (!finish()) return
      if (kept === '') throw error
      this.#began(calls, readOutcomes(kept, calls.length))
    } catch (second) {
      if (finish()) this.#owner.failed(second, calls)
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
