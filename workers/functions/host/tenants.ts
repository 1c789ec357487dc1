import { isUtf8 } from 'node:buffer'
import { wrapProgram } from '../sandbox/program.ts'
import {
  type FaultCode,
  type FaultHead,
  type OperationHead,
  type ProgramBody,
  programKey,
  type ReplyHead,
  type Setup,
} from './call.ts'
import { type Frame, type FrameWriter, fromHost, readCallBody } from './frames.ts'
import { GuestSupply } from './guest-supply.ts'
import { LogBook } from './log-book.ts'
import type { Forwarded, ForwardedOperation } from './operations-host.ts'
import { plainHeaders, readReply } from './operations-reply.ts'
import { RunningSlots, type SlotsFile } from './running-slots.ts'
import { Tenant } from './tenant.ts'
import type { TenantCall, TenantHost } from './tenant-call.ts'
import { Trust } from './trust.ts'

/** The isolates of one host process, and the calls in them. */
export class Tenants {
  readonly #setup: Setup
  readonly #writer: FrameWriter
  readonly #logs: LogBook
  readonly #hosting: TenantHost<Tenant>
  /** In the order of their last use. */
  readonly #byKey = new Map<string, Tenant>()
  /** Those that take no more calls, too. */
  readonly #alive = new Set<Tenant>()
  readonly #trust = new Map<string, Trust>()
  readonly #slots: SlotsFile
  /** Have calls that are to be run. */
  readonly #called = new Set<Tenant>()
  readonly #programs = new Map<number, Tenant>()
  readonly #operations = new Map<number, { readonly tenant: Tenant; readonly resolve: (result: string) => void }>()
  #lastRequest = 0

  constructor({ setup, sandbox, slots }: { setup: Setup; sandbox: string; slots: SlotsFile }, writer: FrameWriter) {
    this.#slots = slots
    this.#setup = setup
    this.#writer = writer
    this.#logs = new LogBook(writer)
    this.#hosting = this.#makeHosting(sandbox)
  }

  get size(): number {
    return this.#alive.size
  }

  call({ id, head, body }: Frame): void {
    const { timeoutMs, start, request } = readCallBody(body)
    const deadline = performance.now() + timeoutMs
    const tenant = this.#route({ id, key: head, start, ...bodyText(request), deadline, started: false, cpuMs: 0 })
    this.#called.add(tenant)
  }

  /** Those that came since the last time: those of one tenant together. */
  runCalls(): void {
    if (this.#called.size === 0) return
    for (const tenant of this.#called) tenant.pump()
    this.#called.clear()
  }

  program({ id, head, body }: Frame): void {
    const tenant = this.#programs.get(id)
    this.#programs.delete(id)
    if (tenant === undefined) return
    if (head !== '') {
      tenant.fail(head)
      return
    }
    const { code, env } = JSON.parse(body.toString('utf8')) as ProgramBody
    void tenant.load(code, env)
  }

  answer({ id, body }: Frame): void {
    const operation = this.#operations.get(id)
    this.#operations.delete(id)
    operation?.resolve(body.toString('utf8'))
  }

  /** Every isolate of the function ends, once its calls have. */
  dispose(fn: string): void {
    for (const tenant of [...this.#alive]) if (tenant.fn === fn) tenant.retire()
    for (const key of [...this.#trust.keys()]) if (key.startsWith(`${fn}\n`)) this.#trust.delete(key)
  }

  sweep(now: number): void {
    for (const tenant of this.#alive) {
      tenant.sweep(now)
      if (tenant.idle && now - tenant.lastUsed > this.#setup.idleMs) tenant.retire()
    }
    this.#logs.flush()
  }

  /** Half of the idle isolates end, those that were not used for longest. */
  shed(): void {
    const idle = [...this.#byKey.values()].filter((tenant) => tenant.idle)
    for (const tenant of idle.slice(0, Math.ceil(idle.length / 2))) tenant.retire()
  }

  #route(call: TenantCall): Tenant {
    let tenant = this.#byKey.get(call.key)
    if (tenant === undefined) tenant = this.#open(call.key)
    else {
      this.#byKey.delete(call.key)
      this.#byKey.set(call.key, tenant)
    }
    tenant.add(call)
    if (tenant.apart !== 0) tenant.retire()
    return tenant
  }

  #open(key: string): Tenant {
    const [fn = '', rev = '', env = '', apart = ''] = key.split('\n')
    this.#makeRoom()
    for (const other of this.#byKey.values()) {
      if (other.fn === fn && (other.rev < Number(rev) || (other.rev === Number(rev) && other.env < Number(env))))
        other.retire()
    }
    const program = { fn, rev: Number(rev), env: Number(env), apart: Number(apart) }
    // The supervisor knows by it whose program was asked for, and so who the tenant is.
    const request = this.#nextRequest()
    const slots = new RunningSlots(this.#slots, request)
    const tenant = new Tenant(this.#hosting, { slots, trust: this.#trustOf(fn, rev) }, program)
    this.#byKey.set(key, tenant)
    this.#alive.add(tenant)
    this.#programs.set(request, tenant)
    this.#writer.send(fromHost.needProgram, request, key)
    return tenant
  }

  #trustOf(fn: string, rev: string): Trust {
    const key = `${fn}\n${rev}`
    const trust = this.#trust.get(key) ?? new Trust()
    this.#trust.delete(key)
    this.#trust.set(key, trust)
    if (this.#trust.size > 10_000) this.#trust.delete(this.#trust.keys().next().value!)
    return trust
  }

  #makeRoom(): void {
    if (this.#byKey.size < this.#setup.maxIsolates) return
    for (const tenant of this.#byKey.values()) {
      if (!tenant.idle) continue
      tenant.retire()
      return
    }
  }

  #nextRequest(): number {
    this.#lastRequest = (this.#lastRequest + 1) % 2 ** 32
    return this.#lastRequest
  }

  #makeHosting(sandbox: string): TenantHost<Tenant> {
    const { heapMb, cpuLimitMs, maxOutputBytes, computingMs } = this.#setup
    const limits = JSON.stringify({ maxOutputBytes })
    return {
      guests: new GuestSupply({ heapMb, sandbox, limits, wrap: wrapProgram }),
      cpuLimitMs,
      computingMs,
      forward: (...operation) => this.#forward(...operation),
      reply: (call, reply) => this.#reply(call, reply),
      fault: (call, code, message) => this.#fault(call, { code, message, stack: null }),
      again: (calls) => {
        for (const call of calls) this.#route(call).pump()
      },
      log: ({ fn, rev }, line) => this.#logs.add({ fn, rev, ...line }),
      logMark: () => this.#logs.mark(),
      dropLogs: (mark) => this.#logs.drop(mark),
      strike: ({ fn, rev }, reason) => this.#writer.send(fromHost.strike, 0, JSON.stringify({ fn, rev, reason })),
      doomed: ({ fn, rev }, reason) => this.#writer.send(fromHost.doomed, 0, JSON.stringify({ fn, rev, reason })),
      forget: (tenant) => this.#forget(tenant),
    }
  }

  #forget(tenant: Tenant): void {
    const key = programKey(tenant.fn, tenant.rev, tenant.env, tenant.apart)
    if (this.#byKey.get(key) === tenant) this.#byKey.delete(key)
    if (!tenant.ended) return
    this.#alive.delete(tenant)
    for (const [id, operation] of this.#operations) {
      if (operation.tenant !== tenant) continue
      this.#operations.delete(id)
      this.#writer.send(fromHost.cancel, id)
    }
    for (const [id, waiting] of this.#programs) if (waiting === tenant) this.#programs.delete(id)
  }

  #forward(tenant: Tenant, name: ForwardedOperation, argument: string, invocationId: string): Forwarded {
    const request = this.#nextRequest()
    const { fn, rev, apart } = tenant
    const head: OperationHead = { fn, rev, apart, name, invocationId }
    this.#writer.send(fromHost.operation, request, JSON.stringify(head), argument)
    return {
      answer: new Promise((resolve) => this.#operations.set(request, { tenant, resolve })),
      abandon: () => {
        if (this.#operations.has(request)) this.#writer.send(fromHost.cancel, request)
      },
    }
  }

  #reply(call: TenantCall, text: string): boolean {
    const reply = readReply(text)
    if (!reply.ok) {
      const { code, message, stack } = reply
      this.#fault(call, { code, message, stack })
      return false
    }
    const { status, headers, binary, waiting, body: rest } = reply
    const body = binary ? Buffer.from(rest, 'latin1') : rest
    const bytes = binary ? rest.length : rest.length * 3
    if (bytes > this.#setup.maxOutputBytes && Buffer.byteLength(body) > this.#setup.maxOutputBytes)
      this.#fault(call, { code: 'output-too-large', message: 'The result is too large', stack: null })
    else this.#writer.send(fromHost.reply, call.id, headOf(status, headers), body)
    return waiting
  }

  #fault(call: TenantCall, fault: { code: FaultCode; message: string; stack: string | null }): void {
    const head: FaultHead = { ...fault, started: call.started }
    // The supervisor logs the fault: what the call wrote before must have arrived.
    this.#logs.flush()
    this.#writer.send(fromHost.fault, call.id, JSON.stringify(head))
  }
}

function bodyText(body: Buffer): Pick<TenantCall, 'body' | 'bodyKind'> {
  return isUtf8(body) ? { body: body.toString('utf8'), bodyKind: 0 } : { body: body.toString('latin1'), bodyKind: 2 }
}

/** Most functions answer with JSON and status 200: no text stands for that. */
function headOf(status: number, headers: Readonly<Record<string, string>>): string {
  if (headers === plainHeaders && status === 200) return ''
  const head: ReplyHead = { status, headers }
  return JSON.stringify(head)
}
