import { performance } from 'node:perf_hooks'
import type pg from 'pg'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import { maxParameters } from './postgres-bundle.ts'
import {
  type Call,
  type ConnectionOptions,
  connect,
  newAttempt,
  type Outcome,
  type PostgresConnection,
  resultOf,
} from './postgres-connection.ts'
import { translateDatabaseError } from './postgres-errors.ts'
import {
  type CallContext,
  type Parameter,
  type RawResult,
  type Run,
  type Statement,
  statement,
  type TransactionalDatabase,
} from './statement.ts'
import { StatementCosts } from './statement-costs.ts'

export type DatabaseObservation =
  | { readonly type: 'database-connected'; readonly connections: number }
  | { readonly type: 'database-connection-lost'; readonly reason: string }
  | { readonly type: 'database-connect-failed'; readonly reason: string; readonly retryInMs: number }
  | { readonly type: 'database-queue-full'; readonly waiting: number }

export interface DatabaseOptions {
  /** As for `pg.Client`: host, port, user, password, database, ssl, or a `connectionString`. */
  readonly connection: pg.ClientConfig
  /** Most connections. They are opened as they are needed. Default 10. */
  readonly poolSize?: number
  /** Default 30,000; 0 for none. */
  readonly statementTimeoutMs?: number
  /** Default the connection's own, else `busbar`. */
  readonly applicationName?: string
  /** Largest answer of one statement. Default 64 MiB. */
  readonly maxResultBytes?: number
  /** Most calls that wait for a connection; the next one is refused. Default 2,000. */
  readonly maxWaiting?: number
  /** Longest wait for a connection. Default 10,000. */
  readonly maxWaitMs?: number
  /** Prepared statements kept on a connection. Default 500. */
  readonly maxStatements?: number
  readonly onObservation?: (observation: DatabaseObservation) => void
}

/** Calls in flight on one shared connection. */
const pipelineDepth = 32
/** A connection whose head has run this long is left alone by cheap calls: they would wait behind it. */
const stuckMs = 20
/** Connections cheap calls keep to while those are not busy: fewer, better filled round trips. */
const cheapConnections = 4
const busyDepth = 4
const sweepMs = 250
const graceMs = 5_000
const maxAttempts = 3

/** What waits for a connection. */
interface Waiting {
  readonly use: 'shared' | 'statement' | 'transaction'
  readonly since: number
  /** It no longer waits: its caller went away. */
  readonly settled: boolean
  start(connection: PostgresConnection): void
  fail(error: Error): void
}

/**
 * Opens the first connection and returns the database; the others follow as they are needed.
 * @throws {Unavailable} `data/database-unavailable` with the reason, for the operator who starts the service.
 */
export async function openDatabase(options: DatabaseOptions): Promise<PostgresDatabase> {
  const database = new PostgresDatabase(options)
  await database.start()
  return database
}

/** A pool of pipelined connections: each `run` is one socket write and one implicit transaction. */
export class PostgresDatabase implements TransactionalDatabase, AsyncDisposable {
  readonly #options: Required<Omit<DatabaseOptions, 'connection' | 'onObservation'>>
  readonly #connectionOptions: ConnectionOptions
  readonly #observe: (observation: DatabaseObservation) => void
  readonly #connections: PostgresConnection[] = []
  readonly #cheap: Waiting[] = []
  readonly #heavy: Waiting[] = []
  readonly #costs = new StatementCosts()
  readonly #sweeper: NodeJS.Timeout
  #connecting = 0
  #failures = 0
  #retry: NodeJS.Timeout | null = null
  #closed = false

  constructor(options: DatabaseOptions) {
    const { connection, onObservation, ...given } = options
    const applicationName = connection.application_name ?? 'busbar'
    this.#options = {
      poolSize: 10,
      statementTimeoutMs: 30_000,
      applicationName,
      maxResultBytes: 64 * 1024 * 1024,
      maxWaiting: 2_000,
      maxWaitMs: 10_000,
      maxStatements: 500,
      ...given,
    }
    this.#observe = onObservation ?? (() => undefined)
    const { maxStatements, maxResultBytes } = this.#options
    const session = { application_name: this.#options.applicationName }
    const client = { connectionTimeoutMillis: 5_000, ...connection, ...session }
    this.#connectionOptions = { client, settings: this.#sessionSettings(), maxStatements, maxResultBytes }
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs).unref()
  }

  async start(): Promise<void> {
    try {
      this.#accept(await connect(this.#connectionOptions, this.#events))
    } catch (error) {
      clearInterval(this.#sweeper)
      throw new Unavailable('data/database-unavailable', `The database cannot be reached: ${reasonOf(error)}`, {
        cause: error,
        retryAfterSeconds: 5,
      })
    }
  }

  /** The number of open connections, of calls in flight and of calls waiting. */
  get load(): { readonly connections: number; readonly flying: number; readonly waiting: number } {
    const flying = this.#connections.reduce((sum, connection) => sum + connection.flying, 0)
    return { connections: this.#connections.length, flying, waiting: this.#cheap.length + this.#heavy.length }
  }

  readonly run: Run = (of, parameters, context) =>
    new Promise((resolve, reject) => {
      const refused = refuse(parameters, context) ?? this.#refuseNow()
      if (refused) {
        reject(refused)
        return
      }
      const heavy = !context.readOnly || this.#costs.isHeavy(of.name, context.weight === 'heavy')
      const use = heavy ? 'statement' : 'shared'
      this.#submit(new PooledCall(of, parameters, context, use, this.#settle, resolve, reject))
    })

  async transaction<T>(work: (run: Run) => Promise<T>): Promise<T> {
    const connection = await this.#lease()
    const state = { failed: false }
    const run: Run = (of, parameters, context) =>
      new Promise((resolve, reject) => {
        const refused = refuse(parameters, context)
        if (refused) reject(refused)
        else connection.send(new TransactionCall(of, parameters, context, state, resolve, reject))
      })
    try {
      // Not awaited: it leaves in the same write as the first statement, which fails when this does.
      run(begin, [], writing).catch(() => undefined)
      const result = await work(run)
      if (state.failed) throw new Error('A statement of the transaction failed, so it cannot be committed')
      await run(commit, [], writing)
      return result
    } catch (error) {
      await run(rollback, [], writing).catch((cause: Error) => connection.abandon(cause))
      throw error
    } finally {
      connection.use = 'shared'
      this.#pump(connection)
    }
  }

  /** @throws {Unavailable} when the database does not answer. */
  async ping(): Promise<void> {
    await this.run(alive, [], { readOnly: true })
  }

  /** Takes no more calls, lets those under way finish (up to `graceMs`), closes the connections. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const until = performance.now() + graceMs
    while (this.load.flying + this.load.waiting > 0 && performance.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    clearInterval(this.#sweeper)
    if (this.#retry) clearTimeout(this.#retry)
    this.#failWaiting(unavailable('The service is stopping'))
    await Promise.allSettled(this.#connections.splice(0).map((connection) => connection.end()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #sessionSettings(): Record<string, string> {
    return {
      statement_timeout: String(this.#options.statementTimeoutMs),
      idle_in_transaction_session_timeout: '60000',
      DateStyle: 'ISO, YMD',
      IntervalStyle: 'iso_8601',
      TimeZone: 'UTC',
      bytea_output: 'hex',
      extra_float_digits: '1',
    }
  }

  #refuseNow(): Unavailable | null {
    if (this.#closed) return unavailable('The service is stopping')
    if (this.#connections.length === 0 && this.#failures > 0) return databaseAway(this.#failures)
    return null
  }

  #submit(waiting: Waiting): void {
    if (waiting.settled) return
    const connection = waiting.use === 'shared' ? this.#pickShared() : this.#pickIdle()
    if (connection) {
      if (waiting.use !== 'shared') connection.use = waiting.use
      waiting.start(connection)
      return
    }
    if (this.#cheap.length + this.#heavy.length >= this.#options.maxWaiting) {
      this.#observe({ type: 'database-queue-full', waiting: this.#cheap.length + this.#heavy.length })
      waiting.fail(unavailable('All database connections are busy and too many requests wait for them'))
      return
    }
    const queue = waiting.use === 'shared' ? this.#cheap : this.#heavy
    queue.push(waiting)
    this.#grow()
    if (queue === this.#heavy) this.#reserve()
  }

  #pickShared(): PostgresConnection | null {
    const now = performance.now()
    let best: PostgresConnection | null = null
    for (const [index, connection] of this.#connections.entries()) {
      if (index >= cheapConnections && best && best.flying < busyDepth) break
      if (connection.use !== 'shared' || connection.cancelling) continue
      if (connection.flying >= pipelineDepth || connection.headAgeMs(now) > stuckMs) continue
      if (!best || connection.flying < best.flying) best = connection
    }
    if (best && best.flying > 1 && this.#connections.length < cheapConnections) this.#grow()
    return best
  }

  #pickIdle(): PostgresConnection | null {
    if (this.#heavyUse() >= this.#maxHeavy()) return null
    return this.#connections.findLast(isIdle) ?? null
  }

  /** Connections that cheap calls cannot use now. */
  #heavyUse(): number {
    let count = 0
    for (const connection of this.#connections) if (connection.use !== 'shared') count += 1
    return count
  }

  /** One connection always stays for cheap calls, however many heavy ones there are. */
  #maxHeavy(): number {
    return Math.max(1, this.#options.poolSize - 1)
  }

  /** Keeps the least busy shared connection free for a heavy call when the pool cannot grow. */
  #reserve(): void {
    if (this.#connecting > 0 || this.#connections.length < this.#options.poolSize) return
    if (this.#heavyUse() >= this.#maxHeavy()) return
    const shared = this.#connections.filter((connection) => connection.use === 'shared')
    const least = shared.sort((one, other) => one.flying - other.flying)[0]
    if (least) least.use = 'reserved'
  }

  /** Gives a connection that has room what waits for it. */
  #pump(connection: PostgresConnection): void {
    if (connection.cancelling || !this.#connections.includes(connection)) return
    if (connection.use === 'statement' && connection.flying === 0) connection.use = 'shared'
    if (connection.use === 'statement' || connection.use === 'transaction') return
    if (this.#heavy.length === 0) connection.use = 'shared'
    const mayTakeHeavy = connection.use === 'reserved' || this.#heavyUse() < this.#maxHeavy()
    if (connection.flying === 0 && mayTakeHeavy) {
      const heavy = nextOf(this.#heavy)
      if (heavy && heavy.use !== 'shared') {
        connection.use = heavy.use
        heavy.start(connection)
        return
      }
    }
    if (connection.use === 'reserved') return
    while (this.#cheap.length > 0 && connection.flying < pipelineDepth) nextOf(this.#cheap)?.start(connection)
  }

  readonly #settle = (call: PooledCall, outcome: Outcome): void => {
    if (outcome.kind === 'lost') {
      this.#settleLost(call, outcome.cause)
      return
    }
    const { error, oversized, reused, strayCancel } = call.attempt
    this.#costs.note(call.statement.name, outcome.serviceMs)
    if (oversized) {
      call.reject(tooLarge(call, this.#options.maxResultBytes))
      return
    }
    if (error === null) {
      call.resolve(resultOf(call))
      return
    }
    const stale = error.code === '26000' || (error.code === '0A000' && reused)
    if (stale) outcome.by.forgetStatements()
    const again = stale || (error.code === '57014' && strayCancel)
    // All of these were rolled back by the server, so that writes too may run again.
    if (again && call.attempts < maxAttempts && !call.settled) this.#submit(call)
    else call.reject(translate(call, error))
  }

  /** A read may run again elsewhere; what became of a write cannot be known. */
  #settleLost(call: PooledCall, cause: Error): void {
    if (call.settled) return
    if (!call.context.readOnly) {
      call.reject(outcomeUnknown(cause))
      return
    }
    const refused = call.attempts > 1 ? unavailable('The database connection was lost', cause) : this.#refuseNow()
    if (refused) call.reject(refused)
    else this.#submit(call)
  }

  #lease(): Promise<PostgresConnection> {
    const refused = this.#refuseNow()
    if (refused) return Promise.reject(refused)
    return new Promise((resolve, reject) => {
      this.#submit({ use: 'transaction', since: performance.now(), settled: false, start: resolve, fail: reject })
    })
  }

  readonly #events = {
    onFree: (connection: PostgresConnection) => this.#pump(connection),
    onLost: (connection: PostgresConnection, cause: Error) => {
      const index = this.#connections.indexOf(connection)
      if (index >= 0) this.#connections.splice(index, 1)
      if (this.#closed) return
      this.#observe({ type: 'database-connection-lost', reason: reasonOf(cause) })
      if (this.#cheap.length + this.#heavy.length > 0) this.#grow()
    },
  }

  #accept(connection: PostgresConnection): void {
    this.#failures = 0
    this.#connections.push(connection)
    this.#observe({ type: 'database-connected', connections: this.#connections.length })
    this.#pump(connection)
  }

  #grow(): void {
    if (this.#closed || this.#retry !== null) return
    if (this.#connections.length + this.#connecting >= this.#options.poolSize) return
    if (this.#connecting > this.#heavy.length) return
    this.#connecting += 1
    connect(this.#connectionOptions, this.#events).then(
      (connection) => {
        this.#connecting -= 1
        if (this.#closed) connection.abandon(new Error('The service is stopping'))
        else this.#accept(connection)
      },
      (error: unknown) => {
        this.#connecting -= 1
        this.#connectFailed(error)
      },
    )
  }

  /** With no connection left those who wait are told at once, and it is tried again until it works. */
  #connectFailed(error: unknown): void {
    if (this.#closed) return
    this.#failures += 1
    const retryInMs = backOffMs(this.#failures)
    this.#observe({ type: 'database-connect-failed', reason: reasonOf(error), retryInMs })
    if (this.#connections.length === 0) this.#failWaiting(databaseAway(this.#failures))
    if (this.#retry !== null) return
    this.#retry = setTimeout(() => {
      this.#retry = null
      if (this.#connections.length === 0 || this.#cheap.length + this.#heavy.length > 0) this.#grow()
    }, retryInMs).unref()
  }

  #failWaiting(error: Error): void {
    for (const waiting of [...this.#cheap.splice(0), ...this.#heavy.splice(0)]) waiting.fail(error)
  }

  /** Ends waits that are too long, and connections on which the server no longer keeps its own time-out. */
  #sweep(): void {
    const now = performance.now()
    for (const queue of [this.#cheap, this.#heavy]) {
      while (queue[0] && now - queue[0].since > this.#options.maxWaitMs) {
        queue.shift()?.fail(unavailable('No database connection became free in time'))
      }
    }
    const { statementTimeoutMs } = this.#options
    for (const connection of [...this.#connections]) {
      if (statementTimeoutMs > 0 && connection.headAgeMs(now) > statementTimeoutMs + graceMs) {
        connection.abandon(new Error('The database did not answer in time'))
      } else this.#pump(connection)
    }
  }
}

/** A `run` on the pool: it may wait, and may be sent more than once. */
class PooledCall implements Call, Waiting {
  readonly since = performance.now()
  attempts = 0
  attempt = newAttempt()
  settled = false
  readonly statement: Statement
  readonly parameters: readonly Parameter[]
  readonly context: CallContext
  readonly use: 'shared' | 'statement'
  readonly #signal: AbortSignal | undefined
  readonly #settle: (call: PooledCall, outcome: Outcome) => void
  readonly #resolve: (result: RawResult) => void
  readonly #reject: (error: Error) => void
  #connection: PostgresConnection | null = null

  constructor(
    of: Statement,
    parameters: readonly Parameter[],
    context: CallContext,
    use: 'shared' | 'statement',
    settle: (call: PooledCall, outcome: Outcome) => void,
    resolve: (result: RawResult) => void,
    reject: (error: Error) => void,
  ) {
    this.statement = of
    this.parameters = parameters
    this.context = context
    this.use = use
    const { signal } = context
    this.#signal = signal
    this.#settle = settle
    this.#resolve = resolve
    this.#reject = reject
    signal?.addEventListener('abort', this.#onAbort)
    if (signal?.aborted) this.#onAbort()
  }

  get unprepared(): boolean {
    return this.attempts > 1
  }

  start(connection: PostgresConnection): void {
    this.#connection = connection
    connection.send(this)
  }

  done(outcome: Outcome): void {
    this.#connection = null
    this.#settle(this, outcome)
  }

  resolve(result: RawResult): void {
    if (this.#finish()) this.#resolve(result)
  }

  reject(error: Error): void {
    if (this.#finish()) this.#reject(error)
  }

  fail(error: Error): void {
    this.reject(error)
  }

  #finish(): boolean {
    if (this.settled) return false
    this.settled = true
    this.#signal?.removeEventListener('abort', this.#onAbort)
    return true
  }

  /** A write goes on: its caller cannot know whether it was in time. */
  readonly #onAbort = (): void => {
    if (this.#connection !== null && !this.context.readOnly) return
    const connection = this.#connection
    const { reason } = this.#signal!
    this.reject(reason instanceof Error ? reason : new Error('The caller went away', { cause: reason }))
    if (connection?.use === 'statement' && connection.isHead(this)) void connection.cancelHead()
  }
}

/** A `run` inside an explicit transaction: never sent twice. */
class TransactionCall implements Call {
  readonly unprepared = true
  attempts = 0
  attempt = newAttempt()
  readonly statement: Statement
  readonly parameters: readonly Parameter[]
  readonly context: CallContext
  readonly #state: { failed: boolean }
  readonly #resolve: (result: RawResult) => void
  readonly #reject: (error: Error) => void

  constructor(
    of: Statement,
    parameters: readonly Parameter[],
    context: CallContext,
    state: { failed: boolean },
    resolve: (result: RawResult) => void,
    reject: (error: Error) => void,
  ) {
    this.statement = of
    this.parameters = parameters
    this.context = context
    this.#state = state
    this.#resolve = resolve
    this.#reject = reject
  }

  done(outcome: Outcome): void {
    const { error, oversized, transactionStatus } = this.attempt
    if (transactionStatus === 'E' || oversized) this.#state.failed = true
    if (outcome.kind === 'lost') this.#reject(outcomeUnknown(outcome.cause))
    else if (error) this.#reject(translate(this, error))
    else if (oversized) this.#reject(tooLargeInTransaction())
    else this.#resolve(resultOf(this))
  }
}

const begin = statement('begin')
const commit = statement('commit')
const rollback = statement('rollback')
const alive = statement('select 1')
const writing: CallContext = { readOnly: false }

function nextOf(queue: Waiting[]): Waiting | undefined {
  for (;;) {
    const waiting = queue.shift()
    if (waiting === undefined || !waiting.settled) return waiting
  }
}

function isIdle(connection: PostgresConnection): boolean {
  return connection.use === 'shared' && connection.flying === 0 && !connection.cancelling
}

function refuse(parameters: readonly Parameter[], context: CallContext): Rejected | null {
  if (parameters.length > maxParameters) {
    return new Rejected('data/too-complex', `The request needs more than ${maxParameters} parameters`)
  }
  // To the database `none` is no role but the way back to the login role.
  if (context.role === 'none' || context.role === '') {
    return new Rejected('data/forbidden', `"${context.role}" is not the name of a database role`)
  }
  return null
}

function translate(call: Call, error: NonNullable<Call['attempt']['error']>): Error {
  const { anonymous, role } = call.context
  const takingRole = role !== undefined && call.attempt.completed < call.attempt.prefixes
  return translateDatabaseError(error, { anonymous, takingRole })
}

function unavailable(text: string, cause?: Error): Unavailable {
  return new Unavailable('data/database-unavailable', text, { cause })
}

function databaseAway(failures: number): Unavailable {
  const retryAfterSeconds = Math.max(1, Math.ceil(backOffMs(failures) / 1000))
  return new Unavailable('data/database-unavailable', 'The database cannot be reached now', { retryAfterSeconds })
}

function outcomeUnknown(cause: Error): Unavailable {
  return new Unavailable(
    'data/database-unavailable',
    'The database connection was lost while the write was under way: it may or may not have been done',
    { cause, hint: 'Look before you send it again, or send writes with an Idempotency-Key.' },
  )
}

function tooLarge(call: PooledCall, maxBytes: number): Rejected {
  const limit = `The answer is larger than ${maxBytes} bytes`
  if (call.context.readOnly) {
    return new Rejected('data/too-complex', limit, { hint: 'Ask for fewer rows or columns, page by page.' })
  }
  const became = call.attempt.error ? 'nothing was written' : 'the write itself was done'
  return new Rejected('data/too-complex', `${limit}; ${became}`, { hint: 'Write with Prefer: return=minimal.' })
}

function tooLargeInTransaction(): Rejected {
  return new Rejected('data/too-complex', 'The answer is larger than the limit; nothing was written', {
    hint: 'Write with Prefer: return=minimal.',
  })
}

function backOffMs(failures: number): number {
  return Math.min(5_000, 100 * 2 ** Math.min(failures, 10))
}

function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ')
  return error instanceof Error ? error.message || error.name : String(error)
}
