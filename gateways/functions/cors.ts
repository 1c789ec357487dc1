import type { FastifyInstance } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { isAllowedOrigin } from '../http/origins.ts'

const methods = 'GET, POST, PUT, PATCH, DELETE, OPTIONS'
const requestHeaders = 'Content-Type, Authorization, Prefer'
const exposed = 'Location, Warning, Retry-After, Preference-Applied, X-Request-Id'

/** On every reply. */
export const corsHeaders: readonly (readonly [name: string, value: string])[] = [
  ['access-control-allow-origin', '*'],
  ['access-control-allow-methods', methods],
  ['access-control-allow-headers', requestHeaders],
]

/**
 * Any page may call, on every reply, unless `app.cors-origins` names some: pages of others are then refused, also requests that a browser
 * sends without asking first, because a call here runs code.
 */
export function functionCors(app: FastifyInstance, origins: readonly string[]): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { origin } = request.headers
    if (origin !== undefined && origin !== ownOrigin(request.headers.host) && !isAllowedOrigin(origin, origins)) {
      done(
        new Rejected(
          'http/forbidden',
          `Pages of ${origin.slice(0, 200)} may not call this platform (app.cors-origins)`,
        ),
      )
      return
    }
    for (const [name, value] of corsHeaders) reply.header(name, value)
    if (origin !== undefined) reply.header('Access-Control-Expose-Headers', exposed)
    if (request.method !== 'OPTIONS') {
      done()
      return
    }
    reply.code(204).header('Access-Control-Max-Age', '600').send()
  })
  // So that every path is asked for by the hook above.
  app.options('/*', (_request, reply) => reply.code(204).send())
}

function ownOrigin(host: string | undefined): string {
  return `http://${host}`
}
