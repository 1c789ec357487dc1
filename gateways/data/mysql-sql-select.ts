import { type Catalog, type Relation, type Table, tableKey } from './catalog.ts'
import { type Aliases, type Flavour, quoted, tableName, textLiteral, whereSql } from './mysql-sql.ts'
import { filterSql } from './mysql-sql-filter.ts'
import { memberOrder } from './mysql-sql-order.ts'
import { slotMark } from './mysql-statement.ts'
import { jsonSql, type Member, mysqlOf, objectSql } from './mysql-values.ts'
import type { Expansion, Filter, LayoutItem, RelatedRows, RowSelection } from './read-ast.ts'

/** What the parts of one statement share. */
export interface SqlScope {
  readonly catalog: Catalog
  readonly flavour: Flavour
  readonly aliases: Aliases
}

export function filterConditions(filter: Filter | null, table: Table, alias: string, scope: SqlScope): string[] {
  if (filter === null) return []
  return [
    filterSql(filter, {
      flavour: scope.flavour,
      alias,
      column: (name) => table.columnByName.get(name)!,
      related: (rows) => relatedSql(rows, table, alias, scope),
    }),
  ]
}

function relatedSql(
  { kind, relation: name, filter }: RelatedRows,
  table: Table,
  parent: string,
  scope: SqlScope,
): string {
  const { relation, target } = followed(table, name, scope)
  const alias = scope.aliases.next()
  const conditions = filterConditions(filter, target, alias, scope)
  // A row of which the filter does not say yes or no does not match either.
  const wanted = kind === 'every' ? conditions.map((sql) => `(${sql}) is not true`) : conditions
  if (kind === 'every' && wanted.length === 0) return 'true'
  const link = linkCondition(relation, alias, parent, scope.aliases)
  const exists = `exists (select 1 from ${tableName(target)} ${alias}${whereSql([link, ...wanted])})`
  return kind === 'some' ? exists : `(not ${exists})`
}

function followed(table: Table, name: string, { catalog }: SqlScope): { relation: Relation; target: Table } {
  const relation = table.relationByName.get(name)!
  return { relation, target: catalog.tables.get(tableKey(relation.targetSchema, relation.targetTable))! }
}

/** The JSON text of a row of the alias; NULL only when it is larger than the server makes texts. */
export function rowJson(table: Table, selection: RowSelection, alias: string, scope: SqlScope): string {
  const { columns, expansions, layout } = selection
  const items: readonly LayoutItem[] = layout ?? [
    ...(columns ?? table.columns.map(({ name }) => ({ property: name, column: name })))
      .filter(({ property }) => !expansions.some((expansion) => expansion.property === property))
      .map((column) => ({ kind: 'column' as const, ...column, shaping: { kind: 'plain' as const } })),
    ...expansions.map(({ property }) => ({ kind: 'expansion' as const, property })),
  ]
  return objectSql(items.map((item) => memberOf(item, table, selection, alias, scope)))
}

function memberOf(
  item: LayoutItem,
  table: Table,
  { expansions }: RowSelection,
  alias: string,
  scope: SqlScope,
): Member {
  const { property } = item
  switch (item.kind) {
    case 'column': {
      const { name, type } = table.columnByName.get(item.column)!
      return { property, sql: jsonSql(`${alias}.${quoted(name)}`, type, item.shaping) }
    }
    case 'constant':
      return { property, sql: textLiteral(JSON.stringify(item.value)), required: true }
    case 'row':
      return { property, sql: rowJson(table, item.select, alias, scope), required: true }
    case 'expansion': {
      const expansion = expansions.find((each) => each.property === property)!
      return { property, sql: expansionSql(table, expansion, alias, scope), required: true }
    }
  }
}

function expansionSql(table: Table, expansion: Expansion, parent: string, scope: SqlScope): string {
  const { relation, target } = followed(table, expansion.relation, scope)
  const json = (alias: string) => rowJson(target, expansion.select, alias, scope)
  const conditions = (alias: string) => [
    linkCondition(relation, alias, parent, scope.aliases),
    ...filterConditions(expansion.filter, target, alias, scope),
  ]
  // What is in a list is made for every row before the list is cut: where that is dear, the keys are cut first.
  const isDear = expansion.select.expansions.length > 0 && hasPlainKey(target)
  if (relation.kind !== 'one' && scope.flavour.server === 'mariadb' && isDear)
    return keyedList(target, expansion, json, conditions, scope)
  const alias = scope.aliases.next()
  const from = `${tableName(target)} ${alias}`
  if (relation.kind === 'one') {
    // What a foreign key points at is unique. A row that is there but too large must not look as if it were not.
    const missing = `not exists (select 1 from ${from}${whereSql(conditions(alias))})`
    return `coalesce((select ${json(alias)} from ${from}${whereSql(conditions(alias))}), case when ${missing} then 'null' end)`
  }
  const order = memberOrder(expansion.order, target, alias)
  const where = whereSql(conditions(alias))
  if (scope.flavour.server === 'mysql') return derivedList(from, where, order, expansion, alias, json(alias))
  const ordered = `${json(alias)}${order === '' ? '' : ` order by ${order}`} separator ',' limit ${cut(expansion)}`
  return listOf(`group_concat(${ordered})`, `${from}${where}`)
}

function listOf(items: string, from: string): string {
  return `(select concat('[', coalesce(${items}, case when count(*) = 0 then '' end), ']') from ${from})`
}

function cut({ limit, offset }: Expansion): string {
  return `${limit}${offset === null ? '' : ` offset ${slotMark(offset, 'number')}`}`
}

/** MySQL lets a derived table see the row around it. */
function derivedList(
  from: string,
  where: string,
  order: string,
  expansion: Expansion,
  alias: string,
  json: string,
): string {
  const place = `row_number() over (${order === '' ? '' : `order by ${order}`}) as busbar_place`
  const rows = `select ${alias}.*, ${place} from ${from}${where} order by busbar_place limit ${cut(expansion)}`
  return listOf(`group_concat(${json} order by ${alias}.busbar_place separator ',')`, `(${rows}) ${alias}`)
}

/** MariaDB does not, but lets the rows of a JSON array depend on it. */
function keyedList(
  target: Table,
  expansion: Expansion,
  json: (alias: string) => string,
  conditions: (alias: string) => readonly string[],
  { aliases }: SqlScope,
): string {
  const [row, inner, keys] = [aliases.next(), aliases.next(), aliases.next()]
  const tuple = `json_array(${target.primaryKey.map((name) => `${inner}.${quoted(name)}`).join(', ')})`
  const order = memberOrder(expansion.order, target, inner)
  const ordered = `${tuple}${order === '' ? '' : ` order by ${order}`} separator ',' limit ${cut(expansion)}`
  const found = `select concat('[', group_concat(${ordered}), ']') from ${tableName(target)} ${inner}${whereSql(conditions(inner))}`
  const columns = target.primaryKey.map((name, index) => {
    const { unsigned } = mysqlOf(target.columnByName.get(name)!.type)
    return `k${index} bigint${unsigned ? ' unsigned' : ''} path '$[${index}]'`
  })
  const same = target.primaryKey.map((name, index) => `${row}.${quoted(name)} = ${keys}.k${index}`).join(' and ')
  return listOf(
    `group_concat(${json(row)} order by ${keys}.n separator ',')`,
    `json_table((${found}), '$[*]' columns (n for ordinality, ${columns.join(', ')})) ${keys} straight_join ${tableName(target)} ${row} on ${same}`,
  )
}

/** Whole numbers, which are the same in JSON as in the table. */
function hasPlainKey({ primaryKey, columnByName }: Table): boolean {
  return primaryKey.length > 0 && primaryKey.every((name) => integers.has(mysqlOf(columnByName.get(name)!.type).base))
}

const integers: ReadonlySet<string> = new Set(['tinyint', 'smallint', 'mediumint', 'int', 'bigint'])

function linkCondition(relation: Relation, alias: string, parent: string, aliases: Aliases): string {
  const { link, columns, targetColumns } = relation
  if (link === null) return pairs(alias, targetColumns, parent, columns)
  const via = aliases.next()
  const links = `${pairs(via, link.sourceColumns, parent, columns)} and ${pairs(via, link.targetColumns, alias, targetColumns)}`
  return `exists (select 1 from ${tableName({ schema: link.schema, name: link.table })} ${via} where ${links})`
}

function pairs(left: string, leftColumns: readonly string[], right: string, rightColumns: readonly string[]): string {
  return leftColumns
    .map((column, index) => `${left}.${quoted(column)} = ${right}.${quoted(rightColumns[index]!)}`)
    .join(' and ')
}
