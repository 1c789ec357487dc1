import type { AggregateFunction, Filter, ShapedColumn } from './read-ast.ts'

/** Aggregates as nested objects, over all rows and by groups, in one statement. */
export interface NumbersShape {
  readonly kind: 'numbers'
  readonly schema: string
  readonly table: string
  readonly filter: Filter | null
  readonly items: readonly NumbersItem[]
}

export type NumbersConstant = { readonly kind: 'constant'; readonly property: string; readonly value: string }

export type NumbersItem =
  | NumbersConstant
  | { readonly kind: 'count'; readonly property: string }
  | {
      readonly kind: 'results'
      readonly property: string
      readonly function: Exclude<AggregateFunction, 'count'>
      readonly columns: readonly (ShapedColumn | NumbersConstant)[]
    }
  /** Of a group: the values it has in common. */
  | { readonly kind: 'key'; readonly property: string; readonly columns: readonly (ShapedColumn | NumbersConstant)[] }
  | {
      readonly kind: 'groups'
      readonly property: string
      readonly columns: readonly string[]
      readonly limit: number
      /** Slot. */
      readonly offset: number | null
      readonly items: readonly NumbersItem[]
    }
