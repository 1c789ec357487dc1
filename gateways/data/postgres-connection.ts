import { hash } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { LRUCache } from 'lru-cache'
import pg from 'pg'
import type { DatabaseError } from 'pg-protocol/dist/messages.js'
import { BundleWriter } from './postgres-bundle.ts'
import { WireConnection, type WireReceiver } from './postgres-wire.ts'
import {
  type CallContext,
  type Parameter,
  type RawResult,
  type RawRow,
  type Statement,
  statement,
} from './statement.ts'

/** One statement on its way: who waits for it, and what its present attempt has brought so far. */
export interface Call {
  readonly statement: Statement
  readonly parameters: readonly Parameter[]
  readonly context: CallContext
  /** Parse the statement in this bundle: in an explicit transaction and on a second try, where a stale plan must not be met. */
  readonly unprepared: boolean
  attempts: number
  attempt: Attempt
  done(outcome: Outcome): void
}

export interface Attempt {
  /** Statements of the bundle before the caller's own (role and claims, command). */
  prefixes: number
  completed: number
  rows: RawRow[]
  sizeBytes: number
  rowCount: number
  oversized: boolean
  error: DatabaseError | null
  /** Names under which this bundle prepares statements, in order, and how many the server has confirmed. */
  preparing: readonly string[]
  prepared: number
  /** Whether the caller's statement ran from a plan of an earlier bundle. */
  reused: boolean
  /** A cancel request meant for another call may have hit this one. */
  strayCancel: boolean
  transactionStatus: string
}

export type Outcome =
  | { readonly kind: 'answered'; readonly serviceMs: number; readonly by: PostgresConnection }
  /** The connection went away; what the server did with the statement is not known. */
  | { readonly kind: 'lost'; readonly cause: Error }

export interface ConnectionEvents {
  onFree(connection: PostgresConnection): void
  onLost(connection: PostgresConnection, cause: Error): void
}

export interface ConnectionOptions {
  readonly client: pg.ClientConfig
  /** Settings for the session, by name. */
  readonly settings: Readonly<Record<string, string>>
  readonly maxStatements: number
  readonly maxResultBytes: number
}

const cancelTimeoutMs = 5_000
const noNames: readonly string[] = []
const emitCommand = statement(`select pg_catalog.pg_logical_emit_message(true, 'busbar.command', $1)`)
const contextStatements = [1, 2, 3, 4, 5, 6, 7].map(contextStatement)
const writer = new BundleWriter()

/** A connection in service: takes bundles, several at a time, and hands out their answers in order. */
export class PostgresConnection implements WireReceiver {
  /** `shared`: cheap calls may join. `reserved`: nothing may join, it is wanted for a heavy call once it is idle. */
  use: 'shared' | 'reserved' | 'statement' | 'transaction' = 'shared'
  /** A cancel request is on its way to the server: it may hit whatever runs there. */
  cancelling = false
  readonly #client: pg.Client
  readonly #wire: WireConnection
  readonly #options: ConnectionOptions
  readonly #events: ConnectionEvents
  readonly #flying: Call[] = []
  /** Prepared statements of the session, least recently used first. */
  readonly #statements = new Set<string>()
  #headSince = 0
  #corked = false
  #lost = false

  constructor(client: pg.Client, wire: WireConnection, options: ConnectionOptions, events: ConnectionEvents) {
    this.#client = client
    this.#wire = wire
    this.#options = options
    this.#events = events
    client.on('error', (error) => this.#lose(error))
    client.on('end', () => this.#lose(new Error('The database closed the connection')))
    wire.takeOver(this)
  }

  get flying(): number {
    return this.#flying.length
  }

  get preparedStatements(): number {
    return this.#statements.size
  }

  /** How long the statement at the head has been running, 0 when there is none. */
  headAgeMs(now: number): number {
    return this.#flying.length === 0 ? 0 : now - this.#headSince
  }

  isHead(call: Call): boolean {
    return this.#flying[0] === call
  }

  /** Writes the call's whole bundle in one go; the answer comes through `call.done`. */
  send(call: Call): void {
    call.attempts += 1
    const attempt = newAttempt()
    call.attempt = attempt
    if (this.#lost) {
      // Only a transaction that holds on to its connection gets here; later, as all answers come later.
      queueMicrotask(() => call.done({ kind: 'lost', cause: new Error('The database connection was lost') }))
      return
    }
    if (this.#flying.length === 0) this.#headSince = performance.now()
    this.#flying.push(call)
    const { context } = call
    if (context.command !== undefined) this.#addPrefix(attempt, emitCommand, [context.command])
    const contextParameters: Parameter[] = []
    const contextOf = contextMask(context, contextParameters)
    if (contextOf !== 0) this.#addPrefix(attempt, contextStatements[contextOf - 1]!, contextParameters)
    if (call.unprepared) {
      writer.parse('', call.statement.text)
      attempt.preparing = [...attempt.preparing, '']
      writer.bind('', call.parameters)
    } else {
      const name = this.#statementName(call.statement, context.role)
      attempt.reused = !this.#prepare(attempt, name, call.statement.text)
      writer.bind(name, call.parameters)
    }
    writer.execute()
    writer.sync()
    this.#write(writer.take())
  }

  acceptsRow(sizeBytes: number): boolean {
    const attempt = this.#flying[0]?.attempt
    if (attempt === undefined || attempt.completed < attempt.prefixes || attempt.oversized) return false
    attempt.sizeBytes += sizeBytes
    if (attempt.sizeBytes <= this.#options.maxResultBytes) return true
    attempt.oversized = true
    attempt.rows = []
    void this.cancelHead()
    return false
  }

  onRow(row: RawRow): void {
    this.#flying[0]?.attempt.rows.push(row)
  }

  onParsed(): void {
    const attempt = this.#flying[0]?.attempt
    if (attempt) attempt.prepared += 1
  }

  onComplete(rowCount: number): void {
    const attempt = this.#flying[0]?.attempt
    if (!attempt) return
    attempt.completed += 1
    attempt.rowCount = rowCount
  }

  onError(error: DatabaseError): void {
    const attempt = this.#flying[0]?.attempt
    if (!attempt) {
      this.#lose(error)
      return
    }
    attempt.error = error
    for (const name of attempt.preparing.slice(attempt.prepared)) this.#statements.delete(name)
  }

  onReady(transactionStatus: string): void {
    const now = performance.now()
    const call = this.#flying.shift()
    const serviceMs = now - this.#headSince
    this.#headSince = now
    if (!call) return
    call.attempt.transactionStatus = transactionStatus
    call.done({ kind: 'answered', serviceMs, by: this })
    this.#events.onFree(this)
  }

  /** Statements the server may have lost or whose results changed are prepared anew on their next use. */
  forgetStatements(): void {
    this.#statements.clear()
  }

  /** Asks the server, over a connection of its own as the protocol has it, to stop what runs here. */
  async cancelHead(): Promise<void> {
    if (this.cancelling || this.#lost) return
    this.cancelling = true
    for (const call of this.#flying.slice(1)) call.attempt.strayCancel = true
    await requestCancel(this.#options.client, this.#client)
    this.cancelling = false
    if (!this.#lost) this.#events.onFree(this)
  }

  /** Gives the connection up; whoever waits on it is told. */
  abandon(cause: Error): void {
    this.#wire.stream.destroy()
    this.#lose(cause)
  }

  async end(): Promise<void> {
    this.#lost = true
    await this.#client.end()
  }

  #addPrefix(attempt: Attempt, prefix: Statement, parameters: readonly Parameter[]): void {
    this.#prepare(attempt, prefix.name, prefix.text)
    writer.bind(prefix.name, parameters)
    writer.execute()
    attempt.prefixes += 1
  }

  /** Returns whether it had to be parsed. Close first, because a name the server still holds would be refused. */
  #prepare(attempt: Attempt, name: string, text: string): boolean {
    if (this.#statements.delete(name)) {
      this.#statements.add(name)
      return false
    }
    if (this.#statements.size >= this.#options.maxStatements) this.#evict()
    writer.closeStatement(name)
    writer.parse(name, text)
    this.#statements.add(name)
    attempt.preparing = [...attempt.preparing, name]
    return true
  }

  #evict(): void {
    for (const name of this.#statements) {
      this.#statements.delete(name)
      writer.closeStatement(name)
      return
    }
  }

  /**
   * Each role has its own prepared statements: rights on schemas are checked when a statement is parsed, and plans under
   * row security belong to a role.
   */
  #statementName(of: Statement, role: string | undefined): string {
    return role === undefined ? of.name : `${of.name}_${roleDigest(role)}`
  }

  /** Bundles of one turn of the event loop, which come from many sockets, leave together: a write wakes a server process, and costs most. */
  #write(bundle: Buffer): void {
    const { stream } = this.#wire
    if (!this.#corked) {
      this.#corked = true
      stream.cork()
      setImmediate(() => {
        this.#corked = false
        stream.uncork()
      })
    }
    stream.write(bundle)
  }

  #lose(cause: Error): void {
    if (this.#lost) return
    this.#lost = true
    this.#wire.stream.destroy()
    const waiting = this.#flying.splice(0)
    this.#events.onLost(this, cause)
    for (const call of waiting) call.done({ kind: 'lost', cause })
  }
}

/** Connects, authenticates and sets the session up; throws pg's or the server's own error. */
export async function connect(options: ConnectionOptions, events: ConnectionEvents): Promise<PostgresConnection> {
  const wire = newWire(options.client)
  const client = new pg.Client({ ...options.client, connection: wire } as pg.ClientConfig)
  const failed = Promise.withResolvers<never>()
  const onError = (error: Error) => failed.reject(error)
  client.on('error', onError)
  failed.promise.catch(() => undefined)
  try {
    await Promise.race([client.connect(), failed.promise])
    const settings = Object.entries(options.settings)
    const list = settings.map((_, index) => `pg_catalog.set_config($${index * 2 + 1}, $${index * 2 + 2}, false)`)
    if (list.length > 0) await client.query(`select ${list.join(', ')}`, settings.flat())
  } catch (error) {
    wire.stream.destroy()
    throw error
  }
  const connection = new PostgresConnection(client, wire, options, events)
  client.off('error', onError)
  return connection
}

const roleDigests = new LRUCache<string, string>({ max: 1000 })

function roleDigest(role: string): string {
  const known = roleDigests.get(role)
  if (known !== undefined) return known
  const digest = hash('sha1', role, 'hex').slice(0, 16)
  roleDigests.set(role, digest)
  return digest
}

export function newAttempt(): Attempt {
  return {
    prefixes: 0,
    completed: 0,
    rows: [],
    sizeBytes: 0,
    rowCount: 0,
    oversized: false,
    error: null,
    preparing: noNames,
    prepared: 0,
    reused: false,
    strayCancel: false,
    transactionStatus: '',
  }
}

export function resultOf(call: Call): RawResult {
  return { rows: call.attempt.rows, rowCount: call.attempt.rowCount }
}

function contextStatement(mask: number): Statement {
  const settings: string[] = []
  if (mask & 1) settings.push(`pg_catalog.set_config('role', $${settings.length + 1}, true)`)
  if (mask & 2) settings.push(`pg_catalog.set_config('request.jwt.claims', $${settings.length + 1}, true)`)
  if (mask & 4) settings.push(`pg_catalog.set_config('transaction_read_only', 'on', true)`)
  return statement(`select ${settings.join(', ')}`)
}

/** Which settings the context needs (1 role, 2 claims, 4 read-only); their values are added to `parameters`. */
function contextMask({ role, claims, readOnly }: CallContext, parameters: Parameter[]): number {
  let mask = readOnly ? 4 : 0
  if (role !== undefined) {
    mask += 1
    parameters.push(role)
  }
  if (claims !== undefined) {
    mask += 2
    parameters.push(claims)
  }
  return mask
}

interface ResolvedClient extends pg.Client {
  readonly sslNegotiation?: string
  readonly processID: number | null
  readonly secretKey: number | null
}

interface CancellingConnection extends WireConnection {
  connect(port: number | string, host?: string): void
  requestSsl(): void
  cancel(processId: number, secretKey: number): void
}

/** A connection for pg's client, with the TLS options pg itself reads from the configuration or the URL. */
function newWire(config: pg.ClientConfig): WireConnection {
  const resolved = new pg.Client(config) as ResolvedClient
  return new WireConnection({
    ssl: resolved.ssl,
    keepAlive: true,
    ...(resolved.sslNegotiation === undefined ? {} : { sslNegotiation: resolved.sslNegotiation }),
  } as pg.ConnectionConfig)
}

/** Resolves when the server has taken the request (it closes the connection), or could not. */
function requestCancel(config: pg.ClientConfig, of: pg.Client): Promise<void> {
  const { host, port, ssl, processID, secretKey } = of as ResolvedClient
  if (processID === null || secretKey === null) return Promise.resolve()
  const wire = newWire(config) as CancellingConnection
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timeout)
      wire.stream.destroy()
      resolve()
    }
    const timeout = setTimeout(finish, cancelTimeoutMs)
    wire.on('connect', () => (ssl ? wire.requestSsl() : wire.cancel(processID, secretKey)))
    wire.on('sslconnect', () => wire.cancel(processID, secretKey))
    wire.on('error', finish)
    wire.on('end', finish)
    if (host.startsWith('/')) wire.connect(`${host}/.s.PGSQL.${port}`)
    else wire.connect(port, host)
  })
}
