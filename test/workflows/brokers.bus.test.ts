import { connect as connectTcp, createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { MqttClient } from 'mqtt'
import t from 'tap'
import { parse } from 'yaml'
import { addressOf } from '../../bus/connect.ts'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { testMosquitto } from '../support/mosquitto.ts'
import { testNats } from '../support/servers.ts'
import { callPlugin, failure, files, openSockets } from './call-plugin.ts'

t.setTimeout(120_000)
const tls = selfSignedCertificate()
const [mosquitto, secureMosquitto, nats] = await Promise.all([
  testMosquitto(t, { password: 'right-word' }),
  testMosquitto(t, { password: 'right-word', tls }),
  testNats(t),
])

const servers = {
  mqtt: { url: mosquitto.url, user: 'app', password: 'right-word' },
  nats: { url: nats.url },
} as const
type Protocol = keyof typeof servers

const call = (protocol: Protocol, properties: Record<string, unknown>, options = {}) =>
  callPlugin('mqtt.publish', { ...servers[protocol], ...properties }, options)

const connection = await connect({ ...addressOf(nats.url) })
const manager = await jetstreamManager(connection)
await manager.streams.add({ name: 'ORDERS', subjects: ['orders.>'] })
await manager.consumers.add('ORDERS', { durable_name: 'billing', ack_policy: 'explicit' })
await new Kvm(connection).create('settings')

const { port: mqttPort } = mosquitto
const peer = new MqttClient(() => connectTcp(mqttPort, '127.0.0.1'), {
  protocolVersion: 5,
  username: 'app',
  password: 'right-word',
  reconnectPeriod: 0,
})
await new Promise((resolve) => peer.once('connect', resolve))
t.teardown(async () => {
  peer.end(true)
  await connection.close()
})

t.test('MQTT', async (t) => {
  t.test('a message with all of its properties, of either version', async (t) => {
    await peer.subscribeAsync('orders/#', { qos: 2 })
    const asked = {
      topic: 'orders/new',
      payload: { order: 42 },
      headers: { source: 'shop' },
      contentType: 'application/json',
      expiresMs: 60_000,
      qos: 2,
    }
    const next = () =>
      new Promise<{ topic: string; payload: Buffer; packet: { qos: number; properties?: object } }>((resolve) =>
        peer.once('message', (topic, payload, packet) => resolve({ topic, payload, packet })),
      )
    const got = next()
    await call('mqtt', asked)
    const { topic, payload, packet } = await got
    t.same([topic, payload.toString(), packet.qos], ['orders/new', '{"order":42}', 2])
    t.match(packet.properties, {
      contentType: 'application/json',
      messageExpiryInterval: 60,
      userProperties: { source: 'shop', 'Idempotency-Key': /^[0-9a-f]{32}$/ },
    })
    files.set('busbar:///files/bytes', Buffer.from([0, 255]))
    const again = next()
    await call('mqtt', { topic: 'orders/bytes', file: 'busbar:///files/bytes', version: 4, retain: true })
    t.same((await again).payload, Buffer.from([0, 255]))
    const kept = await call('mqtt', { operation: 'receive', topic: 'orders/bytes' })
    t.match(kept.messages, [{ payload: 'AP8=', encoding: 'base64', headers: { retain: true } }])
  })
  t.test('an answer to it, which is told from others', async (t) => {
    await peer.subscribeAsync('questions')
    peer.on('message', (topic, payload, { properties }) => {
      if (topic !== 'questions') return
      const { responseTopic, correlationData } = properties as { responseTopic: string; correlationData: Buffer }
      peer.publish(responseTopic, 'to another', { properties: { correlationData: Buffer.from('other') } })
      peer.publish(responseTopic, `answer to ${payload}`, {
        properties: { correlationData, userProperties: { by: 'peer' } },
      })
    })
    const { messages } = await call('mqtt', { operation: 'request', topic: 'questions', payload: 'why' })
    t.match(messages, [{ payload: 'answer to why', encoding: 'utf8', headers: { by: 'peer' } }])
    await t.rejects(
      call('mqtt', { operation: 'request', topic: 'nobody', payload: 'why', waitMs: 50 }),
      failure('timeout', /No answer/),
    )
  })
  t.test('messages until there are enough of them or of waiting, within bounds', async (t) => {
    const receiving = call('mqtt', { operation: 'receive', topic: 'many/+', maxMessages: 3 })
    const timer = setInterval(() => peer.publish('many/a', 'x'), 5)
    t.match((await receiving).messages, [{ topic: 'many/a', payload: 'x' }, {}, {}])
    await t.rejects(
      call('mqtt', { operation: 'receive', topic: 'many/+', maxMessages: 9, maxBytes: 2 }),
      failure('refused', /more than 2 bytes/),
    )
    clearInterval(timer)
    t.match(await call('mqtt', { operation: 'receive', topic: 'none', waitMs: 20 }), { messages: [] })
  })
  t.test('what the broker refuses', async (t) => {
    await t.rejects(call('mqtt', { topic: 'forbidden', payload: 'x' }), failure('refused', /135/))
    for (const version of [4, 5]) {
      const refused = await call('mqtt', { topic: 'a', payload: 'x', version, password: 'hidden-word' }).catch(
        (error) => error,
      )
      t.match(refused, { kind: 'refused', message: /\((5|135)\)/ })
      t.match(refused, failure('refused'))
      t.notMatch(`${refused.message} ${refused.cause?.message}`, /hidden-word/)
    }
  })
  t.test('TLS', async (t) => {
    const url = secureMosquitto.url
    await call('mqtt', { url, tls: { ca: tls.certificate }, topic: 'a', payload: 'x' })
    await t.rejects(call('mqtt', { url, topic: 'a', payload: 'x' }), failure('refused', /TLS is not possible/))
    await t.rejects(
      call('mqtt', { url, topic: 'a', payload: 'x', tls: { ca: tls.certificate, serverName: 'other' } }),
      failure('refused', /TLS is not possible/),
    )
  })
})

t.test('NATS', async (t) => {
  t.test('into a stream, where it is one however often it is sent', async (t) => {
    const asked = { topic: 'orders.new', payload: 'ü', headers: { source: 'shop' }, contentType: 'text/plain' }
    t.match(await call('nats', asked), { result: { stream: 'ORDERS', sequence: 1, duplicate: false } })
    t.match(await call('nats', asked), { result: { stream: 'ORDERS', sequence: 1, duplicate: true } })
    t.match(await call('nats', asked, { key: 'e2/call' }), { result: { sequence: 2, duplicate: false } })
    await t.rejects(call('nats', { ...asked, topic: 'nobody' }), failure('refused', /a stream has to take it/))
  })
  t.test('from a durable consumer, each message once', async (t) => {
    const asked = { operation: 'receive', consumer: 'ORDERS/billing', maxMessages: 1, waitMs: 1_000 }
    t.match((await call('nats', asked)).messages, [
      { topic: 'orders.new', payload: 'ü', headers: { source: 'shop', 'Content-Type': 'text/plain', sequence: 1 } },
    ])
    t.match((await call('nats', { ...asked, maxMessages: 5 })).messages, [{ headers: { sequence: 2 } }])
    t.match(await manager.consumers.info('ORDERS', 'billing'), { num_ack_pending: 0, num_pending: 0 })
    await t.rejects(call('nats', { ...asked, consumer: 'ORDERS/none' }), failure('refused', /consumer not found/))
  })
  t.test('without a stream, and as a question', async (t) => {
    const receiving = call('nats', { operation: 'receive', topic: 'plain.*', maxMessages: 2 })
    const timer = setInterval(() => void call('nats', { topic: 'plain.a', payload: { a: 1 }, qos: 0 }), 50)
    t.match((await receiving).messages, [{ topic: 'plain.a', payload: '{"a":1}' }, {}])
    clearInterval(timer)
    connection.subscribe('questions', {
      callback: (_error, message) => void message.respond(`answer to ${message.string()}`),
    })
    connection.subscribe('silence')
    await connection.flush()
    const asked = { operation: 'request', topic: 'questions', payload: 'why' }
    t.match((await call('nats', asked)).messages, [{ payload: 'answer to why' }])
    await t.rejects(call('nats', { ...asked, topic: 'nobody' }), failure('refused', /Nobody answers/))
    await t.rejects(call('nats', { ...asked, topic: 'silence', waitMs: 50 }), failure('timeout'))
  })
  t.test('values under keys', async (t) => {
    const on = { bucket: 'settings', key: 'shop.open' }
    t.equal((await call('nats', { operation: 'keyGet', ...on })).value, null)
    await call('nats', { operation: 'keyPut', ...on, payload: 'yes' })
    t.equal((await call('nats', { operation: 'keyGet', ...on })).value, 'yes')
    await call('nats', { operation: 'keyDelete', ...on })
    t.equal((await call('nats', { operation: 'keyGet', ...on })).value, null)
    await t.rejects(call('nats', { operation: 'keyGet', ...on, bucket: 'none' }), failure('refused'))
  })
  t.test('who one is has to be right', async (t) => {
    const refused = await call('nats', {
      topic: 'a',
      payload: 'x',
      user: 'me',
      password: 'hidden-word',
      url: nats.url.replace(/\/\/[^@]*@/, '//'),
    }).catch((error) => error)
    t.match(refused, failure('refused'))
    t.notMatch(`${refused.message} ${refused.cause?.message}`, /hidden-word/)
  })
})

for (const protocol of Object.keys(servers) as Protocol[]) {
  t.test(protocol, async (t) => {
    const receive = { operation: 'receive', topic: 'never', waitMs: 60_000 }
    t.test('cancelled while it waits, it leaves no connection', async (t) => {
      const before = openSockets()
      const controller = new AbortController()
      const receiving = call(protocol, receive, { signal: controller.signal }).catch((error) => error)
      while (openSockets() === before) await delay(5)
      controller.abort(new Error('cancelled'))
      t.match(await receiving, { message: 'cancelled' })
      while (openSockets() > before) await delay(5)
    })
    t.test('a broker that is silent, away, or not allowed', async (t) => {
      const silent = createServer(() => undefined)
      await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
      t.teardown(() => silent.close())
      const url = servers[protocol].url.replace(/:\d+$/, `:${(silent.address() as { port: number }).port}`)
      const controller = new AbortController()
      silent.once('connection', () => controller.abort(new Error('cancelled')))
      await t.rejects(call(protocol, { ...receive, url }, { signal: controller.signal }), { message: 'cancelled' })
      await t.rejects(
        call(protocol, { ...receive, url: servers[protocol].url.replace(/:\d+$/, ':1') }),
        failure('unavailable'),
      )
      await t.rejects(call(protocol, receive, { allow: [] }), failure('refused', /may not be connected to/))
    })
    t.test('what cannot be asked is refused', async (t) => {
      await t.rejects(call(protocol, { payload: 'x' }), failure('refused', /properties\.topic is needed/))
      await t.rejects(call(protocol, { topic: 'a' }), failure('refused', /properties\.payload or properties\.file/))
      await t.rejects(call(protocol, { topic: 'a', payload: 'long', maxBytes: 3 }), failure('refused', /larger than 3/))
      await t.rejects(call(protocol, { topic: 'a', payload: 'x', nonsense: 1 }), { message: /properties/ })
      await t.rejects(
        call(protocol, { topic: 'a', payload: 'x', url: 'http://a' }),
        failure('refused', /properties\.url/),
      )
    })
  })
}

t.test('its example runs', async (t) => {
  const [{ properties }] = parse(
    catalogue.find(({ manifest }) => manifest.id === 'mqtt.publish')!.manifest.example,
  ).tasks
  t.match(await call('mqtt', { ...properties, ...servers.mqtt }), { messages: [] })
})

t.test('a broker that goes away while one waits can be tried again', async (t) => {
  peer.end(true)
  await connection.close()
  for (const [protocol, server] of [
    ['mqtt', mosquitto],
    ['nats', nats],
  ] as const) {
    // biome-ignore format: pairs
    const before = openSockets()
    const receiving = call(protocol, { operation: 'receive', topic: 'never', waitMs: 60_000 }).catch((error) => error)
    while (openSockets() === before) await delay(5)
    await delay(50)
    await server.kill('SIGKILL')
    t.match(await receiving, { kind: 'unavailable' }, protocol)
  }
})
