import type { FaultCode, StrikeReason } from './call.ts'
import type { Guest } from './guest.ts'
import type { GuestSupply } from './guest-supply.ts'
import { type Forwarded, type ForwardedOperation, type HostOperations, hostOperations } from './operations-host.ts'
import type { LogLine } from './operations-log.ts'
import type { RunningSlots } from './running-slots.ts'
import type { Trust } from './trust.ts'

/** A call in this host. */
export interface TenantCall {
  readonly id: number
  readonly key: string
  readonly start: string
  /** As the guest's `start` takes it. */
  readonly body: string
  readonly bodyKind: number
  /** Of performance.now(). */
  readonly deadline: number
  /** Some of its code has run. */
  started: boolean
  cpuMs: number
}

/** What a tenant asks of the host around it. */
export interface TenantHost {
  readonly guests: GuestSupply
  readonly slots: RunningSlots
  readonly cpuLimitMs: number
  /** An operation of the supervisor's. Never answers once the tenant has ended. */
  readonly forward: (tenant: Tenant, name: ForwardedOperation, argument: string) => Forwarded
  /** Answers whether promises given to waitUntil are open. */
  readonly reply: (call: TenantCall, reply: string) => boolean
  readonly fault: (call: TenantCall, code: FaultCode, message: string) => void
  /** Calls that have not begun need another isolate. */
  readonly again: (calls: readonly TenantCall[]) => void
  readonly log: (tenant: Tenant, line: LogLine) => void
  /** Lines written since a mark can be taken back. */
  readonly logMark: () => number
  readonly dropLogs: (mark: number) => void
  readonly strike: (tenant: Tenant, reason: StrikeReason) => void
  /** This process has something in it that only its end removes. */
  readonly doomed: (tenant: Tenant, reason: StrikeReason) => void
  /** No new call may reach the tenant. */
  readonly forget: (tenant: Tenant) => void
}

type Entry =
  | { readonly kind: 'start'; readonly call: TenantCall }
  | { readonly kind: 'settle'; readonly id: number; readonly result: string }
  | { readonly kind: 'fire'; readonly id: number }
  | { readonly kind: 'take'; readonly ticket: number }

/** Longest time in which one call may hold up the whole host; who needs more runs in a thread of its own. */
const ownThreadMs = 100
/** What code that belongs to no call may take. */
const strayMs = 1_000
/** Between the end of a time-out and the moment when nobody waits any longer for the isolate to give in. */
const graceMs = 150
const stuckMs = 2_000

/**
 * One revision of one function in its isolate. Its code is entered by one entry at a time: a call starts, an operation's answer comes, a
 * timer is due. Between entries any number of its calls may wait.
 */
export class Tenant {
  readonly fn: string
  readonly rev: number
  readonly env: number
  lastUsed = performance.now()
  #guest: Guest | null = null
  #loaded = false
  #busy = false
  #gone = false
  #retired = false
  #lost = false
  #entries: Entry[] = []
  #held: (() => void)[] = []
  readonly #calls = new Set<TenantCall>()
  readonly #open = new Map<number, TenantCall>()
  readonly #operations: HostOperations
  /** Until when promises given to waitUntil by answered calls may stay open; 0 when none is. */
  #waitsUntil = 0
  /** A wake-up that came when no call was there to pay for it. */
  #dueTimer: number | null = null
  #entryCall: TenantCall | null = null
  /** When the entry that runs in a thread must have ended; 0 when none does. */
  #entryEnd = 0
  readonly #host: TenantHost
  readonly #trust: Trust

  constructor(host: TenantHost, trust: Trust, { fn, rev, env }: { fn: string; rev: number; env: number }) {
    this.#host = host
    this.#trust = trust
    this.fn = fn
    this.rev = rev
    this.env = env
    this.#operations = hostOperations({
      settle: (id, result) => this.#push({ kind: 'settle', id, result }),
      fire: (id) => this.#fire(id),
      replyReady: (ticket) => this.#push({ kind: 'take', ticket }),
      waitsDone: () => {
        this.#waitsUntil = 0
        this.#endWhenIdle()
      },
      forward: (name, argument) => host.forward(this, name, argument),
      onLog: (line) => host.log(this, line),
    })
  }

  get idle(): boolean {
    return this.#calls.size === 0 && this.#waitsUntil === 0 && !this.#busy
  }

  /** Its isolate is gone. */
  get ended(): boolean {
    return this.#gone
  }

  add(call: TenantCall): void {
    this.lastUsed = performance.now()
    this.#calls.add(call)
    if (this.#dueTimer !== null) {
      this.#entries.push({ kind: 'fire', id: this.#dueTimer })
      this.#dueTimer = null
    }
    this.#entries.push({ kind: 'start', call })
    if (this.#loaded) this.#pump()
  }

  /** Makes the isolate and runs the program's top level in it. */
  async load(code: string, env: Readonly<Record<string, string>>): Promise<void> {
    if (this.#gone) return
    const end = Math.max(...[...this.#calls].map(({ deadline }) => deadline), performance.now() + 1)
    const timeoutMs = Math.min(this.#host.cpuLimitMs, end - performance.now())
    const first = [...this.#calls][0] ?? null
    const guest = this.#makeGuest()
    this.#guest = guest
    const finish = this.#enter(first, timeoutMs)
    let answer: string
    try {
      answer = await guest.load(code, env, Math.max(1, Math.ceil(timeoutMs)))
    } catch (error) {
      if (finish()) this.#failed(error, [...this.#calls])
      return
    }
    if (!finish()) return
    if (answer === '') {
      this.#loaded = true
      this.#pump()
      return
    }
    // The next call tries again.
    const calls = [...this.#calls]
    this.#discard()
    for (const call of calls) {
      call.started = true
      this.#host.reply(call, answer)
    }
  }

  /** Not yet in the name of a call: should it bring the process down, that is not its function's doing. */
  #makeGuest(): Guest {
    return this.#host.guests.take({
      op: this.#operations.op,
      begin: (id, name, argument) => this.#begin(id, name, argument),
      onLost: () => this.#lose(),
    })
  }

  /** The program could not be had. */
  fail(message: string): void {
    const calls = [...this.#calls]
    this.#discard()
    for (const call of calls) this.#host.fault(call, 'threw', message)
  }

  /** Takes no more calls, and ends with the last of those it has. */
  retire(): void {
    if (this.#retired) return
    this.#retired = true
    this.#host.forget(this)
    const waiting = this.#entries.filter((entry) => entry.kind === 'start').map(({ call }) => call)
    if (this.#loaded && waiting.length > 0) {
      this.#entries = this.#entries.filter(({ kind }) => kind !== 'start')
      for (const call of waiting) this.#calls.delete(call)
      this.#host.again(waiting)
    }
    this.#endWhenIdle()
  }

  /** Ends calls whose time is up, and an entry that does not end by itself. */
  sweep(now: number): void {
    if (this.#entryEnd !== 0 && now > this.#entryEnd + graceMs) {
      this.#abandon(now)
      return
    }
    for (const [ticket, call] of this.#open) {
      if (now < call.deadline || call === this.#entryCall) continue
      this.#open.delete(ticket)
      this.#finish(call, () => this.#host.fault(call, 'timeout', timeoutText))
      this.retire()
    }
    for (const entry of this.#entries) {
      if (entry.kind !== 'start' || now < entry.call.deadline) continue
      this.#entries = this.#entries.filter((each) => each !== entry)
      this.#finish(entry.call, () => this.#host.fault(entry.call, 'timeout', timeoutText))
    }
    if (this.#waitsUntil !== 0 && this.#waitsUntil < now) {
      this.#waitsUntil = 0
      this.retire()
    }
    this.#endWhenIdle()
  }

  #pump(): void {
    if (this.#lost) return
    while (!this.#busy && !this.#gone && this.#loaded) {
      const entry = this.#entries.shift()
      if (entry === undefined) break
      if (entry.kind === 'take') this.#take(entry.ticket)
      else if (entry.kind === 'start' && this.#open.size === 0 && this.#waitsUntil === 0 && this.#trust.trusted())
        this.#startHere(entry.call)
      else void this.#inThread(entry)
    }
    this.#endWhenIdle()
  }

  /**
   * Runs the start of a call in the host's own thread. Nothing that it does is passed on before it ends, and no other call of the
   * function is under way, so that one which takes too long begins anew in a new isolate as if nothing had been.
   */
  #startHere(call: TenantCall): void {
    const { slots } = this.#host
    const from = performance.now()
    const mark = this.#host.logMark()
    let value: string | number | undefined
    slots.own(call.id)
    this.#entryCall = call
    try {
      value = this.#guest!.start.applySync(undefined, [call.start, call.body, call.bodyKind], { timeout: ownThreadMs })
      if (typeof value === 'number') {
        const ticket = value
        value = this.#guest!.take.applySync(undefined, [ticket], { timeout: ownThreadMs })
        if (value === '') this.#open.set(ticket, call)
      }
    } catch (error) {
      if (isTimeout(error)) {
        this.#trust.overran()
        this.#host.dropLogs(mark)
        const calls = [...this.#calls]
        this.#discard()
        this.#host.again(calls)
        return
      }
      call.started = true
      void this.#recover(call, error)
      return
    } finally {
      this.#entryCall = null
      slots.ownLeft()
    }
    const ms = performance.now() - from
    call.started = true
    call.cpuMs += ms
    this.#trust.took(ms)
    if (value !== '') this.#answer(call, String(value))
  }

  async #inThread(entry: Exclude<Entry, { kind: 'take' }>): Promise<void> {
    const call = entry.kind === 'start' ? entry.call : null
    const timeoutMs = Math.max(1, Math.ceil(this.#allowance(call)))
    const guest = this.#guest!
    const options = { timeout: timeoutMs }
    const finish = this.#enter(call ?? [...this.#open.values()][0] ?? null, timeoutMs)
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
        if (typeof value !== 'number') this.#answer(entry.call, String(value))
        else {
          this.#open.set(value, entry.call)
          this.#take(value)
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
      if (isTimeout(error) || this.#isDisposed() || call === null) {
        this.#failed(error, call === null ? [...this.#open.values()] : [call])
      } else await this.#recover(call, error)
    }
    this.#pump()
  }

  /** Reads a reply that the bootstrap has ready: none of the user's code runs. */
  #take(ticket: number): void {
    const call = this.#open.get(ticket)
    if (call === undefined || this.#gone) return
    let value: string | number | undefined
    this.#host.slots.own(call.id)
    try {
      value = this.#guest!.take.applySync(undefined, [ticket], { timeout: ownThreadMs })
    } catch (error) {
      this.#failed(error, [call])
      return
    } finally {
      this.#host.slots.ownLeft()
    }
    if (value === '' || value === undefined) return
    this.#open.delete(ticket)
    this.#answer(call, String(value))
  }

  /** A rejection that nobody handles surfaced in the entry: the guest has kept the outcome. */
  async #recover(call: TenantCall, error: unknown): Promise<void> {
    if (this.#isDisposed()) {
      this.#failed(error, [call])
      return
    }
    this.#logRejection(error)
    this.#trust.overran()
    const timeoutMs = Math.max(1, Math.ceil(this.#allowance(call)))
    const finish = this.#enter(call, timeoutMs)
    try {
      const kept = String(await this.#guest!.take.apply(undefined, [0], { timeout: timeoutMs }))
      if (!finish()) return
      const ticket = Number(kept)
      if (kept === '') throw error
      if (!Number.isInteger(ticket)) this.#answer(call, kept)
      else {
        this.#open.set(ticket, call)
        this.#take(ticket)
      }
    } catch (second) {
      if (finish()) this.#failed(second, [call])
    }
    this.#pump()
  }

  #logRejection(error: unknown): void {
    const text = `Unhandled rejection: ${textOf(error)}`
    this.#host.log(this, { at: Date.now(), level: 'error', invocationId: '', text })
  }

  /** What an error that came out of an isolate means for the calls. */
  #failed(error: unknown, calls: readonly TenantCall[]): void {
    for (const [ticket, call] of this.#open) if (calls.includes(call)) this.#open.delete(ticket)
    if (this.#isDisposed()) {
      this.#host.strike(this, 'memory')
      this.#lose()
      return
    }
    if (isTimeout(error)) {
      this.#host.strike(this, 'processor')
      for (const call of calls) {
        call.started = true
        this.#finish(call, () => this.#host.fault(call, 'timeout', timeoutText))
      }
      this.retire()
      return
    }
    if (calls.length === 0) {
      this.#logRejection(error)
      return
    }
    if (!this.#loaded) {
      for (const call of calls) call.started = true
      this.#discard()
    }
    for (const call of calls) this.#finish(call, () => this.#host.fault(call, 'threw', textOf(error)))
  }

  /** The isolate is gone for want of memory: calls that ran end with it, the others get a new one. */
  #lose(): void {
    if (this.#gone) return
    const atStart = !this.#loaded
    const thread = this.#busy && this.#guest !== null && !this.#isDisposed()
    const calls = [...this.#calls]
    this.#lost = true
    this.#discard()
    const running = calls.filter((call, index) => call.started || (atStart && index === 0))
    for (const call of running) {
      call.started = true
      this.#host.fault(call, 'memory', 'The handler used more memory than it may')
    }
    this.#host.again(calls.filter((call) => !running.includes(call)))
    // The thread sleeps for ever and keeps what it has.
    if (thread) this.#host.doomed(this, 'memory')
  }

  /** An entry does not give in to its time-out. */
  #abandon(now: number): void {
    const guest = this.#guest
    const calls = [...this.#calls]
    const settled = this.#whenSettled
    const current = this.#entryCall
    this.#host.strike(this, 'processor')
    this.#discard()
    for (const call of calls.filter((each) => each.started || each === current || each.deadline < now)) {
      call.started = true
      this.#host.fault(call, 'timeout', timeoutText)
    }
    this.#host.again(calls.filter((call) => !call.started))
    const watch = setTimeout(() => this.#host.doomed(this, 'stuck'), stuckMs)
    void settled?.finally(() => clearTimeout(watch))
    if (guest === null) clearTimeout(watch)
  }

  #whenSettled: Promise<void> | undefined

  /** From here the isolate is another thread's. What is returned ends that, and answers whether the tenant is still there. */
  #enter(call: TenantCall | null, timeoutMs: number): () => boolean {
    const leave = this.#host.slots.thread(call?.id ?? 0)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#whenSettled = promise
    this.#busy = true
    this.#entryCall = call
    this.#entryEnd = performance.now() + timeoutMs
    let ended = false
    return () => {
      if (!ended) {
        ended = true
        leave()
        resolve()
        this.#busy = false
        this.#entryEnd = 0
        this.#entryCall = null
        const held = this.#held
        this.#held = []
        if (!this.#gone) for (const operate of held) operate()
      }
      return !this.#gone
    }
  }

  /** The guest asks for an operation. While its code runs, it waits: what has not ended may still have to begin anew. */
  #begin(id: unknown, name: unknown, argument: unknown): void {
    if (this.#gone) return
    const operate = () => this.#operations.begin(id, name, argument)
    if (this.#busy) this.#held.push(operate)
    else operate()
  }

  #fire(id: number): void {
    if (this.idle) this.#dueTimer = id
    else this.#push({ kind: 'fire', id })
  }

  #push(entry: Entry): void {
    if (this.#gone) return
    this.#entries.push(entry)
    this.#pump()
  }

  #answer(call: TenantCall, reply: string): void {
    this.#finish(call, () => {
      if (this.#host.reply(call, reply)) this.#waitsUntil = Math.max(this.#waitsUntil, call.deadline)
    })
  }

  #finish(call: TenantCall, tell: () => void): void {
    this.lastUsed = performance.now()
    if (this.#calls.delete(call)) tell()
  }

  #allowance(call: TenantCall | null): number {
    const now = performance.now()
    const left = (each: TenantCall) => Math.min(each.deadline - now, this.#host.cpuLimitMs - each.cpuMs)
    if (call !== null) return left(call)
    return Math.max(strayMs, ...[...this.#open.values()].map(left), this.#waitsUntil - now)
  }

  #spent(call: TenantCall | null, cpuBefore: number): void {
    const ms = Math.max(0, cpuOf(this.#guest) - cpuBefore)
    for (const each of call === null ? this.#open.values() : [call]) each.cpuMs += ms
    if (call !== null) this.#trust.took(ms)
  }

  #isDisposed(): boolean {
    try {
      return this.#guest === null ? false : this.#guest.isolate.isDisposed
    } catch {
      return true
    }
  }

  #endWhenIdle(): void {
    if (this.#retired && !this.#gone && this.idle) this.#discard()
  }

  #discard(): void {
    if (this.#gone) return
    this.#gone = true
    this.#retired = true
    this.#host.forget(this)
    this.#calls.clear()
    this.#open.clear()
    this.#entries = []
    this.#held = []
    this.#operations.close()
    try {
      if (!this.#lost) this.#guest?.isolate.dispose()
    } catch {
      // It is disposed already.
    }
  }
}

const timeoutText = 'Execution timeout'

function cpuOf(guest: Guest | null): number {
  try {
    return guest === null ? 0 : Number(guest.isolate.cpuTime) / 1e6
  } catch {
    return 0
  }
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Script execution timed out.'
}

function textOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 16_384)
}
