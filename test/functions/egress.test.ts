import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { type EgressSettings, egressPolicy } from '../../workers/egress/policy.ts'
import { type FetchOptions, functionFetch } from '../../workers/functions/fetch.ts'
import type { FetchAnswer } from '../../workers/functions/sandbox/operations.ts'
import { pack, unpack } from '../../workers/functions/sandbox/wire.ts'
import { stage } from './hosts-support.ts'

t.test('addresses', async (t) => {
  const refused =
    '0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1 192.168.1.1 198.18.0.1 198.51.100.7 203.0.113.7 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 168.63.129.16 100.100.100.200 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 0:0:0:0:0:ffff:a9fe:a9fe 64:ff9b::7f00:1 64:ff9b::10.0.0.1 64:ff9b:1::1 fe80::1 fe80::1%eth0 fec0::1 fc00::1 fd12:3456::1 fd00:ec2::254 ff02::1 2001:db8::1 2001::1 2002:7f00:1::1 3fff::1 100::1 nonsense 127.1 '
  const allowed =
    '1.1.1.1 8.8.8.8 172.15.255.255 172.32.0.1 100.128.0.1 192.169.0.1 223.255.255.255 2606:4700::1111 2a00:1450::1 ::ffff:8.8.8.8 64:ff9b::808:808'
  const policy = egressPolicy({})
  for (const address of refused.split(' '))
    t.equal(policy.allows('name.example', address), false, `${address} is refused`)
  for (const address of allowed.split(' '))
    t.equal(policy.allows('name.example', address), true, `${address} is allowed`)
})

t.test('settings', async (t) => {
  const cases: readonly (readonly [EgressSettings, host: string, address: string, boolean])[] = [
    [{ allow: ['loopback'] }, 'localhost', '127.0.0.1', true],
    [{ allow: ['loopback'] }, 'localhost', '::1', true],
    [{ allow: ['loopback'] }, 'h', '::ffff:127.0.0.1', true],
    [{ allow: ['loopback'] }, 'h', '10.0.0.1', false],
    [{ allow: ['loopback'] }, 'h', '0.0.0.0', false],
    [{ allow: ['private'] }, 'h', '10.0.0.1', true],
    [{ allow: ['private'] }, 'h', 'fd12::1', true],
    [{ allow: ['private'] }, 'h', '127.0.0.1', false],
    [{ allow: ['private'] }, 'h', '169.254.169.254', false],
    [{ allow: ['private'] }, 'h', '100.100.100.200', false],
    [{ allow: ['private'] }, 'h', 'fd00:ec2::254', false],
    [{ allow: ['10.1.0.0/16'] }, 'h', '10.1.255.1', true],
    [{ allow: ['10.1.0.0/16'] }, 'h', '10.2.0.1', false],
    [{ allow: ['10.1.2.3'] }, 'h', '10.1.2.3', true],
    [{ allow: ['fd00:1::/32'] }, 'h', 'fd00:1::5', true],
    [{ allow: ['db.internal'] }, 'DB.internal.', '10.0.0.1', true],
    [{ allow: ['*.internal'] }, 'a.internal', '10.0.0.1', true],
    [{ allow: ['*.internal'] }, 'ainternal', '10.0.0.1', false],
    [{ deny: ['8.8.8.0/24'] }, 'h', '8.8.8.8', false],
    [{ deny: ['8.8.8.0/24'] }, 'h', '::ffff:8.8.8.8', false],
    [{ deny: ['*.bad.example'], allow: ['a.bad.example'] }, 'a.bad.example', '1.1.1.1', false],
  ]
  for (const [settings, host, address, expected] of cases)
    t.equal(egressPolicy(settings).allows(host, address), expected, `${JSON.stringify(settings)} ${host} ${address}`)
  for (const wrong of ['10.0.0.0/33', '1.2.3', 'http://x', '10.0.0.0/8/8', '', 'a b'])
    t.throws(() => egressPolicy({ allow: [wrong] }), /is no address, range or host name/, `"${wrong}"`)
})

interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly localAddress: string
  readonly body: string
}

interface Site {
  readonly port: number
  readonly seen: Seen[]
}

/** A server on every IPv4 loopback address, so that 127.0.0.2 can be allowed and 127.0.0.1 not. */
async function site(
  t: Test,
  answer: (request: IncomingMessage, response: ServerResponse, port: number) => void,
): Promise<Site> {
  const seen: Seen[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request.setEncoding('latin1')) body += chunk
    const { method = '', url = '', headers, socket } = request
    seen.push({ method, url, headers, localAddress: socket.localAddress ?? '', body })
    answer(request, response, (server.address() as AddressInfo).port)
  })
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
  t.teardown(() => {
    server.close()
    // A request that a function has given up goes on until its limit.
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port, seen }
}

const names: Readonly<Record<string, string>> = {
  'good.example': '127.0.0.2',
  'other.example': '127.0.0.2',
  'evil.example': '127.0.0.1',
  'metadata.example': '169.254.169.254',
  'mapped.example': '::ffff:127.0.0.1',
}

interface Told {
  readonly answer?: FetchAnswer
  readonly body?: string
  readonly error?: string
}

/** fetch as a function's operation, with a resolver of our own. */
function fetching(options: Partial<FetchOptions> = {}) {
  const looked: string[] = []
  const perform = functionFetch({
    policy: egressPolicy({ allow: ['127.0.0.2'] }),
    resolve: async (host) => {
      looked.push(host)
      const address = names[host]
      if (address === undefined) throw Object.assign(new Error('no such host'), { code: 'ENOTFOUND' })
      return [{ address, family: address.includes(':') ? 6 : 4 }]
    },
    ...options,
  })
  const get = async (
    url: string,
    head: object = {},
    body = '',
    signal = new AbortController().signal,
  ): Promise<Told> => {
    const asked = {
      url,
      method: 'GET',
      headers: [],
      redirect: 'follow',
      hasBody: body !== '',
      invocationId: 'call',
      ...head,
    }
    const result = await perform('fn', 'fetch', pack(asked, body), signal)
    if (result[0] === '!') return { error: (JSON.parse(result.slice(1)) as { message: string }).message }
    const { head: answer, rest } = unpack<FetchAnswer>(result.slice(1))
    return { answer, body: rest }
  }
  return { get, looked }
}

t.test('fetch goes to allowed addresses only', async (t) => {
  const { port, seen } = await site(t, (_, response) => response.end('hello'))
  const { get, looked } = fetching()
  const { answer, body } = await get(`http://good.example:${port}/a?b`)
  t.match([answer, body], [{ status: 200, redirected: false, url: `http://good.example:${port}/a?b` }, 'hello'])
  t.match(seen, [
    { localAddress: '127.0.0.2', url: '/a?b', headers: { host: `good.example:${port}`, 'user-agent': 'Busbar' } },
  ])
  t.same(looked, ['good.example'])
  const refused = [
    'evil.example',
    'metadata.example',
    'mapped.example',
    '127.0.0.1',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '127.1',
    '0',
    '0.0.0.0',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::]',
    '%31%32%37.0.0.1',
    '１２７.0.0.1',
    '127.0.0.1.',
  ]
  for (const host of refused) {
    const { error } = await get(`http://${host}:${port}/`)
    t.match(error, /^fetch failed: ".*" may not be fetched from here$/, host)
  }
  for (const url of [
    'file:///etc/passwd',
    'ftp://good.example/',
    'data:,x',
    `http://u:p@good.example:${port}/`,
    'http://good.example:22/',
    'nonsense',
  ])
    t.match((await get(url)).error, /^fetch failed: /, url)
  t.equal((await get('http://missing.example/')).error, 'fetch failed: ENOTFOUND')
  t.equal(seen.length, 1)
})

t.test('a name that is resolved to something else later changes nothing', async (t) => {
  const { port, seen } = await site(t, (_, response) => response.end())
  let turn = 0
  const { get } = fetching({
    resolve: async () => [{ address: turn++ % 2 === 0 ? '127.0.0.2' : '127.0.0.1', family: 4 }],
  })
  for (let round = 0; round < 4; round++)
    await get(`http://rebind.example:${port}/${round}`, { method: round > 1 ? 'POST' : 'GET' })
  t.same(
    seen.map(({ url, localAddress }) => [url, localAddress]),
    [
      ['/0', '127.0.0.2'],
      ['/2', '127.0.0.2'],
    ],
  )
  const mixed = fetching({
    resolve: async () => [
      { address: '127.0.0.1', family: 4 },
      { address: '127.0.0.2', family: 4 },
    ],
  })
  t.match(await mixed.get(`http://mixed.example:${port}/mixed`), { answer: { status: 200 } })
  t.equal(seen.at(-1)?.localAddress, '127.0.0.2', 'of several addresses only the allowed ones are connected to')
})

t.test('redirects are checked hop by hop', async (t) => {
  const { port, seen } = await site(t, (request, response, port) => {
    const [, status = '302', ...to] = decodeURIComponent(request.url ?? '').split('|')
    if (to.length === 0) response.end('end')
    else response.writeHead(Number(status), { location: to.join('|').replaceAll('PORT', `${port}`) }).end()
  })
  const { get, looked } = fetching()
  const from = (status: number, to: string) => `http://good.example:${port}/|${status}|${encodeURIComponent(to)}`
  for (const to of [
    'http://evil.example:PORT/',
    'http://127.0.0.1:PORT/',
    '//[::1]:PORT/',
    'http://2130706433:PORT/',
    'file:///etc/passwd',
    'http://u:p@other.example:PORT/',
  ])
    t.match((await get(from(302, to))).error, /^fetch failed: /, to)
  t.ok(seen.every(({ localAddress }) => localAddress === '127.0.0.2'))
  t.match(await get(from(302, '/end')), {
    body: 'end',
    answer: { redirected: true, url: `http://good.example:${port}/end` },
  })
  t.match(await get(from(302, '/end'), { redirect: 'manual' }), { answer: { status: 302, redirected: false } })
  t.equal((await get(from(302, '/end'), { redirect: 'error' })).error, 'fetch failed: The server redirects')
  let nested = '/end'
  for (let hop = 0; hop < 6; hop++) nested = `/|302|${encodeURIComponent(nested)}`
  t.equal((await get(`http://good.example:${port}${nested}`)).error, 'fetch failed: More than 5 redirects')

  const secrets = {
    method: 'POST',
    headers: [
      ['authorization', 's'],
      ['cookie', 'c'],
      ['x-own', 'o'],
      ['content-type', 'text/plain'],
    ],
  }
  await get(from(303, 'http://other.example:PORT/end'), secrets, 'body')
  t.match(seen.at(-1), {
    method: 'GET',
    body: '',
    headers: { 'x-own': 'o', authorization: undefined, cookie: undefined, 'content-type': undefined },
  })
  await get(from(307, '/end'), secrets, 'body')
  t.match(seen.at(-1), {
    method: 'POST',
    body: 'body',
    headers: { authorization: 's', cookie: 'c', 'content-type': 'text/plain' },
  })
  t.ok(looked.includes('other.example'), 'each hop is looked up')
})

t.test("headers of the connection are not the function's to set", async (t) => {
  const { port, seen } = await site(t, (_, response) =>
    response.writeHead(200, { 'x-a': 'b', 'set-cookie': ['a=1', 'b=2'] }).end(),
  )
  const { get } = fetching()
  const mine = [
    'Host',
    'Connection',
    'Transfer-Encoding',
    'Content-Length',
    'Expect',
    'Upgrade',
    'Proxy-Authorization',
    'TE',
    'Trailer',
    'Keep-Alive',
  ]
  const { answer } = await get(
    `http://good.example:${port}/`,
    { method: 'POST', headers: [...mine.map((name) => [name, 'evil']), ['X-Mine', 'yes']] },
    'x',
  )
  t.match(seen[0]?.headers, { host: `good.example:${port}`, 'content-length': '1', 'x-mine': 'yes' })
  t.notOk(JSON.stringify(seen[0]?.headers).includes('evil'))
  t.same(
    answer?.headers.filter(([name]) => name === 'set-cookie'),
    [
      ['set-cookie', 'a=1'],
      ['set-cookie', 'b=2'],
    ],
  )
  for (const header of [
    ['a b', 'x'],
    ['a', 'x\r\nb: c'],
    ['a\n', 'x'],
  ])
    t.equal(
      (await get(`http://good.example:${port}/`, { headers: [header] })).error,
      'fetch failed: A header is not valid',
    )
  t.equal(
    (await get(`http://good.example:${port}/`, { headers: [['a', 'x'.repeat(40_000)]] })).error,
    'fetch failed: The headers are larger than 32768 bytes',
  )
  for (const method of ['CONNECT', 'TRACE', 'GET / HTTP/1.1\r\nX:', ''])
    t.equal((await get(`http://good.example:${port}/`, { method })).error, 'fetch failed: The method cannot be used')
  t.equal(seen.length, 1)
})

t.test('sizes, times and counts have limits', async (t) => {
  const zeros = Buffer.alloc(100_000)
  const bodies: Readonly<Record<string, readonly [encoding: string, body: Buffer]>> = {
    '/gzip': ['gzip', gzipSync('small')],
    '/br': ['br', brotliCompressSync('small')],
    '/bomb': ['gzip', gzipSync(zeros)],
    '/broken': ['gzip', Buffer.from('no gzip')],
    '/odd': ['compress', Buffer.from('x')],
    '/large': ['identity', zeros],
  }
  const { port } = await site(t, (request, response) => {
    if (request.url === '/silent') return
    const [encoding, body] = bodies[request.url ?? ''] ?? ['identity', Buffer.from('ok')]
    response.writeHead(200, { 'content-encoding': encoding }).end(body)
  })
  const { get } = fetching({
    maxResponseBytes: 50_000,
    maxRequestBytes: 10,
    timeoutMs: 300,
    maxPerCall: 10,
    maxConcurrent: 2,
  })
  const url = (path: string) => `http://good.example:${port}${path}`
  t.match(await get(url('/gzip')), { body: 'small' })
  t.match(await get(url('/br')), { body: 'small' })
  t.equal((await get(url('/bomb'))).error, 'fetch failed: The response is larger than 50000 bytes')
  t.equal((await get(url('/large'))).error, 'fetch failed: The response is larger than 50000 bytes')
  t.equal((await get(url('/broken'))).error, 'fetch failed: The response is not valid gzip')
  t.equal((await get(url('/odd'))).error, 'fetch failed: The content encoding "compress" is not supported')
  t.equal(
    (await get(url('/'), { method: 'POST' }, 'x'.repeat(11))).error,
    'fetch failed: The request body is larger than 10 bytes',
  )
  t.equal((await get(url('/silent'))).error, 'fetch failed: the time limit was reached')
  const gone = new AbortController()
  const waiting = get(url('/silent'), { invocationId: 'b' }, '', gone.signal)
  gone.abort()
  t.equal((await waiting).error, 'The request was given up')
  const many = await Promise.all([1, 2, 3].map((call) => get(url('/'), { invocationId: `c${call}` })))
  t.equal(many[2]?.error, 'fetch failed: More than 2 requests are under way')
  const last: Told[] = []
  for (let count = 0; count < 4; count++) last.push(await get(url('/')))
  t.same([last[2]?.body, last[3]?.error], ['ok', 'fetch failed: A call may send 10 requests'])
  t.match(await get(url('/'), { invocationId: 'another' }), { body: 'ok' })

  const brief = fetching({ maxPerCall: 1, countedMs: 100 })
  const outside = () => brief.get(url('/'), { invocationId: '' })
  t.match(await outside(), { body: 'ok' })
  while ((await outside()).body !== 'ok') await new Promise((again) => setTimeout(again, 10))
  t.pass('a function that sends something outside its calls now and then may go on doing so')
})

t.test('a connection that the server has closed is not an error, and a POST is not sent twice', async (t) => {
  const received: string[] = []
  const server = createTcpServer((socket) => {
    let count = 0
    socket.on('error', () => {})
    socket.on('data', (data) => {
      received.push(data.toString().split(' ', 1)[0]!)
      // The second request of a connection finds it dead.
      if (++count > 1) socket.destroy()
      else socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.2', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const { get } = fetching()
  const url = `http://good.example:${port}/`
  t.match(await get(url), { body: 'ok' })
  t.match(await get(url), { body: 'ok' })
  t.match(await get(url, { method: 'POST' }, 'x'), { body: 'ok' })
  t.same(received, ['GET', 'GET', 'GET', 'POST'])
})

t.test('a function fetches through its host process', async (t) => {
  const { port, seen } = await site(t, (request, response) => {
    if (request.url === '/silent') return
    response
      .writeHead(201, { 'content-type': 'application/json' })
      .end(JSON.stringify({ bytes: seen.at(-1)?.body.length }))
  })
  const fetch = functionFetch({ policy: egressPolicy({ allow: ['loopback'] }) })
  const { deploy, call } = await stage(t, { hosts: 1, fetch })
  await deploy(
    'f',
    `export async function handler({ url, secret }) {
       const response = await fetch(url, { method: 'POST', body: Uint8Array.of(0, 255, 10, 128), headers: { 'x-a': 'b' } })
       const copy = response.clone()
       const failed = await fetch(secret).catch((error) => [error.name, error.message])
       const late = await fetch(url + 'silent', { signal: AbortSignal.timeout(20) }).catch((error) => error.name)
       return [response.status, response.ok, response.headers.get('content-type'), await response.json(), await copy.text(), failed, late]
     }`,
  )
  const { value } = await call('f', { url: `http://localhost:${port}/`, secret: 'http://169.254.169.254/latest' })
  t.same(value, [
    201,
    true,
    'application/json',
    { bytes: 4 },
    '{"bytes":4}',
    ['TypeError', 'fetch failed: "169.254.169.254" may not be fetched from here'],
    'TimeoutError',
  ])
  t.equal(seen[0]?.body, '\0\xff\n\x80')
})
