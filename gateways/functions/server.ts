import type { Server } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import type { FollowObservation } from '../../bus/follow.ts'
import { openCollection } from '../../bus/kv.ts'
import { keyRing, type SecretKeys } from '../../bus/sealed.ts'
import { functionsBucket } from '../../bus/topology.ts'
import { LastCall, lastCallCollection } from '../../schemas/functions/last-call.ts'
import { type AuthenticatorOptions, createAuthenticator } from '../http/auth.ts'
import { consolePage } from '../http/console.ts'
import { docsPage } from '../http/docs-page.ts'
import { refuseOtherMethods } from '../http/methods.ts'
import { createHttpServer } from '../http/server.ts'
import { openCallDesk } from './calls.ts'
import { corsHeaders, functionCors } from './cors.ts'
import { deployRoutes } from './deploy.ts'
import { answerDirectly } from './direct-calls.ts'
import { envRoutes } from './env.ts'
import { invocationRoute } from './invocations.ts'
import { invokeRoute } from './invoke.ts'
import { logRoute } from './logs.ts'
import { openApiRoute } from './openapi.ts'
import { revisionRoutes } from './revisions.ts'
import type { FunctionService } from './service.ts'
import { statsRoutes } from './stats.ts'
import { functionStore } from './store.ts'
import { triggerRoutes } from './triggers.ts'
import { openFunctionView } from './view.ts'
import { watchWorkers } from './workers.ts'

export type FunctionGatewayObservation =
  | FollowObservation
  | { readonly type: 'request-fault'; readonly requestId: string; readonly route: string; readonly error: unknown }
  /** The second port cannot be listened on; the first one works. */
  | { readonly type: 'alias-port-taken'; readonly port: number; readonly error: unknown }

export interface FunctionGatewayOptions {
  readonly bus: Bus
  readonly host: string
  /** 0 takes a free one. */
  readonly port: number
  /** A second port on which the same gateway answers. Default none. */
  readonly aliasPort?: number
  readonly corsOrigins: readonly string[]
  readonly jwt: AuthenticatorOptions
  /** Roles of tokens that may manage functions. Default: any. */
  readonly managementRoles?: readonly string[]
  /** Each `<id>:<32 bytes in base64>`; absent: secrets are refused. */
  readonly secretKeys?: SecretKeys
  /** Longest run of a handler. Default 30,000. */
  readonly timeoutMs?: number
  /** Default 500. */
  readonly maxFunctions?: number
  readonly onObservation: (observation: FunctionGatewayObservation) => void
}

export interface FunctionGateway {
  readonly url: string
  stop(): Promise<void>
}

/** Body of a call. */
const maxBodyBytes = 1024 * 1024
const maxCodeBytes = 512 * 1024
const maxCalls = 20_000
const maxLogClients = 200
/** How long a gateway that is stopped waits for the answers of its calls, and then until their bytes have left. */
const drainMs = 15_000
const writeMs = 1_000

/**
 * The function runtime's door: reads the functions from the bus, listens.
 *
 * @throws {BusUnavailable}; {TypeError} for a key that is none.
 */
export async function startFunctionGateway(options: FunctionGatewayOptions): Promise<FunctionGateway> {
  const { bus, timeoutMs = 30_000, maxFunctions = 500, onObservation } = options
  const keys = keyRing(options.secretKeys)
  const lastCalls = await openCollection(bus, { name: lastCallCollection, schema: LastCall, bucket: functionsBucket })
  const view = await openFunctionView(bus, onObservation)
  const workers = watchWorkers(bus)
  const calls = openCallDesk(bus, { timeoutMs, maxCalls })
  const service: FunctionService = {
    bus,
    view,
    store: functionStore(bus, { maxFunctions, view }),
    calls,
    workers,
    lastCalls,
    keys,
    authenticator: createAuthenticator(options.jwt),
    timeoutMs,
    maxFunctions,
    maxCodeBytes,
    maxLogClients,
    ...(options.managementRoles !== undefined && { managementRoles: options.managementRoles }),
  }
  const apps: FastifyInstance[] = []
  const stop = async () => {
    if (await calls.drained(Math.min(timeoutMs, drainMs))) await written(apps)
    await Promise.all(apps.map((app) => app.close()))
    calls.close()
    workers.close()
    await view.close()
  }
  try {
    const app = await createApp(service, options)
    apps.push(app)
    const url = await app.listen({ host: options.host, port: options.port })
    if (options.aliasPort !== undefined) await listenBesides(service, options, options.aliasPort, apps)
    return { url, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** What has been answered is on its way: connections that are busy for longer are streams, or slow. */
async function written(apps: readonly FastifyInstance[]): Promise<void> {
  for (const end = performance.now() + writeMs; performance.now() < end; ) {
    await sleep(10)
    for (const { server } of apps) server.closeIdleConnections()
    const open = await Promise.all(apps.map(({ server }) => connectionsOf(server)))
    if (open.every((count) => count === 0)) return
  }
}

const connectionsOf = (server: Server) =>
  new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count ?? 0)))

/** A port that is in use costs no more than the second way in. */
async function listenBesides(
  service: FunctionService,
  options: FunctionGatewayOptions,
  port: number,
  apps: FastifyInstance[],
): Promise<void> {
  const app = await createApp(service, options)
  try {
    await app.listen({ host: options.host, port })
    apps.push(app)
  } catch (error) {
    await app.close()
    options.onObservation({ type: 'alias-port-taken', port, error })
  }
}

async function createApp(service: FunctionService, options: FunctionGatewayOptions): Promise<FastifyInstance> {
  const { corsOrigins, onObservation } = options
  const app = await createHttpServer({
    maxBodyBytes,
    corsOrigins,
    cors: (created) => functionCors(created, corsOrigins),
    malformedHeaders: corsHeaders,
    errorBody: ({ code, text }) => JSON.stringify({ error: code === 'http/not-found' ? 'Not found' : text }),
    onFault: (fault) => onObservation({ type: 'request-fault', ...fault }),
  })
  // The body of a call is the function's business, whatever it is.
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  const refuseOthers = refuseOtherMethods(app)
  statsRoutes(app, service)
  deployRoutes(app, service)
  revisionRoutes(app, service)
  invokeRoute(app, service)
  invocationRoute(app, service)
  envRoutes(app, service)
  triggerRoutes(app, service)
  logRoute(app, service)
  openApiRoute(app, service)
  docsPage(app, { specUrl: '/openapi.json', title: 'Function runtime' })
  consolePage(app, {
    title: 'Busbar functions',
    folder: new URL('./page/', import.meta.url),
    links: [{ title: 'API', href: '/docs' }],
  })
  refuseOthers()
  answerDirectly(app.server, {
    service,
    maxBodyBytes,
    onFault: (fault) => onObservation({ type: 'request-fault', ...fault }),
  })
  return app
}
