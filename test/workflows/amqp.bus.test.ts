import { setTimeout as delay } from 'node:timers/promises'
import { connect } from 'amqplib'
import t from 'tap'
import { selfSignedCertificate } from '../support/certificate.ts'
import { testRabbitmq } from '../support/rabbitmq.ts'
import { callPlugin, failure, openSockets } from './call-plugin.ts'

t.setTimeout(240_000)
const tls = selfSignedCertificate()
const server = await testRabbitmq(t, { password: 'right-word', tls })
const call = (properties: Record<string, unknown>, options = {}) =>
  callPlugin('mqtt.publish', { url: server.url, user: 'app', password: 'right-word', ...properties }, options)

const connection = await connect(server.url.replace('//', '//app:right-word@'))
connection.on('error', () => undefined)
const channel = await connection.createChannel()
await channel.assertQueue('orders', { durable: true })
await channel.assertExchange('news', 'topic')
await channel.bindQueue('orders', 'news', 'orders.*')

t.test('a message with all of its properties, confirmed', async (t) => {
  const asked = {
    exchange: 'news',
    topic: 'orders.new',
    payload: { order: 42 },
    headers: { source: 'shop' },
    contentType: 'application/json',
    retain: true,
    expiresMs: 60_000,
  }
  await call(asked)
  const got = await channel.get('orders', { noAck: true })
  t.match(got, {
    fields: { exchange: 'news', routingKey: 'orders.new' },
    properties: {
      contentType: 'application/json',
      deliveryMode: 2,
      expiration: '60000',
      headers: { source: 'shop' },
      messageId: /^[0-9a-f]{32}$/,
    },
  })
  t.equal((got as { content: Buffer }).content.toString(), '{"order":42}')
  await t.rejects(call({ ...asked, topic: 'nobody' }), failure('refused', /No queue takes the message/))
  await call({ ...asked, topic: 'nobody', qos: 0 })
  await t.rejects(call({ ...asked, exchange: 'none' }), failure('refused', /no exchange/))
})

t.test('messages of a queue, as many as are wanted; the others stay', async (t) => {
  for (const text of ['a', 'b', 'c']) await call({ topic: 'orders', payload: text })
  const receive = { operation: 'receive', topic: 'orders' }
  t.match((await call({ ...receive, maxMessages: 2 })).messages, [{ topic: 'orders', payload: 'a' }, { payload: 'b' }])
  t.match((await call({ ...receive, maxMessages: 2, waitMs: 200 })).messages, [{ payload: 'c' }])
  t.same((await call({ ...receive, waitMs: 50 })).messages, [])
  await t.rejects(call({ ...receive, topic: 'none' }), failure('refused', /no queue/))
})

t.test('an answer to it', async (t) => {
  await channel.assertQueue('questions')
  await channel.consume('questions', (question) => {
    const { replyTo, correlationId } = question!.properties
    channel.publish('', replyTo, Buffer.from('to another'), { correlationId: 'other' })
    channel.publish('', replyTo, Buffer.from(`answer to ${question!.content}`), { correlationId })
    channel.ack(question!)
  })
  const asked = { operation: 'request', topic: 'questions', payload: 'why' }
  t.match((await call(asked)).messages, [{ payload: 'answer to why' }])
  await channel.assertQueue('silence')
  await t.rejects(call({ ...asked, topic: 'silence', waitMs: 50 }), failure('timeout', /No answer/))
})

t.test('who one is has to be right, and is not told; TLS', async (t) => {
  const asked = { topic: 'orders', payload: 'x' }
  const refused = await call({ ...asked, password: 'hidden-word' }).catch((error) => error)
  t.match(refused, { kind: 'refused', message: /ACCESS.REFUSED/ })
  t.notMatch(`${refused.message} ${refused.cause?.message}`, /hidden-word/)
  const secure = { ...asked, url: server.secureUrl }
  await call({ ...secure, tls: { ca: tls.certificate } })
  await t.rejects(call(secure), failure('refused', /TLS is not possible/))
  await t.rejects(call(asked, { allow: [] }), failure('refused', /may not be connected to/))
  await t.rejects(call({ ...asked, url: 'amqp://127.0.0.1:1' }), failure('unavailable'))
  await t.rejects(call({ ...asked, url: `${server.url}/nowhere` }), failure('refused', /no such virtual host/))
  await channel.purgeQueue('orders')
})

t.test('cancelled while it waits, it leaves no connection; a broker that goes away can be tried again', async (t) => {
  const before = openSockets()
  const receive = { operation: 'receive', topic: 'orders', waitMs: 60_000 }
  const controller = new AbortController()
  const receiving = call(receive, { signal: controller.signal }).catch((error) => error)
  while ((await channel.checkQueue('orders')).consumerCount === 0) await delay(10)
  controller.abort(new Error('cancelled'))
  t.match(await receiving, { message: 'cancelled' })
  while (openSockets() > before) await delay(5)
  const again = call(receive).catch((error) => error)
  while ((await channel.checkQueue('orders')).consumerCount === 0) await delay(10)
  await server.kill('SIGKILL')
  t.match(await again, { kind: 'unavailable' })
})
