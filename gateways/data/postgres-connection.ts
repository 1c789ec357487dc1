import { performance } from 'node:perf_hooks'
import pg from 'pg'
import type { DatabaseError } from 'pg-protocol/dist/messages.js'
import { type Attempt, type Call, newAttempt } from './postgres-attempt.ts'
import { BundleWriter } from './postgres-bundle.ts'
import { newWire, requestCancel } from './postgres-client.ts'
import { contextStatementOf, emitCommand, statementName } from './postgres-context.ts'
import type { WireConnection, WireReceiver } from './postgres-wire.ts'
import type { Parameter, RawRow, Statement } from './statement.ts'

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
    const contextStatement = contextStatementOf(context, contextParameters)
    if (contextStatement !== null) this.#addPrefix(attempt, contextStatement, contextParameters)
    if (call.unprepared) {
      writer.parse('', call.statement.text)
      attempt.preparing = [...attempt.preparing, '']
      writer.bind('', call.parameters)
    } else {
      const name = statementName(call.statement, context.role)
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
