/** Body of a `program` frame; its head is empty, or why there is none. */
export interface ProgramBody {
  readonly code: string
  readonly env: Readonly<Record<string, string>>
}

export type FaultCode =
  | 'timeout'
  | 'no-handler'
  | 'threw'
  | 'internal'
  | 'memory'
  | 'output-too-large'
  | 'unserialisable'

/** Head of a `fault` frame. */
export interface FaultHead {
  readonly code: FaultCode
  readonly message: string
  readonly stack: string | null
  readonly started: boolean
}

/** Head of a `reply` frame, left out for status 200 and JSON; its body is the response's body. */
export interface ReplyHead {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
}

/** Head of an `operation` frame: something that only the supervisor may do. The frame's body is the argument. */
export interface OperationHead {
  readonly fn: string
  readonly rev: number
  /** The one call for which the isolate was made; 0 where calls share it. */
  readonly apart: number
  readonly name: string
  /** Whose code asked for it, as the sandbox knows; '' for none. A call that waits for what another one does can be taken for that one. */
  readonly invocationId: string
}

/** Why a function is not trusted for a while. */
export type StrikeReason = 'memory' | 'processor' | 'killed-host' | 'hung-host' | 'stuck'

/** Head of a `setup` frame; its body is the script that makes the sandbox. */
export interface Setup {
  readonly heapMb: number
  readonly maxIsolates: number
  readonly idleMs: number
  readonly cpuLimitMs: number
  readonly maxOutputBytes: number
  /** For so long a computation that cannot be stopped may outlive the call that asked for it, and then its isolate. */
  readonly computingMs: number
  /** The user and group to become, once everything is loaded; absent when there is nothing to drop. */
  readonly user?: { readonly uid: number; readonly gid: number }
}

/** Which isolate a call runs in. `apart`: the number of a call that has one for itself; 0 where calls share it. */
export const programKey = (fn: string, rev: number, env: number, apart = 0) => `${fn}\n${rev}\n${env}\n${apart}`
