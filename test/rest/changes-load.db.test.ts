import type { Socket } from 'node:net'
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { capture, connectBus, connectDatabase, makeStream, streamName, until } from '../capture/support.ts'
import { testNats, testPostgres } from '../support/servers.ts'
import {
  changeGateway,
  type Heard,
  type Listener,
  listen,
  listenSocket,
  refusal,
  request,
  settle,
} from './changes-support.ts'

t.setTimeout(240_000)

const [postgres, nats] = await Promise.all([testPostgres(t), testNats(t)])
const bus = await connectBus(t, nats.url)
await makeStream(bus)
const sql = await connectDatabase(t, postgres.url)
await sql.query(`create table flood (id int primary key, body text); create table item (id int primary key, body text);
  create table marker (id int generated always as identity primary key)`)
const capturing = capture(t, postgres.url, bus)
await until(() => capturing.status().state === 'running')

const ids = (heard: readonly Heard[]) => heard.map(({ data }) => data.data?.id)
const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)

t.test('20,000 rows of one transaction reach every client complete and in order', async (t) => {
  const gateway = await changeGateway(t, postgres.url, bus, { hub: { ringBytes: 1_000_000, maxUnsentBytes: 100_000 } })
  const clients = await Promise.all([
    listen(gateway, 'flood/changes'),
    listenSocket(gateway, 'flood/changes'),
    listen(gateway, 'flood/changes?id=gt.10000'),
  ])
  const late = await listen(gateway, 'flood/changes?snapshot=true')
  late.pause()
  await sql.query("insert into flood select n, repeat('x', 100) from generate_series(1, 20000) n")
  await Promise.all(clients.map((client) => client.until((heard) => heard.at(-1)?.data.data.id === 20_000)))
  t.strictSame(ids(clients[0]!.heard), upTo(20_000))
  t.strictSame(ids(clients[1]!.heard), upTo(20_000))
  t.strictSame(ids(clients[2]!.heard), upTo(20_000).slice(10_000))
  late.resume()
  await late.until((heard) => heard.at(-1)?.data.data?.id === 20_000)
  t.strictSame(ids(late.heard).slice(1), upTo(20_000), 'one that paused gets the rest from the stream')
  for (const client of [...clients, late]) client.close()
  await until(() => gateway.hub!.clients === 0)
})

for (const [name, open] of [
  ['server-sent events', listen],
  ['WebSocket', listenSocket],
] as const) {
  t.test(`a client that does not read is cut off with bounded memory: ${name}`, async (t) => {
    const cut: string[] = []
    const gateway = await changeGateway(t, postgres.url, bus, {
      hub: {
        stallMs: 3_000,
        onObservation: (observation) => observation.type === 'changes-cut-off' && cut.push(observation.reason),
      },
    })
    await sql.query('truncate flood')
    await settle(gateway, sql)
    const sockets = new Set<Socket>()
    gateway.app.server.on('connection', (socket) => sockets.add(socket))
    let mostUnsent = 0
    const measuring = setInterval(() => {
      for (const { writableLength } of sockets) mostUnsent = Math.max(mostUnsent, writableLength)
    }, 1)
    t.teardown(() => clearInterval(measuring))
    const reader = await open(gateway, 'flood/changes?types=INSERT')
    const deaf = await open(gateway, 'flood/changes?types=INSERT')
    deaf.pause()
    // More than the kernel's buffers take.
    for (let part = 0; part < 15; part++) {
      await sql.query("insert into flood select $1 * 100 + n, repeat('x', 20000) from generate_series(1, 100) n", [
        part,
      ])
    }
    await reader.until(({ length }) => length === 1_500)
    await until(() => gateway.hub!.clients === 1)
    t.strictSame(cut, ['slow-reader'])
    t.strictSame(ids(reader.heard), upTo(1_500))
    deaf.resume()
    await deaf.ended
    t.ok(deaf.heard.length < 1_500)
    t.match(deaf.heard.at(-1), { event: 'end', data: { reason: 'slow-reader' } })
    if (open === listenSocket) t.equal(await deaf.ended, 1013)
    t.ok(mostUnsent > 0 && mostUnsent < 1_200_000, `${mostUnsent} bytes waited at most`)
    reader.close()
  })
}

t.test('history that has expired is told of, and rows can take its place', async (t) => {
  const gateway = await changeGateway(t, postgres.url, bus)
  await sql.query('truncate item; insert into item (id) values (1)')
  await settle(gateway, sql)
  const first = await listen(gateway, 'item/changes?resume=true')
  await sql.query('insert into item (id) values (2)')
  await first.until((heard) => heard.at(-1)?.data.data?.id === 2)
  const old = first.heard.at(-1)!.id!
  await sql.query('insert into item (id) values (3)')
  await first.until((heard) => heard.at(-1)?.data.data?.id === 3)
  const manager = await jetstreamManager(bus)
  const { state } = await manager.streams.info(streamName)
  await manager.streams.purge(streamName, { seq: state.last_seq + 1 })
  const other = await changeGateway(t, postgres.url, bus)
  for (const path of [`item/changes?from=${Number(old) + 1}`, 'item/changes?from=2020-01-01']) {
    const late = await listen(other, path)
    await late.until(({ length }) => length === 2)
    t.match(late.heard[0], { event: 'gap', data: { type: 'gap', reason: 'expired' } }, path)
    late.close()
  }
  const healed = await listen(other, 'item/changes?snapshot=true', { 'Last-Event-ID': old })
  await healed.until((heard) => heard.at(-1)?.event === 'ready')
  t.strictSame(
    healed.heard.map(({ event }) => event),
    ['gap', 'snapshot', 'snapshot', 'snapshot', 'ready'],
  )
  const kept = await listen(gateway, 'item/changes?resume=true', { 'Last-Event-ID': old })
  await kept.until(({ length }) => length === 2)
  t.equal(kept.heard[1]!.data.data.id, 3, 'what the gateway still holds in memory needs no stream')
  for (const client of [first, healed, kept]) client.close()
})

t.test('2,000 clients of server-sent events each get an event', async (t) => {
  const gateway = await changeGateway(t, postgres.url, bus)
  await sql.query('truncate item')
  await settle(gateway, sql)
  const manager = await jetstreamManager(bus)
  const consumers = async () => (await manager.streams.info(streamName)).state.consumer_count
  const before = await consumers()
  let complete = 0
  const open = async () => {
    const response = await request(gateway, '/api/v1/item/changes', { Accept: 'text/event-stream' })
    let text = ''
    response.setEncoding('utf8').on('error', () => undefined)
    response.on('data', (chunk: string) => {
      const before = text.includes('"id":2')
      text += chunk
      if (!before && text.includes('"id":2') && text.includes('"id":1')) complete += 1
    })
    return response
  }
  const responses = []
  for (let batch = 0; batch < 20; batch++) responses.push(...(await Promise.all(Array.from({ length: 100 }, open))))
  t.equal(gateway.hub!.clients, 2_000)
  t.equal(await consumers(), before, 'one consumer of the bus serves them all')
  await sql.query('insert into item (id) values (1), (2)')
  await until(() => complete === 2_000)
  for (const response of responses) response.destroy()
  await until(() => gateway.hub!.clients === 0)
})

t.test('the limit of clients is told', async (t) => {
  const gateway = await changeGateway(t, postgres.url, bus, { hub: { maxClients: 1 } })
  const first = await listen(gateway, 'item/changes')
  const answer = await refusal(gateway, '/api/v1/item/changes')
  t.match({ status: answer.status, code: answer.body.code }, { status: 429, code: 'http/too-many-requests' })
  first.close()
  await until(() => gateway.hub!.clients === 0)
  ;(await listen(gateway, 'item/changes')).close()
})

t.test('a gateway that stops says so', async (t) => {
  const gateway = await changeGateway(t, postgres.url, bus)
  const listeners: Listener[] = [await listen(gateway, 'item/changes'), await listenSocket(gateway, 'item/changes')]
  await gateway.app.close()
  t.strictSame(await Promise.all(listeners.map(({ ended }) => ended)), [null, 1001])
  for (const { heard } of listeners) t.match(heard, [{ event: 'end', data: { reason: 'stopping' } }])
})

t.test('streams go on when the nats-server was killed and comes back', async (t) => {
  const gateway = await changeGateway(t, postgres.url, bus)
  await sql.query('truncate item')
  await settle(gateway, sql)
  const listeners = [await listen(gateway, 'item/changes'), await listenSocket(gateway, 'item/changes?types=INSERT')]
  await sql.query('insert into item (id) values (1)')
  await Promise.all(listeners.map((listener) => listener.until(({ length }) => length === 1)))
  await nats.kill()
  await until(async () => (await refusal(gateway, '/api/v1/item/changes?types=x')).status === 400)
  await sql.query('insert into item (id) values (2)')
  const away = await refusal(gateway, '/api/v1/item/changes')
  t.match({ status: away.status, code: away.body.code }, { status: 503, code: 'data/changes-unavailable' })
  t.ok(away.headers['retry-after'])
  await nats.restart()
  await sql.query('insert into item (id) values (3)')
  for (const listener of listeners) {
    await listener.until((heard) => heard.at(-1)?.data.data?.id === 3)
    t.strictSame(ids(listener.heard), [1, 2, 3])
    listener.close()
  }
})

t.test('without the bus, or without a capture, streams answer 503 and say what mends it', async (t) => {
  const off = await changeGateway(t, postgres.url, null)
  for (const path of ['/api/v1/item/changes', '/ws/item/changes']) {
    const upgrade = { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13' }
    const key = { 'Sec-WebSocket-Key': Buffer.alloc(16).toString('base64') }
    const answer = await refusal(off, path, path.startsWith('/ws') ? { ...upgrade, ...key } : {})
    t.match({ status: answer.status, code: answer.body.code }, { status: 503, code: 'data/changes-unavailable' })
    t.match(answer.body.hint, /app\.nats\.enabled/)
  }
  const none = await changeGateway(t, postgres.url, bus, { hub: { source: 'nobody' } })
  const nobody = await refusal(none, '/api/v1/item/changes')
  t.equal(nobody.status, 503)
  t.match(nobody.body.hint, /busbar run worker:capture/)
  const replica = await testPostgres(t, { settings: { wal_level: 'replica' } })
  const other = await connectDatabase(t, replica.url)
  await other.query('create table item (id int primary key)')
  const refused = capture(t, replica.url, bus, { source: 'replica' })
  await until(() => refused.status().state === 'refused')
  const gateway = await changeGateway(t, replica.url, bus, { hub: { source: 'replica' } })
  const answer = await refusal(gateway, '/api/v1/item/changes')
  t.equal(answer.status, 503)
  t.match(answer.body.hint, /alter system set wal_level/i)
})
