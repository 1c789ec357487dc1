import type { Table } from './catalog.ts'
import { parameter, quoted } from './postgres-sql.ts'
import type { CursorPage, SortKey } from './read-ast.ts'

/** NULLs are mentioned only where they are not where PostgreSQL puts them, so that plain indexes serve. */
export function orderSql(keys: readonly SortKey[], alias: string): string {
  if (keys.length === 0) return ''
  const terms = keys.map(({ column, descending, nullsFirst }) => {
    const nulls = nullsFirst === descending ? '' : ` nulls ${nullsFirst ? 'first' : 'last'}`
    return `${alias}.${quoted(column)}${descending ? ' desc' : ''}${nulls}`
  })
  return ` order by ${terms.join(', ')}`
}

export function reversed(keys: readonly SortKey[]): readonly SortKey[] {
  return keys.map((key) => ({ ...key, descending: !key.descending, nullsFirst: !key.nullsFirst }))
}

/** Conditions that leave the rows behind `after` and in front of `before`. */
export function cursorConditions(page: CursorPage, keys: readonly SortKey[], table: Table, alias: string): string[] {
  const conditions: string[] = []
  if (page.after) conditions.push(keysetSql(keys, page.after, table, alias))
  if (page.before) conditions.push(keysetSql(reversed(keys), page.before, table, alias))
  return conditions
}

interface Bound {
  readonly sql: string
  /** Null: the cursor's value is NULL. */
  readonly value: string | null
  readonly descending: boolean
  readonly nullsFirst: boolean
  readonly nullable: boolean
  /** Of a composite, plain `is null` and `is not null` would ask whether all its fields are, which is not what it is sorted by. */
  readonly isNull: string
  readonly isNotNull: string
}

function keysetSql(keys: readonly SortKey[], slots: readonly (number | null)[], table: Table, alias: string): string {
  const bounds = keys.map((key, index): Bound => {
    const { type, nullable } = table.columnByName.get(key.column)!
    const slot = slots[index] ?? null
    const value = slot === null ? null : parameter(slot, type)
    const sql = `${alias}.${quoted(key.column)}`
    const composite = type.base.kind === 'composite'
    return {
      sql,
      value,
      nullable,
      isNull: composite ? `${sql} is not distinct from null` : `${sql} is null`,
      isNotNull: composite ? `${sql} is distinct from null` : `${sql} is not null`,
      descending: key.descending,
      nullsFirst: key.nullsFirst,
    }
  })
  return rowComparison(bounds) ?? behind(bounds)
}

/** One comparison that an index over the keys answers; only when no NULL can come in and all keys run the same way. */
function rowComparison(bounds: readonly Bound[]): string | null {
  const { descending } = bounds[0]!
  if (!bounds.every((bound) => bound.descending === descending && !bound.nullable && bound.value !== null)) return null
  const left = bounds.map(({ sql }) => sql).join(', ')
  const right = bounds.map(({ value }) => value).join(', ')
  return `(${left}) ${descending ? '<' : '>'} (${right})`
}

/** Behind in the first key, or level with it and behind in the rest. */
function behind(bounds: readonly Bound[]): string {
  const [first, ...rest] = bounds as [Bound, ...Bound[]]
  const further = strictlyBehind(first)
  if (rest.length === 0) return further
  const level = first.value === null ? first.isNull : `${first.sql} = ${first.value}`
  const condition = `(${further} or (${level} and ${behind(rest)}))`
  // Says nothing new, but it is what an index on the first key can use.
  if (first.nullable || first.value === null) return condition
  return `(${first.sql} ${first.descending ? '<=' : '>='} ${first.value} and ${condition})`
}

function strictlyBehind({ sql, value, descending, nullsFirst, nullable, isNull, isNotNull }: Bound): string {
  if (value === null) return nullsFirst ? isNotNull : 'false'
  const further = `${sql} ${descending ? '<' : '>'} ${value}`
  return nullable && !nullsFirst ? `(${further} or ${isNull})` : further
}
