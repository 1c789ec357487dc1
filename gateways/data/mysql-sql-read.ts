import type { Catalog, Table } from './catalog.ts'
import { tableKey } from './catalog.ts'
import type { Compiled } from './dialect.ts'
import { Aliases, type Flavour, tableName, whereSql } from './mysql-sql.ts'
import { cursorConditions, orderSql, reversed } from './mysql-sql-order.ts'
import { filterConditions, rowJson, type SqlScope } from './mysql-sql-select.ts'
import { mysqlStatement, slotMark } from './mysql-statement.ts'
import { keyTexts } from './mysql-values.ts'
import type { ListShape } from './read-ast.ts'
import type { ListRequest } from './read-request.ts'

/** As PostgreSQL's; with a count there is one record more, the first, which has nothing else. */
export function compileList(flavour: Flavour, catalog: Catalog, { shape }: Pick<ListRequest, 'shape'>): Compiled {
  const table = tableOf(catalog, shape)
  const scope = { catalog, flavour, aliases: new Aliases() }
  const page = rowsSql(table, shape, scope)
  const text = shape.count ? countedSql(table, shape, page, scope) : page
  // Each has a connection to itself.
  return { statement: mysqlStatement([{ text, writes: false, returns: true }]), weight: 'heavy' }
}

export function tableOf(
  catalog: Catalog,
  { schema, table }: { readonly schema: string; readonly table: string },
): Table {
  const found = catalog.tables.get(tableKey(schema, table))
  if (!found) throw new Error(`the catalog has no table ${schema}.${table}`)
  return found
}

function rowsSql(table: Table, shape: ListShape, scope: SqlScope): string {
  const { select, page } = shape
  if (select.kind === 'aggregate') throw new Error('an aggregation has no rows')
  const alias = scope.aliases.next()
  const columns = [`${rowJson(table, select, alias, scope)} as json`]
  if (page.kind === 'cursor') {
    const keys = shape.order.map(({ column }) => table.columnByName.get(column)!)
    columns.push(`${keyTexts(keys, alias)} as \`keys\``)
  } else if (shape.count) columns.push('null as `keys`')
  if (shape.count) columns.push('null as total')
  const conditions = filterConditions(shape.filter, table, alias, scope)
  if (page.kind === 'cursor') conditions.push(...cursorConditions(page, shape.order, table, alias))
  const order = page.kind === 'cursor' && page.backward ? reversed(shape.order) : shape.order
  const offset = page.kind === 'offset' && page.offset !== null ? ` offset ${slotMark(page.offset, 'number')}` : ''
  const rows = `${tableName(table)} ${alias}${whereSql(conditions)}${orderSql(order, table, alias)}`
  return `select ${columns.join(', ')} from ${rows} limit ${page.limit}${offset}`
}

function countedSql(table: Table, { filter }: ListShape, page: string, scope: SqlScope): string {
  const alias = scope.aliases.next()
  const rows = `${tableName(table)} ${alias}${whereSql(filterConditions(filter, table, alias, scope))}`
  return `select null as json, null as \`keys\`, concat(count(*)) as total from ${rows} union all (${page})`
}
