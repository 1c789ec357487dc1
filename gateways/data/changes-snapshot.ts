import { Rejected } from '../../schemas/failure.ts'
import type { Table } from './catalog.ts'
import type { ChangeOrigin, RawMembers } from './changes-event.ts'
import { rawMembers } from './changes-json.ts'
import { quoted, tableName } from './postgres-sql.ts'
import { filterSql } from './postgres-sql-filter.ts'
import type { Filter } from './read-ast.ts'
import { type CallContext, type Database, type Parameter, statement } from './statement.ts'

/** Rows as they were at one moment, and which transactions that moment includes. */
export interface Snapshot {
  readonly rows: readonly Buffer[]
  /** Whether the rows show what this transaction did. */
  includes(change: Pick<ChangeOrigin, 'transaction'>): boolean
}

export interface SnapshotRequest {
  readonly table: Table
  /** Null: all that the caller may read. */
  readonly columns: ReadonlySet<string> | null
  readonly filter: Filter | null
  readonly parameters: readonly Parameter[]
  readonly maxRows: number
}

/**
 * One statement, so that rows and transactions are of one snapshot of the database.
 * @throws {Rejected} `data/too-complex` when there are more rows than one stream may begin with.
 */
export async function readSnapshot(
  request: SnapshotRequest,
  database: Database,
  context: CallContext,
): Promise<Snapshot> {
  const { table, columns, filter, parameters, maxRows } = request
  const names = table.columns.map(({ name }) => name).filter((name) => columns === null || columns.has(name))
  const field = (name: string) => ({ sql: `t.${quoted(name)}`, type: table.columnByName.get(name)!.type })
  const where = filter === null ? '' : ` where ${filterSql(filter, field)}`
  const keyColumns = table.primaryKey.filter((name) => names.includes(name))
  const order = keyColumns.length === 0 ? '' : ` order by ${keyColumns.map((name) => `t.${quoted(name)}`).join(', ')}`
  const row = `select ${names.map((name) => `t.${quoted(name)}`).join(', ')}`
  const text = `select 0 as kind, pg_current_snapshot()::text as text
    union all select 1, found.text from (
      select (select row_to_json(r) from (${row}) r)::text as text
      from ${tableName(table)} t${where}${order} limit ${maxRows + 1}) found`
  const result = await database.run(statement(text), parameters, { ...context, readOnly: true, weight: 'heavy' })
  const rows: Buffer[] = []
  let transactions = ''
  for (const [kind, value] of result.rows) {
    if (kind?.toString() === '0') transactions = value?.toString('utf8') ?? ''
    else if (value) rows.push(value)
  }
  if (rows.length > maxRows) {
    throw new Rejected('data/too-complex', `snapshot: ${table.name} has more than ${maxRows} rows that match`, {
      details: { field: 'snapshot', maximum: maxRows },
      hint: 'narrow the stream with filters, or read the rows page by page',
    })
  }
  return { rows, includes: includedIn(transactions) }
}

export function snapshotMembers(row: Buffer): RawMembers {
  return rawMembers(row.toString('utf8'))
}

/** @param text `xmin:xmax:xip,…` of pg_current_snapshot, 64-bit transaction ids */
export function includedIn(text: string): Snapshot['includes'] {
  const [xmin = '0', xmax = '0', list = ''] = text.split(':')
  const first = BigInt(xmin)
  const next = BigInt(xmax)
  const running = new Set(list === '' ? [] : list.split(',').map(BigInt))
  return ({ transaction }) => {
    const id = widen(transaction, next)
    return id < first || (id < next && !running.has(id))
  }
}

const epoch = 1n << 32n

/** Replication gives the low 32 bits of an id: it is the one of the ids with them that is nearest to the present. */
function widen(transaction: number, present: bigint): bigint {
  const id = present - (present % epoch) + BigInt(transaction)
  if (id > present + epoch / 2n) return id - epoch
  return id < present - epoch / 2n ? id + epoch : id
}
