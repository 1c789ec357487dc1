import type { FastifyInstance, HTTPMethods } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'

const known: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']

/**
 * Notes the routes that are added from now on; the function it returns then answers their other methods with 405 and `Allow`, where
 * fastify would say that there is no such route.
 */
export function refuseOtherMethods(app: FastifyInstance): () => void {
  const routes = new Map<string, Set<string>>()
  let noting = true
  app.addHook('onRoute', ({ url, method }) => {
    if (!noting || url === '*') return
    const methods = routes.get(url) ?? new Set()
    for (const each of [method].flat()) methods.add(each)
    routes.set(url, methods)
  })
  return () => {
    noting = false
    for (const [url, methods] of routes) {
      const others = known.filter((method) => !methods.has(method))
      const allow = [...methods].filter((method) => method !== 'OPTIONS').join(', ')
      if (others.length === 0 || allow === '') continue
      app.route({
        method: others,
        url,
        handler: async (request, reply) => {
          reply.header('Allow', allow)
          throw new Rejected('http/method-not-allowed', `${request.method} is not for this route`, {
            details: { allow },
            hint: `Use ${allow}.`,
          })
        },
      })
    }
  }
}
