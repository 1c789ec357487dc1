import type { ClientConfig } from 'pg'
import type { Bus } from '../bus/connect.ts'
import type { ExposedSchemas } from '../gateways/data/postgres-introspect.ts'
import type { PersistedOptions } from '../gateways/graphql/persisted.ts'
import type { GraphqlGatewayOptions } from '../gateways/graphql/server.ts'
import type { FrontPageOptions } from '../gateways/rest/front-page.ts'
import type { Config } from '../schemas/config.ts'
import { openBus } from './bus.ts'
import { datasource } from './datasource.ts'
import { OperatorError } from './local/operator-error.ts'
import { mysqlDatasource } from './mysql-datasource.ts'
import { observe } from './observe.ts'
import { gatewayPort, jwtOptions, type RoleContext, type RunningRole } from './role-options.ts'

/** Puts the changes of the served PostgreSQL on their stream. */
export async function startCaptureWorker({ config, log, signal }: RoleContext): Promise<RunningRole> {
  const { startCapture } = await import('../workers/capture/capture.ts')
  const connection = servedDatabase(config, 'Change capture')
  const bus = await openBus(config, log, 'worker:capture', 'changes')
  const capture = await startCapture({
    connection,
    source: config['app.changes.source'],
    schemas: capturedSchemas(config),
    slotName: config['app.changes.slot'],
    publicationName: config['app.changes.publication'],
    bus: bus.connection,
    streamName: config['app.nats.stream-name'],
    signal,
    onObservation: observe(log),
  })
  return {
    async stop() {
      await capture.stop()
      await bus.close()
    },
  }
}

/** @throws {OperatorError} when none is configured. */
function servedDatabase(config: Config, title: string): ClientConfig {
  const connection = datasource(config, 'spring.datasource')
  if (connection !== undefined) return connection
  throw new OperatorError(`${title} needs a database: set spring.datasource.url, or use busbar up for a sample one.`)
}

/** The door to the served PostgreSQL that speaks REST. */
export async function startRest({ config, log }: RoleContext): Promise<RunningRole> {
  const { startRestGateway } = await import('../gateways/rest/server.ts')
  const connection = servedDatabase(config, 'The REST API')
  const bus = config['app.nats.enabled'] ? await openBus(config, log, 'gateway:rest', 'changes') : undefined
  const gateway = await startRestGateway({
    host: config['server.host'],
    port: gatewayPort(config, 'gateway.rest.port'),
    connection,
    poolSize: config['app.pool-size'],
    statementTimeoutMs: config['app.statement-timeout'],
    schema: config['app.allowed-schema'],
    defaultPageSize: config['app.default-page-size'],
    maxPageSize: config['app.max-page-size'],
    maxExpandDepth: config['app.max-expand-depth'],
    maxBodyBytes: config['app.max-body-size'],
    corsOrigins: config['app.cors-origins'],
    jwt: jwtOptions(config),
    ...graphqlPlace(config),
    ...(bus === undefined ? {} : { changes: changesOptions(config, bus) }),
    onObservation: observe(log),
  })
  return {
    url: gateway.url,
    async stop() {
      await gateway.stop()
      await bus?.close()
    },
  }
}

/** The same that speaks GraphQL. */
export async function startGraphql({ config, log }: RoleContext): Promise<RunningRole> {
  const connection = servedDatabase(config, 'The GraphQL API')
  return await serveGraphql(config, log, {
    name: 'gateway:graphql',
    source: config['app.changes.source'],
    served: { connection, schemas: exposedSchemas(config), port: gatewayPort(config, 'gateway.graphql.port') },
  })
}

/** The door to the served MySQL. */
export async function startMysqlGraphql({ config, log }: RoleContext): Promise<RunningRole> {
  const { connection: mysql, schemas } = mysqlDatasource(config, 'The GraphQL API on MySQL')
  return await serveGraphql(config, log, {
    name: 'gateway:graphql-mysql',
    source: config['mysql.changes.source'],
    served: { mysql, schemas, port: gatewayPort(config, 'gateway.graphql-mysql.port') },
  })
}

/** Puts the changes of the served MySQL on their stream. */
export async function startMysqlCaptureWorker({ config, log, signal }: RoleContext): Promise<RunningRole> {
  const { startMysqlCapture } = await import('../workers/capture/mysql-capture.ts')
  const bus = await openBus(config, log, 'worker:capture-mysql', 'changes')
  const capture = startMysqlCapture({
    ...mysqlDatasource(config, 'Change capture of MySQL'),
    source: config['mysql.changes.source'],
    bus: bus.connection,
    streamName: config['app.nats.stream-name'],
    signal,
    onObservation: observe(log),
  })
  return {
    async stop() {
      await capture.stop()
      await bus.close()
    },
  }
}

interface ServedGraphql {
  readonly name: string
  readonly source: string
  readonly served: Pick<GraphqlGatewayOptions, 'connection' | 'mysql' | 'schemas' | 'port'>
}

async function serveGraphql(
  config: Config,
  log: RoleContext['log'],
  { name, source, served }: ServedGraphql,
): Promise<RunningRole> {
  const { startGraphqlGateway } = await import('../gateways/graphql/server.ts')
  const bus = config['app.nats.enabled'] ? await openBus(config, log, name, 'changes') : undefined
  const changes = bus && {
    ...changesOptions(config, bus),
    source,
    maxSockets: config['app.changes.max-clients'],
  }
  const gateway = await startGraphqlGateway({
    ...served,
    host: config['server.host'],
    poolSize: config['app.pool-size'],
    statementTimeoutMs: config['app.statement-timeout'],
    naming: config['app.graphql.naming'],
    defaultPageSize: config['app.default-page-size'],
    maxPageSize: config['app.max-page-size'],
    maxBodyBytes: config['app.max-body-size'],
    corsOrigins: config['app.cors-origins'],
    jwt: jwtOptions(config),
    documentLimits: {
      maxDepth: config['app.graphql.max-depth'],
      maxAliases: config['app.graphql.max-aliases'],
      maxTokens: config['app.graphql.max-tokens'],
      introspection: config['app.graphql.introspection'],
    },
    persisted: await persistedDocuments(config),
    maxCost: config['app.graphql.max-cost'],
    // Roles are PostgreSQL's.
    roleSchemas: config['app.graphql.role-schemas'] && served.mysql === undefined,
    emitCommands: config['app.nats.enabled'],
    ...(changes === undefined ? {} : { changes }),
    onObservation: observe(log),
  })
  return {
    url: gateway.url,
    async stop() {
      await gateway.stop()
      await bus?.close()
    },
  }
}

/** What any gateway serves. */
function capturedSchemas(config: Config): ExposedSchemas {
  const exposed = exposedSchemas(config)
  return exposed === 'ALL' ? exposed : [...new Set([config['app.allowed-schema'], ...exposed])]
}

function exposedSchemas(config: Config): ExposedSchemas {
  const schemas = config['app.schemas']
  return schemas.includes('ALL') ? 'ALL' : schemas
}

/** @throws {OperatorError} when the documents cannot be used, or none are given and no others are allowed. */
async function persistedDocuments(config: Config): Promise<Partial<PersistedOptions>> {
  const { PersistedDocumentsFault, readPersistedDocuments } = await import('../gateways/graphql/persisted-files.ts')
  const path = config['app.graphql.persisted-documents']
  const options = { only: config['app.graphql.persisted-only'], automatic: config['app.graphql.apq'] }
  if (path === undefined) {
    if (!options.only) return options
    throw new OperatorError('app.graphql.persisted-only needs documents: set app.graphql.persisted-documents.')
  }
  try {
    return { ...options, documents: readPersistedDocuments(path) }
  } catch (error) {
    if (!(error instanceof PersistedDocumentsFault)) throw error
    throw new OperatorError(`app.graphql.persisted-documents: ${error.message}`, { cause: error })
  }
}

/** Where the playground of the REST gateway sends its queries. */
function graphqlPlace(config: Config): FrontPageOptions {
  const url = config['gateway.graphql.url']
  if (url === undefined) return {}
  return { graphql: url === 'auto' ? { port: config['gateway.graphql.port'] } : { url } }
}

function changesOptions(config: Config, bus: Bus) {
  return {
    bus: bus.connection,
    streamName: config['app.nats.stream-name'],
    source: config['app.changes.source'],
    heartbeatMs: config['app.changes.heartbeat'],
    maxClients: config['app.changes.max-clients'],
    maxUnsentBytes: config['app.changes.buffer-size'],
    stallMs: config['app.changes.stall-timeout'],
    maxSnapshotRows: config['app.changes.max-snapshot-rows'],
  }
}
