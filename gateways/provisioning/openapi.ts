import type { FastifyInstance } from 'fastify'
import { stringify } from 'yaml'
import { refuseUnreadQueries } from '../http/unread-queries.ts'
import { insightOperations } from './openapi-insight.ts'
import { instanceOperations } from './openapi-instances.ts'
import type { Operation, Operations } from './openapi-parts.ts'
import { schemas } from './openapi-schemas.ts'

/** What the route modules say of their routes: each has a line here, and a test holds them to the routes. */
export const operations: Operations = { ...instanceOperations, ...insightOperations }

/** `GET /api/openapi.json`, and `.yaml`: OpenAPI 3.1. */
export function openApiRoutes(app: FastifyInstance): void {
  refuseUnreadQueries(app, (method, url) => operations[`${method} ${pathOf(url)}`])
  let made: string | null = null
  const document = () => {
    made ??= JSON.stringify(documentOf())
    return made
  }
  app.get('/api/openapi.json', async (_request, reply) => {
    return reply.type('application/json; charset=utf-8').send(document())
  })
  app.get('/api/openapi.yaml', async (_request, reply) => {
    return reply.type('application/yaml; charset=utf-8').send(stringify(JSON.parse(document())))
  })
}

/** As OpenAPI writes a path. */
export function pathOf(url: string): string {
  return url.replace(/:([A-Za-z]+)/g, '{$1}')
}

function documentOf(): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const [route, operation] of Object.entries(operations)) {
    const [method, path] = route.split(' ') as [string, string]
    paths[path] ??= {}
    paths[path][method.toLowerCase()] = described(route, path, operation)
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Busbar provisioning service', version: '1' },
    paths,
    components: { schemas },
  }
}

function described(route: string, path: string, { parameters = [], ...operation }: Operation): object {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
    return { name, in: 'path', required: true, schema: { type: 'string' } }
  })
  const tag = path.replace(/^\/api\//, '').split('/')[0]
  return { operationId: operationId(route), tags: [tag], ...operation, parameters: [...inPath, ...parameters] }
}

function operationId(route: string): string {
  const words = route.match(/[A-Za-z]+/g) ?? []
  return words
    .map((word, index) => (index === 0 ? word.toLowerCase() : word[0]!.toUpperCase() + word.slice(1)))
    .join('')
}
