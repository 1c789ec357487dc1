import { performance } from 'node:perf_hooks'
import type pg from 'pg'
import { Unavailable } from '../../schemas/failure.ts'
import { PooledCall, TransactionCall, type Waiting } from './postgres-call.ts'
import {
  type ConnectionOptions,
  connect,
  type Outcome,
  type PostgresConnection,
  resultOf,
} from './postgres-connection.ts'
import {
  backOffMs,
  databaseAway,
  outcomeUnknown,
  reasonOf,
  refuse,
  tooLarge,
  translate,
  unavailable,
} from './postgres-failures.ts'
import { type CallContext, type Run, statement, type TransactionalDatabase } from './statement.ts'
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
const cheapConnections = 2
const busyDepth = 4
const sweepMs = 250
const graceMs = 5_000
const maxAttempts = 3

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
  /** Connections with a slow call. */
  readonly #slow = new Set<PostgresConnection>()
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
      const weight = this.#costs.weightOf(of.name, context.weight ?? 'cheap')
      const own = context.readOnly || weight !== 'cheap' ? weight : 'medium'
      this.#submit(new PooledCall(of, parameters, context, own, this.#settle, resolve, reject))
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
    const connection = waiting.use === 'shared' ? this.#pickShared() : this.#pickIdle(waiting)
    if (connection) {
      if (waiting.use === 'shared') waiting.start(connection)
      else this.#startAlone(waiting, connection)
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

  #pickIdle(waiting: Waiting): PostgresConnection | null {
    if (this.#heavyUse() >= this.#maxHeavy() || !this.#maySlow(waiting)) return null
    return this.#connections.findLast(isIdle) ?? null
  }

  #startAlone(waiting: Waiting, connection: PostgresConnection): void {
    if (waiting.use === 'shared') throw new Error('a call that shares its connection has none of its own')
    connection.use = waiting.use
    if (waiting.slow) this.#slow.add(connection)
    waiting.start(connection)
  }

  /** Slow calls leave a connection to those that only must not share one. */
  #maySlow({ slow }: Waiting): boolean {
    return !slow || this.#slow.size < Math.max(1, this.#options.poolSize - 2)
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
    const canGrow = this.#retry === null && this.#connections.length < this.#options.poolSize
    if (this.#connecting > 0 || canGrow) return
    if (this.#heavyUse() >= this.#maxHeavy()) return
    const shared = this.#connections.filter((connection) => connection.use === 'shared')
    const least = shared.sort((one, other) => one.flying - other.flying)[0]
    if (least) least.use = 'reserved'
  }

  /** Gives a connection that has room what waits for it. */
  #pump(connection: PostgresConnection): void {
    if (connection.cancelling || !this.#connections.includes(connection)) return
    if (connection.flying === 0) this.#slow.delete(connection)
    if (connection.use === 'statement' && connection.flying === 0) connection.use = 'shared'
    if (connection.use === 'statement' || connection.use === 'transaction') return
    if (this.#heavy.length === 0) connection.use = 'shared'
    const mayTakeHeavy = connection.use === 'reserved' || this.#heavyUse() < this.#maxHeavy()
    if (connection.flying === 0 && mayTakeHeavy) {
      const heavy = nextOf(this.#heavy, (waiting) => this.#maySlow(waiting))
      if (heavy) {
        this.#startAlone(heavy, connection)
        return
      }
    }
    if (connection.use === 'reserved' && connection.flying > 0) return
    // Those it was kept for may not start yet.
    connection.use = 'shared'
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
      this.#submit({
        use: 'transaction',
        slow: false,
        since: performance.now(),
        settled: false,
        start: resolve,
        fail: reject,
      })
    })
  }

  readonly #events = {
    onFree: (connection: PostgresConnection) => this.#pump(connection),
    onLost: (connection: PostgresConnection, cause: Error) => {
      const index = this.#connections.indexOf(connection)
      if (index >= 0) this.#connections.splice(index, 1)
      this.#slow.delete(connection)
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

const begin = statement('begin')
const commit = statement('commit')
const rollback = statement('rollback')
const alive = statement('select 1')
const writing: CallContext = { readOnly: false }

/** Takes the first that still waits, and may start, out of the queue. */
function nextOf(queue: Waiting[], mayStart: (waiting: Waiting) => boolean = () => true): Waiting | undefined {
  while (queue[0]?.settled) queue.shift()
  const index = queue.findIndex((waiting) => !waiting.settled && mayStart(waiting))
  return index < 0 ? undefined : queue.splice(index, 1)[0]
}

function isIdle(connection: PostgresConnection): boolean {
  return connection.use === 'shared' && connection.flying === 0 && !connection.cancelling
}
