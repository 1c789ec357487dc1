import pg from 'pg'
import { type CatalogObservation, type CatalogWatch, watchCatalog } from '../data/catalog-watch.ts'
import { type ChangeHubObservation, type ChangeHubOptions, createChangeHub } from '../data/changes-hub.ts'
import type { Dialect } from '../data/dialect.ts'
import { mysqlDialect } from '../data/mysql-dialect.ts'
import { openMysql } from '../data/mysql-open.ts'
import type { MysqlConnection } from '../data/mysql-run.ts'
import type { Flavour } from '../data/mysql-sql.ts'
import { watchMysqlCatalog } from '../data/mysql-watch.ts'
import { postgresDialect } from '../data/postgres-dialect.ts'
import type { ExposedSchemas } from '../data/postgres-introspect.ts'
import type { DatabaseObservation } from '../data/postgres-pool.ts'
import { openDatabase } from '../data/postgres-run.ts'
import { defaultReadLimits } from '../data/read-limits.ts'
import type { TransactionalDatabase } from '../data/statement.ts'
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
  /** A PostgreSQL. */
  readonly connection?: pg.ClientConfig
  /** Instead of a PostgreSQL. */
  readonly mysql?: MysqlConnection
  /** The SQL to speak with it. Default: that of the server that is there. */
  readonly mysqlFlavour?: Flavour
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

/** What the gateway needs of a database, of whatever kind. */
interface Served {
  readonly dialect: Dialect
  readonly catalog: Pick<CatalogWatch, 'current' | 'reload' | 'stop'>
  readonly database: TransactionalDatabase & { ping(): Promise<void>; close(): Promise<void> }
}

/**
 * The GraphQL data API on one database: connects, reads the catalog, listens.
 * @throws what connecting or listening throws, untranslated, so that the operator can be told in one line.
 */
export async function startGraphqlGateway(options: GraphqlGatewayOptions): Promise<GraphqlGateway> {
  const { connection, mysql } = options
  if (mysql !== undefined) return await listen(options, await serveMysql(options, mysql))
  if (connection === undefined) throw new Error('There is no database to serve')
  return await listen(options, await servePostgres(options, connection))
}

async function servePostgres(options: GraphqlGatewayOptions, connection: pg.ClientConfig): Promise<Served> {
  const { onObservation } = options
  const connect = async () => {
    const client = new pg.Client({ ...connection, application_name: 'busbar catalog' })
    await client.connect()
    return client
  }
  const catalog = await watchCatalog({ connect, schemas: options.schemas, onObservation })
  try {
    const applicationName = 'busbar graphql'
    const database = await openDatabase({ ...poolOptions(options), connection, applicationName, onObservation })
    return { dialect: postgresDialect, catalog, database }
  } catch (error) {
    await catalog.stop()
    throw error
  }
}

async function serveMysql(options: GraphqlGatewayOptions, connection: MysqlConnection): Promise<Served> {
  const { schemas, mysqlFlavour: flavour, emitCommands, onObservation } = options
  const database = await openMysql({
    ...poolOptions(options),
    ...(flavour === undefined ? {} : { flavour }),
    connection,
    logTexts: emitCommands,
    onObservation,
  })
  try {
    const catalog = await watchMysqlCatalog({ connection, schemas, onObservation })
    return { dialect: mysqlDialect(database.flavour), catalog, database }
  } catch (error) {
    await database.close()
    throw error
  }
}

function poolOptions({ poolSize, statementTimeoutMs }: GraphqlGatewayOptions) {
  return {
    ...(poolSize === undefined ? {} : { poolSize }),
    ...(statementTimeoutMs === undefined ? {} : { statementTimeoutMs }),
  }
}

async function listen(options: GraphqlGatewayOptions, { dialect, catalog, database }: Served): Promise<GraphqlGateway> {
  const onFault: GraphqlService['onFault'] = (fault) => options.onObservation({ type: 'request-fault', ...fault })
  const { maxBodyBytes, corsOrigins, defaultPageSize, maxPageSize } = options
  const app = await createHttpServer({ maxBodyBytes, corsOrigins, onFault })
  const { enabled: withRoles, authenticate } = createAuthenticator(options.jwt)
  const service: GraphqlService = {
    persisted: new PersistedQueries({ ...defaultPersisted, ...options.persisted }),
    watch: new SchemaWatch({
      catalog,
      dialect,
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
