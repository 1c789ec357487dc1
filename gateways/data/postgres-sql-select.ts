import { type Catalog, type Relation, type Table, tableKey } from './catalog.ts'
import { quoted, tableName } from './postgres-sql.ts'
import { type FieldSql, filterSql } from './postgres-sql-filter.ts'
import { orderSql } from './postgres-sql-order.ts'
import type { Expansion, Filter, RowSelection } from './read-ast.ts'

/** Gives every table of a statement an alias of its own. Rows are always named `alias.*`: a bare alias would yield to a column of that name. */
export class Aliases {
  #count = 0

  next(): string {
    return `t${this.#count++}`
  }
}

function fieldsOf(table: Table, alias: string): FieldSql {
  return (name) => ({ type: table.columnByName.get(name)!.type, sql: `${alias}.${quoted(name)}` })
}

/** ` where …`, or nothing. */
export function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`
}

export function filterConditions(filter: Filter | null, table: Table, alias: string): string[] {
  return filter === null ? [] : [filterSql(filter, fieldsOf(table, alias))]
}

export interface Projection {
  /** What to select of the table itself. */
  readonly inner: string
  /** The JSON of a row, over the page's alias. */
  readonly json: string
  /** What to join to the page's alias, with a leading space; empty when the inner columns are the row already. */
  readonly join: string
}

/**
 * How a page of rows becomes JSON. Expansions are looked up after the page is cut, for its rows only, and the properties of
 * a row with expansions (or with cursor keys beside it) are put together in a lateral select that costs no join.
 * @param keysNeeded the page must keep columns that are not in its JSON.
 */
export function projection(
  catalog: Catalog,
  table: Table,
  selection: RowSelection,
  aliases: Aliases,
  { alias, page, keysNeeded }: { readonly alias: string; readonly page: string; readonly keysNeeded: boolean },
): Projection {
  const { columns, expansions } = selection
  if (expansions.length === 0) {
    if (columns === null) return { inner: `${alias}.*`, json: `row_to_json(${page}.*)`, join: '' }
    if (!keysNeeded) return { inner: columnList(columns, alias), json: `row_to_json(${page}.*)`, join: '' }
  }
  const own = ownColumns(table, selection)
  const columnsSql = own === null ? `${page}.*` : columnList(own, page)
  const expanded = expansions.map(
    (expansion) => `${expansionSql(catalog, table, expansion, aliases, page)} as ${quoted(expansion.property)}`,
  )
  const row = aliases.next()
  const list = [columnsSql, ...expanded].filter((sql) => sql !== '').join(', ')
  return { inner: `${alias}.*`, json: `row_to_json(${row}.*)`, join: ` cross join lateral (select ${list}) ${row}` }
}

/** Null for all of them. An expansion takes the place of the column of its name. */
function ownColumns(table: Table, { columns, expansions }: RowSelection): RowSelection['columns'] {
  if (columns !== null) return columns
  const replaced = new Set(expansions.map(({ property }) => property))
  if (!table.columns.some(({ name }) => replaced.has(name))) return null
  return table.columns.filter(({ name }) => !replaced.has(name)).map(({ name }) => ({ property: name, column: name }))
}

function columnList(columns: NonNullable<RowSelection['columns']>, alias: string): string {
  return columns
    .map(({ column, property }) => {
      const sql = `${alias}.${quoted(column)}`
      return column === property ? sql : `${sql} as ${quoted(property)}`
    })
    .join(', ')
}

function expansionSql(catalog: Catalog, table: Table, expansion: Expansion, aliases: Aliases, parent: string): string {
  const relation = table.relationByName.get(expansion.relation)!
  const target = catalog.tables.get(tableKey(relation.targetSchema, relation.targetTable))!
  const alias = aliases.next()
  const page = aliases.next()
  const { inner, json, join } = projection(catalog, target, expansion.select, aliases, {
    alias,
    page,
    keysNeeded: false,
  })
  const conditions = [
    linkCondition(relation, alias, parent, aliases),
    ...filterConditions(expansion.filter, target, alias),
  ]
  const rows = `select ${inner} from ${tableName(target)} ${alias}${whereSql(conditions)}`
  // What a foreign key points at is unique.
  if (relation.kind === 'one') return `(select ${json} from (${rows}) ${page}${join})`
  const cut = `${orderSql(expansion.order, alias)} limit ${expansion.limit}${expansion.offset === null ? '' : ` offset $${expansion.offset}`}`
  return `(select coalesce(json_agg(${json}), '[]') from (${rows}${cut}) ${page}${join})`
}

function linkCondition(relation: Relation, alias: string, parent: string, aliases: Aliases): string {
  const { link, columns, targetColumns } = relation
  if (link === null) return pairs(alias, targetColumns, parent, columns)
  const via = aliases.next()
  const links = `${pairs(via, link.sourceColumns, parent, columns)} and ${pairs(via, link.targetColumns, alias, targetColumns)}`
  return `exists (select from ${tableName({ schema: link.schema, name: link.table })} ${via} where ${links})`
}

function pairs(left: string, leftColumns: readonly string[], right: string, rightColumns: readonly string[]): string {
  return leftColumns
    .map((column, index) => `${left}.${quoted(column)} = ${right}.${quoted(rightColumns[index]!)}`)
    .join(' and ')
}
