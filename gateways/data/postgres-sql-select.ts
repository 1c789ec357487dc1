import { type Catalog, type Relation, type Table, tableKey } from './catalog.ts'
import { everyColumn, quoted } from './postgres-sql.ts'
import type { Aliases } from './postgres-sql-aliases.ts'
import { type FieldSql, filterSql } from './postgres-sql-filter.ts'
import { orderSql } from './postgres-sql-order.ts'
import { type Member, memberList, objectOf, objectSql, shapedSql, textLiteral } from './postgres-sql-shape.ts'
import type { Expansion, Filter, LayoutItem, RelatedRows, RowSelection } from './read-ast.ts'

function fieldsOf(table: Table, alias: string): FieldSql {
  return (name) => ({ type: table.columnByName.get(name)!.type, sql: `${alias}.${quoted(name)}` })
}

/** ` where …`, or nothing. */
export function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`
}

/** @param scope where the filter may follow relations */
export function filterConditions(
  filter: Filter | null,
  table: Table,
  alias: string,
  scope?: { readonly catalog: Catalog; readonly aliases: Aliases },
): string[] {
  if (filter === null) return []
  const related = scope && ((rows: RelatedRows) => relatedSql(rows, table, alias, scope))
  return [filterSql(filter, fieldsOf(table, alias), related)]
}

function relatedSql(
  { kind, relation: name, filter }: RelatedRows,
  table: Table,
  parent: string,
  scope: { readonly catalog: Catalog; readonly aliases: Aliases },
): string {
  const relation = table.relationByName.get(name)!
  const target = scope.catalog.tables.get(tableKey(relation.targetSchema, relation.targetTable))!
  const alias = scope.aliases.next()
  const conditions = filterConditions(filter, target, alias, scope)
  // A row of which the filter does not say yes or no does not match either.
  const wanted = kind === 'every' ? conditions.map((sql) => `(${sql}) is not true`) : conditions
  if (kind === 'every' && wanted.length === 0) return 'true'
  const link = linkCondition(relation, alias, parent, scope.aliases)
  const exists = `exists (select from ${scope.aliases.source(target)} ${alias}${whereSql([link, ...wanted])})`
  return kind === 'some' ? exists : `not ${exists}`
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
  const { columns, expansions, layout } = selection
  if (layout !== undefined) return laidOut(catalog, table, selection, layout, aliases, { alias, page })
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

function laidOut(
  catalog: Catalog,
  table: Table,
  selection: RowSelection,
  layout: readonly LayoutItem[],
  aliases: Aliases,
  { alias, page }: { readonly alias: string; readonly page: string },
): Projection {
  const members = layoutMembers(catalog, table, selection, layout, aliases, page)
  const row = aliases.next()
  const join = ` cross join lateral (select ${memberList(members)}) ${row}`
  return { inner: everyColumn(table, alias), json: objectOf(members, row), join }
}

function layoutMembers(
  catalog: Catalog,
  table: Table,
  { expansions }: RowSelection,
  layout: readonly LayoutItem[],
  aliases: Aliases,
  page: string,
): Member[] {
  const sqlOf = (item: LayoutItem): string => {
    switch (item.kind) {
      case 'column':
        return shapedSql(
          `${page}.${quoted(item.column)}`,
          table.columnByName.get(item.column)!.type,
          item.shaping,
          aliases,
        )
      case 'constant':
        return textLiteral(item.value)
      case 'row':
        return objectSql(layoutMembers(catalog, table, item.select, item.select.layout ?? [], aliases, page), aliases)
      case 'expansion': {
        const expansion = expansions.find(({ property }) => property === item.property)!
        return expansionSql(catalog, table, expansion, aliases, page)
      }
    }
  }
  return layout.map((item) => ({ property: item.property, sql: sqlOf(item) }))
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
    ...filterConditions(expansion.filter, target, alias, { catalog, aliases }),
  ]
  const rows = `select ${inner} from ${aliases.source(target)} ${alias}${whereSql(conditions)}`
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
  return `exists (select from ${aliases.source({ schema: link.schema, name: link.table })} ${via} where ${links})`
}

function pairs(left: string, leftColumns: readonly string[], right: string, rightColumns: readonly string[]): string {
  return leftColumns
    .map((column, index) => `${left}.${quoted(column)} = ${right}.${quoted(rightColumns[index]!)}`)
    .join(' and ')
}
