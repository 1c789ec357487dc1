import fastify from 'fastify'
import t from 'tap'
import { registerWebSockets } from '../../gateways/http/websocket.ts'
import { guardRoutes } from '../../gateways/workflows/auth-guard.ts'
import { workflowRoutes } from '../../gateways/workflows/server.ts'
import type { WorkflowService } from '../../gateways/workflows/service.ts'
import { mayAct, type Role, roles } from '../../schemas/workflows/role.ts'
import { authStage } from './auth-stage.ts'

interface Route {
  readonly method: string
  readonly url: string
  readonly role: Role | 'public'
  readonly audit: string | undefined
}

/** Every route that the gateway has. */
async function registeredRoutes(): Promise<readonly Route[]> {
  const app = fastify()
  const routes: Route[] = []
  await registerWebSockets(app, { maxPayloadBytes: 1024 })
  app.addHook('onRoute', ({ method, url, config }) => {
    for (const each of [method].flat()) {
      if (config?.role === undefined) throw new Error(`${each} ${url} has no role`)
      if (each !== 'HEAD') routes.push({ method: each, url, role: config.role, audit: config.audit })
    }
  })
  // Nothing is asked of it before a request comes.
  await workflowRoutes(app, { now: Date.now } as WorkflowService, ['*'])
  await app.close()
  return routes
}

const reading = (method: string) => method === 'GET'
/** What is no command though it is posted. */
const unaudited = ['POST /api/v1/flows/validate', 'POST /auth/ticket']

t.setTimeout(120_000)

t.test('a route that does not say who may use it cannot be added', async (t) => {
  const app = fastify()
  guardRoutes(app, { enabled: true } as Parameters<typeof guardRoutes>[1])
  t.throws(() => app.get('/open', async () => 'open'), /GET.* \/open does not say who may use it/)
})

t.test('the table of roles', async (t) => {
  const routes = await registeredRoutes()
  t.ok(routes.length > 60)
  const wrong = (is: (route: Route) => boolean) =>
    routes.filter(is).map(({ method, url, role }) => `${method} ${url} ${role}`)
  const isAdminOnly = ({ url }: Route) => /^\/api\/v1\/(users|audit)/.test(url)
  t.same(
    wrong((route) => isAdminOnly(route) && route.role !== 'admin'),
    [],
    'users and audit are for admins',
  )
  const ours = ({ url, role }: Route) => url.startsWith('/api/v1/') && role !== 'public'
  t.same(
    wrong((route) => ours(route) && !isAdminOnly(route) && reading(route.method) && route.role !== 'viewer'),
    [],
    'viewers may look at all else',
  )
  t.same(
    wrong((route) => ours(route) && !reading(route.method) && route.role === 'viewer').sort(),
    [
      'POST /api/v1/approvals/:id/approve viewer',
      'POST /api/v1/approvals/:id/reject viewer',
      'POST /api/v1/flows/validate viewer',
    ],
    'viewers change nothing but the gates that ask for them',
  )
  t.same(
    [...new Set(routes.filter(({ role }) => role === 'public').map(({ url }) => url.replace(/^\/api\/v1/, '')))].sort(),
    [
      '/.well-known/jwks.json',
      '/auth/jwks.json',
      '/auth/login',
      '/auth/logout',
      '/auth/refresh',
      '/healthz',
      '/metrics',
      '/openapi.json',
      '/openapi.yaml',
      '/readyz',
      '/webhook/:key',
    ],
    'what is open to strangers',
  )
  t.same(
    wrong(
      (route) =>
        !reading(route.method) && route.audit === undefined && !unaudited.includes(`${route.method} ${route.url}`),
    ),
    [],
    'every command is recorded',
  )
})

t.test('every route asks for its role', async (t) => {
  const stage = await authStage(t)
  const { ask, login } = await stage.gateway()
  const routes = (await registeredRoutes()).filter(({ role }) => role !== 'public')
  const tokens = new Map<Role, string>()
  for (const role of roles) tokens.set(role, (await login(role)).json.token)
  for (const { method, url, role: needed } of routes) {
    const path = url.replace(/:[A-Za-z]+/g, 'none').replace('*', 'none')
    const told = method === 'GET' || method === 'DELETE' ? {} : { body: {} }
    t.equal((await ask(method, path, told)).status, 401, `${method} ${url} without a token`)
    t.equal((await ask(method, path, { ...told, token: 'x.y.z' })).status, 401, `${method} ${url} with a bad token`)
    for (const role of roles) {
      const { status } = await ask(method, path, { ...told, token: tokens.get(role)! })
      if (mayAct(role, needed as Role))
        t.ok(![401, 403, 500].includes(status), `${method} ${url} is open to ${role}: ${status}`)
      else t.equal(status, 403, `${method} ${url} is closed to ${role}`)
    }
  }
  for (const path of ['/nothing', '/api/v1/nothing']) t.equal((await ask('GET', path)).status, 404)
  t.equal((await ask('PATCH', '/api/v1/flows')).status, 405)
  for (const path of ['/', '/docs', '/healthz', '/metrics', '/api/v1/openapi.json']) {
    t.equal((await ask('GET', path)).status, 200, path)
  }
  for (const path of ['/%zz', '/api/v1/flows/%zz', `/api/v1/flows/${'x'.repeat(5_000)}`]) {
    t.equal(
      (await ask('POST', path, { body: {} })).status,
      400,
      `${path.slice(0, 20)} is refused before anybody is asked`,
    )
  }
  t.same(stage.faults, [])
})
