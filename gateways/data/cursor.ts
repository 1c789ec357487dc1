import { hash } from 'node:crypto'
import { Rejected } from '../../schemas/failure.ts'
import type { Table } from './catalog.ts'
import { valueFault } from './filter-value.ts'
import type { SortKey } from './read-ast.ts'

const version = 1
/** A cursor holds the values of the sort keys; a text longer than this was not sorted by for paging. */
const maxCursorLength = 65_536

/** Ties a cursor to the table and order it was made for. */
export function cursorDigest(table: Table, keys: readonly SortKey[]): string {
  return hash('sha1', JSON.stringify([table.schema, table.name, keys]), 'base64url').slice(0, 10)
}

/** @param keyValues JSON array text of the row's sort key values, as the list statement returns it in its second column. */
export function encodeCursor(digest: string, keyValues: string): string {
  return Buffer.from(`[${version},"${digest}",${keyValues}]`).toString('base64url')
}

/** @throws {Rejected} `data/invalid-cursor` when it is damaged, or was made for another table or order. */
export function decodeCursor(text: string, table: Table, keys: readonly SortKey[], place: string): (string | null)[] {
  const content = text.length > maxCursorLength ? undefined : parsed(text)
  if (!Array.isArray(content) || content.length !== 3 || content[0] !== version) return refuse(place, 'it is damaged')
  if (content[1] !== cursorDigest(table, keys)) return refuse(place, 'it was made for another table or order')
  const values: unknown = content[2]
  if (!Array.isArray(values) || values.length !== keys.length) return refuse(place, 'it is damaged')
  return keys.map(({ column }, index) => {
    const value: unknown = values[index]
    if (value === null) return null
    if (typeof value !== 'string') return refuse(place, 'it is damaged')
    if (valueFault(table.columnByName.get(column)!.type, value) !== null) return refuse(place, 'it is damaged')
    return value
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString())
  } catch {
    return undefined
  }
}

function refuse(place: string, why: string): never {
  throw new Rejected('data/invalid-cursor', `${place} is not a cursor of this list: ${why}`, {
    details: { field: place, reason: why },
    hint: 'use a cursor from this list, with the same orderBy and orderDirection',
  })
}
