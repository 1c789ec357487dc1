import type { Socket } from 'node:net'

/** A server program that the supervisor shall run. */
export interface ServerSpec {
  /** `<uid>/<member>`: names it. */
  readonly key: string
  readonly command: string
  readonly args: readonly string[]
  /** Its data folder, which no other process may use; its processes have it as their working folder. */
  readonly folder: string
  /**
   * Where the server itself keeps who it is. Left behind by one that was killed, the number in it may belong to another process by now,
   * which the server would take for itself.
   */
  readonly pidFile?: string
  /** A file that must hold the uid of the instance, so that nobody else's folder is touched. */
  readonly marker: { readonly file: string; readonly uid: string }
  /** Standard output and error are appended here. */
  readonly logFile: string
  readonly environment: Readonly<Record<string, string>>
  readonly runAs?: { readonly uid: number; readonly gid: number }
  /** Signals that end it kindly and at once. */
  readonly stopSignals: { readonly fast: NodeJS.Signals; readonly immediate: NodeJS.Signals }
}

/**
 * What is done when a server ends by itself. `never`: nothing. `restart`: it is started again. `ask`: the owner decides; only
 * without an owner for a while it is started again.
 */
export type KeepPolicy = 'never' | 'restart' | 'ask'

export interface ServerStatus {
  readonly key: string
  /** Undefined when it does not run. */
  readonly pid: number | undefined
  /** The signal or the exit code it ended with last; null while it has not. */
  readonly ended: string | null
  readonly policy: KeepPolicy
}

export interface SupervisorCalls {
  /** Waits until no other connection owns the servers. A connection that asks again keeps what it has. */
  own(params: Record<string, never>): null
  /** Starts a server if it does not run; policy `never`. */
  start(params: { readonly spec: ServerSpec }): { readonly pid: number; readonly started: boolean }
  keep(params: { readonly key: string; readonly policy: KeepPolicy }): null
  /** Resolves when no process of it is left; `kill`: at once, the hard way. */
  stop(params: {
    readonly spec: Pick<ServerSpec, 'key' | 'folder' | 'marker' | 'stopSignals'>
    readonly mode: 'fast' | 'immediate' | 'kill'
    readonly timeoutMs: number
  }): null
  /** One that hangs: it ends as if it had crashed, and its policy says what comes next. */
  kill(params: { readonly key: string }): null
  list(params: Record<string, never>): readonly ServerStatus[]
  /** Stops every server, then the supervisor itself. */
  shutdown(params: Record<string, never>): null
}

export type SupervisorCall = keyof SupervisorCalls
export type Params<Call extends SupervisorCall> = Parameters<SupervisorCalls[Call]>[0]
export type Result<Call extends SupervisorCall> = ReturnType<SupervisorCalls[Call]>

export interface Request {
  readonly id: number
  readonly call: SupervisorCall
  readonly params: unknown
}

export type Reply =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: string }
  | ServerEnded

/** Told to the owner: a server ended by itself. */
export interface ServerEnded {
  readonly event: 'ended'
  readonly key: string
  readonly reason: string
}

const maxLineBytes = 1024 * 1024

/** Calls back with every line of JSON that comes; a line without end closes the connection. */
export function readLines(socket: Socket, onLine: (value: unknown) => void): void {
  let rest = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > maxLineBytes) socket.destroy()
    for (const line of lines) {
      try {
        onLine(JSON.parse(line))
      } catch (error) {
        socket.destroy(error as Error)
        return
      }
    }
  })
}

export function writeLine(socket: Socket, value: Request | Reply): void {
  if (!socket.destroyed) socket.write(`${JSON.stringify(value)}\n`)
}
