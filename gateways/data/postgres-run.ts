import type pg from 'pg'
import { type Outcome, resultOf } from './postgres-attempt.ts'
import { PooledCall, TransactionCall } from './postgres-call.ts'
import { outcomeUnknown, refuse, tooLarge, translate, unavailable } from './postgres-failures.ts'
import { type DatabaseObservation, PostgresPool } from './postgres-pool.ts'
import { type CallContext, type Run, statement, type TransactionalDatabase } from './statement.ts'
import { StatementCosts } from './statement-costs.ts'

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
  readonly #pool: PostgresPool
  readonly #maxResultBytes: number
  readonly #costs = new StatementCosts()

  constructor(options: DatabaseOptions) {
    const { connection, onObservation, ...given } = options
    const applicationName = connection.application_name ?? 'busbar'
    const all = {
      poolSize: 10,
      statementTimeoutMs: 30_000,
      applicationName,
      maxResultBytes: 64 * 1024 * 1024,
      maxWaiting: 2_000,
      maxWaitMs: 10_000,
      maxStatements: 500,
      ...given,
    }
    const { maxStatements, maxResultBytes } = all
    const session = { application_name: all.applicationName }
    const client = { connectionTimeoutMillis: 5_000, ...connection, ...session }
    this.#maxResultBytes = maxResultBytes
    this.#pool = new PostgresPool({
      ...all,
      connection: { client, settings: sessionSettings(all.statementTimeoutMs), maxStatements, maxResultBytes },
      observe: onObservation ?? (() => undefined),
    })
  }

  /** Use `openDatabase`. */
  async start(): Promise<void> {
    await this.#pool.start()
  }

  /** The number of open connections, of calls in flight and of calls waiting. */
  get load(): PostgresPool['load'] {
    return this.#pool.load
  }

  readonly run: Run = (of, parameters, context) =>
    new Promise((resolve, reject) => {
      const refused = refuse(parameters, context) ?? this.#pool.refusal()
      if (refused) {
        reject(refused)
        return
      }
      const weight = this.#costs.weightOf(of.name, context.weight ?? 'cheap')
      const own = context.readOnly || weight !== 'cheap' ? weight : 'medium'
      this.#pool.submit(new PooledCall(of, parameters, context, own, this.#settle, resolve, reject))
    })

  async transaction<T>(work: (run: Run) => Promise<T>): Promise<T> {
    const connection = await this.#pool.lease()
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
      this.#pool.giveBack(connection)
    }
  }

  /** @throws {Unavailable} when the database does not answer. */
  async ping(): Promise<void> {
    await this.run(alive, [], { readOnly: true })
  }

  /** Takes no more calls, lets those under way finish for some seconds, closes the connections. */
  async close(): Promise<void> {
    await this.#pool.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  readonly #settle = (call: PooledCall, outcome: Outcome): void => {
    if (outcome.kind === 'lost') {
      this.#settleLost(call, outcome.cause)
      return
    }
    const { error, oversized, reused, strayCancel } = call.attempt
    this.#costs.note(call.statement.name, outcome.serviceMs)
    if (oversized) {
      call.reject(tooLarge(call, this.#maxResultBytes))
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
    if (again && call.attempts < maxAttempts && !call.settled) this.#pool.submit(call)
    else call.reject(translate(call, error))
  }

  /** A read may run again elsewhere; what became of a write cannot be known. */
  #settleLost(call: PooledCall, cause: Error): void {
    if (call.settled) return
    if (!call.context.readOnly) {
      call.reject(outcomeUnknown(cause))
      return
    }
    const refused = call.attempts > 1 ? unavailable('The database connection was lost', cause) : this.#pool.refusal()
    if (refused) call.reject(refused)
    else this.#pool.submit(call)
  }
}

const begin = statement('begin')
const commit = statement('commit')
const rollback = statement('rollback')
const alive = statement('select 1')
const writing: CallContext = { readOnly: false }

function sessionSettings(statementTimeoutMs: number): Record<string, string> {
  return {
    statement_timeout: String(statementTimeoutMs),
    idle_in_transaction_session_timeout: '60000',
    DateStyle: 'ISO, YMD',
    IntervalStyle: 'iso_8601',
    TimeZone: 'UTC',
    bytea_output: 'hex',
    extra_float_digits: '1',
  }
}
