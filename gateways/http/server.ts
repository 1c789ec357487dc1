import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import cors, { type FastifyCorsOptions } from '@fastify/cors'
import fastify, { type FastifyInstance, type FastifyReply } from 'fastify'
import { errorBody, failureOf } from './failure-reply.ts'
import { corsOrigin, refuseForeignPages } from './origins.ts'

export interface HttpServerOptions {
  /** Largest request body, bytes. */
  readonly maxBodyBytes: number
  /** Origins a browser may call from; `*` for any, `loopback` for this machine's. Credentials are never allowed: tokens travel in headers. */
  readonly corsOrigins: readonly string[]
  /** Adds the CORS headers in place of ours. */
  readonly cors?: (app: FastifyInstance) => void
  /** The body of a failure in place of ours, JSON. */
  readonly errorBody?: typeof errorBody
  /** On replies to what is no request that a route or hook could see. Default none. */
  readonly malformedHeaders?: readonly (readonly [name: string, value: string])[]
  /** Called with every failure that is a fault of ours, never with a caller's mistake. */
  readonly onFault: (fault: { readonly requestId: string; readonly route: string; readonly error: unknown }) => void
}

/** Headers a browser's script may read besides the safelisted ones. */
const exposedHeaders = [
  'ETag',
  'Location',
  'Content-Range',
  'Link',
  'X-Total-Count',
  'Preference-Applied',
  'Idempotency-Replayed',
  'Retry-After',
  'X-Request-Id',
]

const jsonType = 'application/json; charset=utf-8'

/** Longest path parameter, characters: a composite key of a few long texts. */
const maxParamLength = 4096

/**
 * A fastify server with what all services share: request ids, the one error shape, CORS, limits, health routes.
 * JSON bodies arrive as the bytes the client sent (`Buffer`): the services read numbers without losing digits.
 */
export async function createHttpServer(options: HttpServerOptions): Promise<FastifyInstance> {
  const { errorBody: body = errorBody, malformedHeaders = [] } = options
  const app = fastify({
    logger: false,
    bodyLimit: options.maxBodyBytes,
    requestTimeout: 60_000,
    keepAliveTimeout: 65_000,
    forceCloseConnections: true,
    genReqId: () => randomUUID(),
    frameworkErrors: (error, request, reply) => {
      const failure = failureOf(error)
      const answer = reply as FastifyReply
      if (failure.fault) options.onFault({ requestId: request.id, route: request.method, error })
      for (const [name, value] of malformedHeaders) void answer.header(name, value)
      void answer.code(failure.status).header('X-Request-Id', request.id).type(jsonType).send(body(failure, request.id))
    },
    clientErrorHandler: (error, socket) => refuseMalformedRequest(error, socket, { body, malformedHeaders }),
    routerOptions: { maxParamLength, ignoreTrailingSlash: true, querystringParser: () => ({}) },
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(['application/json', 'text/json'], { parseAs: 'buffer' }, (_request, body, done) => {
    done(null, body)
  })
  if (options.cors !== undefined) options.cors(app)
  else await app.register(cors, corsOptions(options.corsOrigins))
  app.addHook('onRequest', async (request, reply) => {
    reply.header('X-Request-Id', request.id).header('X-Content-Type-Options', 'nosniff')
    refuseForeignPages(request.raw, options.corsOrigins)
  })
  app.setErrorHandler((error, request, reply) => {
    const failure = failureOf(error)
    if (failure.fault) {
      options.onFault({ requestId: request.id, route: `${request.method} ${request.routeOptions.url ?? ''}`, error })
    }
    if (failure.retryAfterSeconds !== undefined) reply.header('Retry-After', String(failure.retryAfterSeconds))
    if (failure.status === 401) reply.header('WWW-Authenticate', 'Bearer')
    return reply.code(failure.status).type(jsonType).send(body(failure, request.id))
  })
  app.setNotFoundHandler((request, reply) => {
    const failure = { code: 'http/not-found' as const, text: `No route ${request.method} ${request.url.split('?')[0]}` }
    return reply.code(404).type(jsonType).send(body(failure, request.id))
  })
  return app
}

function corsOptions(origins: readonly string[]): FastifyCorsOptions {
  const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']
  return { origin: corsOrigin(origins), methods, exposedHeaders, maxAge: 600 }
}

interface Malformed {
  readonly body: typeof errorBody
  readonly malformedHeaders: readonly (readonly [name: string, value: string])[]
}

/** Bytes that are not HTTP never reach a route; they still get the one error shape. */
function refuseMalformedRequest(
  error: Error & { readonly code?: string; readonly rawPacket?: unknown },
  socket: Socket,
  { body: bodyOf, malformedHeaders }: Malformed,
): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const tooLarge = error.code === 'HPE_HEADER_OVERFLOW'
  const text = tooLarge ? 'The URL and headers are larger than the limit' : 'This is not a well-formed HTTP/1.1 request'
  const body = bodyOf({ code: 'http/bad-request', text }, randomUUID())
  const head = [
    tooLarge ? 'HTTP/1.1 431 Request Header Fields Too Large' : 'HTTP/1.1 400 Bad Request',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `Content-Type: ${jsonType}`,
    'Connection: close',
    ...malformedHeaders.map(([name, value]) => `${name}: ${value}`),
  ]
  const { rawPacket } = error
  const bodiless = Buffer.isBuffer(rawPacket) && rawPacket.subarray(0, 5).toString('latin1') === 'HEAD '
  socket.end(`${head.join('\r\n')}\r\n\r\n${bodiless ? '' : body}`)
}
