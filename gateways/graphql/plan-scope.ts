import type { FragmentDefinitionNode, GraphQLSchema } from 'graphql'
import type { Catalog } from '../data/catalog.ts'
import type { ReadLimits } from '../data/read-limits.ts'
import { Slots } from '../data/read-request.ts'
import type { Naming } from './naming.ts'

/** What planning the fields of one operation shares. */
export interface OperationScope {
  readonly catalog: Catalog
  readonly schema: GraphQLSchema
  readonly naming: Naming
  readonly fragments: Readonly<Record<string, FragmentDefinitionNode>>
  /** Coerced by the schema. */
  readonly variables: Readonly<Record<string, unknown>>
  /** As they were sent. */
  readonly rawVariables: Readonly<Record<string, unknown>>
  readonly limits: ReadLimits
}

/** What planning one field of the operation's root gathers; its parts go into one statement. */
export interface PlanScope extends OperationScope {
  readonly slots: Slots
  /** Counted over the field. */
  readonly used: { filters: number }
  readonly expanded: { count: number }
}

export function planScope(operation: OperationScope): PlanScope {
  return { ...operation, slots: new Slots(), used: { filters: 0 }, expanded: { count: 0 } }
}
