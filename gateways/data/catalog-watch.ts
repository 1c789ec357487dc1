import { performance } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { Unavailable } from '../../schemas/failure.ts'
import type { Catalog } from './catalog.ts'
import { activity, fingerprint } from './postgres-fingerprint.ts'
import { type CatalogClient, type ExposedSchemas, inCatalogSnapshot, readCatalog } from './postgres-introspect.ts'

/** A connection of the watch's own. */
interface WatchConnection {
  on(event: 'error', listener: (error: Error) => void): unknown
  end(): Promise<void>
}

/** A connected client for the watch alone; a `pg` client is one. */
export interface WatchClient extends CatalogClient, WatchConnection {}

/** What a catalog was built from. */
interface Seen {
  /** Another one whenever something may have changed. */
  readonly activity: string
  readonly fingerprint: string
}

interface Look extends Seen {
  readonly catalog: Catalog | null
  /** Of finding out whether it is another one. */
  readonly costMs: number
}

/** How the catalog of a kind of database is looked at. */
export interface CatalogReader<Client> {
  /** Cheap; empty where a database tells nothing of the kind. */
  activity(client: Client): Promise<string>
  /** The catalog, if it is another one than `before`. */
  read(client: Client, schemas: ExposedSchemas, before: string): Promise<Look>
}

const postgresReader: CatalogReader<WatchClient> = {
  activity,
  read: (client, schemas, before) =>
    inCatalogSnapshot(client, async () => {
      const startedAt = performance.now()
      const seen = { activity: await activity(client), fingerprint: await fingerprint(client, schemas) }
      const costMs = performance.now() - startedAt
      const catalog = seen.fingerprint === before ? null : await readCatalog(client, schemas)
      return { ...seen, costMs, catalog }
    }),
}

export type CatalogObservation =
  | {
      readonly type: 'catalog-loaded'
      readonly version: string
      readonly tables: number
      readonly functions: number
      readonly durationMs: number
    }
  /** The catalog as it was goes on being served. */
  | { readonly type: 'catalog-unreadable'; readonly error: unknown; readonly retryInMs: number }

export interface CatalogWatchOptions<Client extends WatchConnection = WatchClient> {
  /** Opens a connection; called again whenever the last one is gone. */
  readonly connect: () => Promise<Client>
  readonly reader: CatalogReader<Client>
  readonly schemas: ExposedSchemas
  /** Pause between two looks at the database. Default 400. Longer while a look takes long: no more than a tenth of the time is spent looking. */
  readonly pollMs?: number
  /** Called with each new catalog after the first, once it is current. */
  readonly onChange?: (catalog: Catalog) => void
  readonly onObservation?: (observation: CatalogObservation) => void
}

const maxPauseMs = 5_000
const firstRetryMs = 100
/** For one look, a new catalog included; a connection that is silent for longer counts as lost. */
const patienceMs = 90_000

/**
 * Reads the catalog and keeps it as the database is: a DDL change is seen within a second, without special rights and with nothing
 * installed in the database. A new catalog is built beside the old one and takes its place at once.
 * @throws what connecting or the first reading throws; later failures are retried and observed.
 */
export async function watchCatalog(options: Omit<CatalogWatchOptions<WatchClient>, 'reader'>): Promise<CatalogWatch> {
  return await watchCatalogWith({ ...options, reader: postgresReader })
}

/** As `watchCatalog`, of any kind of database. */
export async function watchCatalogWith<Client extends WatchConnection>(
  options: CatalogWatchOptions<Client>,
): Promise<CatalogWatch<Client>> {
  const watch = new CatalogWatch(options)
  try {
    await watch.look()
  } catch (error) {
    await watch.stop()
    throw error
  }
  watch.start()
  return watch
}

export class CatalogWatch<Client extends WatchConnection = WatchClient> implements AsyncDisposable {
  readonly #options: CatalogWatchOptions<Client>
  readonly #pollMs: number
  readonly #stopping = new AbortController()
  #catalog: Catalog | null = null
  #client: Client | null = null
  /** What the current catalog was built from. */
  #seen: Seen = { activity: '', fingerprint: '' }
  #costMs = 0
  #running: Promise<void> | null = null
  #next: Promise<void> | null = null
  #loop: Promise<void> = Promise.resolve()

  /** Use `watchCatalog`. */
  constructor(options: CatalogWatchOptions<Client>) {
    this.#options = options
    this.#pollMs = options.pollMs ?? 400
  }

  current(): Catalog {
    return this.#catalog!
  }

  /**
   * The catalog as the database is now. Calls that come together share one look at the database, and the look begins after the
   * call: what was committed before is in it.
   * @throws {Unavailable} `data/database-unavailable`
   */
  async reload(): Promise<Catalog> {
    try {
      await this.look()
    } catch (error) {
      throw new Unavailable('data/database-unavailable', 'The database cannot be asked for its tables', {
        cause: error,
      })
    }
    return this.current()
  }

  /** As `reload`, with the failure as it is. */
  look(): Promise<void> {
    if (this.#stopping.signal.aborted) return Promise.resolve()
    if (!this.#running) return this.#begin()
    this.#next ??= this.#running
      // Who waits for that look learns of its failure; the next one is another try.
      .catch(() => undefined)
      .then(() => {
        this.#next = null
        return this.look()
      })
    return this.#next
  }

  start(): void {
    this.#loop = this.#poll()
  }

  /** Breaks off a look that is under way and closes the connection; the catalog stays. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#drop()
    await this.#loop
    await this.#running?.catch(() => undefined)
    this.#drop()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  #begin(): Promise<void> {
    const running = this.#check().finally(() => {
      this.#running = null
    })
    this.#running = running
    return running
  }

  async #check(): Promise<void> {
    const patience = new AbortController()
    const silence = delay(patienceMs, undefined, { signal: patience.signal }).then(() => {
      throw new Error(`The database did not answer within ${patienceMs} ms`)
    })
    try {
      await Promise.race([this.#compare(), silence])
    } catch (error) {
      this.#drop()
      throw error
    } finally {
      patience.abort()
      silence.catch(() => undefined)
    }
  }

  /** Looks whether anything has changed, the cheap way first. */
  async #compare(): Promise<void> {
    const client = await this.#connected()
    const { reader, schemas } = this.#options
    const now = this.#catalog === null ? '' : await reader.activity(client)
    if (now !== '' && now === this.#seen.activity) {
      this.#costMs = 0
      return
    }
    const startedAt = performance.now()
    const before = this.#catalog === null ? '' : this.#seen.fingerprint
    const { catalog, costMs, ...seen } = await reader.read(client, schemas, before)
    this.#costMs = costMs
    // A look that was given up on must not put an old catalog over a newer one.
    if (client !== this.#client) return
    this.#seen = seen
    if (catalog !== null) this.#swap(catalog, performance.now() - startedAt)
  }

  #swap(catalog: Catalog, durationMs: number): void {
    const before = this.#catalog
    // What did not change for us keeps its identity, and with it every cache.
    if (before?.version === catalog.version) return
    this.#catalog = catalog
    this.#options.onObservation?.({
      type: 'catalog-loaded',
      version: catalog.version,
      tables: catalog.tables.size,
      functions: catalog.functions.length,
      durationMs,
    })
    if (before) this.#options.onChange?.(catalog)
  }

  async #connected(): Promise<Client> {
    if (this.#client) return this.#client
    const client = await this.#options.connect()
    client.on('error', () => {
      if (this.#client === client) this.#drop()
    })
    this.#client = client
    // It may lead to another server, whose transactions are counted differently.
    this.#seen = { ...this.#seen, activity: '' }
    return client
  }

  #drop(): void {
    const client = this.#client
    this.#client = null
    // Closing a connection that is broken fails or never ends: nobody waits for it.
    client?.end().catch(() => undefined)
  }

  async #poll(): Promise<void> {
    const { signal } = this.#stopping
    let failures = 0
    while (!signal.aborted) {
      const pause = Math.min(maxPauseMs, Math.max(this.#pollMs, this.#costMs * 10))
      const retryMs = Math.min(maxPauseMs, firstRetryMs * 2 ** failures) * (0.5 + Math.random() / 2)
      await delay(failures > 0 ? retryMs : pause, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return
      try {
        await this.look()
        failures = 0
      } catch (error) {
        if (signal.aborted) return
        failures += 1
        this.#options.onObservation?.({
          type: 'catalog-unreadable',
          error,
          retryInMs: Math.min(maxPauseMs, firstRetryMs * 2 ** failures),
        })
      }
    }
  }
}
