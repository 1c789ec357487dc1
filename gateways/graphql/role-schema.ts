import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Catalog } from '../data/catalog.ts'
import type { Run } from '../data/statement.ts'
import type { Principal } from '../http/auth.ts'
import { type Privileges, readPrivileges, restrictCatalog } from './role-privileges.ts'
import type { SchemaState, SchemaView } from './schema-state.ts'

export interface RoleSchemasOptions {
  readonly run: Run
  readonly whole: SchemaView
  readonly build: (whole: SchemaState, catalog: Catalog, privileges: Privileges) => SchemaState
  /** A granted right is seen after at most this, or ten times what reading the rights takes. Default 1000. */
  readonly refreshMs?: number
}

interface Known {
  /** Of the catalog. */
  readonly version: string
  /** Key of the state. */
  readonly seen: string
  readonly readAt: number
  readonly freshForMs: number
}

const maxRoles = 1000
/** Roles of equal rights share one. */
const maxStates = 50
/** Of all states together: a schema grows with its tables. */
const maxTables = 20_000

/** The schema each database role sees: what it has rights for, under the names that these things have for everybody. */
export class RoleSchemas {
  readonly #options: RoleSchemasOptions
  readonly #roles = new LRUCache<string, Known>({ max: maxRoles })
  readonly #reading = new Map<string, Promise<SchemaState>>()
  readonly #states = new LRUCache<string, SchemaState>({
    max: maxStates,
    maxSize: maxTables,
    sizeCalculation: ({ catalog }) => Math.min(catalog.tables.size + 1, maxTables),
  })

  constructor(options: RoleSchemasOptions) {
    this.#options = options
  }

  viewOf(principal: Principal): SchemaView {
    return {
      current: () => this.#current(principal),
      reload: async () => {
        await this.#options.whole.reload()
        return await this.#read(principal)
      },
    }
  }

  async #current(principal: Principal): Promise<SchemaState> {
    const { catalog } = await this.#options.whole.current()
    const known = this.#roles.get(nameOf(principal))
    const state = known?.version === catalog.version ? this.#states.get(known.seen) : undefined
    if (!known || !state) return await this.#readOnce(principal)
    // The rights as they were serve this request: what was taken away since the database refuses by itself.
    if (performance.now() - known.readAt > known.freshForMs) this.#readOnce(principal).catch(() => undefined)
    return state
  }

  #readOnce(principal: Principal): Promise<SchemaState> {
    const name = nameOf(principal)
    let reading = this.#reading.get(name)
    if (!reading) {
      reading = this.#read(principal).finally(() => this.#reading.delete(name))
      this.#reading.set(name, reading)
    }
    return reading
  }

  async #read(principal: Principal): Promise<SchemaState> {
    const { run, build, whole, refreshMs = 1000 } = this.#options
    const state = await whole.current()
    const startedAt = performance.now()
    const privileges = await readPrivileges(run, state.catalog, principal)
    const seen = `${state.catalog.version} ${hash('sha256', privileges.text)}`
    let own = this.#states.get(seen)
    if (!own) {
      own = build(state, restrictCatalog(state.catalog, privileges, seen), privileges)
      this.#states.set(seen, own)
    }
    const readAt = performance.now()
    this.#roles.set(nameOf(principal), {
      version: state.catalog.version,
      seen,
      readAt,
      freshForMs: Math.max(refreshMs, (readAt - startedAt) * 10),
    })
    return own
  }
}

/** No role has an empty name: that one is the login role. */
function nameOf({ role }: Principal): string {
  return role ?? ''
}
