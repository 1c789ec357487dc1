import type { NatsConnection } from '@nats-io/nats-core'
import type { FastifyInstance } from 'fastify'
import pg from 'pg'
import { type CatalogObservation, type CatalogWatch, watchCatalog } from '../data/catalog-watch.ts'
import { type ChangeHubObservation, createChangeHub } from '../data/changes-hub.ts'
import type { DatabaseObservation } from '../data/postgres-pool.ts'
import { openDatabase, type PostgresDatabase } from '../data/postgres-run.ts'
import { defaultReadLimits } from '../data/read-limits.ts'
import { type AuthenticatorOptions, createAuthenticator } from '../http/auth.ts'
import { refuseOtherMethods } from '../http/methods.ts'
import { createHttpServer } from '../http/server.ts'
import { changeRoutes } from './changes.ts'
import { describeRoutes } from './describe.ts'
import { type FrontPageOptions, frontPage } from './front-page.ts'
import { listHandler, rowHandler } from './read.ts'
import { callHandler, readCallHandler } from './rpc.ts'
import type { RestService } from './service.ts'
import {
  bulkDeleteHandler,
  bulkPatchHandler,
  deleteHandler,
  insertHandler,
  patchHandler,
  replaceHandler,
} from './write.ts'

export type RestObservation =
  | DatabaseObservation
  | CatalogObservation
  | ChangeHubObservation
  | { readonly type: 'request-fault'; readonly requestId: string; readonly route: string; readonly error: unknown }

export interface RestGatewayOptions extends FrontPageOptions {
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  readonly connection: pg.ClientConfig
  /** Default 10. */
  readonly poolSize?: number
  readonly statementTimeoutMs?: number
  /** The schema whose tables are resources. */
  readonly schema: string
  readonly defaultPageSize: number
  readonly maxPageSize: number
  readonly maxExpandDepth: number
  readonly maxBodyBytes: number
  readonly corsOrigins: readonly string[]
  readonly jwt: AuthenticatorOptions
  /** Change streams; absent: off. Writes then emit no commands. */
  readonly changes?: RestChangesOptions
  readonly onObservation: (observation: RestObservation) => void
}

export interface RestChangesOptions {
  readonly bus: NatsConnection
  readonly streamName: string
  /** Name of the database in the subjects of its changes. */
  readonly source: string
  readonly heartbeatMs?: number
  readonly maxClients?: number
  /** Unsent changes kept for one client. */
  readonly maxUnsentBytes?: number
  /** How long a client with so many may take nothing. */
  readonly stallMs?: number
  readonly maxSnapshotRows?: number
}

export interface RestGateway {
  readonly url: string
  stop(): Promise<void>
}

/**
 * The REST data API on one PostgreSQL: connects, reads the catalog, listens.
 * @throws what connecting or listening throws, untranslated, so that the operator can be told in one line.
 */
export async function startRestGateway(options: RestGatewayOptions): Promise<RestGateway> {
  const { onObservation } = options
  const connect = async () => {
    const client = new pg.Client({ ...options.connection, application_name: 'busbar catalog' })
    await client.connect()
    return client
  }
  const catalog = await watchCatalog({ connect, schemas: [options.schema], onObservation })
  try {
    const database = await openDatabase({
      connection: options.connection,
      ...(options.poolSize === undefined ? {} : { poolSize: options.poolSize }),
      ...(options.statementTimeoutMs === undefined ? {} : { statementTimeoutMs: options.statementTimeoutMs }),
      applicationName: 'busbar rest',
      onObservation,
    })
    return await listen(options, catalog, database)
  } catch (error) {
    await catalog.stop()
    throw error
  }
}

async function listen(
  options: RestGatewayOptions,
  catalog: CatalogWatch,
  database: PostgresDatabase,
): Promise<RestGateway> {
  const app = await createHttpServer({
    maxBodyBytes: options.maxBodyBytes,
    corsOrigins: options.corsOrigins,
    onFault: (fault) => options.onObservation({ type: 'request-fault', ...fault }),
  })
  const { defaultPageSize, maxPageSize, maxExpandDepth } = options
  const authenticator = createAuthenticator(options.jwt)
  const service: RestService = {
    schema: options.schema,
    catalog,
    database,
    authenticate: authenticator.authenticate,
    limits: { ...defaultReadLimits, defaultPageSize, maxPageSize, maxExpandDepth },
    emitCommands: options.changes !== undefined,
  }
  const refuseOthers = refuseOtherMethods(app)
  healthRoutes(app, database)
  describeRoutes(app, service, { jwt: authenticator.enabled, changes: options.changes !== undefined })
  frontPage(app, options)
  const hub =
    options.changes === undefined
      ? null
      : await createChangeHub({ ...options.changes, onObservation: options.onObservation })
  await changeRoutes(app, service, hub, {
    corsOrigins: options.corsOrigins,
    ...(options.changes?.heartbeatMs === undefined ? {} : { heartbeatMs: options.changes.heartbeatMs }),
    ...(options.changes?.maxSnapshotRows === undefined ? {} : { maxSnapshotRows: options.changes.maxSnapshotRows }),
  })
  rowRoutes(app, service)
  refuseOthers()
  const close = async () => {
    await app.close()
    await Promise.all([catalog.stop(), database.close()])
  }
  try {
    const url = await app.listen({ host: options.host, port: options.port })
    return { url, stop: close }
  } catch (error) {
    await close()
    throw error
  }
}

function rowRoutes(app: FastifyInstance, service: RestService): void {
  app.get('/api/v1/:table', listHandler(service))
  app.post('/api/v1/:table', insertHandler(service))
  app.patch('/api/v1/:table', bulkPatchHandler(service))
  app.delete('/api/v1/:table', bulkDeleteHandler(service))
  app.get('/api/v1/:table/:key', rowHandler(service))
  app.put('/api/v1/:table/:key', replaceHandler(service))
  app.patch('/api/v1/:table/:key', patchHandler(service))
  app.delete('/api/v1/:table/:key', deleteHandler(service))
  app.get('/api/v1/rpc/:name', readCallHandler(service))
  app.post('/api/v1/rpc/:name', callHandler(service))
}

function healthRoutes(app: FastifyInstance, database: PostgresDatabase): void {
  app.get('/healthz', async () => ({ status: 'ok' }))
  app.get('/readyz', async () => {
    await database.ping()
    return { status: 'ready' }
  })
}
