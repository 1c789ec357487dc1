import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { keyRing } from '../../bus/sealed.ts'
import { openTokens } from '../../gateways/workflows/tokens.ts'
import { roles } from '../../schemas/workflows/role.ts'
import { platform } from './platform.ts'

/** What callers of functions need, and not those who manage them. */
const open = ['GET /health', 'GET /invocations/{id}', 'GET /openapi.json', 'GET /openapi.yaml']

t.test('functions are managed by users of the workflow engine, with the role for it', async (t) => {
  const place = await platform(t)
  const ring = keyRing(place.secretKeys)!
  const tokens = await openTokens(place.bus, ring, { now: Date.now, onObservation: () => undefined })
  t.teardown(() => tokens.close())
  const sign = (role: (typeof roles)[number], use: 'access' | 'ticket' = 'access') =>
    tokens.sign(use, {
      username: role,
      userId: 'u',
      role,
      sessionId: 's',
      epoch: 1,
      expiresAt: Date.now() + 60_000,
    })
  const signed = new Map(await Promise.all(roles.map(async (role) => [role, await sign(role)] as const)))
  const keys = createServer((_request, response) => {
    response.setHeader('Content-Type', 'application/json').end(JSON.stringify(tokens.keySet()))
  })
  await new Promise<void>((resolve) => keys.listen(0, '127.0.0.1', resolve))
  t.teardown(() => keys.close())
  const jwksUrl = `http://127.0.0.1:${(keys.address() as AddressInfo).port}`
  const { call } = await place.gateway({
    jwt: { jwksUrl, issuer: 'busbar', audience: 'busbar' },
    managementRoles: ['editor', 'admin'],
  })
  const { paths } = (await call('GET', '/openapi.json')).body as { paths: Record<string, Record<string, unknown>> }
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods)
      .filter((method) => method !== 'parameters')
      .map((method) => `${method.toUpperCase()} ${path}`),
  )
  const managing = routes.filter((route) => !open.includes(route) && !route.includes('/invoke/'))
  t.ok(managing.length >= 12, managing.join(', '))
  for (const route of managing) {
    const [method = '', path = ''] = route.split(' ')
    const ask = async (token?: string) => {
      const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` }
      const body = method === 'GET' || method === 'DELETE' ? undefined : {}
      return (await call(method, path.replace(/\{\w+\}/g, '1'), body, headers)).status
    }
    t.equal(await ask(), 401, `${route} without a token`)
    t.equal(await ask('x.y.z'), 401, `${route} with a bad one`)
    t.equal(await ask(await sign('admin', 'ticket')), 401, `${route} with one that is for something else`)
    for (const role of roles) {
      const status = await ask(signed.get(role)!)
      if (role === 'viewer' || role === 'executor') t.equal(status, 403, `${route} with the role ${role}`)
      else t.ok(status < 500 && status !== 401 && status !== 403, `${route} with the role ${role}: ${status}`)
    }
  }
  for (const path of ['/scripts', '/stats']) {
    const headers = { Authorization: `Bearer ${signed.get('editor')}` }
    t.equal((await call('GET', path, undefined, headers)).status, 200, path)
  }
  t.equal((await call('GET', '/health')).status, 200)
  const any = await place.gateway({ jwt: { jwksUrl } })
  const viewer = { Authorization: `Bearer ${signed.get('viewer')}` }
  t.equal(
    (await any.call('GET', '/scripts', undefined, viewer)).status,
    200,
    'any token will do where no role is asked for',
  )
  t.equal((await any.call('GET', '/scripts')).status, 401)
})
