import type { ClientConfig } from 'pg'
import type { Bus } from '../bus/connect.ts'
import type { ExposedSchemas } from '../gateways/data/postgres-introspect.ts'
import type { PersistedOptions } from '../gateways/graphql/persisted.ts'
import type { GraphqlGatewayOptions } from '../gateways/graphql/server.ts'
import type { FrontPageOptions } from '../gateways/rest/front-page.ts'
import type { Config } from '../schemas/config.ts'
import { openBus } from './bus.ts'
import { datasource } from './datasource.ts'
import { startFunctions, startFunctionsWorker } from './function-roles.ts'
import { OperatorError } from './local/operator-error.ts'
import { isMysqlWanted, mysqlDatasource } from './mysql-datasource.ts'
import { observe } from './observe.ts'
import { startProvisioning, startProvisioningWorker } from './provisioning-roles.ts'
import { jwtOptions, type RoleContext, type RunningRole } from './role-options.ts'
import {
  startWorkflows,
  startWorkflowsProjection,
  startWorkflowsScheduler,
  startWorkflowsWorker,
} from './workflow-roles.ts'

export interface Role {
  readonly name: string
  /** What `busbar up` and `--help` call it. */
  readonly title: string
  /** Its port's key, for a gateway. */
  readonly portKey?:
    | 'gateway.rest.port'
    | 'gateway.graphql.port'
    | 'gateway.graphql-mysql.port'
    | 'gateway.functions.port'
    | 'gateway.provisioning.port'
    | 'gateway.workflows.port'
  /** Paths of the table of `busbar up`, after the URL. */
  readonly paths?: readonly { readonly title: string; readonly path: string }[]
  /** Whether it has nothing to do without the bus. */
  readonly needsBus: boolean
  /** Whether `busbar up` runs it; absent: always. */
  readonly isWanted?: (config: Config) => boolean
  start(context: RoleContext): Promise<RunningRole>
}

/** Every role there is, in the order of their start. The one place where roles are wired; a process loads only its own. */
export const roles: readonly Role[] = [
  { name: 'worker:capture', title: 'Change capture', needsBus: true, start: startCaptureWorker },
  {
    name: 'worker:capture-mysql',
    title: 'Change capture of MySQL',
    needsBus: true,
    isWanted: isMysqlWanted,
    start: startMysqlCaptureWorker,
  },
  { name: 'worker:functions', title: 'Function worker', needsBus: true, start: startFunctionsWorker },
  { name: 'worker:workflows', title: 'Workflow worker', needsBus: true, start: startWorkflowsWorker },
  { name: 'worker:scheduler', title: 'Workflow scheduler', needsBus: true, start: startWorkflowsScheduler },
  { name: 'worker:provisioning', title: 'Provisioning worker', needsBus: true, start: startProvisioningWorker },
  { name: 'projection:workflows', title: 'Workflow read models', needsBus: true, start: startWorkflowsProjection },
  {
    name: 'gateway:rest',
    title: 'REST API',
    portKey: 'gateway.rest.port',
    paths: [
      { title: 'tables', path: '/api/v1/' },
      { title: 'try it', path: '/docs' },
      { title: 'GraphQL playground', path: '/' },
    ],
    needsBus: false,
    start: startRest,
  },
  {
    name: 'gateway:graphql',
    title: 'GraphQL API',
    portKey: 'gateway.graphql.port',
    paths: [{ title: 'endpoint', path: '/graphql' }],
    needsBus: false,
    start: startGraphql,
  },
  {
    name: 'gateway:graphql-mysql',
    title: 'GraphQL API on MySQL',
    portKey: 'gateway.graphql-mysql.port',
    paths: [{ title: 'endpoint', path: '/graphql' }],
    needsBus: false,
    isWanted: isMysqlWanted,
    start: startMysqlGraphql,
  },
  {
    name: 'gateway:functions',
    title: 'Function runtime',
    portKey: 'gateway.functions.port',
    paths: [
      { title: 'functions', path: '/scripts' },
      { title: 'OpenAPI', path: '/openapi.json' },
    ],
    needsBus: true,
    start: startFunctions,
  },
  {
    name: 'gateway:provisioning',
    title: 'Provisioning service',
    portKey: 'gateway.provisioning.port',
    paths: [
      { title: 'instances', path: '/api/provision' },
      { title: 'try it', path: '/docs' },
    ],
    needsBus: true,
    start: startProvisioning,
  },
  {
    name: 'gateway:workflows',
    title: 'Workflow engine',
    portKey: 'gateway.workflows.port',
    paths: [
      { title: 'flows', path: '/api/v1/flows' },
      { title: 'try it', path: '/docs' },
    ],
    needsBus: true,
    start: startWorkflows,
  },
]

async function startCaptureWorker({ config, log, signal }: RoleContext): Promise<RunningRole> {
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

async function startRest({ config, log }: RoleContext): Promise<RunningRole> {
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

async function startGraphql({ config, log }: RoleContext): Promise<RunningRole> {
  const connection = servedDatabase(config, 'The GraphQL API')
  return await serveGraphql(config, log, {
    name: 'gateway:graphql',
    source: config['app.changes.source'],
    served: { connection, schemas: exposedSchemas(config), port: gatewayPort(config, 'gateway.graphql.port') },
  })
}

async function startMysqlGraphql({ config, log }: RoleContext): Promise<RunningRole> {
  const { connection: mysql, schemas } = mysqlDatasource(config, 'The GraphQL API on MySQL')
  return await serveGraphql(config, log, {
    name: 'gateway:graphql-mysql',
    source: config['mysql.changes.source'],
    served: { mysql, schemas, port: gatewayPort(config, 'gateway.graphql-mysql.port') },
  })
}

async function startMysqlCaptureWorker({ config, log, signal }: RoleContext): Promise<RunningRole> {
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

/** @throws {OperatorError} when there is no such role. */
export function findRole(name: string): Role {
  const role = roles.find((each) => each.name === name)
  if (role !== undefined) return role
  throw new OperatorError(`There is no role ${name}; the roles are ${roles.map((each) => each.name).join(', ')}.`)
}

/** `server.port` is for the one gateway of a process, its own key for any number of them. */
export function gatewayPort(config: Config, key: NonNullable<Role['portKey']>): number {
  return config['server.port'] ?? config[key]
}

/** @throws {OperatorError} when several gateways would listen on `server.port`. */
export function requireOwnPorts(config: Config, chosen: readonly Role[]): void {
  const gateways = chosen.filter((role) => role.portKey !== undefined)
  if (config['server.port'] === undefined || gateways.length < 2) return
  const keys = gateways.map((role) => role.portKey).join(', ')
  throw new OperatorError(`server.port is for one gateway, and ${gateways.length} are to run: use ${keys} instead.`)
}
