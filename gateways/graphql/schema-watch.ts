import { LRUCache } from 'lru-cache'
import type { Catalog } from '../data/catalog.ts'
import type { Dialect } from '../data/dialect.ts'
import type { ReadLimits } from '../data/read-limits.ts'
import type { Run } from '../data/statement.ts'
import type { Principal } from '../http/auth.ts'
import { Costs } from './cost.ts'
import { type DocumentLimits, Documents } from './document.ts'
import type { Renamed } from './naming.ts'
import { mayWrite } from './role-privileges.ts'
import { RoleSchemas } from './role-schema.ts'
import { buildSchema, type SchemaOptions } from './schema.ts'
import type { SchemaState, SchemaView } from './schema-state.ts'

export type SchemaObservation = {
  /** Names of the database that are others in the schema. */
  readonly type: 'graphql-names-mapped'
  readonly count: number
  /** The first of them; `busbar catalog` lists all. */
  readonly names: readonly Pick<Renamed, 'what' | 'name' | 'as'>[]
}

export interface SchemaWatchOptions extends Pick<SchemaOptions, 'naming' | 'changes'> {
  readonly catalog: { current(): Catalog; reload(): Promise<Catalog> }
  readonly dialect: Dialect
  readonly limits: ReadLimits
  readonly documentLimits: DocumentLimits
  /** Rows an operation may return by its estimate; 0 for any number. Default 0. */
  readonly maxCost?: number
  /** Every role sees what it has rights for, which are read by this; absent: all see everything. */
  readonly roles?: { readonly run: Run }
  readonly onObservation?: (observation: SchemaObservation) => void
}

const maxNamesObserved = 20

/** The schema follows the catalog: built when it is first asked for after a change. */
export class SchemaWatch implements SchemaView {
  readonly #options: SchemaWatchOptions
  readonly #roles: RoleSchemas | null
  #state: SchemaState | null = null
  #mapped = ''

  constructor(options: SchemaWatchOptions) {
    this.#options = options
    this.#roles = options.roles
      ? new RoleSchemas({
          run: options.roles.run,
          whole: this,
          build: ({ naming }, catalog, privileges) =>
            // Names stay those of the whole.
            this.#build(catalog, {
              naming: { names: naming, writable: (table, column) => mayWrite(privileges, table, column) },
              memoryShare: 0.1,
            }),
        })
      : null
  }

  /** Everything, whoever asks. */
  current(): SchemaState {
    return this.#stateOf(this.#options.catalog.current())
  }

  async reload(): Promise<SchemaState> {
    return this.#stateOf(await this.#options.catalog.reload())
  }

  /** What the caller may see; everything, unless schemas are by role. */
  viewOf(principal: Principal): SchemaView {
    return this.#roles?.viewOf(principal) ?? this
  }

  #stateOf(catalog: Catalog): SchemaState {
    if (this.#state?.catalog.version === catalog.version) return this.#state
    this.#state = this.#build(catalog, { naming: {}, memoryShare: 1 })
    this.#observe(this.#state.naming.renamed)
    return this.#state
  }

  #build(
    catalog: Catalog,
    {
      naming: part,
      memoryShare,
    }: { readonly naming: Pick<SchemaOptions, 'names' | 'writable'>; readonly memoryShare: number },
  ): SchemaState {
    const { dialect, limits, documentLimits, naming: style, changes, maxCost = 0 } = this.#options
    const { schema, naming } = buildSchema(catalog, {
      changes,
      ...(style === undefined ? {} : { naming: style }),
      ...part,
    })
    return {
      catalog,
      schema,
      naming,
      documents: new Documents(schema, documentLimits, memoryShare),
      costs: new Costs(schema, limits, maxCost),
      dialect,
      compiled: new LRUCache({
        max: 5000,
        maxSize: Math.ceil(32 * 1024 * 1024 * memoryShare),
        sizeCalculation: (_, key) => key.length + 4096,
      }),
      limits,
    }
  }

  #observe(renamed: readonly Renamed[]): void {
    const names = renamed.slice(0, maxNamesObserved).map(({ what, name, as }) => ({ what, name, as }))
    const mapped = JSON.stringify(renamed)
    if (mapped === this.#mapped) return
    this.#mapped = mapped
    if (renamed.length > 0)
      this.#options.onObservation?.({ type: 'graphql-names-mapped', count: renamed.length, names })
  }
}
