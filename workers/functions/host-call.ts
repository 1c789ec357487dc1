/** One call of a function, for `FunctionHosts.invoke`. */
export interface HostCall {
  readonly functionId: string
  readonly revision: number
  readonly invocationId: string
  /** Compiled JavaScript without ESM syntax and its source map; asked for when no isolate holds this revision, and to map a stack. */
  readonly program: () => Promise<HostProgram>
  readonly envVersion: number
  /** What the handler is told of the request: a `GuestCall` as JSON. */
  readonly start: string | Uint8Array
  /** Of the request. */
  readonly body: Uint8Array
  /** From now on. */
  readonly timeoutMs: number
}

export interface HostProgram {
  readonly code: string
  /** JSON. */
  readonly sourceMap: string | null
  readonly env: Readonly<Record<string, string>>
}

export interface HostResponse {
  readonly kind: 'response'
  /** `{status, headers}` as JSON; empty for status 200 and JSON. */
  readonly head: string
  readonly body: Uint8Array
  readonly durationMs: number
}

export interface HostFault {
  readonly kind: 'fault'
  readonly code:
    | 'timeout'
    | 'no-handler'
    | 'threw'
    /** Its program or its secrets could not be read: another time they may. */
    | 'internal'
    | 'memory'
    | 'output-too-large'
    | 'too-many-calls'
    | 'host-died'
    | 'unserialisable'
  /** Whether user code had begun. */
  readonly started: boolean
  readonly message: string
  /** Mapped to the source; null when there is none. */
  readonly stack: string | null
  readonly durationMs: number
}

export type HostReply = HostResponse | HostFault

/** A line that a function wrote; `level` as in console. */
export interface FunctionLogLine {
  readonly functionId: string
  readonly revision: number
  readonly invocationId: string
  /** Epoch ms. */
  readonly at: number
  readonly level: string
  readonly text: string
}

export type HostObservation =
  /** A host process ended; its functions go on in others. */
  | {
      readonly type: 'host-ended'
      readonly reason: string
      /** The function that is to blame, when it can be told. */
      readonly functionId: string | null
      /** Calls that failed with it, and calls that run again. */
      readonly failed: number
      readonly again: number
      readonly lastWords: string
    }
  /** A function runs apart from the others for a while. */
  | { readonly type: 'function-set-apart'; readonly functionId: string; readonly reason: string }
