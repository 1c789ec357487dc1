import type { FastifyInstance } from 'fastify'
import { queryOf } from './request.ts'

/** Of whoever asks whether the service is there, to get past caches. */
const anyQuery = /\/(healthz|readyz|metrics|openapi\.(json|yaml)|jwks\.json)$/

/** What is said of a route in OpenAPI. */
interface Described {
  readonly parameters?: readonly object[]
}

/**
 * Refuses parameters in the query of routes that have none; routes with some name them to `queryOf`. One that nothing reads would be
 * taken for one that counts. Call before the routes are added.
 *
 * @param described what is said of a route, by its path as Fastify has it; undefined: anybody may ask what they like
 * @param ignored a parameter that every route has
 */
export function refuseUnreadQueries(
  app: FastifyInstance,
  described: (method: string, url: string) => Described | undefined,
  ignored?: string,
): void {
  app.addHook('preHandler', async (request) => {
    const { method, routeOptions } = request
    const { url = '' } = routeOptions
    const route = described(method, url)
    if (route === undefined || anyQuery.test(url)) return
    const parameters = (route.parameters ?? []) as readonly { readonly in?: string }[]
    if (!parameters.some((each) => each.in === 'query')) queryOf(request, [], ignored)
  })
}
