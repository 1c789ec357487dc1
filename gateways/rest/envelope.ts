import type { RawRow } from '../data/statement.ts'

export interface Pagination {
  readonly total?: string | undefined
  /** 0 with cursor paging. */
  readonly offset: number
  readonly limit: number
  readonly hasMore: boolean
  readonly hasPrevious?: boolean
  readonly startCursor?: string | null
  readonly endCursor?: string | null
}

const comma = Buffer.from(',')
const open = Buffer.from('{"data":[')

/** `[row,row,…]` between `before` and `after`, out of the rows' own bytes: nothing is parsed. */
export function joinRows(rows: readonly RawRow[], before: Buffer, after: Buffer): Buffer {
  let size = before.length + after.length + Math.max(0, rows.length - 1)
  for (const row of rows) size += row[0]?.length ?? 0
  const body = Buffer.allocUnsafe(size)
  let at = before.copy(body, 0)
  for (let i = 0; i < rows.length; i++) {
    if (i > 0) at += comma.copy(body, at)
    at += rows[i]?.[0]?.copy(body, at) ?? 0
  }
  after.copy(body, at)
  return body
}

/** The list envelope of specification B. `total` is the database's own digits. */
export function listEnvelope(rows: readonly RawRow[], pagination: Pagination): Buffer {
  return joinRows(rows, open, Buffer.from(`],"pagination":${paginationJson(pagination)}}`))
}

/** `{"data":[…],"count":n}` of a bulk write. */
export function countedEnvelope(rows: readonly RawRow[], count: number): Buffer {
  return joinRows(rows, open, Buffer.from(`],"count":${count}}`))
}

function paginationJson({ total, ...rest }: Pagination): string {
  const json = JSON.stringify(rest)
  return total === undefined ? json : `{"total":${total},${json.slice(1)}`
}
