import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ChangeHub } from '../data/changes-hub.ts'
import { playgroundAssets, replyPlayground } from '../http/playground.ts'
import { registerWebSockets, requireOrigin } from '../http/websocket.ts'
import { type GraphqlService, isPlainOperation, postOperation } from './handler.ts'
import { GraphqlSockets, type SocketLimits } from './subscription-socket.ts'
import { serveEventStream, wantsEventStream } from './subscription-sse.ts'
import { Subscriptions } from './subscriptions.ts'
import { yogaHandler } from './yoga.ts'

export interface GraphqlRouteOptions extends SocketLimits {
  /** Null: the bus is off, and subscriptions are refused. */
  readonly hub: ChangeHub | null
  readonly catalog: ConstructorParameters<typeof Subscriptions>[0]['catalog']
  /** Origins whose pages may open WebSockets; `*` for any. */
  readonly corsOrigins: readonly string[]
  /** Of a message on a WebSocket. */
  readonly maxBodyBytes: number
  /** Between two signs of life. Default 15,000. */
  readonly heartbeatMs?: number
  /** What a browser waits before it connects again. Default 2,000. */
  readonly retryMs?: number
  /** How often the rights of open subscriptions are looked at again. Default 10,000. */
  readonly recheckMs?: number
}

/**
 * `/graphql`: operations as JSON, as server-sent events, over WebSocket; the playground for browsers. Closing the app ends the streams.
 */
export async function graphqlRoutes(
  app: FastifyInstance,
  service: GraphqlService,
  options: GraphqlRouteOptions,
): Promise<void> {
  const { hub, catalog, corsOrigins, maxBodyBytes, heartbeatMs = 15_000, retryMs = 2_000, recheckMs } = options
  const subscriptions = new Subscriptions({ service, hub, catalog, ...(recheckMs === undefined ? {} : { recheckMs }) })
  const beats = new Set<() => void>()
  const sockets = new GraphqlSockets({ ...options, service, subscriptions, beats })
  const beating = setInterval(() => {
    for (const beat of beats) beat()
  }, heartbeatMs)
  // Before the plugin's own, which closes WebSockets without a word.
  app.addHook('preClose', async () => {
    clearInterval(beating)
    await subscriptions.close()
    sockets.close()
  })
  await registerWebSockets(app, { maxPayloadBytes: maxBodyBytes })
  sockets.chooseProtocol(app)
  const other = yogaHandler(service)
  const plain = (request: FastifyRequest, reply: FastifyReply) =>
    isPlainOperation(request) ? postOperation(service, request, reply) : other(request, reply)
  const answer = (request: FastifyRequest, reply: FastifyReply) =>
    wantsEventStream(request)
      ? serveEventStream({ service, subscriptions, beats, retryMs }, request, reply, plain)
      : plain(request, reply)
  const get = (request: FastifyRequest, reply: FastifyReply) => {
    const browser = request.headers.accept?.includes('text/html')
    return browser ? replyPlayground(reply, { endpoint: '/graphql' }) : answer(request, reply)
  }
  playgroundAssets(app)
  app.get('/', (_request, reply) => reply.redirect('/graphql'))
  app.post('/graphql', answer)
  app.head('/graphql', get)
  app.route({
    method: 'GET',
    url: '/graphql',
    exposeHeadRoute: false,
    // Refused before the upgrade, so that the client gets a status and the one error shape.
    preHandler: async (request) => {
      if (request.ws !== true) return
      requireOrigin(request, corsOrigins)
      sockets.requirePlace()
    },
    handler: get,
    wsHandler: (socket, request) => sockets.serve(socket, request),
  })
}
