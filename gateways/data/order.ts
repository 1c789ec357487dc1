import { Rejected } from '../../schemas/failure.ts'
import type { Table } from './catalog.ts'
import { hasOrder } from './operators.ts'
import type { SortKey } from './read-ast.ts'
import { columnOf } from './select.ts'

export interface WantedSort {
  readonly column: string
  readonly descending: boolean
  /** Absent: PostgreSQL's way, NULL is larger than everything. */
  readonly nullsFirst?: boolean
}

export function sortKey({ column, descending, nullsFirst = descending }: WantedSort): SortKey {
  return { column, descending, nullsFirst }
}

/** @throws {Rejected} `data/unknown-column`, `data/invalid-order` for types without an order. */
export function checkSortable(table: Table, wanted: WantedSort, place: string): void {
  const { type } = columnOf(table, wanted.column, place)
  if (hasOrder(type)) return
  throw new Rejected('data/invalid-order', `${place}: ${type.name} values have no order (column "${wanted.column}")`, {
    details: { field: place, column: wanted.column },
  })
}

/**
 * The order rows really come in: as wanted, then by the primary key (or another unique key without NULLs) so that equal rows
 * keep their places from page to page. The key follows the direction of the last wanted column, which lets one index serve both.
 */
export function completeOrder(
  table: Table,
  wanted: readonly WantedSort[],
): { readonly keys: readonly SortKey[]; readonly unique: boolean } {
  const keys: SortKey[] = []
  for (const sort of wanted) if (!keys.some(({ column }) => column === sort.column)) keys.push(sortKey(sort))
  const has = (name: string) => keys.some(({ column }) => column === name)
  const unique = uniqueKeys(table)
  if (unique.some((columns) => columns.every(has))) return { keys, unique: true }
  const tieBreaker = unique[0]
  if (!tieBreaker) return { keys, unique: false }
  const descending = keys.at(-1)?.descending ?? false
  for (const column of tieBreaker) if (!has(column)) keys.push(sortKey({ column, descending }))
  return { keys, unique: true }
}

/** The primary key first; a unique key that admits NULL does not tell rows apart. */
function uniqueKeys(table: Table): (readonly string[])[] {
  const others = table.uniqueKeys.filter((columns) =>
    columns.every((name) => {
      const column = table.columnByName.get(name)
      return column !== undefined && !column.nullable && hasOrder(column.type)
    }),
  )
  return table.primaryKey.length > 0 ? [table.primaryKey, ...others] : others
}
