import type { GraphQLSchema } from 'graphql'
import type { LRUCache } from 'lru-cache'
import type { Catalog } from '../data/catalog.ts'
import type { Compiled, Dialect } from '../data/dialect.ts'
import type { ReadLimits } from '../data/read-limits.ts'
import type { Costs } from './cost.ts'
import type { Documents } from './document.ts'
import type { Naming } from './naming.ts'

/** Everything that belongs to one version of the catalog, as one role or everybody sees it. */
export interface SchemaState {
  readonly catalog: Catalog
  readonly schema: GraphQLSchema
  readonly naming: Naming
  readonly documents: Documents
  readonly costs: Costs
  readonly dialect: Dialect
  readonly compiled: LRUCache<string, Compiled>
  readonly limits: ReadLimits
}

/** The schema as a caller sees it. */
export interface SchemaView {
  /** @throws {Rejected} for a role that the database does not know, or does not give */
  current(): SchemaState | Promise<SchemaState>
  reload(): Promise<SchemaState>
}
