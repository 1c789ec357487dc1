import { constants, DatabaseSync } from 'node:sqlite'
import { RowBudget } from './row-budget.ts'

// A process of its own, because nothing else ends a statement that runs too long.

export interface SqliteJob {
  readonly path: string
  readonly statements: readonly { readonly sql: string; readonly parameters?: readonly unknown[] }[]
  readonly maxRows: number
  readonly maxBytes: number
}

export interface SqliteResult {
  readonly rows: readonly unknown[]
  readonly rowCount: number
}

export type SqliteAnswer = { readonly results: readonly SqliteResult[] } | { readonly refused: string }

function run({ path, statements, ...limits }: SqliteJob): SqliteAnswer {
  // Nothing but this file: no extensions, no other databases.
  const database = new DatabaseSync(path, { allowExtension: false, enableForeignKeyConstraints: true })
  try {
    database.exec('pragma journal_mode = memory; pragma trusted_schema = off; begin')
    database.setAuthorizer(authorize)
    const budget = new RowBudget(limits)
    const results = statements.map((each) => runOne(database, each, budget))
    database.exec('commit')
    return { results }
  } catch (error) {
    return { refused: (error as Error).message }
  } finally {
    database.close()
  }
}

/** However it is written: `vacuum main into` attaches a file too. Source: https://www.sqlite.org/c3ref/set_authorizer.html */
function authorize(action: number, name: string | null): number {
  const { SQLITE_ATTACH, SQLITE_DENY, SQLITE_DETACH, SQLITE_OK, SQLITE_PRAGMA } = constants
  const leadsOut = action === SQLITE_PRAGMA && name?.toLowerCase() === 'temp_store_directory'
  return action === SQLITE_ATTACH || action === SQLITE_DETACH || leadsOut ? SQLITE_DENY : SQLITE_OK
}

function runOne(database: DatabaseSync, { sql, parameters = [] }: SqliteJob['statements'][number], budget: RowBudget) {
  const statement = database.prepare(sql)
  statement.setReadBigInts(true)
  const rows: unknown[] = []
  for (const row of statement.iterate(...(parameters as never[]))) {
    const plain = plainRow(row as Record<string, unknown>)
    budget.take(plain)
    rows.push(plain)
  }
  const changed = database.prepare('select changes() as n').get() as { n: number }
  return { rows, rowCount: rows.length > 0 ? rows.length : changed.n }
}

/** Whole numbers that JSON cannot hold as texts, bytes as base64. */
function plainRow(row: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      if (typeof value === 'bigint') return [name, Number.isSafeInteger(Number(value)) ? Number(value) : String(value)]
      return [name, value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value]
    }),
  )
}

process.once('message', (job) => process.send?.(run(job as SqliteJob)))
