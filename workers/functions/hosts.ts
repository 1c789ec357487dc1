import { availableParallelism } from 'node:os'
import type { FunctionLogLine, HostCall, HostObservation, HostReply } from './host-call.ts'
import { FunctionPool } from './pool.ts'
import { sandboxSource } from './sandbox/bundle.ts'
import { type KvAccess, type PerformOperation, supervisorOperations } from './supervisor-operations.ts'

export type { FunctionLogLine, HostCall, HostObservation, HostReply } from './host-call.ts'

export interface FunctionHostsOptions {
  /** Processes that functions share, beside one in reserve and one for those that hurt others. Default: one a core. */
  readonly hosts?: number
  /** Heap and array buffers of one isolate. Default 64. */
  readonly heapMb?: number
  /** Resident memory of one host process. Default 1024. */
  readonly hostMemoryMb?: number
  /** Calls of one function under way or waiting. Default 256. */
  readonly maxConcurrentPerFunction?: number
  /** Default 6,291,456. */
  readonly maxOutputBytes?: number
  /** Processor time of one call. Default: its time-out. */
  readonly cpuLimitMs?: number
  /** For so long a computation of `crypto.subtle`, which nothing stops, may outlive its call; then its host ends. Default 5,000. */
  readonly computingMs?: number
  /** Warm isolates of all hosts; idle ones beyond are disposed. Default 128. */
  readonly maxIsolates?: number
  /** An isolate that was not used for this long is disposed. Default 300,000. */
  readonly idleMs?: number
  /** Whom the hosts run as; only root can choose. Default for root: nobody. */
  readonly user?: { readonly uid: number; readonly gid: number }
  readonly fetch: PerformOperation
  readonly kv: KvAccess
  readonly onLog: (line: FunctionLogLine) => void
  readonly onObservation: (observation: HostObservation) => void
}

export interface FunctionHosts {
  /** Tells once, not before it returns; never throws. */
  run(call: HostCall, answer: (reply: HostReply) => void): void
  /** Never rejects. */
  invoke(call: HostCall): Promise<HostReply>
  /** The function is gone: its isolates end with their calls. */
  dispose(functionId: string): void
  stats(): ReturnType<FunctionPool['stats']>
  stop(): Promise<void>
}

const nobody = { uid: 65534, gid: 65534 }

/**
 * Starts the processes in which functions run. A call that such a process takes with it runs again in another one: what it did outside (a
 * request, a write to its store) is not done again but answered from the journal of the call. Where that cannot be (several calls of the
 * function were under way and sent requests, or the call does something else than before), it fails with `host-died`.
 *
 * @throws {Error} when a process cannot start
 */
export async function startFunctionHosts(options: FunctionHostsOptions): Promise<FunctionHosts> {
  const { hosts = availableParallelism(), heapMb = 64, maxOutputBytes = 6_291_456, maxIsolates = 128 } = options
  const { cpuLimitMs = Number.MAX_SAFE_INTEGER, computingMs = 5_000, idleMs = 300_000, user = nobody } = options
  const perHost = Math.max(1, Math.ceil(maxIsolates / hosts))
  const limits = { heapMb, maxIsolates: perHost, idleMs, cpuLimitMs, maxOutputBytes, computingMs }
  const pool = new FunctionPool({
    hosts,
    setup: process.getuid?.() === 0 ? { ...limits, user } : limits,
    sandbox: await sandboxSource(),
    hostMemoryMb: options.hostMemoryMb ?? 1_024,
    maxConcurrentPerFunction: options.maxConcurrentPerFunction ?? 256,
    perform: supervisorOperations(options.kv, options.fetch),
    onLog: options.onLog,
    onObservation: options.onObservation,
  })
  try {
    await pool.ready()
  } catch (error) {
    await pool.stop()
    throw error
  }
  return pool
}
