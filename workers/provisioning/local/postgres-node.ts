/** The operating-system account a server and its tools run as. */
export interface NodeAccount {
  readonly uid: number
  readonly gid: number
}

/** A PostgreSQL server of an instance as the driver's pieces see it. */
export interface PostgresNode {
  /** Folder with `postgres` and `initdb`. Client tools may lie elsewhere: see postgres-tools.ts. */
  readonly binFolder: string
  readonly dataFolder: string
  readonly port: number
  /** Default: the server is reached on 127.0.0.1. */
  readonly socketFolder?: string
  readonly superuser: { readonly user: string; readonly password: string }
  /** The instance's own database. */
  readonly database: string
  /** Default: the account of this process. */
  readonly runAs?: NodeAccount
  /** Where this server's finished WAL segments go; one folder an instance, never shared. */
  readonly archiveFolder: string
  /** What the server writes on standard error goes to the end of this file (`log_destination` stderr, no collector). */
  readonly logFile: string
}

export interface StartOptions {
  /**
   * Settings of this start alone, passed with `-c`: above every file in the data folder and above what the controller itself
   * passes. A restore uses them for recovery with `archive_mode` off, and to listen in a closed socket folder only.
   */
  readonly settings?: Readonly<Record<string, string>>
  /** Default 60,000. How long the server may take to accept connections. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

export interface StopOptions {
  /** Default `fast`. */
  readonly mode?: 'fast' | 'immediate'
  /** Default 30,000. After it a fast stop becomes an immediate one. */
  readonly timeoutMs?: number
}

/**
 * Starts and stops the server processes of nodes; the supervisor in the product. A node is known by its data folder. Every
 * call is idempotent: starting a running node and stopping a stopped one do nothing. Readiness is asked at the node's
 * `socketFolder` when it has one, else at 127.0.0.1; a refused password or a missing database counts as ready.
 */
export interface NodeControl {
  /**
   * Resolves when the server accepts connections (a restoring one may still be read-only).
   *
   * @throws {ServerStartFailed} when it ends or does not accept connections in time.
   */
  start(node: PostgresNode, options?: StartOptions): Promise<void>
  /** Resolves when the process is gone. */
  stop(node: PostgresNode, options?: StopOptions): Promise<void>
  /** Stop, then start; @throws {ServerStartFailed} as start does. */
  restart(node: PostgresNode, options?: StartOptions): Promise<void>
  /** Process id of the running postmaster, undefined when the node is stopped. */
  pid(node: PostgresNode): Promise<number | undefined>
}

/** The server did not come up. `log` is the end of what it wrote, for the parts that decide by it; never shown to a user. */
export class ServerStartFailed extends Error {
  override readonly name = 'ServerStartFailed'
  readonly log: string

  constructor(message: string, log: string) {
    super(message)
    this.log = log
  }
}
