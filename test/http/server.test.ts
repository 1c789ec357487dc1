import { request } from 'node:http'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { isAllowedOrigin } from '../../gateways/http/origins.ts'
import { createHttpServer } from '../../gateways/http/server.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'

async function server(t: Test) {
  const faults: unknown[] = []
  const app = await createHttpServer({ maxBodyBytes: 100, corsOrigins: ['*'], onFault: (fault) => faults.push(fault) })
  t.teardown(() => app.close())
  app.post('/echo/:name', async (request) => ({ body: String(request.body) }))
  app.get('/rejected', async () => {
    throw new Rejected('data/conflict', 'Taken', { details: { column: 'email' } })
  })
  app.get('/away', async () => {
    throw new Unavailable('http/unavailable', 'The bus is away', { retryAfterSeconds: 7 })
  })
  app.get('/bug', async () => {
    throw new Error('password=hunter2 at /srv/secret.ts')
  })
  return { app, faults }
}

t.test('every refusal has the one error shape', async (t) => {
  const { app } = await server(t)
  const json = { 'content-type': 'application/json' }
  const cases = [
    { title: 'an unknown route', request: { method: 'GET', url: '/nowhere' }, status: 404, code: 'http/not-found' },
    {
      title: 'a malformed escape',
      request: { method: 'POST', url: '/echo/%zz' },
      status: 400,
      code: 'http/bad-request',
    },
    {
      title: 'a large body',
      request: { method: 'POST', url: '/echo/a', headers: json, body: 'x'.repeat(101) },
      status: 413,
      code: 'http/payload-too-large',
    },
    {
      title: 'another media type',
      request: { method: 'POST', url: '/echo/a', headers: { 'content-type': 'text/xml' }, body: 'x' },
      status: 415,
      code: 'http/unsupported-media-type',
    },
    { title: 'a business no', request: { method: 'GET', url: '/rejected' }, status: 409, code: 'data/conflict' },
    { title: 'a part that is away', request: { method: 'GET', url: '/away' }, status: 503, code: 'http/unavailable' },
  ] as const
  for (const { title, request, status, code } of cases) {
    t.test(title, async (t) => {
      const answer = await app.inject(request)
      t.equal(answer.statusCode, status)
      t.match(answer.json(), { error: String, code, requestId: answer.headers['x-request-id'] ?? String })
      t.same(Object.keys(answer.json()), ['error', 'code', 'details', 'hint', 'requestId'])
    })
  }
})

t.test('what is away says when to come back', async (t) => {
  const { app } = await server(t)
  t.equal((await app.inject({ url: '/away' })).headers['retry-after'], '7')
})

t.test('a bug tells its caller nothing and its owner everything', async (t) => {
  const { app, faults } = await server(t)
  const answer = await app.inject({ url: '/bug' })
  t.equal(answer.statusCode, 500)
  t.notMatch(answer.body, /hunter2|secret|at /)
  t.match(faults, [{ requestId: answer.json().requestId, route: 'GET /bug', error: { message: /hunter2/ } }])
})

t.test('JSON bodies reach the route byte for byte', async (t) => {
  const { app } = await server(t)
  const body = '{"n":12345678901234567890.10}'
  const answer = await app.inject({
    method: 'POST',
    url: '/echo/a',
    headers: { 'content-type': 'application/json' },
    body,
  })
  t.equal(answer.json().body, body)
})

t.test('a browser of any origin may call and read our headers', async (t) => {
  const { app } = await server(t)
  const answer = await app.inject({
    method: 'OPTIONS',
    url: '/echo/a',
    headers: { origin: 'https://app.example', 'access-control-request-method': 'PATCH' },
  })
  t.equal(answer.headers['access-control-allow-origin'], '*')
  t.match(answer.headers['access-control-allow-methods'], /PATCH/)
  t.equal(answer.headers['access-control-allow-credentials'], undefined)
})

t.test('bytes that are not HTTP get a 400 and the next request works', async (t) => {
  const { app } = await server(t)
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  const answer = await raw(Number(new URL(address).port), 'NONSENSE\r\n\r\n')
  t.match(answer, /^HTTP\/1\.1 400 Bad Request\r\n/)
  t.match(answer, /"code":"http\/bad-request"/)
  t.equal((await fetch(`${address}/nowhere`)).status, 404)
})

function raw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    socket.on('data', (chunk) => {
      answer += chunk
    })
    socket.on('end', () => resolve(answer)).on('error', reject)
  })
}

t.test('origins: any, those named, or pages of this machine, for requests as for WebSockets', async (t) => {
  const places: readonly [readonly string[], string, boolean][] = [
    [['*'], 'https://shop.example', true],
    [['https://shop.example'], 'https://shop.example', true],
    [['https://shop.example'], 'http://shop.example', false],
    [['loopback'], 'http://localhost:5173', true],
    [['loopback'], 'https://127.0.0.1', true],
    [['loopback'], 'http://[::1]:20000', true],
    [['loopback'], 'http://localhost.shop.example', false],
    [['loopback'], 'http://127.0.0.1.shop.example:80', false],
    [['loopback'], 'null', false],
    [['loopback', 'https://shop.example'], 'https://shop.example', true],
    [[], 'http://localhost', false],
  ]
  for (const [allowed, origin, answer] of places) {
    t.equal(isAllowedOrigin(origin, allowed), answer, `${origin} of ${allowed}`)
    const app = await createHttpServer({ maxBodyBytes: 100, corsOrigins: allowed, onFault: () => undefined })
    app.get('/', async () => ({}))
    const { headers } = await app.inject({ url: '/', headers: { origin } })
    const told = headers['access-control-allow-origin']
    t.equal(told === '*' || told === origin, answer, `${origin} of ${allowed} in headers`)
    await app.close()
  }
})

t.test('what pages of other origins would change, and names that only lead here, are refused', async (t) => {
  const app = await createHttpServer({
    maxBodyBytes: 100,
    corsOrigins: ['loopback', 'https://shop.example'],
    onFault: () => undefined,
  })
  app.get('/', async () => ({}))
  app.post('/', async () => ({}))
  const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
  t.teardown(() => app.close())
  const status = async (method: string, headers: Readonly<Record<string, string>>) => {
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>()
    request({ port, method, headers, host: '127.0.0.1' }, (answer) => resolve(answer.resume().statusCode))
      .on('error', reject)
      .end()
    return await promise
  }
  const requests: readonly [string, Readonly<Record<string, string>>, number][] = [
    ['POST', {}, 200],
    ['POST', { origin: 'https://shop.example' }, 200],
    ['POST', { origin: 'http://localhost:5173' }, 200],
    ['POST', { origin: 'https://elsewhere.example' }, 403],
    ['POST', { origin: 'null' }, 403],
    ['GET', { origin: 'https://elsewhere.example' }, 200],
    ['POST', { origin: `http://rebound.example:${port}`, host: `rebound.example:${port}` }, 403],
    ['GET', { host: 'rebound.example' }, 403],
    ['GET', { host: 'localhost.rebound.example' }, 403],
    ['GET', { host: `LOCALHOST:${port}` }, 200],
    ['GET', { host: '[::1]:80' }, 200],
    ['POST', { host: 'shop.example', origin: 'https://shop.example' }, 200],
  ]
  for (const [method, headers, wanted] of requests) {
    t.equal(await status(method, headers), wanted, `${method} ${JSON.stringify(headers)}`)
  }
})
