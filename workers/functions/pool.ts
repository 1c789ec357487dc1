import { Convicts } from './convicts.ts'
import type { FaultHead, OperationHead, StrikeReason } from './host/call.ts'
import { type Frame, fromHost, toHost } from './host/frames.ts'
import type { LogEntry } from './host/log-book.ts'
import type { FunctionLogLine, HostCall, HostObservation, HostReply } from './host-call.ts'
import { HostFleet, type HostFleetOptions } from './host-fleet.ts'
import type { HostExit, HostProcess } from './host-process.ts'
import { beginAgain, faultOf, type Job, newJob } from './job.ts'
import { OpenOperations } from './open-operations.ts'
import { Quarantine } from './quarantine.ts'
import { mapStack } from './stack.ts'
import { Standings } from './standings.ts'
import type { PerformOperation } from './supervisor-operations.ts'
import { verdictOf } from './verdict.ts'

export interface PoolOptions extends Omit<HostFleetOptions, 'onFrame' | 'onExit'> {
  readonly maxConcurrentPerFunction: number
  readonly perform: PerformOperation
  readonly onLog: (line: FunctionLogLine) => void
  readonly onObservation: (observation: HostObservation) => void
}

const maxDeaths = 3
const watchMs = 50
/** Behind its time-out, a call that its host has not answered. */
const graceMs = 1_000

/** Runs calls in the host processes, each function in one of them, and again in another one where a process ends. */
export class FunctionPool {
  readonly #options: PoolOptions
  readonly #fleet: HostFleet
  readonly #jobs = new Map<number, Job>()
  readonly #standings = new Standings()
  readonly #convicts = new Convicts()
  readonly #quarantine: Quarantine
  readonly #operations: OpenOperations
  readonly #watching: NodeJS.Timeout
  #lastId = 0
  #deaths = 0
  #stopped = false

  constructor(options: PoolOptions) {
    this.#options = options
    this.#operations = new OpenOperations(options.perform, (job) => this.#fault(job, 'host-died', true, lostText))
    this.#fleet = new HostFleet({
      ...options,
      onFrame: (host, frame) => this.#frame(host, frame),
      onExit: (host, exit, doomedBy) => this.#exited(host, exit, doomedBy),
    })
    this.#quarantine = new Quarantine(
      (job) => this.#send(job, this.#fleet.reserve),
      ({ standing }) => standing.credit,
    )
    this.#watching = setInterval(() => this.#watch(), watchMs)
  }

  /** All hosts are up. @throws when one cannot start */
  ready(): Promise<void> {
    return this.#fleet.ready()
  }

  invoke(call: HostCall): Promise<HostReply> {
    return new Promise((resolve) => this.run(call, resolve))
  }

  run(call: HostCall, answer: (reply: HostReply) => void): void {
    const { maxConcurrentPerFunction } = this.#options
    const standing = this.#standings.of(call.functionId)
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

  dispose(functionId: string): void {
    this.#convicts.forget(functionId)
    this.#standings.forget(functionId)
    for (const host of this.#fleet.all) host.send(toHost.dispose, 0, functionId)
  }

  stats() {
    const hosts = [...this.#fleet.all]
    return {
      hosts: hosts.length,
      isolates: hosts.reduce((sum, { isolates }) => sum + isolates, 0),
      calls: this.#jobs.size,
      deaths: this.#deaths,
      pids: hosts.map(({ pid }) => pid),
      memoryMb: hosts.reduce((sum, host) => sum + host.memoryMb(), 0),
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearInterval(this.#watching)
    await this.#fleet.stop()
  }

  #place(job: Job): void {
    const { functionId, revision } = job.call
    const apart = this.#convicts.has(functionId, revision)
    this.#send(job, apart ? this.#fleet.penalty : this.#fleet.shared(job.standing.place))
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
      if (kind === fromHost.doomed) this.#fleet.doom(host, fn)
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
    const jobs = [...this.#jobs.values()].filter(({ id: job, host: at, call, apart }) => {
      return (
        at === host && call.functionId === head.fn && call.revision === head.rev && head.apart === (apart ? job : 0)
      )
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

  #exited(host: HostProcess, exit: HostExit, doomedBy: string | null): void {
    this.#operations.hostEnded(host)
    const here = [...this.#jobs.values()].filter((job) => job.host === host)
    if (this.#stopped) {
      for (const job of here) this.#fault(job, 'host-died', true, 'The function hosts have been stopped')
      return
    }
    this.#deaths += 1
    this.#settleDeath(exit, here, doomedBy)
  }

  #settleDeath(exit: HostExit, here: readonly Job[], doomedBy: string | null): void {
    const { suspects, guilty } = verdictOf(exit, here, doomedBy !== null)
    if (guilty !== null) {
      this.#strike(guilty.functionId, guilty.revision, guilty.ran ? 'killed-host' : 'hung-host')
    }
    const tried: Job[] = []
    let failed = 0
    for (const job of here) {
      beginAgain(job)
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

  #watch(): void {
    const now = performance.now()
    for (const job of this.#jobs.values()) {
      if (now > job.deadline + graceMs) this.#fault(job, 'timeout', true, 'Execution timeout')
    }
    this.#fleet.watch((host) => [...this.#jobs.values()].some((job) => job.host === host))
  }

  #nextId(): number {
    do this.#lastId = (this.#lastId % 0xffff_ffff) + 1
    while (this.#jobs.has(this.#lastId))
    return this.#lastId
  }
}

const memoryText = 'The handler used more memory than it may'
const lostText = 'The process that ran the call ended'
