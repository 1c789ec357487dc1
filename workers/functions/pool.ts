import { Convicts } from './convicts.ts'
import type { FaultHead, OperationHead, Setup, StrikeReason } from './host/call.ts'
import { type Frame, fromHost, toHost } from './host/frames.ts'
import type { LogEntry } from './host/log-book.ts'
import type { FunctionLogLine, HostCall, HostObservation, HostReply } from './host-call.ts'
import { type HostExit, HostProcess } from './host-process.ts'
import { faultOf, type Job, newJob, type Standing } from './job.ts'
import { OpenOperations } from './open-operations.ts'
import { Quarantine } from './quarantine.ts'
import { mapStack } from './stack.ts'
import type { PerformOperation } from './supervisor-operations.ts'

export interface PoolOptions {
  /** Host processes that functions share. */
  readonly hosts: number
  readonly setup: Setup
  readonly sandbox: string
  /** Resident memory of one host. */
  readonly hostMemoryMb: number
  readonly maxConcurrentPerFunction: number
  readonly perform: PerformOperation
  readonly onLog: (line: FunctionLogLine) => void
  readonly onObservation: (observation: HostObservation) => void
}

const maxDeaths = 3
const pingMs = 500
const watchMs = 50
/** Part of the memory at which a host ends idle isolates. */
const shedAt = 0.6
const shedPauseMs = 2_000
/** How long a host that must end may go on for the calls it has. */
const drainMs = 10_000
/** Behind its time-out, a call that its host has not answered. */
const graceMs = 1_000

/**
 * The isolate hosts of a worker: `hosts` for all functions, each function in one of them; one in reserve that takes the place of one that
 * dies, and where suspects are tried alone; one, started when it is needed, for functions that hurt others.
 */
export class FunctionPool {
  readonly #options: PoolOptions
  readonly #shared: HostProcess[]
  #reserve: HostProcess
  #penalty: HostProcess | null = null
  readonly #all = new Set<HostProcess>()
  readonly #jobs = new Map<number, Job>()
  readonly #standings = new Map<string, Standing>()
  readonly #convicts = new Convicts()
  readonly #quarantine: Quarantine
  readonly #operations: OpenOperations
  readonly #shedAt = new Map<HostProcess, number>()
  /** Functions whose isolate must not have another host's process as its end. */
  readonly #doomedBy = new Map<HostProcess, string>()
  readonly #timers: NodeJS.Timeout[]
  #lastId = 0
  #deaths = 0
  #stopped = false

  constructor(options: PoolOptions) {
    this.#options = options
    this.#operations = new OpenOperations(options.perform, (job) => this.#fault(job, 'host-died', true, lostText))
    this.#shared = Array.from({ length: options.hosts }, () => this.#spawn(false))
    this.#reserve = this.#spawn(false)
    this.#quarantine = new Quarantine(
      (job) => this.#send(job, this.#reserve),
      ({ standing }) => standing.credit,
    )
    this.#timers = [setInterval(() => this.#ping(), pingMs), setInterval(() => this.#watch(), watchMs)]
  }

  /** All hosts are up. @throws when one cannot start */
  async ready(): Promise<void> {
    await Promise.all([...this.#all].map((host) => host.ready))
  }

  invoke(call: HostCall): Promise<HostReply> {
    return new Promise((resolve) => this.run(call, resolve))
  }

  run(call: HostCall, answer: (reply: HostReply) => void): void {
    const { maxConcurrentPerFunction } = this.#options
    const standing = this.#standingOf(call.functionId)
    const refuse = (code: 'host-died' | 'too-many-calls', text: string) => {
      const fault = faultOf(performance.now(), code, false, text)
      queueMicrotask(() => answer(fault))
    }
    if (this.#stopped) refuse('host-died', 'The function hosts have been stopped')
    else if (standing.running >= maxConcurrentPerFunction) {
      refuse('too-many-calls', `More than ${maxConcurrentPerFunction} calls of the function are running`)
    } else {
      standing.running += 1
      const job = newJob(this.#nextId(), call, standing, answer)
      this.#jobs.set(job.id, job)
      this.#place(job)
    }
  }

  #standingOf(functionId: string): Standing {
    const known = this.#standings.get(functionId)
    if (known !== undefined) return known
    const standing = { place: hash(functionId), running: 0, credit: 0 }
    this.#standings.set(functionId, standing)
    return standing
  }

  dispose(functionId: string): void {
    this.#convicts.forget(functionId)
    this.#standings.delete(functionId)
    for (const host of this.#all) host.send(toHost.dispose, 0, functionId)
  }

  stats() {
    return {
      hosts: this.#all.size,
      isolates: [...this.#all].reduce((sum, { isolates }) => sum + isolates, 0),
      calls: this.#jobs.size,
      deaths: this.#deaths,
      pids: [...this.#all].map(({ pid }) => pid),
      memoryMb: [...this.#all].reduce((sum, host) => sum + host.memoryMb(), 0),
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    for (const timer of this.#timers) clearInterval(timer)
    const gone = [...this.#all].map((host) => host.gone)
    for (const host of this.#all) host.kill('stopped')
    await Promise.all(gone)
  }

  #spawn(background: boolean): HostProcess {
    const { setup, sandbox } = this.#options
    const host = new HostProcess({
      setup,
      sandbox,
      background,
      onFrame: (from, frame) => this.#frame(from, frame),
      onExit: (from, exit) => this.#exited(from, exit),
    })
    this.#all.add(host)
    return host
  }

  #place(job: Job): void {
    const { functionId, revision } = job.call
    if (this.#convicts.has(functionId, revision)) this.#send(job, this.#penaltyHost())
    else this.#send(job, this.#shared[job.standing.place % this.#shared.length]!)
  }

  #penaltyHost(): HostProcess {
    if (this.#penalty === null || this.#penalty.ended) this.#penalty = this.#spawn(true)
    return this.#penalty
  }

  #send(job: Job, host: HostProcess): void {
    const timeoutMs = job.deadline - performance.now()
    if (timeoutMs <= 0) {
      this.#fault(job, 'timeout', false, 'Execution timeout')
      return
    }
    const { start, body } = job.call
    job.host = host
    host.sendCall(job.id, job.key, timeoutMs, start, body)
  }

  #frame(host: HostProcess, { kind, id, head, body }: Frame): void {
    if (kind === fromHost.reply || kind === fromHost.fault) this.#answered(host, kind, id, head, body)
    else if (kind === fromHost.needProgram) void this.#program(host, id, head)
    else if (kind === fromHost.operation) this.#operate(host, id, JSON.parse(head), body.toString('utf8'))
    else if (kind === fromHost.cancel) this.#operations.cancel(host, id)
    else if (kind === fromHost.logs) this.#logs(JSON.parse(body.toString('utf8')))
    else if (kind === fromHost.strike || kind === fromHost.doomed) {
      const { fn, rev, reason } = JSON.parse(head) as { fn: string; rev: number; reason: StrikeReason }
      this.#strike(fn, rev, reason)
      if (kind === fromHost.doomed) this.#doom(host, fn)
    }
  }

  #answered(host: HostProcess, kind: number, id: number, head: string, body: Buffer): void {
    const job = this.#jobs.get(id)
    if (job === undefined || job.host !== host) return
    const durationMs = performance.now() - job.at
    if (kind === fromHost.reply) {
      job.standing.credit += 1
      this.#finish(job, { kind: 'response', head, body, durationMs })
      return
    }
    const { code, message, started, stack } = JSON.parse(head) as FaultHead
    const fault = { kind: 'fault', code, message, started, durationMs } as const
    if (stack === null) this.#finish(job, { ...fault, stack })
    else void this.#mapped(job, stack).then((mapped) => this.#finish(job, { ...fault, stack: mapped }))
  }

  async #mapped({ call }: Job, stack: string): Promise<string> {
    const program = await call.program().catch(() => null)
    return mapStack(stack, program?.sourceMap ?? null)
  }

  #fault(job: Job, code: 'timeout' | 'memory' | 'host-died', started: boolean, message: string): void {
    this.#finish(job, faultOf(job.at, code, started, message))
  }

  #finish(job: Job, reply: HostReply): void {
    if (!this.#jobs.delete(job.id)) return
    job.standing.running -= 1
    this.#quarantine.finished(job)
    job.answer(reply)
  }

  async #program(host: HostProcess, id: number, key: string): Promise<void> {
    const job = [...this.#jobs.values()].find((each) => each.host === host && each.key === key)
    try {
      if (job === undefined) throw new Error('no call of it waits')
      const { code, env } = await job.call.program()
      host.send(toHost.program, id, '', JSON.stringify({ code, env }))
    } catch {
      host.send(toHost.program, id, 'The program of the function could not be read')
    }
  }

  #operate(host: HostProcess, id: number, head: OperationHead, argument: string): void {
    const jobs = [...this.#jobs.values()].filter(({ host: at, call }) => {
      return at === host && call.functionId === head.fn && call.revision === head.rev
    })
    void this.#operations.run(host, id, { ...head, argument, jobs })
  }

  #logs(entries: readonly LogEntry[]): void {
    for (const { fn, rev, invocationId, at, level, text } of entries) {
      this.#options.onLog({ functionId: fn, revision: rev, invocationId, at, level, text })
    }
  }

  #strike(functionId: string, revision: number, reason: StrikeReason): void {
    if (this.#convicts.has(functionId, revision) || !this.#convicts.strike(functionId, revision, reason)) return
    this.#options.onObservation({ type: 'function-set-apart', functionId, reason })
  }

  /** The host takes no more calls, and ends with those it has. */
  #doom(host: HostProcess, functionId: string): void {
    if (this.#doomedBy.has(host)) return
    this.#doomedBy.set(host, functionId)
    this.#replace(host)
    setTimeout(() => host.kill('doomed'), drainMs).unref()
  }

  /** Another host takes its place for the calls that come. */
  #replace(host: HostProcess): void {
    if (this.#stopped) return
    const index = this.#shared.indexOf(host)
    if (index >= 0) {
      this.#shared[index] = this.#reserve
      this.#reserve = this.#spawn(false)
    } else if (host === this.#reserve) this.#reserve = this.#spawn(false)
    else if (host === this.#penalty) this.#penalty = null
  }

  #exited(host: HostProcess, exit: HostExit): void {
    this.#all.delete(host)
    this.#operations.hostEnded(host)
    const here = [...this.#jobs.values()].filter((job) => job.host === host)
    if (this.#stopped) {
      for (const job of here) this.#fault(job, 'host-died', true, 'The function hosts have been stopped')
      return
    }
    this.#deaths += 1
    this.#replace(host)
    this.#settleDeath(host, exit, here)
  }

  #settleDeath(host: HostProcess, exit: HostExit, here: readonly Job[]): void {
    const doomedBy = this.#doomedBy.get(host) ?? null
    this.#doomedBy.delete(host)
    const suspects = doomedBy === null && !byAnother(exit) ? suspectsOf(exit, here) : []
    const functions = new Set(suspects.map(({ call }) => call.functionId))
    // A call that was answered, at its time-out, can have a thread that went on.
    const strangers = exit.running.some((id) => !here.some((job) => job.id === id))
    const guilty = functions.size === 1 && !strangers ? suspects[0]!.call : null
    if (guilty !== null) this.#strike(guilty.functionId, guilty.revision, 'killed-host')
    const tried: Job[] = []
    let failed = 0
    for (const job of here) {
      job.host = null
      job.journal.rewind()
      job.deaths += 1
      const suspect = suspects.includes(job)
      if (suspect && guilty !== null) this.#fault(job, 'memory', true, memoryText)
      else if (job.effects || job.deaths >= maxDeaths) this.#fault(job, 'host-died', true, lostText)
      else {
        if (suspect) tried.push(job)
        else this.#place(job)
        continue
      }
      failed += 1
    }
    this.#quarantine.add(tried)
    this.#options.onObservation({
      type: 'host-ended',
      reason: exit.killed ?? exit.signal ?? `exit code ${exit.code}`,
      functionId: guilty?.functionId ?? doomedBy,
      failed,
      again: here.length - failed,
      lastWords: exit.lastWords,
    })
  }

  #ping(): void {
    for (const host of this.#all) host.ping()
  }

  #watch(): void {
    const now = performance.now()
    for (const host of this.#all) {
      const memoryMb = host.memoryMb()
      if (memoryMb > this.#options.hostMemoryMb) host.kill('memory')
      else if (memoryMb > this.#options.hostMemoryMb * shedAt && now - (this.#shedAt.get(host) ?? 0) > shedPauseMs) {
        this.#shedAt.set(host, now)
        host.send(toHost.shed, 0)
      }
    }
    for (const job of this.#jobs.values()) {
      if (now > job.deadline + graceMs) this.#fault(job, 'timeout', true, 'Execution timeout')
    }
    for (const host of this.#doomedBy.keys()) {
      if (![...this.#jobs.values()].some((job) => job.host === host)) host.kill('doomed')
    }
  }

  #nextId(): number {
    do this.#lastId = (this.#lastId % 0xffff_ffff) + 1
    while (this.#jobs.has(this.#lastId))
    return this.#lastId
  }
}

const memoryText = 'The handler used more memory than it may'
const lostText = 'The process that ran the call ended'

/** Killed from outside by somebody else: no function is to blame. */
function byAnother({ killed, signal }: HostExit): boolean {
  return killed === null && (signal === 'SIGKILL' || signal === 'SIGTERM' || signal === 'SIGINT')
}

/** The calls whose code may have brought the host down. */
function suspectsOf({ killed, running, holder }: HostExit, here: readonly Job[]): Job[] {
  const ids = killed === 'unresponsive' && holder !== 0 ? [holder] : running
  return here.filter(({ id }) => ids.includes(id))
}

/** FNV-1a: the same function comes to the same host. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193)
  return value >>> 0
}
