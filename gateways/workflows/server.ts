import type { FastifyInstance } from 'fastify'
import pg from 'pg'
import type { Bus } from '../../bus/connect.ts'
import type { FollowObservation } from '../../bus/follow.ts'
import { keyRing, type SecretKeys } from '../../bus/sealed.ts'
import { openPositions } from '../../projections/positions.ts'
import { workflowProjection } from '../../projections/workflows/projection.ts'
import { consolePage } from '../http/console.ts'
import { docsPage } from '../http/docs-page.ts'
import { refuseOtherMethods } from '../http/methods.ts'
import { invalid } from '../http/request.ts'
import { createHttpServer } from '../http/server.ts'
import { registerWebSockets } from '../http/websocket.ts'
import { approvalRoutes } from './approvals.ts'
import { auditRoutes } from './audit.ts'
import { recordCommands } from './audit-hook.ts'
import { openAuditTrail } from './audit-trail.ts'
import { authRoutes } from './auth.ts'
import { type AuthOptions, openAccounts } from './auth-accounts.ts'
import { addressReader } from './auth-address.ts'
import { guardRoutes } from './auth-guard.ts'
import { credentialRoutes } from './credentials.ts'
import { credentialValue } from './credentials-store.ts'
import { openCredentialView } from './credentials-view.ts'
import { executionLogRoutes } from './execution-logs.ts'
import { executionRoutes } from './executions.ts'
import { yamlTypes } from './flow-text.ts'
import { flowRoutes } from './flows.ts'
import { healthRoutes } from './health.ts'
import { kvRoutes } from './kv.ts'
import { metricsRoutes } from './metrics.ts'
import { openApiRoutes } from './openapi.ts'
import { openPluginView, type PluginViewObservation } from './plugin-view.ts'
import { pluginRoutes } from './plugins.ts'
import type { WorkflowService } from './service.ts'
import { triggerRoutes } from './triggers.ts'
import { userRoutes } from './users.ts'
import { webhookRoutes } from './webhook.ts'

export type WorkflowGatewayObservation =
  | PluginViewObservation
  | FollowObservation
  | { readonly type: 'request-fault'; readonly requestId: string; readonly route: string; readonly error: unknown }
  | { readonly type: 'database-connection-lost'; readonly error: unknown }

export interface WorkflowGatewayOptions {
  readonly bus: Bus
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  /** The platform's database, whose read models a projection keeps. */
  readonly connection: pg.ClientConfig
  readonly poolSize: number
  readonly statementTimeoutMs: number
  readonly maxBodyBytes: number
  readonly corsOrigins: readonly string[]
  /** Each `<id>:<32 bytes in base64>`; absent: secrets are refused. */
  readonly secretKeys?: SecretKeys
  /** Default: nobody is asked who they are, and everybody is an admin. */
  readonly auth?: AuthOptions
  readonly onObservation: (observation: WorkflowGatewayObservation) => void
}

export interface WorkflowGateway {
  readonly url: string
  stop(): Promise<void>
}

/** How long an answer waits for the read models to hold what it wrote. */
const readableMs = 2_000
const noAuth = { enabled: false, openRegistration: false, addressOf: addressReader() }
const maxSocketPayloadBytes = 16 * 1024

/**
 * The workflow engine's door.
 *
 * @throws {BusUnavailable}; {TypeError} for a key that is none.
 */
export async function startWorkflowGateway(options: WorkflowGatewayOptions): Promise<WorkflowGateway> {
  const { bus, onObservation } = options
  const keys = keyRing(options.secretKeys)
  const [plugins, credentials] = await Promise.all([
    openPluginView(bus, onObservation),
    openCredentialView(bus, onObservation),
  ])
  const database = new pg.Pool({
    ...options.connection,
    application_name: 'busbar gateway:workflows',
    max: options.poolSize,
    statement_timeout: options.statementTimeoutMs,
  })
  database.on('error', (error) => onObservation({ type: 'database-connection-lost', error }))
  const accounts = await openAccounts({ ...noAuth, ...options.auth, bus, keys, now: Date.now, onObservation })
  const positions = openPositions(bus, database, workflowProjection)
  const service: WorkflowService = {
    bus,
    database,
    plugins,
    keys,
    credentials,
    credentialOf: (namespace, name, field) => credentialValue(bus, keys, { namespace, name, field }),
    principalOf: (request) => request.principal,
    async readable(stream, sequence) {
      await positions.passed(stream, sequence, readableMs)
    },
    accounts,
    audit: openAuditTrail(bus),
    now: Date.now,
  }
  const app = await createApp(service, options)
  const stop = async () => {
    await app.close()
    positions.close()
    await plugins.close()
    await accounts.close()
    await credentials.close()
    await database.end()
  }
  try {
    return { url: await app.listen({ host: options.host, port: options.port }), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function createApp(service: WorkflowService, options: WorkflowGatewayOptions): Promise<FastifyInstance> {
  const { maxBodyBytes, corsOrigins, onObservation } = options
  const app = await createHttpServer({
    maxBodyBytes,
    corsOrigins,
    onFault: (fault) => onObservation({ type: 'request-fault', ...fault }),
  })
  app.addHook('onRequest', async ({ url }) => {
    // No id has one, and the database takes none in a text.
    if (/^[^?]*%00/.test(url)) throw invalid('path', 'must not hold a NUL')
  })
  app.addContentTypeParser(yamlTypes, { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  await registerWebSockets(app, { maxPayloadBytes: maxSocketPayloadBytes })
  const refuseOthers = refuseOtherMethods(app)
  const guard = guardRoutes(app, service.accounts)
  recordCommands(app, service)
  await workflowRoutes(app, service, corsOrigins)
  guard.openFromHere()
  docsPage(app, { specUrl: '/api/v1/openapi.json', title: 'Workflow engine' })
  consolePage(app, {
    title: 'Busbar workflows',
    folder: new URL('./page/', import.meta.url),
    links: [{ title: 'API', href: '/docs' }],
  })
  refuseOthers()
  return app
}

/** Every route of the API; WebSockets are to be registered before. */
export async function workflowRoutes(
  app: FastifyInstance,
  service: WorkflowService,
  corsOrigins: readonly string[],
): Promise<void> {
  openApiRoutes(app)
  healthRoutes(app, service)
  metricsRoutes(app, service)
  pluginRoutes(app, service)
  flowRoutes(app, service)
  executionRoutes(app, service)
  executionLogRoutes(app, service, corsOrigins)
  approvalRoutes(app, service)
  triggerRoutes(app, service)
  await webhookRoutes(app, service)
  credentialRoutes(app, service)
  kvRoutes(app, service)
  authRoutes(app, service)
  userRoutes(app, service)
  auditRoutes(app, service)
}
