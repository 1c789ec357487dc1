import type { FastifyInstance } from 'fastify'
import { stringify } from 'yaml'
import { refuseUnreadQueries } from '../http/unread-queries.ts'
import { auditOperations, auditSchemas } from './openapi-audit.ts'
import { credentialOperations, credentialSchemas } from './openapi-credentials.ts'
import { executionOperations, executionSchemas } from './openapi-executions.ts'
import { flowOperations, flowSchemas } from './openapi-flows.ts'
import { kvOperations, kvSchemas } from './openapi-kv.ts'
import type { Operation, Operations } from './openapi-parts.ts'
import { serviceOperations, serviceSchemas } from './openapi-service.ts'
import { triggerOperations, triggerSchemas } from './openapi-triggers.ts'
import { userOperations, userSchemas } from './openapi-users.ts'

/** What the route modules say of their routes: each has a line here, and a test holds them to the routes. */
export const operations: Operations = {
  ...serviceOperations,
  ...flowOperations,
  ...executionOperations,
  ...triggerOperations,
  ...credentialOperations,
  ...kvOperations,
  ...userOperations,
  ...auditOperations,
}
const schemas = {
  ...serviceSchemas,
  ...flowSchemas,
  ...executionSchemas,
  ...triggerSchemas,
  ...credentialSchemas,
  ...kvSchemas,
  ...userSchemas,
  ...auditSchemas,
}

/** `GET /api/v1/openapi.json`, and `.yaml`: OpenAPI 3.1, with the role that each route needs. Call before the routes are added. */
export function openApiRoutes(app: FastifyInstance): void {
  const roles = new Map<string, string>()
  app.addHook('onRoute', ({ method, url, config }) => {
    for (const each of [method].flat()) roles.set(`${each} ${pathOf(url)}`, config?.role ?? 'public')
  })
  refuseUnreadQueries(app, (method, url) => operations[`${method} ${pathOf(url)}`], 'ticket')
  let made: string | null = null
  const document = () => {
    made ??= JSON.stringify(documentOf(roles))
    return made
  }
  const config = { role: 'public' } as const
  app.get('/api/v1/openapi.json', { config }, async (_request, reply) => {
    return reply.type('application/json; charset=utf-8').send(document())
  })
  app.get('/api/v1/openapi.yaml', { config }, async (_request, reply) => {
    return reply.type('application/yaml; charset=utf-8').send(stringify(JSON.parse(document())))
  })
}

/** As OpenAPI writes a path. */
export function pathOf(url: string): string {
  return url.replace(/:([A-Za-z]+)/g, '{$1}')
}

function documentOf(roles: ReadonlyMap<string, string>): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const [route, operation] of Object.entries(operations)) {
    const [method, path] = route.split(' ') as [string, string]
    paths[path] ??= {}
    paths[path][method.toLowerCase()] = described(route, path, operation, roles.get(route) ?? 'public')
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Busbar workflow engine', version: '1' },
    paths,
    components: { schemas, securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } },
  }
}

function described(route: string, path: string, { parameters = [], ...operation }: Operation, role: string): object {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
    return { name, in: 'path', required: true, schema: { type: 'string' } }
  })
  return {
    operationId: operationId(route),
    tags: [path.replace(/^\/api\/v1/, '').split('/')[1]],
    ...operation,
    parameters: [...inPath, ...parameters],
    'x-role': role,
    // An empty requirement: where authentication is off nobody needs a token.
    security: role === 'public' ? [] : [{ bearer: [] }, {}],
  }
}

function operationId(route: string): string {
  const words = route.replace('/api/v1', '/api').match(/[A-Za-z]+/g) ?? []
  return words
    .map((word, index) => (index === 0 ? word.toLowerCase() : word[0]!.toUpperCase() + word.slice(1)))
    .join('')
}
