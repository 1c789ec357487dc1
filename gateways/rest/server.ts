import type { FastifyInstance } from 'fastify'
import pg from 'pg'
import type { Catalog } from '../data/catalog.ts'
import { type CatalogObservation, type CatalogWatch, watchCatalog } from '../data/catalog-watch.ts'
import { type DatabaseObservation, openDatabase, type PostgresDatabase } from '../data/postgres-run.ts'
import { defaultReadLimits } from '../data/read-limits.ts'
import { type AuthenticatorOptions, createAuthenticator } from '../http/auth.ts'
import { createHttpServer } from '../http/server.ts'
import { docsPage } from './docs-page.ts'
import { buildOpenApi, openApiYaml } from './openapi.ts'
import { listHandler, rowHandler } from './read.ts'
import type { RestService } from './service.ts'

export type RestObservation =
  | DatabaseObservation
  | CatalogObservation
  | { readonly type: 'request-fault'; readonly requestId: string; readonly route: string; readonly error: unknown }

export interface RestGatewayOptions {
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
  readonly onObservation: (observation: RestObservation) => void
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
    emitCommands: false,
  }
  describeRoutes(app, service, authenticator.enabled)
  healthRoutes(app, database)
  app.get('/api/v1/:table', listHandler(service))
  app.get('/api/v1/:table/:key', rowHandler(service))
  await docsPage(app, { specUrl: '/api/v1/openapi.json' })
  app.get('/', (_request, reply) => reply.redirect('/docs'))
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

/** The tables and the OpenAPI document, made once for each version of the catalog. */
function describeRoutes(app: FastifyInstance, { schema, catalog, limits }: RestService, jwt: boolean): void {
  const { defaultPageSize, maxPageSize } = limits
  const build = (current: Catalog) => {
    const title = `Busbar REST API: ${schema}`
    const options = {
      schema,
      title,
      version: '1.0.0',
      serverUrl: '',
      defaultPageSize,
      maxPageSize,
      jwt,
      changes: false,
    }
    const document = buildOpenApi(current, options)
    return { version: current.version, json: JSON.stringify(document), yaml: openApiYaml(document) }
  }
  let made = { version: '', json: '', yaml: '' }
  const described = () => {
    const current = catalog.current()
    if (made.version !== current.version) made = build(current)
    return made
  }
  app.get('/api/v1', async () => {
    const tables = [...catalog.current().tables.values()].filter((table) => table.schema === schema)
    return {
      tables: tables.map(({ name, kind, comment }) => ({
        name,
        kind,
        comment,
        url: `/api/v1/${encodeURIComponent(name)}`,
      })),
    }
  })
  app.get('/api/v1/openapi.json', (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(described().json),
  )
  app.get('/api/v1/openapi.yaml', (_request, reply) =>
    reply.type('application/yaml; charset=utf-8').send(described().yaml),
  )
}

function healthRoutes(app: FastifyInstance, database: PostgresDatabase): void {
  app.get('/healthz', async () => ({ status: 'ok' }))
  app.get('/readyz', async () => {
    await database.ping()
    return { status: 'ready' }
  })
}
