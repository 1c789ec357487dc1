import type { ConnectionOptions, Pool, PoolConnection } from 'mysql2/promise'
import { createConnection, createPool } from 'mysql2/promise'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import { type BoundStatement, bindStep } from './mysql-bind.ts'
import { isLost, type MysqlError, translateMysqlError } from './mysql-errors.ts'
import { mysqlChanges } from './mysql-operand.ts'
import type { Flavour } from './mysql-sql.ts'
import type { MysqlStatement, Step } from './mysql-statement.ts'
import { outcomeUnknown, reasonOf, unavailable } from './postgres-failures.ts'
import type { CallContext, Parameter, RawResult, RawRow, Run, Statement, TransactionalDatabase } from './statement.ts'

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
  readonly onObservation?: (observation: MysqlObservation) => void
}

const maxAttempts = 2

/**
 * Opens the first connection and returns the database; the others follow as they are needed.
 * @throws {Unavailable} `data/database-unavailable` with the reason, for the operator who starts the service.
 */
export async function openMysql(options: MysqlOptions): Promise<MysqlDatabase> {
  try {
    const connection = await createConnection({ ...options.connection, connectTimeout: 5_000 })
    const flavour = await flavourOf(connection).finally(() => connection.destroy())
    const database = new MysqlDatabase(options, flavour)
    await database.ping()
    return database
  } catch (error) {
    throw new Unavailable('data/database-unavailable', `The database cannot be reached: ${reasonOf(error)}`, {
      cause: error,
      retryAfterSeconds: 5,
    })
  }
}

async function flavourOf(connection: { query(text: string): Promise<unknown> }): Promise<Flavour> {
  const [rows] = (await connection.query('select version() as version')) as [{ version: string }[]]
  const version = rows[0]?.version ?? ''
  const isMariadb = /mariadb/i.test(version)
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const least = isMariadb ? [10, 7] : [8, 0]
  if (major > least[0]! || (major === least[0] && minor >= least[1]!)) return isMariadb ? 'mariadb' : 'mysql'
  throw new Error(`${version} is too old: MariaDB 10.7 or MySQL 8.0 is the least`)
}

/** A pool of connections; each `run` is one statement of the server's own, or a few in one transaction. */
export class MysqlDatabase implements TransactionalDatabase, AsyncDisposable {
  readonly flavour: Flavour
  readonly changes = mysqlChanges
  readonly #pool: Pool
  readonly #options: Required<Omit<MysqlOptions, 'onObservation'>>
  readonly #observe: (observation: MysqlObservation) => void
  #waiting = 0
  #open = 0
  #closed = false

  /** Use `openMysql`. */
  constructor({ onObservation, ...given }: MysqlOptions, flavour: Flavour) {
    this.flavour = flavour
    this.#options = { poolSize: 10, statementTimeoutMs: 30_000, maxWaiting: 2_000, maxWaitMs: 10_000, ...given }
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
    const settings = `set session ${this.#settings().join(', ')}`
    this.#pool.on('connection', (connection) => {
      this.#open += 1
      this.#observe({ type: 'database-connected', connections: this.#open })
      // The first in the connection's queue: what comes behind it runs under these settings.
      const own = connection as unknown as {
        query(text: string, done: (error: Error | null) => void): void
        destroy(): void
      }
      own.query(settings, (error) => {
        if (error !== null) own.destroy()
      })
      connection.on('error', (error: Error) =>
        this.#observe({ type: 'database-connection-lost', reason: reasonOf(error) }),
      )
      connection.on('end', () => {
        this.#open -= 1
      })
    })
  }

  readonly run: Run = async (of, parameters, context) => {
    refuseRole(context)
    const { steps } = mysqlOf(of)
    for (let attempt = 1; ; attempt++) {
      const connection = await this.#lease(context.signal)
      try {
        const result = await this.#watched(connection, context, () =>
          steps.length === 1 && isSingle(steps[0]!)
            ? runSteps(connection, steps, parameters, context)
            : inTransaction(connection, () => runSteps(connection, steps, parameters, context)),
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
    try {
      const result = await inTransaction(connection, () =>
        work((of, parameters, context) => {
          refuseRole(context)
          return runSteps(connection, mysqlOf(of).steps, parameters, context).catch((error: unknown) => {
            throw failureOf(error, context)
          })
        }),
      )
      connection.release()
      return result
    } catch (error) {
      connection.destroy()
      throw error instanceof Rejected || error instanceof Unavailable ? error : failureOf(error, { readOnly: false })
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

  #settings(): string[] {
    const { statementTimeoutMs } = this.#options
    const limit =
      this.flavour === 'mariadb'
        ? `max_statement_time = ${statementTimeoutMs / 1000}`
        : `max_execution_time = ${statementTimeoutMs}`
    return [
      limit,
      "time_zone = '+00:00'",
      "sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
      // A list that is larger is not cut but refused, since the server makes no text of this size.
      'group_concat_max_len = 4294967295',
      'div_precision_increment = 16',
      'innodb_lock_wait_timeout = 10',
    ]
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

  /** Ends the statement when the caller leaves, and, where the server has no limit for writes, when it takes too long. */
  async #watched(connection: PoolConnection, context: CallContext, work: () => Promise<RawResult>): Promise<RawResult> {
    const { signal, readOnly } = context
    const { statementTimeoutMs } = this.#options
    let ended = false
    const kill = () => {
      if (!ended) void this.#kill(connection.threadId)
    }
    const timed = !readOnly && this.flavour === 'mysql' && statementTimeoutMs > 0
    const timer = timed ? setTimeout(kill, statementTimeoutMs) : undefined
    if (readOnly) signal?.addEventListener('abort', kill, { once: true })
    try {
      return await work()
    } finally {
      ended = true
      clearTimeout(timer)
      signal?.removeEventListener('abort', kill)
    }
  }

  async #kill(threadId: number | null): Promise<void> {
    if (threadId === null) return
    try {
      const connection = await createConnection({ ...this.#options.connection, connectTimeout: 5_000 })
      try {
        await connection.query(`kill query ${Number(threadId)}`)
      } finally {
        connection.destroy()
      }
    } catch {
      // The statement has ended by itself, or will at its limit.
    }
  }
}

function mysqlOf(statement: Statement): MysqlStatement {
  if (!('steps' in statement)) throw new Error('The statement was made for another database')
  return statement as MysqlStatement
}

/** A step of rows may become several statements. */
function isSingle({ pieces }: Step): boolean {
  return !pieces.some((piece) => typeof piece === 'object' && piece.kind === 'rows' && piece.rows.many)
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

async function runSteps(
  connection: PoolConnection,
  steps: readonly Step[],
  parameters: readonly Parameter[],
  context: CallContext,
): Promise<RawResult> {
  const rows: RawRow[] = []
  let written: RawRow[] = []
  for (const [index, step] of steps.entries()) {
    const found: RawRow[] = []
    for (const bound of bindStep(step, parameters, written)) {
      const command = step.writes ? context.command : undefined
      const some =
        command === undefined ? await execute(connection, bound) : await executeOnce(connection, bound, command)
      if (step.returns) for (const row of some) found.push(row)
    }
    const feeds =
      steps[index + 1]?.pieces.some((piece) => typeof piece === 'object' && piece.kind === 'written') === true
    if (feeds) written = found
    else rows.push(...(written.length > 0 && found.length > 0 ? inOrderOf(written, found) : found))
    if (!feeds) written = []
  }
  for (const row of rows) {
    if (row[0] === null && (row[2] === undefined || row[2] === null)) throw tooLarge()
  }
  return { rows, rowCount: rows.length }
}

/** Rows that were read by their keys, in the order of these. */
function inOrderOf(written: readonly RawRow[], found: readonly RawRow[]): RawRow[] {
  const byKey = new Map(found.map((row) => [row[1]?.toString(), row]))
  return written.map((row) => byKey.get(row[1]?.toString())).filter((row) => row !== undefined)
}

function tooLarge(): Rejected {
  return new Rejected('data/too-complex', 'A row with what hangs on it is larger than the database makes texts', {
    hint: 'Ask for fewer rows of its relations.',
  })
}

const asBytes = (field: { buffer(): Buffer | null }) => field.buffer()

async function execute(connection: PoolConnection, { text, values }: BoundStatement): Promise<RawRow[]> {
  const [rows] = (await connection.execute({ sql: text, rowsAsArray: true, typeCast: asBytes }, [...values])) as [
    unknown,
    unknown,
  ]
  return Array.isArray(rows) ? (rows as RawRow[]) : []
}

/** The command is in the text, so that the text never comes again. */
async function executeOnce(
  connection: PoolConnection,
  { text, values }: BoundStatement,
  command: string,
): Promise<RawRow[]> {
  const [verb = ''] = text.split(' ', 1)
  const comment = `/*busbar.command:${Buffer.from(command).toString('base64url')}*/`
  const sql = `${verb} ${comment}${text.slice(verb.length)}`
  try {
    return await execute(connection, { text: sql, values })
  } finally {
    connection.unprepare({ sql, rowsAsArray: true, typeCast: asBytes } as never)
  }
}

function refuseRole({ role }: CallContext): void {
  if (role === undefined) return
  throw new Rejected('data/forbidden', 'Roles of tokens are not served for MySQL: its roles take no rights away', {
    hint: 'Leave jwt.anonymous-role empty and the role claim out of tokens.',
  })
}

function failureOf(error: unknown, { readOnly }: Pick<CallContext, 'readOnly'>): Error {
  if (error instanceof Rejected || error instanceof Unavailable) return error
  const failure = error as MysqlError & Error
  if (!isLost(failure)) return translateMysqlError(failure)
  return readOnly ? unavailable('The database connection was lost', failure) : outcomeUnknown(failure)
}
