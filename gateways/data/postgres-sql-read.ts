import { type Catalog, type Table, tableKey } from './catalog.ts'
import type { Compiled } from './dialect.ts'
import { parameter, quoted, tableName } from './postgres-sql.ts'
import { Aliases } from './postgres-sql-aliases.ts'
import { filterSql, isHeavy } from './postgres-sql-filter.ts'
import { cursorConditions, orderSql, reversed } from './postgres-sql-order.ts'
import { filterConditions, projection, whereSql } from './postgres-sql-select.ts'
import type { Aggregation, CursorPage, ListShape, OffsetPage, SortKey } from './read-ast.ts'
import type { ListRequest, RowRequest } from './read-request.ts'
import { aggregateFields } from './select.ts'
import { statement } from './statement.ts'

/**
 * One row of the result a record: column 0 its JSON; column 1 (with cursor paging or a count) the JSON array of its sort key
 * values as text, null without cursor paging; column 2 (with a count) the number of all rows. With a count and an empty page
 * there is one row whose column 0 is NULL.
 */
export function compileList(catalog: Catalog, { shape }: Pick<ListRequest, 'shape'>): Compiled {
  const table = tableOf(catalog, shape)
  const page =
    shape.select.kind === 'aggregate' ? groupsSql(table, shape, shape.select) : rowsSql(catalog, table, shape)
  const text = shape.count ? countedSql(catalog, table, shape, page) : page
  const type = (name: string) => table.columnByName.get(name)!.type
  const heavy =
    shape.select.kind === 'aggregate' ||
    shape.select.expansions.length > 0 ||
    shape.count ||
    isHeavy(shape.filter, type)
  return { statement: statement(text), weight: heavy ? 'heavy' : 'cheap' }
}

/** At most one row, its JSON in column 0. */
export function compileRow(catalog: Catalog, { shape }: Pick<RowRequest, 'shape'>): Compiled {
  const table = tableOf(catalog, shape)
  const aliases = new Aliases()
  const alias = aliases.next()
  const page = aliases.next()
  const { inner, json, join } = projection(catalog, table, shape.select, aliases, { alias, page, keysNeeded: false })
  const rows = `select ${inner} from ${tableName(table)} ${alias}${whereSql(keyConditions(table, shape.key, alias))}`
  const text = `select ${json}::text from (${rows}) ${page}${join}`
  return { statement: statement(text), weight: shape.select.expansions.length > 0 ? 'heavy' : 'cheap' }
}

/** `heavy` when the statement is, or when the page is a large one. */
export function weightOf({ weight }: Compiled, { page }: ListRequest): Compiled['weight'] {
  return page.limit > 200 ? 'heavy' : weight
}

export function keyConditions(table: Table, key: readonly number[], alias: string): string[] {
  return table.primaryKey.map((name, index) => {
    return `${alias}.${quoted(name)} = ${parameter(key[index]!, table.columnByName.get(name)!.type)}`
  })
}

export function tableOf(
  catalog: Catalog,
  { schema, table }: { readonly schema: string; readonly table: string },
): Table {
  const found = catalog.tables.get(tableKey(schema, table))
  if (!found) throw new Error(`the catalog has no table ${schema}.${table}`)
  return found
}

/** JSON array text of the values of the columns. */
export function keyTexts(columns: readonly string[], alias: string): string {
  return `to_json(array[${columns.map((column) => `${alias}.${quoted(column)}::text`).join(', ')}])::text`
}

function rowsSql(catalog: Catalog, table: Table, shape: ListShape): string {
  if (shape.select.kind === 'aggregate') throw new Error('an aggregation has no rows')
  const aliases = new Aliases()
  const alias = aliases.next()
  const page = aliases.next()
  const keysNeeded = shape.page.kind === 'cursor'
  const { inner, json, join } = projection(catalog, table, shape.select, aliases, { alias, page, keysNeeded })
  const conditions = filterConditions(shape.filter, table, alias, { catalog, aliases })
  if (shape.page.kind === 'cursor') conditions.push(...cursorConditions(shape.page, shape.order, table, alias))
  const order = shape.page.kind === 'cursor' && shape.page.backward ? reversed(shape.order) : shape.order
  const rows = `select ${inner} from ${tableName(table)} ${alias}${whereSql(conditions)}${cutSql(order, shape.page, alias)}`
  return `select ${json}::text as "json"${keysColumn(shape, page)} from (${rows}) ${page}${join}`
}

function keysColumn(shape: ListShape, page: string): string {
  if (shape.page.kind === 'cursor')
    return `, ${keyTexts(
      shape.order.map(({ column }) => column),
      page,
    )} as "keys"`
  return shape.count ? ', null::text as "keys"' : ''
}

function cutSql(order: readonly SortKey[], page: OffsetPage | CursorPage, alias: string): string {
  const offset = page.kind === 'offset' && page.offset !== null ? ` offset $${page.offset}` : ''
  return `${orderSql(order, alias)} limit ${page.limit}${offset}`
}

/** `where` sees the rows, `having` and the order see the named results. */
function groupsSql(table: Table, shape: ListShape, aggregation: Aggregation): string {
  const rows = `select t1.* from (${aggregationSql(table, shape, aggregation)}) t1${havingSql(table, shape, aggregation)}`
  return `select row_to_json(t2.*)::text as "json"${keysColumn(shape, 't2')} from (${rows}${cutSql(shape.order, shape.page, 't1')}) t2`
}

function aggregationSql(table: Table, { filter }: ListShape, { groups, aggregates }: Aggregation): string {
  const grouped = groups.map(({ column, property }) => `t0.${quoted(column)} as ${quoted(property)}`)
  const results = aggregates.map(({ property, function: name, column }) => {
    return `${name}(${column === null ? '*' : `t0.${quoted(column)}`}) as ${quoted(property)}`
  })
  const by = groups.map(({ column }) => `t0.${quoted(column)}`)
  const groupBy = by.length === 0 ? '' : ` group by ${by.join(', ')}`
  const where = whereSql(filterConditions(filter, table, 't0'))
  return `select ${[...grouped, ...results].join(', ')} from ${tableName(table)} t0${where}${groupBy}`
}

function havingSql(table: Table, { having }: ListShape, aggregation: Aggregation): string {
  if (having === null) return ''
  const fields = aggregateFields(table, aggregation)
  return whereSql([filterSql(having, (name) => ({ type: fields.get(name)!.type, sql: `t1.${quoted(name)}` }))])
}

function countedSql(catalog: Catalog, table: Table, shape: ListShape, page: string): string {
  const scope = { catalog, aliases: new Aliases('c') }
  const all =
    shape.select.kind === 'aggregate'
      ? `(${aggregationSql(table, shape, shape.select)}) t1${havingSql(table, shape, shape.select)}`
      : `${tableName(table)} t0${whereSql(filterConditions(shape.filter, table, 't0', scope))}`
  return `select p."json", p."keys", c."total" from (select count(*) as "total" from ${all}) c left join (${page}) p on true`
}
