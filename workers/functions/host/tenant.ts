import { type Entry, type EntryOwner, EntryRunner, isDisposed, isTimeout, rejectionLine, textOf } from './entries.ts'
import type { Guest } from './guest.ts'
import { Occupancy } from './occupancy.ts'
import { type HostOperations, hostOperations } from './operations-host.ts'
import type { RunningSlots } from './running-slots.ts'
import type { TenantCall, TenantHost, TenantProgram } from './tenant-call.ts'
import type { Trust } from './trust.ts'

/** Between the end of a time-out and the moment when nobody waits any longer for the isolate to give in. */
const graceMs = 150
const stuckMs = 2_000
/** Calls that enter an isolate together, and characters of their bodies. */
const maxTogether = 8
const maxCharsTogether = 64 * 1024

/**
 * One revision of one function in its isolate. Its code is entered by one entry at a time: a call starts, an operation's answer comes, a
 * timer is due. Between entries any number of its calls may wait.
 */
export class Tenant {
  readonly fn: string
  readonly rev: number
  readonly env: number
  /** The one call it was made for; 0 where calls share it. */
  readonly apart: number
  lastUsed = performance.now()
  #guest: Guest | null = null
  #loaded = false
  #gone = false
  #retired = false
  #lost = false
  #entries: Entry[] = []
  readonly #calls = new Set<TenantCall>()
  readonly #operations: HostOperations
  /** Until when promises given to waitUntil by answered calls may stay open; 0 when none is. */
  #waitsUntil = 0
  /** A wake-up that came when no call was there to pay for it. */
  #dueTimer: number | null = null
  readonly #occupancy: Occupancy
  readonly #runner: EntryRunner
  readonly #host: TenantHost<Tenant>
  readonly #trust: Trust

  constructor(
    host: TenantHost<Tenant>,
    { slots, trust }: { readonly slots: RunningSlots; readonly trust: Trust },
    { fn, rev, env, apart }: TenantProgram,
  ) {
    this.#host = host
    this.#trust = trust
    this.#occupancy = new Occupancy(slots)
    const { cpuLimitMs } = host
    this.#runner = new EntryRunner(this.#owner(), { slots, cpuLimitMs, occupancy: this.#occupancy, trust })
    this.fn = fn
    this.rev = rev
    this.env = env
    this.apart = apart
    this.#operations = hostOperations({
      settle: (id, result) => this.#push({ kind: 'settle', id, result }),
      fire: (id) => this.#fire(id),
      replyReady: (ticket) => this.#push({ kind: 'take', ticket }),
      waitsDone: () => {
        this.#waitsUntil = 0
        this.#endWhenIdle()
      },
      forward: (...operation) => host.forward(this, ...operation),
      onWork: () => slots.work(),
      onLog: (line) => host.log(this, line),
    })
  }

  #owner(): EntryOwner {
    const tenant = this
    return {
      get guest() {
        return tenant.#guest!
      },
      get ended() {
        return tenant.#gone
      },
      get waitsUntil() {
        return tenant.#waitsUntil
      },
      answer: (call, reply) => this.#answer(call, reply),
      failed: (error, calls) => this.#failed(error, calls),
      beginAnew: (mark) => {
        this.#host.dropLogs(mark)
        const calls = [...this.#calls]
        this.#discard()
        this.#host.again(calls)
      },
      logMark: this.#host.logMark,
      log: (line) => this.#host.log(this, line),
      pump: () => this.pump(),
    }
  }

  get idle(): boolean {
    return this.#calls.size === 0 && this.#waitsUntil === 0 && !this.#occupancy.thread
  }

  /** Its isolate is gone. */
  get ended(): boolean {
    return this.#gone
  }

  /** It runs when the tenant is pumped. */
  add(call: TenantCall): void {
    this.lastUsed = performance.now()
    this.#calls.add(call)
    if (this.#dueTimer !== null) {
      this.#entries.push({ kind: 'fire', id: this.#dueTimer })
      this.#dueTimer = null
    }
    this.#entries.push({ kind: 'start', call })
  }

  /** Makes the isolate and runs the program's top level in it. */
  async load(code: string, env: Readonly<Record<string, string>>): Promise<void> {
    if (this.#gone) return
    const end = Math.max(...[...this.#calls].map(({ deadline }) => deadline), performance.now() + 1)
    const timeoutMs = Math.min(this.#host.cpuLimitMs, end - performance.now())
    const first = [...this.#calls][0] ?? null
    const guest = this.#makeGuest()
    this.#guest = guest
    const finish = this.#runner.enter(first, timeoutMs)
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
      this.pump()
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
      begin: (...asked) => this.#begin(asked),
      onLost: () => this.#lose(),
    })
  }

  /** The program could not be had. */
  fail(message: string): void {
    const calls = [...this.#calls]
    this.#discard()
    for (const call of calls) this.#host.fault(call, 'internal', message)
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
    if (this.#occupancy.overdueMs(now) > graceMs) {
      this.#abandon(now)
      return
    }
    for (const [ticket, call] of this.#runner.open) {
      if (now < call.deadline || call === this.#occupancy.call) continue
      this.#runner.open.delete(ticket)
      this.#finish(call, () => this.#host.fault(call, 'timeout', timeoutText))
      this.retire()
    }
    for (const entry of this.#entries) {
      if (entry.kind !== 'start' || now < entry.call.deadline) continue
      this.#entries = this.#entries.filter((each) => each !== entry)
      this.#finish(entry.call, () => this.#host.fault(entry.call, 'timeout', timeoutText))
    }
    if (this.idle && this.#operations.computing() > 0 && now - this.lastUsed > this.#host.computingMs) this.retire()
    if (this.#waitsUntil !== 0 && this.#waitsUntil < now) {
      this.#waitsUntil = 0
      this.retire()
    }
    this.#endWhenIdle()
  }

  /** Enters the isolate with what waits to. */
  pump(): void {
    if (this.#lost) return
    while (!this.#occupancy.thread && !this.#gone && this.#loaded) {
      const entry = this.#entries.shift()
      if (entry === undefined) break
      if (entry.kind === 'take') this.#runner.take(entry.ticket)
      else if (
        entry.kind === 'start' &&
        this.#runner.open.size === 0 &&
        this.#waitsUntil === 0 &&
        this.#trust.trusted()
      )
        this.#runner.startHere([entry.call, ...this.#callsAlong(entry.call)])
      else void this.#runner.inThread(entry)
    }
    this.#endWhenIdle()
  }

  /** Calls next in the line that go into the isolate with this one: entering costs as much as many a call. */
  #callsAlong(first: TenantCall): readonly TenantCall[] {
    if (!this.#runner.synchronous) return []
    let chars = first.body.length
    let count = 0
    for (const entry of this.#entries) {
      if (entry.kind !== 'start' || count + 1 === maxTogether) break
      chars += entry.call.body.length
      if (chars > maxCharsTogether) break
      count += 1
    }
    return this.#entries.splice(0, count).map((entry) => (entry as { readonly call: TenantCall }).call)
  }

  /** What an error that came out of an isolate means for the calls. */
  #failed(error: unknown, calls: readonly TenantCall[]): void {
    for (const [ticket, call] of this.#runner.open) if (calls.includes(call)) this.#runner.open.delete(ticket)
    if (isDisposed(this.#guest)) {
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
      this.#host.log(this, rejectionLine(error))
      return
    }
    for (const call of calls) {
      if (!this.#loaded) call.started = true
      this.#finish(call, () => this.#host.fault(call, 'threw', textOf(error)))
    }
    // The next call tries again.
    if (!this.#loaded) this.#discard()
  }

  /** The isolate is gone for want of memory: calls that ran end with it, the others get a new one. */
  #lose(): void {
    if (this.#gone) return
    const atStart = !this.#loaded
    const thread = this.#occupancy.thread && this.#guest !== null && !isDisposed(this.#guest)
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
    const settled = this.#occupancy.settled
    const current = this.#occupancy.call
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

  /** The guest asks for an operation. While its code runs, it waits: what has not ended may still have to begin anew. */
  #begin(asked: Parameters<HostOperations['begin']>): void {
    if (this.#gone) return
    const name = String(asked[1])
    this.#occupancy.hold(
      () => this.#operations.begin(...asked),
      name === 'timer' || name === 'waits-done' ? name : undefined,
    )
  }

  #fire(id: number): void {
    if (this.idle) this.#dueTimer = id
    else this.#push({ kind: 'fire', id })
  }

  #push(entry: Entry): void {
    if (this.#gone) return
    this.#entries.push(entry)
    this.pump()
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

  #watchComputing(): void {
    setTimeout(() => {
      if (this.#operations.computing() > 0) this.#host.doomed(this, 'stuck')
    }, this.#host.computingMs)
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
    this.#runner.open.clear()
    this.#entries = []
    this.#occupancy.drop()
    this.#operations.close()
    if (this.#operations.computing() > 0) this.#watchComputing()
    try {
      if (!this.#lost) this.#guest?.isolate.dispose()
    } catch {
      // It is disposed already.
    }
  }
}

const timeoutText = 'Execution timeout'
