import type { GraphQLField, GraphQLInputField } from 'graphql'
import type { Column, DatabaseType, Relation, Table } from '../data/catalog.ts'
import type { AggregateFunction } from '../data/read-ast.ts'

/** What a field of the schema stands for; kept in the field's `extensions`, where the planner finds it. */
export type Meaning =
  | {
      readonly kind: 'list' | 'connection' | 'aggregate' | 'create' | 'update' | 'delete' | 'createMany' | 'changes'
      readonly table: Table
    }
  | { readonly kind: 'column'; readonly column: Column }
  | { readonly kind: 'attribute'; readonly attribute: DatabaseType['attributes'][number] }
  | { readonly kind: 'relation'; readonly relation: Relation; readonly target: Table }
  | { readonly kind: 'results'; readonly function: Exclude<AggregateFunction, 'count'> }
  | { readonly kind: 'count' | 'groupBy' | 'key' }

/** What a member of a filter input stands for. */
export type FilterMeaning =
  | { readonly kind: 'column'; readonly column: Column }
  | { readonly kind: 'relation'; readonly relation: Relation; readonly target: Table }
  | { readonly kind: 'and' | 'or' | 'not' }

export function meaningOf(field: GraphQLField<unknown, unknown>): Meaning | undefined {
  return field.extensions.meaning as Meaning | undefined
}

export function filterMeaningOf(field: GraphQLInputField): FilterMeaning | undefined {
  return field.extensions.meaning as FilterMeaning | undefined
}

export function means(meaning: Meaning | FilterMeaning): {
  readonly extensions: { readonly meaning: Meaning | FilterMeaning }
} {
  return { extensions: { meaning } }
}
