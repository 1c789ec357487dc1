import type { Filter, RowSelection } from './read-ast.ts'

/** What a write asks for, after parsing and before SQL: names of the catalog and slots (`$n`), as in `read-ast.ts`. */
export type WriteShape = InsertShape | UpdateShape | DeleteShape

/** `nothing` leaves only the number of rows; `keys` the keys; `rows` the rows as selected, and the keys. */
export interface Returning {
  readonly kind: 'nothing' | 'keys' | 'rows'
  readonly select: RowSelection
}

export interface InsertShape {
  readonly kind: 'insert'
  readonly schema: string
  readonly table: string
  /** Slot of the JSON text: an object, or an array of them. */
  readonly body: number
  readonly many: boolean
  /** Rows that name the same columns; what a row does not name gets its default. */
  readonly sets: readonly InsertSet[]
  readonly conflict: Conflict | null
  readonly returning: Returning
}

export interface InsertSet {
  readonly columns: readonly string[]
  /** Slot of the places (from 1) of the set's rows in the body; null when they are all of it. */
  readonly places: number | null
  /** Slot of the number of rows, when they name no columns. */
  readonly emptyRows: number | null
}

export interface Conflict {
  readonly columns: readonly string[]
  readonly action: 'merge' | 'ignore'
}

/** The row of a key (slots in key order), or the rows that pass a filter. */
export type Target =
  | { readonly kind: 'key'; readonly key: readonly number[] }
  | { readonly kind: 'filter'; readonly filter: Filter }

export interface UpdateShape {
  readonly kind: 'update'
  readonly schema: string
  readonly table: string
  readonly target: Target
  /** Slot of the JSON text, an object; null when it sets nothing. */
  readonly body: number | null
  readonly columns: readonly string[]
  /** Columns put back to their default, or NULL. */
  readonly reset: readonly string[]
  /** Slot of the row digests of If-Match. */
  readonly match: number | null
  readonly returning: Returning
}

export interface DeleteShape {
  readonly kind: 'delete'
  readonly schema: string
  readonly table: string
  readonly target: Target
  readonly match: number | null
  readonly returning: Returning
}
