import type { Connection } from 'mysql2/promise'
import { CareFailure, refuse } from '../care-failure.ts'
import {
  beginMigration,
  type MigrationBegun,
  type MigrationRecord,
  type MigrationRequest,
  type MigrationUser,
  migrationColumns,
  readMigration,
  recorder,
} from '../migrations/migration.ts'
import type { MysqlNode } from './mysql-node.ts'
import { rowsOf, serverError, withMysql } from './mysql-session.ts'
import { splitMysqlSql, withoutMysqlComments } from './split-mysql-sql.ts'

/** In the instance's own database: it goes along with backups, clones and restores. */
const history = 'platform_migrations'
const lockWaitSeconds = 10

const makeHistory = `
  create table if not exists ${history} (
    id varchar(64) primary key, projectId varchar(100) not null, version varchar(64) not null, name varchar(200) not null,
    description text, \`sql\` mediumtext not null, status enum('APPLIED', 'FAILED') not null, appliedAt datetime(3) not null,
    executionTimeMs int not null, errorMessage text, errorCode varchar(10), checksum char(8) not null, sha256 char(64) not null,
    output mediumtext not null, key (version)
  ) engine = InnoDB default character set utf8mb4`

const names = migrationColumns.map((name) => `\`${name}\``).join(', ')

/**
 * Runs a migration as the instance's own user, one at a time. Changes of rows are one transaction; MariaDB commits before and
 * after each change of structure, so a failure after one cannot undo it: the record then says which statements stay. The same SQL
 * under an applied version is answered with the record of the first time.
 *
 * @throws {CareFailure} `refused`: 400 for a bad field or transaction control in the SQL, 409 for other SQL under an applied
 *   version or while another migration runs; `unavailable`.
 */
export async function applyMysqlMigration(
  node: MysqlNode,
  user: MigrationUser,
  request: MigrationRequest,
): Promise<MigrationRecord> {
  const migration = readMigration(request)
  const statements = splitMysqlSql(migration.sql)
  if (statements.length === 0) refuse('sql has no statement.', { field: 'sql' })
  refuseControl(statements)
  return withMysql(
    node,
    async (connection) => {
      // Of the session: the server frees it when this process dies.
      const name = `platform_migrations.${node.database}`
      const [lock] = await rowsOf<{ got: number | null }>(connection, 'select get_lock(?, 0) as got', [name])
      if (lock?.got !== 1) refuse('Another migration of this instance is running.', { status: 409 })
      try {
        await connection.query(makeHistory)
        const found = beginMigration(await readRecords(connection), migration)
        if ('applied' in found) return found.applied
        const { timeoutMs } = migration
        const plan = { begun: found.begun, statements, timeoutMs }
        return await runLimited(node, connection, timeoutMs, () => run(connection, plan))
      } finally {
        // The server takes a moment to see that the session has ended: the next one would be refused.
        await connection.query('select release_lock(?)', [name]).catch(() => undefined)
      }
    },
    { user },
  )
}

function refuseControl(statements: readonly string[]): void {
  for (const statement of statements) {
    const [first = '', second = ''] = withoutMysqlComments(statement)
      .trim()
      .toUpperCase()
      .split(/[\s;(]+/, 2)
    const control = ['BEGIN', 'COMMIT', 'XA'].includes(first) || (first === 'ROLLBACK' && second !== 'TO') || (first === 'START' && second === 'TRANSACTION') // biome-ignore format: one condition
    if (control) refuse(`sql must not have ${first}: a migration is one transaction already.`, { field: 'sql' })
  }
}

/** The time limit of the whole: the user's SQL could change the session's own. */
async function runLimited<T>(
  node: MysqlNode,
  connection: Connection,
  timeoutMs: number,
  work: () => Promise<T>,
): Promise<T> {
  const [session] = await rowsOf<{ id: number }>(connection, 'select connection_id() as id')
  const timer = setTimeout(() => {
    const kill = (other: Connection) => other.query('kill query ?', [session!.id])
    void withMysql(node, kill, { database: null }).catch(() => undefined)
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
  readonly timeoutMs: number
}

async function run(connection: Connection, plan: Plan): Promise<MigrationRecord> {
  const lines: string[] = []
  const record = recorder(plan.begun, lines)
  const [place] = await rowsOf<{ name: string }>(connection, 'select database() as name')
  await connection.query(
    `set lock_wait_timeout = ${lockWaitSeconds}, innodb_lock_wait_timeout = ${lockWaitSeconds}, autocommit = 0`,
  )
  let kept = 0
  try {
    for (const statement of plan.statements) {
      lines.push(await runStatement(connection, statement))
      if (!(await inTransaction(connection))) kept = lines.length
    }
    const applied = record(null)
    await insertRecord(connection, place!.name, applied)
    await connection.query('commit')
    return applied
  } catch (error) {
    const known = serverError(error)
    if (known === undefined)
      throw new CareFailure('unavailable', 'The database server ended the migration.', { cause: error })
    await connection.query('rollback')
    const failed = record(describe(known, plan, { done: lines.length, kept }))
    await insertRecord(connection, place!.name, failed)
    await connection.query('commit')
    return failed
  }
}

/** A change of structure has committed all before it: nothing is open after it. */
async function inTransaction(connection: Connection): Promise<boolean> {
  const [row] = await rowsOf<{ open: number }>(connection, 'select @@in_transaction as open')
  return row?.open === 1
}

async function runStatement(connection: Connection, statement: string): Promise<string> {
  const [result] = await connection.query(statement)
  const word = withoutMysqlComments(statement).trim().split(/\s+/, 1)[0]!.toUpperCase()
  if (Array.isArray(result)) return `${word} ${result.length}`
  return `${word} ${(result as { affectedRows?: number }).affectedRows ?? 0}`
}

function describe(
  { errno, sqlState, message }: { readonly errno: number; readonly sqlState: string; readonly message: string },
  { statements, timeoutMs }: Plan,
  { done, kept }: { readonly done: number; readonly kept: number },
) {
  const where = statements.length > 1 ? `statement ${done + 1} of ${statements.length}: ` : ''
  const late = errno === 1317 ? ` (the time limit is ${timeoutMs} ms)` : ''
  const stays = kept > 0 ? ` The first ${kept} stay: MariaDB commits each change of structure at once.` : ''
  return { message: `${where}${message}${late}.${stays}`.replace(/\.\.(?= |$)/, '.'), code: sqlState }
}

async function insertRecord(connection: Connection, database: string, record: MigrationRecord): Promise<void> {
  const values = migrationColumns.map((name) => (name === 'appliedAt' ? new Date(record.appliedAt) : record[name]))
  const marks = migrationColumns.map(() => '?').join(', ')
  await connection.query(
    `insert into \`${database.replaceAll('`', '``')}\`.${history} (${names}) values (${marks})`,
    values,
  )
}

/** Oldest first. */
export async function listMysqlMigrations(node: MysqlNode, user: MigrationUser): Promise<readonly MigrationRecord[]> {
  return withMysql(node, readRecords, { user })
}

async function readRecords(connection: Connection): Promise<readonly MigrationRecord[]> {
  try {
    const rows = await rowsOf<Omit<MigrationRecord, 'appliedAt'> & { appliedAt: Date }>(
      connection,
      `select ${names} from ${history} order by appliedAt, id limit 10000`,
    )
    return rows.map((row) => ({ ...row, appliedAt: row.appliedAt.toISOString() }))
  } catch (error) {
    // 1146: no migration yet.
    if (serverError(error)?.errno === 1146) return []
    throw error
  }
}
