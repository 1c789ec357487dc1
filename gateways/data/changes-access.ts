import { LRUCache } from 'lru-cache'
import { Rejected } from '../../schemas/failure.ts'
import type { Table } from './catalog.ts'
import type { Change, RawMembers } from './changes-event.ts'
import { parameter, quoted, tableName } from './postgres-sql.ts'
import { type CallContext, type Database, type Statement, statement } from './statement.ts'

/** What a caller may see of a table's changes. */
export interface ChangeAccess {
  /** Row level security decides over each row. */
  readonly byRow: boolean
  /** Null: all columns. */
  readonly columns: ReadonlySet<string> | null
}

const accessSql = statement(`
  select case when row_security_active(c.oid) then 't' else 'f' end,
    case when has_schema_privilege(c.relnamespace, 'usage') then 't' else 'f' end,
    (select coalesce(json_agg(a.attname), '[]') from pg_attribute a
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        and (has_table_privilege(c.oid, 'select') or has_column_privilege(c.oid, a.attnum, 'select')))::text
  from pg_class c where c.oid = $1::oid`)

/**
 * Asks the database, under the caller's role and claims, what of the table it may see.
 * @throws {Rejected} `data/forbidden` (or `http/unauthorized` without a token) when nothing, `data/no-primary-key` when rows
 * cannot be told apart to ask for each, `data/unknown-table` when it is there no more.
 */
export async function accessTo(table: Table, database: Database, context: CallContext): Promise<ChangeAccess> {
  if (database.changes !== undefined) {
    await database.run(database.changes.reading(table), [], context)
    return { byRow: false, columns: null }
  }
  const { rows } = await database.run(accessSql, [String(table.oid)], context)
  if (rows[0] === undefined) throw new Rejected('data/unknown-table', `The table ${table.name} is gone`)
  const [byRow, usage, names] = rows[0]
  const readable = new Set(JSON.parse(names?.toString('utf8') ?? '[]') as string[])
  if (usage?.toString() !== 't' || readable.size === 0) {
    const code = context.anonymous ? 'http/unauthorized' : 'data/forbidden'
    throw new Rejected(code, `The changes of ${table.name} may not be read`, { details: { table: table.name } })
  }
  const access: ChangeAccess = {
    byRow: byRow?.toString() === 't',
    columns: table.columns.every(({ name }) => readable.has(name)) ? null : readable,
  }
  if (access.byRow && !table.primaryKey.every((name) => readable.has(name))) {
    throw new Rejected('data/forbidden', `The key of ${table.name} may not be read, so its changes cannot be either`)
  }
  if (access.byRow && table.primaryKey.length === 0) {
    throw new Rejected(
      'data/no-primary-key',
      `${table.name} has row level security and no primary key to ask for a row by`,
    )
  }
  return access
}

/** Turns changes into what a caller may see of them, in order. */
export interface ChangeView {
  /** The same for all callers who share the view. */
  readonly key: string
  see(changes: readonly Change[]): Promise<readonly Change[]> | readonly Change[]
  /** The caller was shown these rows otherwise (a snapshot), so that their deletion is for them too. */
  noteShown(rows: readonly RawMembers[]): void
  /** What another view of the same key has shown counts for this one too. */
  noteShownBy(other: ChangeView): void
  /** Keys of rows that were shown, where that matters. */
  readonly shown: Iterable<string>
}

/** All rows, with all columns or some. */
export function openView(columns: ReadonlySet<string> | null): ChangeView {
  const key = columns === null ? '' : [...columns].sort().join('\u0000')
  const project = (change: Change) => (columns === null ? change : change.project(key, columns, columns))
  return {
    key,
    shown: [],
    see: (changes) => (columns === null ? changes : changes.map(project)),
    noteShown: () => undefined,
    noteShownBy: () => undefined,
  }
}

/** Rows remembered as shown, per role and claims. */
const maxShown = 100_000
const batchSize = 500

/**
 * The rows that row level security shows the caller at the moment of delivery. Of a row's former state and of a deleted row only
 * the key is shown, and a deletion only when the row itself was: what the row was then, the policy was never asked.
 */
export function rowView(
  table: Table,
  columns: ReadonlySet<string> | null,
  database: Database,
  context: CallContext,
): ChangeView {
  const visible = visibleSql(table)
  const keyColumns = new Set(table.primaryKey)
  const shownColumns = columns ?? new Set(table.columns.map(({ name }) => name))
  const projection = `row ${[...shownColumns].sort().join('\u0000')}`
  const shown = new LRUCache<string, true>({ max: maxShown })
  const keyOf = (row: RawMembers): string | null => {
    const values = table.primaryKey.map((name) => row.get(name))
    return values.includes(undefined) ? null : `[${values.join(',')}]`
  }

  async function readable(keys: readonly string[]): Promise<ReadonlySet<string>> {
    const found = new Set<string>()
    for (let at = 0; at < keys.length; at += batchSize) {
      const { rows } = await database.run(visible, [`[${keys.slice(at, at + batchSize).join(',')}]`], context)
      for (const row of rows) if (row[0]) found.add(keys[at + Number(row[0].toString()) - 1]!)
    }
    return found
  }

  function decide(change: Change, seen: ReadonlySet<string>): boolean {
    if (change.type === 'TRUNCATE') {
      const any = shown.size > 0
      shown.clear()
      return any
    }
    const key = keyOf(change.row)
    if (key === null) return false
    if (change.type === 'DELETE') return shown.delete(key)
    if (seen.has(key)) {
      shown.set(key, true)
      return true
    }
    return false
  }

  return {
    key: `row ${context.role ?? ''}\u0000${context.claims ?? ''}`,
    noteShown(rows) {
      for (const row of rows) {
        const key = keyOf(row)
        if (key !== null) shown.set(key, true)
      }
    },
    get shown() {
      return shown.keys()
    },
    noteShownBy(other) {
      if (other !== this) for (const key of other.shown) shown.set(key, true)
    },
    async see(changes) {
      const asked = new Set<string>()
      for (const change of changes) {
        const key = change.type === 'INSERT' || change.type === 'UPDATE' ? keyOf(change.row) : null
        if (key !== null) asked.add(key)
      }
      const seen = asked.size === 0 ? asked : await readable([...asked])
      return changes
        .filter((change) => decide(change, seen))
        .map((change) => change.project(projection, shownColumns, keyColumns))
    },
  }
}

/** The numbers, from 1, of those keys of a JSON array of arrays whose rows the caller sees. */
function visibleSql(table: Table): Statement {
  const columns = table.primaryKey.map((name) => table.columnByName.get(name)!)
  const matches = columns.map(({ name, type }, index) => {
    const element = `(wanted.key ->> ${index})`
    const value = parameter(1, type).replace('$1', element)
    return `t.${quoted(name)} = ${value}`
  })
  return statement(
    `select wanted.number from json_array_elements($1::json) with ordinality wanted(key, number)
     where exists (select from ${tableName(table)} t where ${matches.join(' and ')})`,
  )
}
