import { Validator } from '@seriousme/openapi-schema-validator'
import fastify from 'fastify'
import t from 'tap'
import { registerWebSockets } from '../../gateways/http/websocket.ts'
import { operations, pathOf } from '../../gateways/workflows/openapi.ts'
import { workflowRoutes } from '../../gateways/workflows/server.ts'
import type { WorkflowService } from '../../gateways/workflows/service.ts'

async function appWithRoutes() {
  const app = fastify()
  const routes = new Map<string, string | undefined>()
  await registerWebSockets(app, { maxPayloadBytes: 1024 })
  app.addHook('onRoute', ({ method, url, config }) => {
    for (const each of [method].flat()) if (each !== 'HEAD') routes.set(`${each} ${pathOf(url)}`, config?.role)
  })
  // Nothing is asked of it before a request comes.
  await workflowRoutes(app, { now: Date.now } as WorkflowService, ['*'])
  return { app, routes }
}

t.test('every route is described, and whatever is described is a route', async (t) => {
  const { app, routes } = await appWithRoutes()
  t.teardown(() => app.close())
  t.strictSame([...routes.keys()].sort(), Object.keys(operations).sort())
  for (const [route, role] of routes) t.ok(role, `${route} says who may use it`)
})

t.test('the document is valid OpenAPI 3.1 and names the role of each route', async (t) => {
  const { app } = await appWithRoutes()
  t.teardown(() => app.close())
  const document = (await app.inject('/api/v1/openapi.json')).json()
  t.strictSame(await new Validator().validate(structuredClone(document)), { valid: true })
  t.match(document.paths['/api/v1/flows'].post, { 'x-role': 'editor' })
  t.match(document.paths['/api/v1/flows/{id}/execute'].post, { 'x-role': 'executor' })
  const ids = Object.values<Record<string, { operationId: string }>>(document.paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId),
  )
  t.equal(new Set(ids).size, ids.length, 'operation ids are unique')
  const text = JSON.stringify(document)
  for (const [, name] of text.matchAll(/#\/components\/schemas\/(\w+)/g)) {
    t.ok(document.components.schemas[name!], `${name} is there`)
  }
})
