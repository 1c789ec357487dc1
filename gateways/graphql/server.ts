import pg from 'pg'
import { type CatalogObservation, type CatalogWatch, watchCatalog } from '../data/catalog-watch.ts'
import { type ChangeHubObservation, type ChangeHubOptions, createChangeHub } from '../data/changes-hub.ts'
import { postgresDialect } from '../data/postgres-dialect.ts'
import type { ExposedSchemas } from '../data/postgres-introspect.ts'
import { type DatabaseObservation, openDatabase, type PostgresDatabase } from '../data/postgres-run.ts'
import { defaultReadLimits } from '../data/read-limits.ts'
import { type AuthenticatorOptions, createAuthenticator } from '../http/auth.ts'
import { refuseOtherMethods } from '../http/methods.ts'
import { createHttpServer } from '../http/server.ts'
import { type DocumentLimits, defaultDocumentLimits } from './document.ts'
import type { GraphqlService } from './handler.ts'
import type { NamingStyle } from './naming.ts'
import { defaultPersisted, type PersistedOptions, PersistedQueries } from './persisted.ts'
import { type SchemaObservation, SchemaWatch } from './schema-watch.ts'
import { type GraphqlRouteOptions, graphqlRoutes } from './subscription-routes.ts'

export type GraphqlObservation =
  | DatabaseObservation
  | CatalogObservation
  | SchemaObservation
  | ChangeHubObservation
  | { readonly type: 'request-fault'; readonly requestId: string; readonly route: string; readonly error: unknown }

export interface GraphqlGatewayOptions {
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  readonly connection: pg.ClientConfig
  /** Default 10. */
  readonly poolSize?: number
  readonly statementTimeoutMs?: number
  readonly schemas: ExposedSchemas
  readonly naming: NamingStyle
  readonly defaultPageSize: number
  readonly maxPageSize: number
  readonly maxBodyBytes: number
  readonly corsOrigins: readonly string[]
  readonly jwt: AuthenticatorOptions
  readonly documentLimits?: Partial<DocumentLimits>
  readonly persisted?: Partial<PersistedOptions>
  /** Rows an operation may return by its estimate; 0 for any number. Default 0. */
  readonly maxCost?: number
  /** Whether a role sees no more than it has rights for; without tokens there are no roles. Default false. */
  readonly roleSchemas?: boolean
  /** Whether writes put their command into the write-ahead log, where change capture finds it. */
  readonly emitCommands: boolean
  /** Absent: the bus is off, and subscriptions are refused with what mends it. */
  readonly changes?: GraphqlChangesOptions
  readonly onObservation: (observation: GraphqlObservation) => void
}

/** Of subscriptions and of the connections they come through. */
export type GraphqlChangesOptions = Omit<ChangeHubOptions, 'onObservation'> &
  Pick<GraphqlRouteOptions, 'heartbeatMs' | 'recheckMs' | 'maxSockets' | 'maxOperations' | 'initTimeoutMs'>

export interface GraphqlGateway {
  readonly url: string
  stop(): Promise<void>
}

/**
 * The GraphQL data API on one PostgreSQL: connects, reads the catalog, listens.
 * @throws what connecting or listening throws, untranslated, so that the operator can be told in one line.
 */
export async function startGraphqlGateway(options: GraphqlGatewayOptions): Promise<GraphqlGateway> {
  const { onObservation } = options
  const connect = async () => {
    const client = new pg.Client({ ...options.connection, application_name: 'busbar catalog' })
    await client.connect()
    return client
  }
  const catalog = await watchCatalog({ connect, schemas: options.schemas, onObservation })
  try {
    const database = await openDatabase({
      connection: options.connection,
      ...(options.poolSize === undefined ? {} : { poolSize: options.poolSize }),
      ...(options.statementTimeoutMs === undefined ? {} : { statementTimeoutMs: options.statementTimeoutMs }),
      applicationName: 'busbar graphql',
      onObservation,
    })
    return await listen(options, catalog, database)
  } catch (error) {
    await catalog.stop()
    throw error
  }
}

async function listen(
  options: GraphqlGatewayOptions,
  catalog: CatalogWatch,
  database: PostgresDatabase,
): Promise<GraphqlGateway> {
  const onFault: GraphqlService['onFault'] = (fault) => options.onObservation({ type: 'request-fault', ...fault })
  const { maxBodyBytes, corsOrigins, defaultPageSize, maxPageSize } = options
  const app = await createHttpServer({ maxBodyBytes, corsOrigins, onFault })
  const { enabled: withRoles, authenticate } = createAuthenticator(options.jwt)
  const service: GraphqlService = {
    persisted: new PersistedQueries({ ...defaultPersisted, ...options.persisted }),
    watch: new SchemaWatch({
      catalog,
      dialect: postgresDialect,
      naming: options.naming,
      // Also with the bus off: a client is told then what mends it.
      changes: true,
      limits: { ...defaultReadLimits, defaultPageSize, maxPageSize },
      documentLimits: { ...defaultDocumentLimits, ...options.documentLimits },
      ...(options.maxCost === undefined ? {} : { maxCost: options.maxCost }),
      ...(options.roleSchemas === true && withRoles ? { roles: { run: database.run } } : {}),
      onObservation: options.onObservation,
    }),
    database,
    authenticate,
    emitCommands: options.emitCommands,
    onFault,
  }
  // Built before the first request needs it; names that are others in it are told to the operator.
  service.watch.current()
  const refuseOthers = refuseOtherMethods(app)
  app.get('/healthz', async () => ({ status: 'ok' }))
  app.get('/readyz', async () => {
    await database.ping()
    return { status: 'ready' }
  })
  const { changes, onObservation } = options
  const hub = changes === undefined ? null : await createChangeHub({ ...changes, onObservation })
  await graphqlRoutes(app, service, { ...changes, hub, catalog, corsOrigins, maxBodyBytes })
  refuseOthers()
  const stop = async () => {
    await app.close()
    await Promise.all([catalog.stop(), database.close()])
  }
  try {
    const url = await app.listen({ host: options.host, port: options.port })
    return { url, stop }
  } catch (error) {
    await stop()
    throw error
  }
}
