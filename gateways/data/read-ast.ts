import type { OperatorName } from './operators.ts'

/*
 * What a read asks for, after parsing and before SQL: names of the catalog and slots (`$n`), never a value. Every door
 * (REST, GraphQL) parses into this, every dialect compiles from it, and its JSON is the key of the compiled statement.
 */

export type Filter =
  | { readonly kind: 'and' | 'or'; readonly items: readonly Filter[] }
  | { readonly kind: 'not'; readonly item: Filter }
  | RelatedRows
  | Comparison

/** What holds of the rows a relation leads to: of one at least, of none, of every one. A filter of null holds of every row. */
export interface RelatedRows {
  readonly kind: 'some' | 'none' | 'every'
  readonly relation: string
  readonly filter: Filter | null
}

export type Truth = 'null' | 'true' | 'false' | 'unknown'

export interface Comparison {
  readonly kind: 'compare'
  readonly column: string
  readonly operator: Exclude<OperatorName, 'isnotnull'>
  /** `$n` of the operands; none with `truth`. */
  readonly slots: readonly number[]
  /** Operand of `is`. */
  readonly truth?: Truth
}

export interface SelectedColumn {
  /** Property in the JSON row. */
  readonly property: string
  readonly column: string
}

export interface RowSelection {
  readonly kind: 'rows'
  /** Null: every column. */
  readonly columns: readonly SelectedColumn[] | null
  readonly expansions: readonly Expansion[]
  /** Every property in its order, for doors that shape each value (GraphQL); stands for `columns`, which is empty then. */
  readonly layout?: readonly LayoutItem[]
}

export type LayoutItem =
  | ShapedColumn
  | { readonly kind: 'constant'; readonly property: string; readonly value: string }
  /** The same row once more, as an object of other properties. */
  | { readonly kind: 'row'; readonly property: string; readonly select: RowSelection }
  /** The expansion of this property. */
  | { readonly kind: 'expansion'; readonly property: string }

export interface ShapedColumn {
  readonly kind: 'column'
  readonly property: string
  readonly column: string
  readonly shaping: Shaping
}

/**
 * How a value becomes JSON: as PostgreSQL makes it; as text, so that JavaScript keeps its digits; an enum's labels under other
 * names; an object of some attributes of a composite value. Arrays are shaped element by element.
 */
export type Shaping =
  | { readonly kind: 'plain' | 'text' }
  | { readonly kind: 'renamed'; readonly names: readonly (readonly [label: string, name: string])[] }
  | { readonly kind: 'object'; readonly items: readonly (ShapedColumn | Extract<LayoutItem, { kind: 'constant' }>)[] }

export type AggregateFunction = 'count' | 'sum' | 'avg' | 'min' | 'max'

export interface Aggregate {
  readonly property: string
  readonly function: AggregateFunction
  /** Null for `count()`. */
  readonly column: string | null
}

export interface Aggregation {
  readonly kind: 'aggregate'
  readonly groups: readonly SelectedColumn[]
  readonly aggregates: readonly Aggregate[]
}

export interface Expansion {
  /** Property in the JSON row: the name asked for. */
  readonly property: string
  /** Name of the relation in the catalog. */
  readonly relation: string
  readonly select: RowSelection
  readonly filter: Filter | null
  readonly order: readonly SortKey[]
  /** Rows; null for a `one` relation. Part of the statement, as in `OffsetPage`. */
  readonly limit: number | null
  /** Slot. */
  readonly offset: number | null
}

export interface SortKey {
  /** A column; in an aggregation, a property of the result. */
  readonly column: string
  readonly descending: boolean
  readonly nullsFirst: boolean
}

/**
 * `offset` is a slot. `limit` is a number, one more than asked for, which tells whether more follows: it stands in the SQL itself,
 * because of a limit it does not know PostgreSQL guesses a tenth of the rows, and reads whole tables in sort order to save a sort.
 */
export interface OffsetPage {
  readonly kind: 'offset'
  readonly limit: number
  readonly offset: number | null
}

/** Keyset page. `after` and `before` hold a slot for each sort key, null where the cursor's value is SQL NULL. */
export interface CursorPage {
  readonly kind: 'cursor'
  /** Counted from the end: the statement returns the rows in reverse. */
  readonly backward: boolean
  readonly limit: number
  readonly after: readonly (number | null)[] | null
  readonly before: readonly (number | null)[] | null
}

export interface ListShape {
  readonly kind: 'list'
  readonly schema: string
  readonly table: string
  readonly select: RowSelection | Aggregation
  readonly filter: Filter | null
  /** Over the results of an aggregation. */
  readonly having: Filter | null
  readonly order: readonly SortKey[]
  readonly page: OffsetPage | CursorPage
  /** With the number of all rows that pass the filter. */
  readonly count: boolean
}

export interface RowShape {
  readonly kind: 'row'
  readonly schema: string
  readonly table: string
  readonly select: RowSelection
  /** Slots of the key's values, in primary key order. */
  readonly key: readonly number[]
}
