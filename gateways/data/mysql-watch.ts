import { performance } from 'node:perf_hooks'
import { type ConnectionOptions, createConnection, type RowDataPacket } from 'mysql2/promise'
import { type CatalogObservation, type CatalogReader, type CatalogWatch, watchCatalogWith } from './catalog-watch.ts'
import { introspectMysql, type MysqlCatalogClient } from './mysql-introspect.ts'
import type { ExposedSchemas } from './postgres-introspect.ts'

interface MysqlWatchClient extends MysqlCatalogClient {
  on(event: 'error', listener: (error: Error) => void): unknown
  end(): Promise<void>
}

/** MySQL tells nothing cheaper than its tables themselves: the pauses grow with what a look takes. */
const reader: CatalogReader<MysqlWatchClient> = {
  activity: () => Promise.resolve(''),
  read: async (client, schemas, before) => {
    const startedAt = performance.now()
    const catalog = await introspectMysql(client, schemas)
    const { version: fingerprint } = catalog
    const costMs = performance.now() - startedAt
    return { activity: '', fingerprint, costMs, catalog: fingerprint === before ? null : catalog }
  },
}

export interface MysqlWatchOptions {
  readonly connection: ConnectionOptions
  /** Databases, which are MySQL's schemas. */
  readonly schemas: ExposedSchemas
  /** As of `CatalogWatchOptions`. */
  readonly pollMs?: number
  readonly onObservation?: (observation: CatalogObservation) => void
}

/** As `watchCatalog`. @throws what connecting or the first reading throws */
export function watchMysqlCatalog({
  connection,
  ...options
}: MysqlWatchOptions): Promise<CatalogWatch<MysqlWatchClient>> {
  return watchCatalogWith({ ...options, reader, connect: () => connect(connection) })
}

async function connect(options: ConnectionOptions): Promise<MysqlWatchClient> {
  const connection = await createConnection({ ...options, connectTimeout: 5_000, charset: 'utf8mb4' })
  return {
    query: async (text, values) => (await connection.query<RowDataPacket[]>(text, [...values]))[0],
    on: (event, listener) => connection.on(event, listener),
    // Closing a connection that is broken never ends.
    end: () => Promise.resolve(connection.destroy()),
  }
}
