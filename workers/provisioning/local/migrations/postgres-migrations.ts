import type { Client } from 'pg'
import { CareFailure, refuse } from '../care-failure.ts'
import type { PostgresNode } from '../postgres-node.ts'
import { sqlState, withSession } from '../postgres-session.ts'
import {
  beginMigration,
  type MigrationBegun,
  type MigrationRecord,
  type MigrationRequest,
  type MigrationUser,
  migrationColumns,
  readMigration,
  recorder,
} from './migration.ts'
import { leadingWords, splitPostgresSql } from './split-sql.ts'

/** In the instance's own database, owned by its user: it goes along with backups, clones and restores. */
const history = 'platform.migrations'
const lockKey = 7_215_007
/** A migration that waits for a lock holds up everybody behind it. */
const lockTimeoutMs = 10_000

const makeHistory = `
  create schema if not exists platform;
  create table if not exists ${history} (
    id text primary key, "projectId" text not null, version text not null, name text not null, description text,
    sql text not null, status text not null check (status in ('APPLIED', 'FAILED')), "appliedAt" timestamptz not null,
    "executionTimeMs" integer not null, "errorMessage" text, "errorCode" text, checksum text not null,
    sha256 text not null, output text not null
  );
  create unique index if not exists migrations_applied on ${history} (version) where status = 'APPLIED'`

/**
 * Runs a migration as the instance's own user, with that user's rights only: in one transaction with its record, applied whole
 * or not at all; one at a time. SQL whose first line is `-- no-transaction` runs statement by statement instead, for what
 * cannot be in a transaction (CREATE INDEX CONCURRENTLY). A failure of the SQL is an answer (status FAILED, with the server's
 * message). The same SQL under an applied version is answered with the record of the first time.
 *
 * @throws {CareFailure} `refused`: 400 for a bad field or transaction control in the SQL, 409 for other SQL under an applied
 *   version or while another migration runs; `unavailable` when the server does not answer.
 */
export async function applyMigration(
  node: PostgresNode,
  user: MigrationUser,
  request: MigrationRequest,
): Promise<MigrationRecord> {
  const migration = readMigration(request)
  const transactional = !/^\s*--\s*no-transaction\b/i.test(migration.sql)
  const statements = splitPostgresSql(migration.sql)
  if (statements.length === 0) refuse('sql has no statement.', { field: 'sql' })
  refuseTransactionControl(statements)
  return withSession(
    node,
    async (client) => {
      await takeLock(client)
      await client.query(makeHistory)
      const found = beginMigration(await readRecords(client), migration)
      if ('applied' in found) return found.applied
      const { timeoutMs } = migration
      const plan = { begun: found.begun, statements, transactional, timeoutMs }
      return runLimited(node, client, timeoutMs, () => run(client, plan))
    },
    { user, applicationName: 'busbar migrations', statementTimeoutMs: 0 },
  )
}

/** Of the session: the server frees it when this process dies. */
async function takeLock(client: Client): Promise<void> {
  const { rows } = await client.query<{ got: boolean }>('select pg_try_advisory_lock($1) as got', [lockKey])
  if (!rows[0]!.got) refuse('Another migration of this instance is running.', { status: 409 })
}

function refuseTransactionControl(statements: readonly string[]): void {
  for (const statement of statements) {
    const [first = '', second = ''] = leadingWords(statement, 2)
    const control = ['BEGIN', 'START', 'COMMIT', 'END', 'ABORT'].includes(first)
    if (control || (first === 'ROLLBACK' && second !== 'TO') || (first === 'PREPARE' && second === 'TRANSACTION')) {
      refuse(`sql must not have ${first}: a migration is one transaction already.`, { field: 'sql' })
    }
  }
}

/** The time limit of the whole: the user's SQL could change the session's own. */
async function runLimited<T>(
  node: PostgresNode,
  client: Client,
  timeoutMs: number,
  work: () => Promise<T>,
): Promise<T> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  const timer = setTimeout(() => {
    void withSession(node, (session) => session.query('select pg_cancel_backend($1)', [rows[0]!.pid])).catch(
      () => undefined,
    )
  }, timeoutMs)
  try {
    return await work()
  } finally {
    clearTimeout(timer)
  }
}

interface Plan {
  readonly begun: MigrationBegun
  readonly statements: readonly string[]
  readonly transactional: boolean
  readonly timeoutMs: number
}

async function run(client: Client, plan: Plan): Promise<MigrationRecord> {
  const lines: string[] = []
  const record = recorder(plan.begun, lines)
  await client.query(`set lock_timeout = ${lockTimeoutMs}`)
  if (plan.transactional) await client.query('begin')
  try {
    for (const statement of plan.statements) lines.push(await runStatement(client, statement))
    // The user's SQL may have changed who it is and what it waits for.
    await client.query('reset role; reset statement_timeout')
    const applied = record(null)
    await insertRecord(client, applied)
    if (plan.transactional) await client.query('commit')
    return applied
  } catch (error) {
    if (sqlState(error) === undefined) throw new CareFailure('unavailable', 'The database server ended the migration.', { cause: error }) // biome-ignore format: one sentence
    if (plan.transactional) await client.query('rollback')
    await client.query('reset role; reset session authorization; reset statement_timeout')
    const failed = record(describe(error as DatabaseFailure, plan, lines.length))
    await insertRecord(client, failed)
    return failed
  }
}

async function runStatement(client: Client, statement: string): Promise<string> {
  const { command, rowCount } = await client.query(statement)
  return rowCount === null ? command : `${command} ${rowCount}`
}

interface DatabaseFailure {
  readonly message: string
  readonly code: string
  readonly detail?: string
  readonly hint?: string
}

function describe({ message, code, detail, hint }: DatabaseFailure, plan: Plan, done: number) {
  const where = plan.statements.length > 1 ? `statement ${done + 1} of ${plan.statements.length}: ` : ''
  const kept = !plan.transactional && done > 0 ? ` The ${done} before it are applied: this SQL runs without a transaction.` : '' // biome-ignore format: one sentence
  const advice = code === '25001' ? ' Begin the SQL with the line "-- no-transaction" to run it without one.' : ''
  const late = code === '57014' ? ` (the time limit is ${plan.timeoutMs} ms)` : ''
  const more = [detail, hint].filter((text) => text !== undefined).map((text) => ` ${text}`).join('') // biome-ignore format: one chain
  return { message: `${where}${message}${late}${more}.${advice}${kept}`.replace(/\.\.(?= |$)/, '.'), code }
}

async function insertRecord(client: Client, record: MigrationRecord): Promise<void> {
  const names = migrationColumns.map((name) => `"${name}"`).join(', ')
  const marks = migrationColumns.map((_, index) => `$${index + 1}`).join(', ')
  const values = migrationColumns.map((name) => record[name])
  await client.query(`insert into ${history} (${names}) values (${marks})`, values)
}

/** Oldest first; read as the user, since the table is the user's. */
export async function listMigrations(node: PostgresNode, user: MigrationUser): Promise<readonly MigrationRecord[]> {
  return withSession(node, readRecords, { user })
}

async function readRecords(client: Client): Promise<readonly MigrationRecord[]> {
  try {
    const { rows } = await client.query<Omit<MigrationRecord, 'appliedAt'> & { appliedAt: Date }>(
      `select ${migrationColumns.map((name) => `"${name}"`).join(', ')} from ${history} order by "appliedAt", id limit 10000`,
    )
    return rows.map((row) => ({ ...row, appliedAt: row.appliedAt.toISOString() }))
  } catch (error) {
    // No migration yet: neither schema nor table.
    if (['42P01', '3F000'].includes(sqlState(error) ?? '')) return []
    throw error
  }
}
