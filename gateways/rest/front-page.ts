import type { FastifyInstance } from 'fastify'
import { playgroundAssets, replyPlayground } from '../http/playground.ts'

export interface FrontPageOptions {
  /** Where browsers reach the GraphQL endpoint: a URL, or the port on the host of the request. Absent: there is no GraphQL API. */
  readonly graphql?: { readonly url: string } | { readonly port: number }
}

/** `GET /`: the playground of the GraphQL API with a way to the REST docs; these, where there is no GraphQL API. */
export function frontPage(app: FastifyInstance, { graphql }: FrontPageOptions): void {
  if (graphql === undefined) {
    app.get('/', (_request, reply) => reply.redirect('/docs'))
    return
  }
  playgroundAssets(app)
  app.get('/', (request, reply) => {
    const endpoint = 'url' in graphql ? graphql.url : besideHost(request.headers.host, graphql.port)
    if (endpoint === null) return reply.redirect('/docs')
    return replyPlayground(reply, { endpoint, links: [{ title: 'REST API', href: '/docs' }] })
  })
}

/** What may stand in a page's policy: a name or an address, in lower case. */
const plainHost = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])$/

/** The endpoint on another port of the host that the browser asked; null for a Host header that names none. */
function besideHost(host: string | undefined, port: number): string | null {
  const asked = `http://${host ?? ''}`
  const hostname = URL.canParse(asked) ? new URL(asked).hostname : ''
  return plainHost.test(hostname) ? `http://${hostname}:${port}/graphql` : null
}
