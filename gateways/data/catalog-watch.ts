import { performance } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { Unavailable } from '../../schemas/failure.ts'
import type { Catalog } from './catalog.ts'
import { activity, fingerprint } from './postgres-fingerprint.ts'
import { type CatalogClient, type ExposedSchemas, inCatalogSnapshot, readCatalog } from './postgres-introspect.ts'

/** A connected client for the watch alone; a `pg` client is one. */
export interface WatchClient extends CatalogClient {
  on(event: 'error', listener: (error: Error) => void): unknown
  end(): Promise<void>
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

export interface CatalogWatchOptions {
  /** Opens a connection; called again whenever the last one is gone. */
  readonly connect: () => Promise<WatchClient>
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
export async function watchCatalog(options: CatalogWatchOptions): Promise<CatalogWatch> {
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

export class CatalogWatch implements AsyncDisposable {
  readonly #options: CatalogWatchOptions
  readonly #pollMs: number
  readonly #stopping = new AbortController()
  #catalog: Catalog | null = null
  #client: WatchClient | null = null
  /** What the current catalog was built from. */
  #seen = { activity: '', fingerprint: '' }
  #costMs = 0
  #running: Promise<void> | null = null
  #next: Promise<void> | null = null
  #loop: Promise<void> = Promise.resolve()

  /** Use `watchCatalog`. */
  constructor(options: CatalogWatchOptions) {
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
    if (this.#catalog && (await activity(client)) === this.#seen.activity) {
      this.#costMs = 0
      return
    }
    const startedAt = performance.now()
    const found = await inCatalogSnapshot(client, async () => {
      const seen = { activity: await activity(client), fingerprint: await fingerprint(client, this.#options.schemas) }
      this.#costMs = performance.now() - startedAt
      const same = this.#catalog !== null && seen.fingerprint === this.#seen.fingerprint
      return { seen, catalog: same ? null : await readCatalog(client, this.#options.schemas) }
    })
    // A look that was given up on must not put an old catalog over a newer one.
    if (client !== this.#client) return
    this.#seen = found.seen
    if (found.catalog) this.#swap(found.catalog, performance.now() - startedAt)
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

  async #connected(): Promise<WatchClient> {
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
