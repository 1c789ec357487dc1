import { Rejected } from '../../schemas/failure.ts'
import type { Table } from './catalog.ts'
import type { ReadLimits } from './read-limits.ts'
import type { Slots } from './read-request.ts'
import type { Conflict, InsertSet } from './write-ast.ts'
import { checkRow, type JsonObject } from './write-body.ts'

/** Each becomes a statement of its own. */
const maxSets = 32

/** @throws {Rejected} `data/read-only` */
export function checkWritable(table: Table, what: 'insertable' | 'updatable' | 'deletable'): void {
  if (table[what]) return
  const verb = { insertable: 'inserted into', updatable: 'updated', deletable: 'deleted from' }[what]
  throw new Rejected('data/read-only', `${table.name} cannot be ${verb}`, {
    details: { table: table.name, kind: table.kind },
  })
}

/**
 * Sorts the rows of an insert by the columns they name, so that every row gets the defaults of the columns that it leaves out.
 * @throws {Rejected} `data/invalid-body`, `data/invalid-value`, `data/unknown-column`, `data/too-complex`
 */
export function insertSets(
  table: Table,
  rows: readonly JsonObject[],
  many: boolean,
  slots: Slots,
  limits: ReadLimits,
): InsertSet[] {
  if (rows.length === 0) throw new Rejected('data/invalid-body', 'The body holds no rows')
  if (rows.length > limits.maxInsertRows)
    throw new Rejected('data/too-complex', `The body holds more than ${limits.maxInsertRows} rows`)
  const sets = new Map<string, { readonly columns: readonly string[]; readonly places: number[] }>()
  for (const [index, row] of rows.entries()) {
    checkRow(table, row, many ? `[${index}].` : '')
    const columns = Object.keys(row).sort()
    const key = JSON.stringify(columns)
    const set = sets.get(key)
    if (set) set.places.push(index + 1)
    else sets.set(key, { columns, places: [index + 1] })
  }
  if (sets.size > maxSets)
    throw new Rejected(
      'data/too-complex',
      `The rows of the body name ${sets.size} different sets of columns, more than ${maxSets}`,
    )
  return [...sets.values()].map(({ columns, places }) => {
    if (columns.length === 0) return { columns, emptyRows: slots.add(String(places.length)), places: null }
    return { columns, emptyRows: null, places: sets.size === 1 ? null : slots.add(`{${places.join(',')}}`) }
  })
}

/**
 * The unique key that tells an upsert which rows are there already: the one asked for, else the primary key, else a unique key
 * that every row has.
 * @throws {Rejected} `data/invalid-body`
 */
export function conflictOf(
  table: Table,
  action: Conflict['action'],
  asked: readonly string[] | null,
  sets: readonly InsertSet[],
): Conflict {
  const keys = [...(table.primaryKey.length > 0 ? [table.primaryKey] : []), ...table.uniqueKeys]
  if (asked !== null) {
    const key = keys.find((columns) => columns.length === asked.length && columns.every((name) => asked.includes(name)))
    if (key) return { columns: key, action }
    return refuse(`on_conflict: ${table.name} has no unique key of ${asked.join(', ')}`, keys)
  }
  const present = keys.find((columns) => columns.every((name) => sets.every((set) => set.columns.includes(name))))
  const key = present ?? keys[0]
  return key ? { columns: key, action } : refuse(`${table.name} has no unique key to upsert by`, keys)
}

function refuse(text: string, keys: readonly (readonly string[])[]): never {
  throw new Rejected('data/invalid-body', text, { details: { field: 'on_conflict', uniqueKeys: keys } })
}
