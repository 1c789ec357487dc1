import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { connectBus } from '../../bus/connect.ts'
import { addToCounter } from '../../bus/counters.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { type FunctionKv, functionKv } from '../../workers/functions/kv.ts'
import { KvFull, type KvLimits } from '../../workers/functions/kv-room.ts'
import { platform } from './platform.ts'

t.setTimeout(120_000)
t.jobs = 1

const value = (bytes: number) => JSON.stringify('x'.repeat(bytes - 2))

/** What is stored in the end, by what the bus says. */
async function stored(kv: FunctionKv, id: string) {
  const { keys } = await kv.list(id, {})
  const values = await Promise.all(keys.map((key) => kv.get(id, key)))
  return {
    keys: keys.length,
    bytes: keys.join('').length + values.reduce((sum, each) => sum + (each?.length ?? 0), 0),
  }
}

/** How many of the puts were taken; the others were refused for want of room. */
async function taken(t: Test, puts: readonly Promise<void>[]): Promise<number> {
  const results = await Promise.allSettled(puts)
  const refused = results.filter((each) => each.status === 'rejected')
  for (const { reason } of refused) if (!(reason instanceof KvFull)) t.fail(String(reason))
  return results.length - refused.length
}

t.test('the store of a function', async (t) => {
  const place = await platform(t)
  const workers = async (limits: KvLimits) =>
    await Promise.all(
      [1, 2, 3].map(async (number) => {
        const bus = await connectBus({ url: place.natsUrl, name: `worker ${number}` })
        t.teardown(() => bus.close())
        return functionKv(bus, limits)
      }),
    )

  await t.test('takes so many bytes, whichever workers write them at once', async (t) => {
    const kvs = await workers({ maxBytes: 100_000 })
    const [one, two] = kvs as [FunctionKv, FunctionKv]
    const puts = Array.from({ length: 60 }, (_, n) => kvs[n % 3]!.put('many', `key-${100 + n}`, value(4_993)))
    t.equal(await taken(t, puts), 20, 'each takes 5,000')
    t.same(await stored(one, 'many'), { keys: 20, bytes: 100_000 })
    const [key, other] = (await one.list('many', {})).keys as [string, string]
    await t.rejects(two.put('many', key, value(4_994)), {
      message: /keys and values of a function have at most 100000 /,
    })
    await two.put('many', key, value(4_993))
    await two.put('many', key, value(3_993), 1)
    await two.put('many', 'second', value(994))
    await t.rejects(one.put('many', 'b', '1'), KvFull, 'what shrank has been taken again')
    await one.delete('many', other)
    await one.put('many', other, value(4_993))
    while ((await one.get('many', key)) !== null) await sleep(50)
    await two.put('many', 'third', value(3_995))
    await t.rejects(two.put('many', 'fourth', '1'), KvFull, 'what expired has been taken again')
    t.same(await stored(one, 'many'), { keys: 21, bytes: 100_000 })
    await one.put('another', 'k', value(60_000))
    const freed = await Promise.all(kvs.map((kv) => kv.clear('many', Date.now()).then(() => kv)))
    t.equal(
      await taken(
        t,
        freed.map((kv, n) => kv.put('many', `${n}`, value(40_000))),
      ),
      2,
    )
  })

  await t.test('has the room back that a worker asked for and died', async (t) => {
    const [early] = await workers({ maxBytes: 100_000 })
    const [late] = await workers({ maxBytes: 100_000, deadMs: 0 })
    await early!.put('dead', 'k', value(9_999))
    await addToCounter(place.bus, ['function-kv', 'asked', 'bytes', 'dead'], 90_000)
    const put = async (kv: FunctionKv) => (await taken(t, [kv.put('dead', 'l', value(49_999))])) === 1
    t.notOk(await put(early!), 'at first it may still be on its way')
    while (!(await put(late!))) await sleep(20)
    t.equal(await taken(t, [late!.put('dead', 'm', value(49_999))]), 0)
  })

  await t.test('is read once for all who list it at a time', async (t) => {
    const [kv] = await workers({})
    await Promise.all(Array.from({ length: 30 }, (_, n) => kv!.put('listed', `${n}`, '1')))
    const { connection } = place.bus
    const asked: string[] = []
    const seen = ['STREAM.INFO.KV_functions', 'CONSUMER.CREATE.KV_functions.>'].map((subject) =>
      connection.subscribe(`$JS.API.${subject}`, { callback: (_, { subject }) => void asked.push(subject) }),
    )
    await connection.flush()
    const pages = await Promise.all(Array.from({ length: 50 }, () => kv!.list('listed', { limit: 40 })))
    t.same(new Set(pages.map(({ keys }) => keys.length)), new Set([30]))
    await connection.flush()
    t.ok(asked.length >= 1 && asked.length <= 4, `${asked.length} questions to the bus`)
    for (const each of seen) each.unsubscribe()
    await kv!.put('listed', 'one more', '1')
    t.equal((await kv!.list('listed', {})).keys.length, 31, 'what was written before is there')
  })

  await t.test('takes so many keys', async (t) => {
    const kvs = await workers({ maxKeys: 10 })
    const puts = Array.from({ length: 30 }, (_, n) => kvs[n % 3]!.put('keys', `${n}`, '1'))
    t.equal(await taken(t, puts), 10)
    t.equal((await stored(kvs[0]!, 'keys')).keys, 10)
    const [key] = (await kvs[0]!.list('keys', {})).keys as [string]
    await kvs[1]!.put('keys', key, '[2]')
    await kvs[0]!.delete('keys', key)
    await kvs[2]!.put('keys', 'new', '1')
    await t.rejects(kvs[0]!.put('keys', 'newer', '1'), { message: 'A function has at most 10 keys' })
  })

  await t.test(
    'says in the sandbox that it is full, and those of all together leave room for the platform',
    async (t) => {
      await reconcileStreams(place.bus, streamSpecs({ functionsBytes: 1024 ** 2 }))
      t.teardown(() => reconcileStreams(place.bus, streamSpecs()))
      const { call } = await place.gateway()
      await place.worker({ kv: { maxBytes: 700_000 } })
      const code = `export async function handler(_, { kv, functionId }) {
      let n = 0
      try { for (;; n++) await kv.put('k' + n, 'x'.repeat(50_000)) }
      catch (error) { return [n, error.name, error.message, (await kv.get('k0')).length] } }`
      for (const id of ['first', 'second']) await call('POST', '/deploy', { id, code })
      const quota = 'QuotaExceededError'
      t.match(await call('POST', '/invoke/first', '{}'), {
        body: [13, quota, 'The keys and values of a function have at most 700000 bytes', 50_000],
      })
      t.match(await call('POST', '/invoke/second', '{}'), {
        body: [Number, quota, 'The stores of all functions together are full', 50_000],
      })
      const { body } = await call('GET', '/stats')
      t.match(body, { scripts: [{ lastInvoked: String }, { lastInvoked: String }] }, 'which still writes its own')
    },
  )

  await t.test('is refused by the bus as well when the bucket is full', async (t) => {
    await reconcileStreams(place.bus, streamSpecs({ functionsBytes: 1024 ** 2 }))
    const kvs = await workers({})
    for (const kv of kvs) await kv.clear('first', Date.now())
    await Promise.all(kvs.map((kv, n) => kv.put('full', `${n}`, '1')))
    const puts = Array.from({ length: 45 }, (_, n) => kvs[n % 3]!.put('full', `key ${n}`, value(60_000)))
    const count = await taken(t, puts)
    t.ok(count > 0 && count <= 17, `${count} were taken, and the others told that it is full`)
  })
})
