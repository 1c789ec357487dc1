import type { Catalog, Table } from './catalog.ts'
import type { Compiled } from './dialect.ts'
import { everyColumn, quoted, tableName } from './postgres-sql.ts'
import { Aliases, type WrittenRows } from './postgres-sql-aliases.ts'
import { keyConditions, keyTexts, tableOf } from './postgres-sql-read.ts'
import { filterConditions, projection, whereSql } from './postgres-sql-select.ts'
import { statement } from './statement.ts'
import type { Conflict, DeleteShape, InsertSet, InsertShape, Returning, Target, UpdateShape } from './write-ast.ts'
import type { WriteRequest } from './write-request.ts'

/** The row that is written; the body's values are `r`. */
const target = 't0'

/**
 * One statement; `outcomeOf` reads its result. Values come out of the one JSON parameter, read by the types of their columns:
 * there is no limit on how many, and numbers keep their digits.
 */
export function compileWrite(catalog: Catalog, { shape }: Pick<WriteRequest, 'shape'>): Compiled {
  const table = tableOf(catalog, shape)
  const single = shape.kind === 'insert' ? !shape.many : shape.target.kind === 'key'
  const cheap = single && shape.returning.select.expansions.length === 0
  return { statement: statement(writeSql(catalog, table, shape)), weight: cheap ? 'cheap' : 'heavy' }
}

function writeSql(catalog: Catalog, table: Table, shape: WriteRequest['shape']): string {
  const writes =
    shape.kind === 'insert' ? shape.sets.map((set) => insertSql(table, shape, set)) : [changeSql(table, shape)]
  const match = shape.kind === 'insert' ? null : shape.match
  const plain = shape.returning.select.expansions.length === 0 && shape.returning.select.columns === null
  if (writes.length === 1 && match === null && plain) return `${writes[0]}${returningSql(table, shape.returning)}`
  const names = writes.map((_, index) => `w${index}`)
  const all = shape.returning.kind === 'rows' ? everyColumn(table, target) : ownKeys(table)
  const ctes = writes.map((sql, index) => `${names[index]} as (${sql} returning ${all})`).join(', ')
  const written =
    names.length === 1 ? names[0]! : `(${names.map((name) => `select * from ${name}`).join(' union all ')})`
  // The rows that a deleted one was related to are shown as they were.
  const changed = shape.kind === 'delete' ? null : { table, rows: written, replaced: isReplacing(shape) }
  const result = resultSql(catalog, table, shape.returning, written, changed)
  if (shape.kind === 'insert' || shape.match === null) return `with ${ctes} ${result}`
  const there = `select exists (select from ${tableName(table)} ${target}${whereSql(targetConditions(table, shape.target))}) as "found"`
  return `with ${ctes} select p."json", p."keys", e."found"::text from (${there}) e left join (${result}) p on true`
}

/** Whether rows that were there before can be among the written ones. */
function isReplacing(shape: InsertShape | UpdateShape): boolean {
  return shape.kind === 'update' || shape.conflict !== null
}

/** A table without a key has to return something to be counted by. */
function ownKeys(table: Table): string {
  const keys = table.primaryKey.map((name) => `${target}.${quoted(name)}`).join(', ')
  return keys === '' ? 'true as "written"' : keys
}

/** With all columns asked for, the write itself returns the rows. */
function returningSql(table: Table, { kind }: Returning): string {
  if (kind === 'nothing') return ''
  const json = kind === 'rows' ? `row_to_json(${target}.*)::text` : 'null::text'
  return ` returning ${json}, ${keysSql(table, target)}`
}

function resultSql(
  catalog: Catalog,
  table: Table,
  { kind, select }: Returning,
  written: string,
  changed: WrittenRows | null,
): string {
  const aliases = new Aliases('t', changed)
  const alias = aliases.next()
  const page = aliases.next()
  const keys = `${keysSql(table, page)} as "keys"`
  if (kind !== 'rows') return `select null::text as "json", ${keys} from ${written} ${page}`
  const { json, join } = projection(catalog, table, select, aliases, { alias, page, keysNeeded: true })
  return `select ${json}::text as "json", ${keys} from ${written} ${page}${join}`
}

function keysSql(table: Table, alias: string): string {
  return table.primaryKey.length === 0 ? 'null::text' : keyTexts(table.primaryKey, alias)
}

function insertSql(table: Table, { body, many, conflict }: InsertShape, set: InsertSet): string {
  const into = `insert into ${tableName(table)} as ${target}`
  const onConflict = conflict === null ? '' : conflictSql(conflict, set)
  // No columns from no columns: each row is all defaults.
  if (set.emptyRows !== null) return `${into} select from generate_series(1, $${set.emptyRows}::int8)${onConflict}`
  const values = set.columns.map((name) => `r.${quoted(name)}`).join(', ')
  const columns = set.columns.map(quoted).join(', ')
  return `${into} (${columns}) select ${values} from ${valuesSql(table, set, body, many)}${onConflict}`
}

function valuesSql(table: Table, set: InsertSet, body: number, many: boolean): string {
  const record = recordSql(table, set.columns)
  if (!many) return `json_to_record($${body}::json) ${record}`
  if (set.places === null) return `json_to_recordset($${body}::json) ${record}`
  const rows = `json_array_elements($${body}::json) with ordinality e(value, place)`
  return `${rows} cross join lateral json_to_record(e.value) ${record} where e.place = any($${set.places}::int8[])`
}

/** The types of the columns without their modifiers, which the assignment to the column applies. */
function recordSql(table: Table, columns: readonly string[]): string {
  return `as r(${columns.map((name) => `${quoted(name)} ${table.columnByName.get(name)!.type.sqlName}`).join(', ')})`
}

/** A row that is there and gets nothing new is updated all the same, so that it is among those returned. */
function conflictSql({ columns, action }: Conflict, set: InsertSet): string {
  const on = ` on conflict (${columns.map(quoted).join(', ')})`
  if (action === 'ignore') return `${on} do nothing`
  const others = set.columns.filter((name) => !columns.includes(name))
  const updated = others.length > 0 ? others : columns.slice(0, 1)
  return `${on} do update set ${updated.map((name) => `${quoted(name)} = excluded.${quoted(name)}`).join(', ')}`
}

function changeSql(table: Table, shape: UpdateShape | DeleteShape): string {
  const conditions = targetConditions(table, shape.target)
  if (shape.match !== null) conditions.push(`md5(row_to_json(${target}.*)::text) = any($${shape.match}::text[])`)
  if (shape.kind === 'delete') return `delete from ${tableName(table)} as ${target}${whereSql(conditions)}`
  const sets = shape.columns.map((name) => `${quoted(name)} = r.${quoted(name)}`)
  for (const name of shape.reset) sets.push(`${quoted(name)} = default`)
  // A row of nothing but its key.
  if (sets.length === 0) sets.push(`${quoted(table.primaryKey[0]!)} = ${target}.${quoted(table.primaryKey[0]!)}`)
  const from =
    shape.body === null ? '' : ` from json_to_record($${shape.body}::json) ${recordSql(table, shape.columns)}`
  return `update ${tableName(table)} as ${target} set ${sets.join(', ')}${from}${whereSql(conditions)}`
}

function targetConditions(table: Table, rows: Target): string[] {
  return rows.kind === 'key' ? keyConditions(table, rows.key, target) : filterConditions(rows.filter, table, target)
}
