import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { compressionsAlgorithms } from '@platformatic/kafka'
import t from 'tap'
import { testKafka } from '../support/kafka.ts'
import { callPlugin, failure, openSockets } from './call-plugin.ts'

t.setTimeout(60_000)
const kafka = await testKafka(t)
const call = (properties: Record<string, unknown>, options = {}) =>
  callPlugin('mqtt.publish', { url: kafka.url, ...properties }, options)

t.test('what is sent is read by the client of librdkafka', async (t) => {
  const message = { topic: 'sent', payload: { order: 42 }, key: 'k1', headers: { source: 'shop' } }
  t.match(await call(message), { result: { partition: Number, offset: 0 } })
  t.match(kafka.consume('sent', 1), /^k1 source=shop,idempotency-key=[0-9a-f]{32} \{"order":42\}\n$/)
})

t.test('what it sends is received: from the start, or what is new', async (t) => {
  kafka.produce('came', 'a:1\nb:2\nc:3\n')
  const { messages } = await call({ operation: 'receive', topic: 'came', fromStart: true, maxMessages: 3 })
  const found = messages as { payload: string; headers: { key: string } }[]
  t.same(found.map(({ payload, headers }) => `${headers.key}:${payload}`).sort(), ['a:1', 'b:2', 'c:3'])
  t.match(await call({ operation: 'receive', topic: 'came', waitMs: 300 }), { messages: [] })
  const waiting = call({ operation: 'receive', topic: 'came', waitMs: 20_000 })
  let isHere = false
  void waiting.then(() => {
    isHere = true
  })
  // It may not have begun to listen with the first.
  for (let sent = 4; !isHere; sent++) {
    await call({ topic: 'came', payload: `${sent}` })
    await delay(100)
  }
  t.match(await waiting, { messages: [{ topic: 'came', payload: /^\d+$/ }] })
})

t.test('messages that are packed are unpacked, within bounds', async (t) => {
  for (const codec of ['gzip', 'snappy', 'lz4']) {
    kafka.produce(codec, `k:${'a text '.repeat(1_000)}\n`, codec)
    const { messages } = await call({ operation: 'receive', topic: codec, fromStart: true })
    t.match(messages, [{ payload: /^(a text ){1000}$/ }], codec)
  }
  const bomb = Buffer.alloc(70 * 1024 ** 2)
  for (const [codec, packed] of [
    ['gzip', gzipSync(bomb)],
    ['zstd', zstdCompressSync(bomb)],
  ] as const) {
    const unpack = () => compressionsAlgorithms[codec].decompressSync(packed)
    t.throws(unpack, { code: 'ERR_BUFFER_TOO_LARGE' }, `${codec} ends there`)
  }
  t.throws(() => compressionsAlgorithms.lz4.decompressSync(bomb), { message: /more than 2097152 bytes/ })
})

t.test('a group goes on where it was', async (t) => {
  kafka.produce('shared', 'a:1\na:2\na:3\n')
  const next = { operation: 'receive', topic: 'shared', group: 'billing', fromStart: true, maxMessages: 2 }
  t.match(await call(next), { messages: [{ payload: '1' }, { payload: '2' }] })
  t.match(await call({ ...next, maxMessages: 1 }), { messages: [{ payload: '3' }] })
})

t.test('what is refused, and what can be tried again', async (t) => {
  await t.rejects(call({ topic: 'sent', payload: '' }, { allow: [] }), failure('refused', /may not be connected to/))
  await t.rejects(
    call({ operation: 'request', topic: 'sent', payload: '' }),
    failure('refused', /Kafka knows no answers/),
  )
  await t.rejects(call({ operation: 'keyGet', bucket: 'a', key: 'b' }), failure('refused', /needs a server of nats/))
  await t.rejects(
    call({ operation: 'receive', topic: 'came', fromStart: true, maxMessages: 3, maxBytes: 2 }),
    failure('refused', /more than 2 bytes/),
  )
  await t.rejects(call({ url: 'kafka://127.0.0.1:1', topic: 'a', payload: '' }), failure('unavailable', /ECONNREFUSED/))
  await t.rejects(
    call({ url: kafka.url.replace('kafka', 'kafkas'), topic: 'a', payload: '' }),
    failure('refused', /TLS/),
  )
})

t.test('a cancelled task leaves no connection', async (t) => {
  const before = openSockets()
  const controller = new AbortController()
  const waiting = call({ operation: 'receive', topic: 'came', waitMs: 60_000 }, { signal: controller.signal })
  while (openSockets() <= before) await delay(5)
  await delay(200)
  controller.abort(new Error('cancelled'))
  await t.rejects(waiting, /cancelled/)
  while (openSockets() > before) await delay(5)
})
