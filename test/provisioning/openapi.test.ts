import { Validator } from '@seriousme/openapi-schema-validator'
import fastify from 'fastify'
import t from 'tap'
import { operations, pathOf } from '../../gateways/provisioning/openapi.ts'
import { provisioningRoutes } from '../../gateways/provisioning/server.ts'
import type { ProvisioningService } from '../../gateways/provisioning/service.ts'

function appWithRoutes() {
  const app = fastify()
  const routes = new Set<string>()
  app.addHook('onRoute', ({ method, url }) => {
    for (const each of [method].flat()) if (each !== 'HEAD') routes.add(`${each} ${pathOf(url)}`)
  })
  // Nothing is asked of it before a request comes.
  provisioningRoutes(app, { now: Date.now } as ProvisioningService)
  return { app, routes }
}

/** Source: specification, API of D. */
const wanted = [
  'GET /provision',
  'POST /provision',
  'POST /provision/estimate',
  ...[
    'GET ',
    'GET /credentials',
    'DELETE ',
    'PATCH /scale',
    'POST /resize',
    'POST /upgrade',
    'PATCH /parameters',
    'PATCH /deletion-protection',
    'GET /logs',
    'POST /credentials/rotate',
    'POST /clone',
    'PUT /maintenance-window',
    'GET /maintenance-window',
    'POST /backup/trigger',
    'GET /backup/list',
    'POST /backup/restore',
    'GET /metrics/current',
    'GET /metrics/history',
    'GET /metrics/stream',
    'GET /performance/summary',
    'GET /performance/top-queries',
    'GET /performance/wait-events',
    'POST /performance/enable',
    'POST /audit/enable',
    'GET /audit/logs',
    'GET /audit/config',
    'POST /snapshot/export',
    'GET /snapshot',
    'GET /snapshot/{snapshotId}/download',
    'DELETE /snapshot/{snapshotId}',
    'POST /migrations',
    'GET /migrations',
  ].map((route) => route.replace(' ', ' /provision/{projectId}')),
  'GET /alerts',
  'GET /alerts/history',
  'GET /alerts/project/{projectId}',
  'GET /setup/status',
  'POST /setup/install/{databaseType}',
  'GET /parameter-groups',
  'POST /parameter-groups',
  'GET /parameter-groups/{name}',
  'PUT /parameter-groups/{name}',
  'DELETE /parameter-groups/{name}',
].map((route) => route.replace(' ', ' /api'))

t.test('every route of the specification is there and described, and whatever is described is a route', async (t) => {
  const { app, routes } = appWithRoutes()
  t.teardown(() => app.close())
  t.strictSame([...routes].sort(), Object.keys(operations).sort())
  for (const route of wanted) t.ok(routes.has(route), route)
})

t.test('the document is valid OpenAPI 3.1', async (t) => {
  const { app } = appWithRoutes()
  t.teardown(() => app.close())
  const document = (await app.inject('/api/openapi.json')).json()
  t.strictSame(await new Validator().validate(structuredClone(document)), { valid: true })
  const ids = Object.values<Record<string, { operationId: string }>>(document.paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId),
  )
  t.equal(new Set(ids).size, ids.length, 'operation ids are unique')
  for (const [, name] of JSON.stringify(document).matchAll(/#\/components\/schemas\/(\w+)/g)) {
    t.ok(document.components.schemas[name!], `${name} is there`)
  }
})
