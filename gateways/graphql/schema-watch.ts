import type { GraphQLSchema } from 'graphql'
import { LRUCache } from 'lru-cache'
import type { Catalog } from '../data/catalog.ts'
import type { Compiled } from '../data/postgres-sql.ts'
import type { ReadLimits } from '../data/read-limits.ts'
import { type DocumentLimits, Documents } from './document.ts'
import type { Naming } from './naming.ts'
import { buildSchema, type SchemaOptions } from './schema.ts'

/** Everything that belongs to one version of the catalog. */
export interface SchemaState {
  readonly catalog: Catalog
  readonly schema: GraphQLSchema
  readonly naming: Naming
  readonly documents: Documents
  readonly compiled: LRUCache<string, Compiled>
  readonly limits: ReadLimits
}

export interface SchemaWatchOptions extends SchemaOptions {
  readonly catalog: { current(): Catalog; reload(): Promise<Catalog> }
  readonly limits: ReadLimits
  readonly documentLimits: DocumentLimits
}

/** The schema follows the catalog: built when it is first asked for after a change. */
export class SchemaWatch {
  readonly #options: SchemaWatchOptions
  #state: SchemaState | null = null

  constructor(options: SchemaWatchOptions) {
    this.#options = options
  }

  current(): SchemaState {
    return this.#stateOf(this.#options.catalog.current())
  }

  async reload(): Promise<SchemaState> {
    return this.#stateOf(await this.#options.catalog.reload())
  }

  #stateOf(catalog: Catalog): SchemaState {
    if (this.#state?.catalog.version === catalog.version) return this.#state
    const { limits, documentLimits } = this.#options
    const { schema, naming } = buildSchema(catalog, this.#options)
    this.#state = {
      catalog,
      schema,
      naming,
      documents: new Documents(schema, documentLimits),
      compiled: new LRUCache({ max: 5000, maxSize: 32 * 1024 * 1024, sizeCalculation: (_, key) => key.length + 4096 }),
      limits,
    }
    return this.#state
  }
}
