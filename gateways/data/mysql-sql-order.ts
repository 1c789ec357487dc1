import type { Column, Table } from './catalog.ts'
import { rankOf } from './mysql-sql-filter.ts'
import { comparable } from './mysql-values.ts'
import type { CursorPage, SortKey } from './read-ast.ts'

/** Of the members of a list; empty for no order. There enums are sorted by the alphabet, and NULL as if it were nothing: 0, no text. */
export function memberOrder(keys: readonly SortKey[], table: Table, alias: string): string {
  return terms(keys, table, (column) => ranked(column, comparable(alias, column)), true)
}

function ranked({ type }: Column, sql: string): string {
  return type.base.kind === 'enum' ? `${sql} + 0` : sql
}

/** To MySQL NULL is smaller than everything: it is mentioned where that is not wanted. */
function terms(keys: readonly SortKey[], table: Table, sqlOf: (column: Column) => string, explicit: boolean): string {
  return keys
    .flatMap(({ column: name, descending, nullsFirst }) => {
      const column = table.columnByName.get(name)!
      const sql = sqlOf(column)
      const asMysqlDoes = !column.nullable || (!explicit && nullsFirst === !descending)
      const nulls = asMysqlDoes ? [] : [`${sql} is null${nullsFirst ? ' desc' : ''}`]
      return [...nulls, `${sql}${descending ? ' desc' : ''}`]
    })
    .join(', ')
}

export function orderSql(keys: readonly SortKey[], table: Table, alias: string): string {
  return keys.length === 0 ? '' : ` order by ${terms(keys, table, (column) => comparable(alias, column), false)}`
}

export function reversed(keys: readonly SortKey[]): readonly SortKey[] {
  return keys.map((key) => ({ ...key, descending: !key.descending, nullsFirst: !key.nullsFirst }))
}

/** Conditions that leave the rows behind `after` and in front of `before`. */
export function cursorConditions(page: CursorPage, keys: readonly SortKey[], table: Table, alias: string): string[] {
  const bounds = (sorted: readonly SortKey[], slots: readonly (number | null)[]) =>
    sorted.map((key, index): Bound => boundOf(key, table.columnByName.get(key.column)!, slots[index] ?? null, alias))
  return [
    ...(page.after ? [behind(bounds(keys, page.after))] : []),
    ...(page.before ? [behind(bounds(reversed(keys), page.before))] : []),
  ]
}

interface Bound {
  readonly sql: string
  /** Null: the cursor's value is NULL. */
  readonly value: string | null
  readonly descending: boolean
  readonly nullsFirst: boolean
  readonly nullable: boolean
}

function boundOf({ descending, nullsFirst }: SortKey, column: Column, slot: number | null, alias: string): Bound {
  const { nullable } = column
  if (slot === null) return { sql: comparable(alias, column), value: null, descending, nullsFirst, nullable }
  const { left, right } = rankOf(column, alias, slot)
  return { sql: left, value: right, descending, nullsFirst, nullable }
}

/** Behind in the first key, or level with it and behind in the rest. */
function behind(bounds: readonly Bound[]): string {
  const [first, ...rest] = bounds as [Bound, ...Bound[]]
  const further = strictlyBehind(first)
  if (rest.length === 0) return further
  const level = first.value === null ? `${first.sql} is null` : `${first.sql} = ${first.value}`
  const condition = `(${further} or (${level} and ${behind(rest)}))`
  // Says nothing new, but it is what an index on the first key can use.
  if (first.nullable || first.value === null) return condition
  return `(${first.sql} ${first.descending ? '<=' : '>='} ${first.value} and ${condition})`
}

function strictlyBehind({ sql, value, descending, nullsFirst, nullable }: Bound): string {
  if (value === null) return nullsFirst ? `${sql} is not null` : 'false'
  const further = `${sql} ${descending ? '<' : '>'} ${value}`
  return nullable && !nullsFirst ? `(${further} or ${sql} is null)` : further
}
