import type { ConnectionOptions, Pool, PoolConnection } from 'mysql2/promise'
import { createPool } from 'mysql2/promise'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import { isLost, type MysqlError, translateMysqlError } from './mysql-errors.ts'
import { mysqlKeys } from './mysql-keys.ts'
import { killable } from './mysql-kill.ts'
import { mysqlChanges } from './mysql-operand.ts'
import { inRole, type RoleService } from './mysql-roles.ts'
import { sessionSettings } from './mysql-session.ts'
import type { Flavour } from './mysql-sql.ts'
import type { MysqlStatement } from './mysql-statement.ts'
import { isSingle, runSteps } from './mysql-steps.ts'
import { outcomeUnknown, reasonOf, unavailable } from './postgres-failures.ts'
import type { CallContext, RawResult, Run, Statement, TransactionalDatabase } from './statement.ts'

/** As for `mysql2`. */
export type MysqlConnection = ConnectionOptions

type MysqlObservation =
  | { readonly type: 'database-connected'; readonly connections: number }
  | { readonly type: 'database-connection-lost'; readonly reason: string }
  | { readonly type: 'database-queue-full'; readonly waiting: number }

export interface MysqlOptions {
  readonly connection: MysqlConnection
  /** Most connections. They are opened as they are needed. Default 10. */
  readonly poolSize?: number
  /** Default 30,000; 0 for none. */
  readonly statementTimeoutMs?: number
  /** Most calls that wait for a connection; the next one is refused. Default 2,000. */
  readonly maxWaiting?: number
  /** Longest wait for a connection. Default 10,000. */
  readonly maxWaitMs?: number
  /** Whether the log of a MySQL shall have the texts of writes, for the commands in them. Default false. */
  readonly logTexts?: boolean
  readonly onObservation?: (observation: MysqlObservation) => void
}

const maxAttempts = 2

/** What is known of a server once it has answered. */
export interface MysqlServer {
  readonly flavour: Flavour
  readonly roles: RoleService
}

/** A pool of connections; each `run` is one statement of the server's own, or a few in one transaction. */
export class MysqlDatabase implements TransactionalDatabase, AsyncDisposable {
  readonly flavour: Flavour
  readonly changes = mysqlChanges
  readonly keys = mysqlKeys
  readonly #pool: Pool
  readonly #roles: RoleService
  readonly #options: Required<Omit<MysqlOptions, 'onObservation'>>
  readonly #observe: (observation: MysqlObservation) => void
  #waiting = 0
  #open = 0
  #closed = false

  /** Use `openMysql`. */
  constructor({ onObservation, ...given }: MysqlOptions, { flavour, roles }: MysqlServer) {
    this.flavour = flavour
    this.#roles = roles
    const defaults = { poolSize: 10, statementTimeoutMs: 30_000, maxWaiting: 2_000, maxWaitMs: 10_000, logTexts: false }
    this.#options = { ...defaults, ...given }
    this.#observe = onObservation ?? (() => undefined)
    this.#pool = createPool({
      ...this.#options.connection,
      connectionLimit: this.#options.poolSize,
      connectTimeout: 5_000,
      maxPreparedStatements: 500,
      charset: 'utf8mb4',
      timezone: 'Z',
      multipleStatements: false,
    })
    this.#pool.on('connection', (connection) => {
      this.#open += 1
      this.#observe({ type: 'database-connected', connections: this.#open })
      // The first in the connection's queue: what comes behind it runs under these settings.
      const own = connection as unknown as {
        query(text: string, done: (error: Error | null) => void): void
        destroy(): void
      }
      for (const { text, needed } of sessionSettings(flavour, this.#options)) {
        own.query(text, (error) => {
          if (error !== null && needed) own.destroy()
        })
      }
      connection.on('error', (error: Error) =>
        this.#observe({ type: 'database-connection-lost', reason: reasonOf(error) }),
      )
      connection.on('end', () => {
        this.#open -= 1
      })
    })
  }

  readonly run: Run = async (of, parameters, context) => {
    const { steps } = mysqlOf(of)
    const refused = this.#roles.refusal(context.role)
    if (refused !== null) throw refused
    for (let attempt = 1; ; attempt++) {
      const connection = await this.#lease(context.signal)
      try {
        const work = () => runSteps(connection, steps, parameters, context)
        const result = await this.#watched(connection, context, () =>
          inRole(connection, this.#roles, context, () => (isSingle(steps) ? work() : inTransaction(connection, work))),
        )
        connection.release()
        return result
      } catch (error) {
        const wasLost = isLost(error as MysqlError)
        if (wasLost) connection.destroy()
        else connection.release()
        // A read may run again elsewhere; what became of a write cannot be known.
        if (wasLost && context.readOnly && attempt < maxAttempts) continue
        throw failureOf(error, context)
      }
    }
  }

  async transaction<T>(work: (run: Run) => Promise<T>): Promise<T> {
    const connection = await this.#lease(undefined)
    // One after the other, so that nothing runs in the role of what runs beside it.
    let before: Promise<unknown> = Promise.resolve()
    const run: Run = (of, parameters, context) => {
      const refused = this.#roles.refusal(context.role)
      if (refused !== null) return Promise.reject(refused)
      const mine = before.then(() =>
        this.#watched(connection, context, () =>
          inRole(connection, this.#roles, context, () => runSteps(connection, mysqlOf(of).steps, parameters, context)),
        ).catch((error: unknown) => {
          throw failureOf(error, context)
        }),
      )
      before = mine.catch(() => undefined)
      return mine
    }
    try {
      const result = await inTransaction(connection, () => work(run))
      connection.release()
      return result
    } catch (error) {
      const failure = error as MysqlError & Error
      if (isLost(failure)) connection.destroy()
      else connection.release()
      // What the work itself throws is its own.
      throw failure.errno === undefined && !isLost(failure) ? error : failureOf(failure, { readOnly: false })
    }
  }

  /** @throws {Unavailable} when the database does not answer. */
  async ping(): Promise<void> {
    const connection = await this.#lease(undefined)
    try {
      await connection.query('select 1')
      connection.release()
    } catch (error) {
      connection.destroy()
      throw unavailable('The database does not answer', error as Error)
    }
  }

  /** Takes no more calls and closes the connections; calls under way finish before. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#pool.end().catch(() => undefined)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #lease(signal: AbortSignal | undefined): Promise<PoolConnection> {
    if (this.#closed) throw unavailable('The service is stopping')
    signal?.throwIfAborted()
    if (this.#waiting >= this.#options.maxWaiting) {
      this.#observe({ type: 'database-queue-full', waiting: this.#waiting })
      throw unavailable('All database connections are busy and too many requests wait for them')
    }
    this.#waiting += 1
    const late = Promise.withResolvers<never>()
    const timer = setTimeout(
      () => late.reject(unavailable('All database connections are busy')),
      this.#options.maxWaitMs,
    )
    const leaving = () => late.reject(signal?.reason)
    signal?.addEventListener('abort', leaving, { once: true })
    const coming = this.#pool.getConnection()
    try {
      return await Promise.race([coming, late.promise])
    } catch (error) {
      coming.then((connection) => connection.release()).catch(() => undefined)
      if (error instanceof Unavailable || signal?.aborted === true) throw error
      throw unavailable('The database cannot be reached now', error as Error)
    } finally {
      this.#waiting -= 1
      clearTimeout(timer)
      signal?.removeEventListener('abort', leaving)
    }
  }

  #watched(connection: PoolConnection, context: CallContext, work: () => Promise<RawResult>): Promise<RawResult> {
    const { connection: to, statementTimeoutMs } = this.#options
    // MariaDB ends all statements at the session's limit, MySQL reads.
    const writeLimitMs = this.flavour.server === 'mysql' ? statementTimeoutMs : 0
    return killable(connection, context, { connection: to, writeLimitMs }, work)
  }
}

function mysqlOf(statement: Statement): MysqlStatement {
  if (!('steps' in statement)) throw new Error('The statement was made for another database')
  return statement as MysqlStatement
}

async function inTransaction<T>(connection: PoolConnection, work: () => Promise<T>): Promise<T> {
  await connection.query('start transaction')
  try {
    const result = await work()
    await connection.query('commit')
    return result
  } catch (error) {
    if (!isLost(error as MysqlError)) await connection.query('rollback').catch(() => connection.destroy())
    throw error
  }
}

function failureOf(error: unknown, { readOnly, anonymous }: Pick<CallContext, 'readOnly' | 'anonymous'>): Error {
  if (error instanceof Rejected || error instanceof Unavailable) return error
  const failure = error as MysqlError & Error
  if (!isLost(failure)) return translateMysqlError(failure, { anonymous })
  return readOnly ? unavailable('The database connection was lost', failure) : outcomeUnknown(failure)
}
