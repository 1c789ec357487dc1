import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import type { FollowObservation } from '../../bus/follow.ts'
import { keyRing, type SecretKeys } from '../../bus/sealed.ts'
import { Rejected } from '../../schemas/failure.ts'
import { type Authenticator, type AuthenticatorOptions, createAuthenticator } from '../http/auth.ts'
import { docsPage } from '../http/docs-page.ts'
import { refuseOtherMethods } from '../http/methods.ts'
import { createHttpServer } from '../http/server.ts'
import { alertRoutes, openAlerts } from './alerts.ts'
import { asker } from './ask.ts'
import { backupRoutes } from './backups.ts'
import { changeRoutes } from './changes.ts'
import { healthRoutes } from './health.ts'
import { openInstanceList } from './instance-list.ts'
import { metricsRoutes } from './metrics.ts'
import { migrationRoutes } from './migrations.ts'
import { openApiRoutes } from './openapi.ts'
import { openGroups, parameterGroupRoutes } from './parameter-groups.ts'
import { provisionRoutes } from './provision.ts'
import type { ProvisioningService } from './service.ts'
import { setupRoutes } from './setup.ts'
import { snapshotRoutes } from './snapshots.ts'

export type ProvisioningGatewayObservation =
  | FollowObservation
  | { readonly type: 'request-fault'; readonly requestId: string; readonly route: string; readonly error: unknown }

export interface ProvisioningGatewayOptions {
  readonly bus: Bus
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  readonly maxBodyBytes: number
  readonly corsOrigins: readonly string[]
  /** Tokens; where they are on, nothing but health and the description is told without one. */
  readonly jwt: AuthenticatorOptions
  /** Instances of one organization. */
  readonly maxInstances: number
  /** Absent: there are no credentials to show. */
  readonly secretKeys?: SecretKeys
  readonly onObservation: (observation: ProvisioningGatewayObservation) => void
}

/**
 * The provisioning service's door.
 *
 * @throws {BusUnavailable}; {TypeError} for a key that is none.
 */
export async function startProvisioningGateway(
  options: ProvisioningGatewayOptions,
): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const { bus, onObservation, maxInstances } = options
  const keys = keyRing(options.secretKeys)
  const instances = await openInstanceList(bus, onObservation)
  const groups = await openGroups(bus, onObservation)
  const alerts = await openAlerts(bus, onObservation)
  const actors: Actors = new WeakMap()
  const service: ProvisioningService = {
    bus,
    instances,
    groups: groups.groups,
    alerts: alerts.alerts,
    ask: asker(bus),
    open(sealed, owner) {
      if (keys !== null) return keys.open(sealed, owner)
      throw new Rejected('provisioning/no-secret-keys', 'Passwords cannot be opened: app.secrets.keys is not set')
    },
    actorOf: (request) => actors.get(request) ?? 'anonymous',
    maxInstances,
    now: Date.now,
  }
  const app = await createApp(service, options, actors)
  const stop = async () => {
    await app.close()
    await instances.close()
    await groups.close()
    await alerts.close()
  }
  try {
    return { url: await app.listen({ host: options.host, port: options.port }), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

type Actors = WeakMap<FastifyRequest, string>

const open = /^\/(api\/)?(healthz|readyz)$|^\/api\/openapi\.(json|yaml)$|^\/docs(\/|$)/

function requireTokens(app: FastifyInstance, authenticator: Authenticator, actors: Actors): void {
  if (!authenticator.enabled) return
  app.addHook('onRequest', async (request) => {
    if (request.method === 'OPTIONS' || open.test(request.url.split('?')[0]!)) return
    const { anonymous, actor } = await authenticator.authenticate(request.headers)
    if (anonymous) throw new Rejected('http/unauthorized', 'A token is required')
    actors.set(request, actor)
  })
}

async function createApp(
  service: ProvisioningService,
  options: ProvisioningGatewayOptions,
  actors: Actors,
): Promise<FastifyInstance> {
  const { maxBodyBytes, corsOrigins, onObservation } = options
  const app = await createHttpServer({
    maxBodyBytes,
    corsOrigins,
    onFault: (fault) => onObservation({ type: 'request-fault', ...fault }),
  })
  requireTokens(app, createAuthenticator(options.jwt), actors)
  const refuseOthers = refuseOtherMethods(app)
  provisioningRoutes(app, service)
  docsPage(app, { specUrl: '/api/openapi.json', title: 'Provisioning service' })
  refuseOthers()
  return app
}

/** Every route of the API. */
export function provisioningRoutes(app: FastifyInstance, service: ProvisioningService): void {
  openApiRoutes(app)
  healthRoutes(app, service)
  provisionRoutes(app, service)
  changeRoutes(app, service)
  backupRoutes(app, service)
  snapshotRoutes(app, service)
  migrationRoutes(app, service)
  metricsRoutes(app, service)
  alertRoutes(app, service)
  setupRoutes(app, service)
  parameterGroupRoutes(app, service)
}
