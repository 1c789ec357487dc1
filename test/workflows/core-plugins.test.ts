import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { TaskFailure, type TaskServices } from '../../workers/workflows/plugin.ts'
import { trialServices, tryPlugin } from '../../workers/workflows/try-plugin.ts'

interface Seen {
  readonly line: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

const seen: Seen[] = []
let open = 0
const server = createServer(async (request, response) => {
  open++
  response.once('close', () => open--)
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  seen.push({
    line: `${request.method} ${request.url}`,
    headers: request.headers,
    body: Buffer.concat(chunks).toString('utf8'),
  })
  const url = new URL(request.url!, 'http://server')
  const route = routes[url.pathname]
  if (route === undefined) response.writeHead(404, { 'Content-Type': 'text/plain' }).end('nothing here')
  else route(response, url)
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
t.teardown(() => {
  server.closeAllConnections()
  server.close()
})
const here = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

const answer = (response: ServerResponse, status: number, type: string | null, body: string | Buffer, headers = {}) => {
  response.writeHead(status, { ...(type !== null && { 'Content-Type': type }), ...headers }).end(body)
}
const json = (response: ServerResponse, value: unknown, headers = {}) =>
  answer(response, 200, 'application/json', JSON.stringify(value), headers)
let tries = 0
const flaky =
  (status: number, headers: Record<string, string> = {}) =>
  (response: ServerResponse) => {
    tries++
    if (tries < 3) answer(response, status, 'text/plain', 'not yet', headers)
    else json(response, { tries })
  }
const letters = ['a', 'b', 'c', 'd', 'e']

const routes: Record<string, (response: ServerResponse, url: URL) => void> = {
  '/ok': (response) => json(response, { ok: true }),
  '/empty': (response) => response.writeHead(204).end(),
  '/text': (response) => answer(response, 200, 'text/plain; charset=iso-8859-1', Buffer.from([0x6e, 0xe9])),
  '/lines': (response) => answer(response, 200, 'application/x-ndjson', '{"n":1}\n{"n":2}\n'),
  '/broken': (response) => answer(response, 200, 'application/json', '{"n":'),
  '/bytes': (response) => answer(response, 200, 'application/pdf', Buffer.from([0, 255, 1])),
  '/bare': (response) => answer(response, 200, null, '[1]'),
  '/large': (response) => answer(response, 200, 'text/plain', 'x'.repeat(1_000)),
  '/busy': flaky(429, { 'Retry-After': '0' }),
  '/later': flaky(503, { 'Retry-After': '3600' }),
  '/down': flaky(500),
  '/away': (response) => response.writeHead(302, { Location: '/ok' }).end(),
  '/hang': () => undefined,
  '/page': (response, url) => {
    const page = Number(url.searchParams.get('page') ?? 1)
    json(response, letters.slice((page - 1) * 2, page * 2))
  },
  '/offset': (response, url) => {
    const at = Number(url.searchParams.get('offset') ?? 0)
    json(response, { data: letters.slice(at, at + 2) })
  },
  '/link': (response, url) => {
    const at = Number(url.searchParams.get('at') ?? 0)
    const next = at + 2 < letters.length ? { Link: `</link?at=${at + 2}>; rel="next", </link>; rel=first` } : {}
    json(response, letters.slice(at, at + 2), next)
  },
  '/cursor': (response, url) => {
    const at = Number(url.searchParams.get('after') ?? 0)
    json(response, {
      rows: letters.slice(at, at + 2).map((name) => ({ name })),
      meta: { next: at + 2 < letters.length ? at + 2 : null },
    })
  },
  '/elsewhere': (response) => json(response, { items: [1], next: 'http://localhost:1/stolen' }),
  '/loop': (response) => json(response, { items: [1], next: '/loop' }),
  '/events': (response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write(': hello\n\nevent: change\nid: 1\ndata: {"n":1}\n\ndata: plain\n')
    response.write('data: text\n\nevent: cut')
  },
}

const find = (id: string) => catalogue.find(({ manifest }) => manifest.id === id)!
async function call(id: string, properties: Record<string, unknown>, services: Partial<TaskServices> = {}) {
  seen.length = 0
  tries = 0
  return (await tryPlugin(find(id), properties, { services })).outputs as Record<string, unknown>
}
const request = (path: string, properties: Record<string, unknown> = {}, services: Partial<TaskServices> = {}) =>
  call('http.request', { url: `${here}${path}`, retryDelay: '1ms', ...properties }, services)

t.test('an HTTP request is sent as it was asked for', async (t) => {
  const cases: readonly (readonly [string, Record<string, unknown>, Partial<Seen>])[] = [
    [
      '/ok?a=1',
      { query: { b: ['x', 'y z'], c: null, d: { e: 1 } } },
      { line: 'GET /ok?a=1&b=x&b=y+z&d=%7B%22e%22%3A1%7D' },
    ],
    [
      '/ok',
      { method: 'POST', body: { n: 1 } },
      { body: '{"n":1}', headers: { 'content-type': 'application/json', 'idempotency-key': 'trial/task' } },
    ],
    ['/ok', { method: 'POST', body: 'hi' }, { body: 'hi', headers: { 'content-type': 'text/plain; charset=utf-8' } }],
    [
      '/ok',
      { method: 'PUT', body: '<a/>', headers: { 'content-type': 'application/xml' } },
      { body: '<a/>', headers: { 'content-type': 'application/xml' } },
    ],
    [
      '/ok',
      { method: 'POST', body: { a: 1, b: ['x', 'ü'] }, bodyType: 'form' },
      { body: 'a=1&b=x&b=%C3%BC', headers: { 'content-type': 'application/x-www-form-urlencoded;charset=UTF-8' } },
    ],
    [
      '/ok',
      { method: 'POST', body: 'aGk=', bodyType: 'base64' },
      { body: 'hi', headers: { 'content-type': 'application/octet-stream' } },
    ],
    [
      '/ok',
      { auth: { type: 'basic', username: 'ann', password: 'pä' } },
      { headers: { authorization: `Basic ${Buffer.from('ann:pä').toString('base64')}` } },
    ],
    ['/ok', { auth: { type: 'bearer', token: 'tok' } }, { headers: { authorization: 'Bearer tok' } }],
    ['/ok', { auth: { type: 'apiKey', name: 'X-Key', value: 'k' } }, { headers: { 'x-key': 'k' } }],
    ['/ok', { auth: { type: 'apiKey', name: 'key', value: 'k', in: 'query' } }, { line: 'GET /ok?key=k' }],
  ]
  for (const [path, properties, expected] of cases) {
    const outputs = await request(path, properties)
    t.match(seen, [expected], JSON.stringify(properties))
    t.match(outputs, { status_code: 200, body: { ok: true }, attempts: 1, uri: null })
  }
})

t.test('files are sent and become files', async (t) => {
  const { files } = trialServices()
  const { uri } = await files.put(Buffer.from('whole file'))
  await request('/ok', { method: 'POST', bodyType: 'file', body: uri }, { files })
  t.equal(seen[0]!.body, 'whole file')
  const body = { note: 'n', doc: { file: uri, filename: 'a.txt', contentType: 'text/plain' } }
  await request('/ok', { method: 'POST', bodyType: 'multipart', body }, { files })
  t.match(seen[0]!.headers['content-type'], /^multipart\/form-data; boundary=/)
  t.match(seen[0]!.body, /name="note"\r\n\r\nn\r\n/)
  t.match(seen[0]!.body, /name="doc"; filename="a.txt"\r\nContent-Type: text\/plain\r\n\r\nwhole file\r\n/)
  const outputs = await request('/bytes', {}, { files })
  t.match(outputs, { body: null, sizeBytes: 3 })
  t.same([...(await files.get(String(outputs.uri)))], [0, 255, 1])
  const kept = await request('/ok', { responseType: 'file' }, { files })
  t.equal(Buffer.from(await files.get(String(kept.uri))).toString(), '{"ok":true}')
})

t.test('a body is what its content type says', async (t) => {
  const cases: readonly (readonly [string, string, unknown])[] = [
    ['/text', 'auto', 'né'],
    ['/lines', 'auto', [{ n: 1 }, { n: 2 }]],
    ['/broken', 'auto', '{"n":'],
    ['/bare', 'auto', [1]],
    ['/empty', 'auto', null],
    ['/ok', 'text', '{"ok":true}'],
    ['/bytes', 'base64', 'AP8B'],
  ]
  for (const [path, responseType, body] of cases) t.same((await request(path, { responseType })).body, body, path)
  await t.rejects(request('/text', { responseType: 'json' }), { kind: 'refused', message: /no JSON/ })
  await t.rejects(request('/large', { maxBytes: 999 }), { kind: 'refused', message: /larger than 999 bytes/ })
})

t.test('what is not expected fails, and what can pass is tried again', async (t) => {
  await t.rejects(request('/gone'), { kind: 'refused', message: 'The server answered 404: nothing here' })
  t.match(await request('/gone', { expectedStatus: ['2xx', 404] }), { status_code: 404, body: 'nothing here' })
  t.match(await request('/down'), { body: { tries: 3 }, attempts: 3 })
  t.match(await request('/busy', { method: 'POST', body: {} }), { attempts: 3 })
  t.equal(seen[0]!.headers['idempotency-key'], seen[2]!.headers['idempotency-key'])
  await t.rejects(request('/down', { retries: 1 }), { kind: 'unavailable', message: /answered/ })
  await t.rejects(request('/down', { method: 'POST', body: {} }), { kind: 'unavailable', message: /500: not yet/ })
  t.equal(seen.length, 1, 'a POST that may have been done is not repeated')
  t.match(await request('/down', { method: 'POST', body: {}, retryOn: [500] }), { attempts: 3 })
  await t.rejects(request('/later'), { kind: 'unavailable', message: /answered/ })
  t.equal(seen.length, 1, 'a server that asks for an hour is not waited for')
  await t.rejects(call('http.request', { url: 'http://127.0.0.1:1/', retries: 1, retryDelay: 1 }), TaskFailure)
  const closed = createServer()
  await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve))
  const { port } = closed.address() as AddressInfo
  await new Promise((resolve) => closed.close(resolve))
  const gone = call('http.request', { url: `http://127.0.0.1:${port}/`, retries: 1, retryDelay: 1 })
  await t.rejects(gone, { kind: 'unavailable', message: `127.0.0.1:${port} cannot be reached: ECONNREFUSED` })
  await t.rejects(request('/hang', { timeout: '50ms', retries: 0 }), { kind: 'timeout', message: /50 ms/ })
})

t.test('redirects stay under the egress policy', async (t) => {
  t.match(await request('/away'), { body: { ok: true }, url: `${here}/ok` })
  t.match(await request('/away', { redirect: 'manual' }), { status_code: 302 })
  await t.rejects(request('/away', { redirect: 'error' }), { kind: 'refused', message: /./ })
  await t.rejects(call('http.request', { url: 'http://169.254.169.254/latest' }), { kind: 'refused', message: /./ })
})

t.test('pages become one list', async (t) => {
  const cases: readonly (readonly [string, Record<string, unknown>, unknown, number])[] = [
    ['/page', { by: 'page' }, letters, 4],
    ['/offset', { by: 'offset', items: 'data' }, letters, 4],
    ['/link', { by: 'link' }, letters, 3],
    ['/cursor', { by: 'cursor', items: 'rows.name', next: 'meta.next', parameter: 'after' }, letters, 3],
  ]
  for (const [path, paging, body, pages] of cases) {
    t.match(await request(path, { paging }), { body, pages, hasMore: false, attempts: pages }, path)
  }
  t.match(await request('/link', { paging: { by: 'link', maxPages: 1 } }), { body: ['a', 'b'], hasMore: true })
  const bad: readonly (readonly [string, Record<string, unknown>, RegExp])[] = [
    ['/elsewhere', { by: 'url', items: 'items', next: 'next' }, /another server/],
    ['/loop', { by: 'url', items: 'items', next: 'next' }, /was read already/],
    ['/offset', { by: 'offset' }, /paging.items says where/],
    ['/cursor', { by: 'cursor', items: 'rows' }, /paging.next is needed/],
    ['/cursor', { by: 'cursor', items: 'rows', next: '((' }, /properties.paging.next/],
  ]
  for (const [path, paging, message] of bad) await t.rejects(request(path, { paging }), { kind: 'refused', message })
})

t.test('server-sent events are read until there are enough', async (t) => {
  const first = { id: '1', event: 'change', data: { n: 1 } }
  const second = { id: '1', event: 'message', data: 'plain\ntext' }
  t.same((await request('/events', { responseType: 'events', events: { max: 1, for: '1m' } })).body, [first])
  t.match((await request('/events', { responseType: 'events', events: { for: '200ms' } })).body, [
    first,
    { ...second, id: null },
  ])
  for (let waited = 0; open > 0 && waited < 100; waited++) await delay(10)
  t.equal(open, 0, 'no connection is left')
})

t.test('a cancelled request is gone at once, and so is one that waits for its retry', async (t) => {
  for (const properties of [{ url: `${here}/hang` }, { url: `${here}/down`, retryDelay: '1h', retries: 9 }]) {
    tries = Number.NEGATIVE_INFINITY
    const controller = new AbortController()
    const running = tryPlugin(find('http.request'), properties, { signal: controller.signal })
    setTimeout(() => controller.abort(new Error('cancelled')), 100)
    await t.rejects(running)
  }
  for (let waited = 0; open > 0 && waited < 100; waited++) await delay(10)
  t.equal(open, 0, 'no connection is left')
})

t.test('wrong properties are refused', async (t) => {
  const cases: readonly (readonly [string, Record<string, unknown>, RegExp])[] = [
    ['http.request', { url: 'ftp://x' }, /properties.url/],
    ['http.request', { url: here, method: 'BREW' }, /properties.method/],
    ['http.request', { url: here, retries: 11 }, /properties.retries/],
    ['http.request', { url: here, timeout: 'soon' }, /properties.timeout/],
    ['http.request', { url: here, body: 'x' }, /properties.body cannot be sent with GET/],
    ['http.request', { url: here, method: 'POST', bodyType: 'form', body: 'x' }, /properties.body is no object/],
    ['http.request', { url: here, auth: { type: 'bearer', token: 'sec\nret' } }, /properties.headers or auth/],
    ['http.request', { url: here, expectedStatus: ['9xx'] }, /properties.expectedStatus/],
    ['util.set', { assert: [{ that: false, message: 'no' }, { that: 0 }] }, /^no; properties.assert.1 does not hold$/],
    ['core.kv', { operation: 'put', key: 'k' }, /properties.value is needed for put/],
    ['core.kv', { operation: 'get' }, /properties.key is needed for get/],
    ['core.kv', { operation: 'increment', key: 'text' }, /holds no number/],
  ]
  const { kv } = trialServices()
  await kv.put('default', 'text', 'a')
  for (const [id, properties, message] of cases)
    await t.rejects(call(id, properties, { kv }), { kind: 'refused', message })
})

t.test('values are set, and a failure is made', async (t) => {
  t.same(await call('util.set', { values: { a: 1, b: { c: [] } }, assert: [{ that: 'yes' }] }), { a: 1, b: { c: [] } })
  t.same(await call('core.fail', { condition: false }), { failed: false })
  await t.rejects(call('core.fail', { message: 'why', kind: 'timeout' }), { kind: 'timeout', message: 'why' })
})

t.test('the key-value store', async (t) => {
  const { kv } = trialServices()
  const store = (properties: Record<string, unknown>) => call('core.kv', properties, { kv })
  t.match(await store({ key: 'a', otherwise: 7 }), { key: 'a', value: 7, version: 0, found: false })
  const { version } = await store({ operation: 'put', key: 'a', value: { n: 1 } })
  t.match(await store({ key: 'a' }), { value: { n: 1 }, version, found: true })
  await t.rejects(store({ operation: 'cas', key: 'a', value: 2, version: 0 }), { kind: 'refused', message: /./ })
  t.match(await store({ operation: 'cas', key: 'a', value: 2, version }), { value: 2, found: true })
  await store({ operation: 'put', key: 'ab', value: 1, namespace: 'other' })
  t.match(await store({ operation: 'list', prefix: 'a' }), { keys: ['a'] })
  t.match(await store({ operation: 'delete', key: 'a' }), { found: true, value: null })
  t.match(await store({ operation: 'delete', key: 'a' }), { found: false })
  const counts = await Promise.all(Array.from({ length: 20 }, () => store({ operation: 'increment', key: 'n', by: 2 })))
  t.same(
    counts.map(({ value }) => Number(value)).sort((one, other) => one - other),
    Array.from({ length: 20 }, (_, i) => 2 * i + 2),
  )
})
