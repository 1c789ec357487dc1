import { once } from 'node:events'
import { createServer as createHttp, type IncomingMessage } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { createServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { createServer as createTls } from 'node:tls'
import t from 'tap'
import { type WebSocket, WebSocketServer } from 'ws'
import { parse } from 'yaml'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { dnsName, testDns } from '../support/dns-wire.ts'
import { callPlugin, failure, files, openSockets } from './call-plugin.ts'

t.setTimeout(60_000)
const tls = selfSignedCertificate()

async function listen(server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as { port: number }).port
}

const call = (properties: Record<string, unknown>, options = {}) => callPlugin('websocket.send', properties, options)

/** What a connected client is given. */
let serve: (socket: WebSocket, request: IncomingMessage) => void = () => undefined
const sockets = new WebSocketServer({
  noServer: true,
  handleProtocols: (offered) => (offered.has('graphql-transport-ws') ? 'graphql-transport-ws' : false),
})
const answer = (server: Server): Server =>
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    const status = /^\/status\/(\d+)/.exec(request.url!)?.[1]
    if (status !== undefined) socket.end(`HTTP/1.1 ${status} No\r\nContent-Length: 0\r\n\r\n`)
    else if (request.url !== '/silent')
      sockets.handleUpgrade(request, socket, head, (websocket) => serve(websocket, request))
  })
const url = `ws://127.0.0.1:${await listen(answer(createHttp()))}`
const secureUrl = `wss://127.0.0.1:${await listen(answer(createHttps({ key: tls.key, cert: tls.certificate })))}`

t.test('WebSocket', async (t) => {
  t.test('messages are sent in order, and the replies that count are given', async (t) => {
    let seen: IncomingMessage | null = null
    const came: unknown[] = []
    serve = (socket, request) => {
      seen = request
      socket.send('welcome')
      socket.on('message', (data, isBinary) => {
        came.push(isBinary ? data : data.toString())
        socket.send(`{"type":"pong","of":${came.length}}`)
        if (isBinary) socket.send(data)
      })
    }
    files.set('busbar:///files/bytes', Buffer.from([0, 255]))
    const given = await call({
      url: `${url}/x?y=1`,
      user: 'app',
      password: 'right-word',
      headers: { 'X-A': 'b' },
      subprotocols: ['other', 'graphql-transport-ws'],
      message: 'one',
      messages: [{ two: 2 }],
      file: 'busbar:///files/bytes',
      match: '"type":"pong"|AP8=',
      maxMessages: 4,
    })
    t.same(came, ['one', '{"two":2}', Buffer.from([0, 255])])
    t.match(seen!.headers, {
      'x-a': 'b',
      'idempotency-key': 'e1/call',
      authorization: `Basic ${Buffer.from('app:right-word').toString('base64')}`,
    })
    t.match(given, {
      messages: [
        { payload: '{"type":"pong","of":1}', encoding: 'utf8' },
        { payload: '{"type":"pong","of":2}' },
        { payload: '{"type":"pong","of":3}' },
        { payload: 'AP8=', encoding: 'base64' },
      ],
      subprotocol: 'graphql-transport-ws',
      certificate: null,
      address: url.slice(5),
      closed: null,
    })
  })
  t.test('what came until the server closed it is given', async (t) => {
    serve = (socket) => {
      socket.send('last')
      socket.close(4001, 'bye')
    }
    t.match(await call({ url, maxMessages: 9 }), {
      messages: [{ payload: 'last' }],
      closed: { code: 4001, reason: 'bye' },
    })
  })
  t.test('no reply that counts is a time-out, too much of one is refused', async (t) => {
    serve = (socket) => socket.send('other')
    await t.rejects(call({ url, match: 'pong', waitMs: 50 }), failure('timeout', /No reply/))
    t.match(await call({ url, maxMessages: 0 }), { messages: [] })
    await t.rejects(call({ url, maxBytes: 3 }), failure('refused', /maxBytes|more than 3/))
    await t.rejects(call({ url, match: '(' }), failure('refused', /properties\.match/))
  })
  t.test('a server that says no, is away, or silent', async (t) => {
    await t.rejects(call({ url: `${url}/status/403` }), failure('refused', /403/))
    await t.rejects(call({ url: `${url}/status/503` }), failure('unavailable', /503/))
    await t.rejects(call({ url: 'ws://127.0.0.1:1' }), failure('unavailable', /ECONNREFUSED/))
    await t.rejects(call({ url }, { allow: [] }), failure('refused', /may not be connected to/))
    await t.rejects(call({ url, headers: { 'X-A': 'a\r\nb: c' } }), failure('refused'))
    await t.rejects(call({ url, nonsense: 1 }), { message: /properties/ })
    await t.rejects(call({ url: 'ftp://a' }), failure('refused', /properties\.url/))
  })
  t.test('cancelled while it waits or connects, it leaves no connection', async (t) => {
    for (const path of ['/x', '/silent']) {
      const before = openSockets()
      const controller = new AbortController()
      const running = call({ url: `${url}${path}`, waitMs: 60_000 }, { signal: controller.signal }).catch(
        (error) => error,
      )
      serve = () => controller.abort(new Error('cancelled'))
      if (path === '/silent') setTimeout(() => controller.abort(new Error('cancelled')), 50)
      t.match(await running, { message: 'cancelled' })
      while (openSockets() > before + 2) await delay(5)
    }
  })
  t.test('TLS', async (t) => {
    serve = (socket) => socket.send('hello')
    const given = await call({ url: secureUrl, tls: { ca: tls.certificate } })
    t.match(given, {
      messages: [{ payload: 'hello' }],
      certificate: { subject: 'busbar test', isRight: true, validTo: /^2049-12-31T/ },
    })
    await t.rejects(call({ url: secureUrl }), failure('refused', /TLS is not possible: self.signed/))
    t.match(await call({ url: secureUrl, tls: { verify: false } }), { certificate: { isRight: false } })
  })
  t.test('its example runs', async (t) => {
    const [{ properties }] = parse(
      catalogue.find(({ manifest }) => manifest.id === 'websocket.send')!.manifest.example,
    ).tasks
    serve = (socket) => socket.on('message', () => socket.send('{"type":"pong"}'))
    t.match(await call({ ...properties, url }), { messages: [{ payload: '{"type":"pong"}' }] })
  })
})

t.test('lines over TCP and TLS', async (t) => {
  const talk = (socket: Socket) => {
    socket.on('error', () => undefined).write('220 ready\r\n')
    socket.on('data', (chunk) => {
      const text = chunk.toString()
      if (text.startsWith('QUIT')) socket.end('221 bye')
      else socket.write(`250 ${text}`)
    })
  }
  const plain = `tcp://127.0.0.1:${await listen(createServer(talk))}`
  const secure = `tls://127.0.0.1:${await listen(createTls({ key: tls.key, cert: tls.certificate }, talk))}`
  for (const [to, more] of [
    [plain, {}],
    [secure, { tls: { ca: tls.certificate } }],
  ] as const) {
    // biome-ignore format: pairs
    t.match(await call({ url: to, ...more, message: 'NOOP', maxMessages: 2 }), {
      messages: [{ payload: '220 ready' }, { payload: '250 NOOP' }],
    })
    t.match(await call({ url: to, ...more, message: 'QUIT', match: '^221' }), { messages: [{ payload: '221 bye' }] })
    t.match(await call({ url: to, ...more, maxMessages: 0 }), { messages: [], address: to.slice(6) })
  }
  t.match(await call({ url: secure, tls: { verify: false }, maxMessages: 0 }), {
    certificate: { version: 'TLSv1.3', isRight: false },
  })
  await t.rejects(call({ url: 'tcp://127.0.0.1' }), failure('refused', /needs a port/))
  await t.rejects(call({ url: plain, match: 'never', waitMs: 50 }), failure('timeout', /No reply/))
  await t.rejects(call({ url: plain, maxBytes: 5 }), failure('refused', /more than 5 bytes/))
  await t.rejects(call({ url: 'tls://127.0.0.1:1' }), failure('unavailable'))
})

const records: Readonly<Record<number, Buffer>> = {
  1: Buffer.from([192, 0, 2, 7]),
  15: Buffer.concat([Buffer.from([0, 10]), dnsName('mail.example.com')]),
}

t.test('records of DNS', async (t) => {
  const server = `dns://${await testDns(t, (name, type) => {
    if (name === 'silent.org') return null
    if (name === 'broken.org') return 2
    return name === 'example.com' && records[type] !== undefined ? [records[type]] : 3
  })}`
  t.match(await call({ url: `${server}/example.com` }), { messages: ['192.0.2.7'], address: server.slice(6) })
  t.match(await call({ url: `${server}/example.com?type=mx` }), {
    messages: [{ priority: 10, exchange: 'mail.example.com' }],
  })
  await t.rejects(call({ url: `${server}/none.org` }), failure('refused', /ENOTFOUND/))
  await t.rejects(call({ url: `${server}/broken.org` }), failure('unavailable', /ESERVFAIL/))
  await t.rejects(call({ url: `${server}/silent.org`, waitMs: 100 }), failure('timeout'))
  await t.rejects(call({ url: `${server}/example.com?type=ANY` }), failure('refused', /properties\.url/))
  await t.rejects(call({ url: `${server}/example.com` }, { allow: [] }), failure('refused', /may not be connected to/))
  const controller = new AbortController()
  setTimeout(() => controller.abort(new Error('cancelled')), 50)
  await t.rejects(call({ url: `${server}/silent.org` }, { signal: controller.signal }), { message: 'cancelled' })
})
