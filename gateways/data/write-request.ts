import type { Parameter, RawResult, RawRow } from './statement.ts'
import type { WriteShape } from './write-ast.ts'

export interface WriteRequest {
  readonly shape: WriteShape
  readonly parameters: readonly Parameter[]
}

export interface WriteOutcome {
  /** Column 0 the row's JSON (null unless rows were asked for), column 1 the JSON array of its key values as text (null without a key). */
  readonly rows: readonly RawRow[]
  readonly count: number
  /** With If-Match and no row written: whether there is a row of this key, whose content is another then (412), or none (404). */
  readonly found: boolean
}

/** What the statement of a write did. */
export function outcomeOf({ shape }: WriteRequest, { rows, rowCount }: RawResult): WriteOutcome {
  if (shape.kind === 'insert' || shape.match === null) return { rows, count: rowCount, found: rowCount > 0 }
  const written = rows.filter((row) => row[1] !== null)
  return { rows: written, count: written.length, found: rows[0]?.[2]?.toString() === 'true' }
}
