import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { counterValue } from '../../bus/counters.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { openCallDesk } from '../../gateways/functions/calls.ts'
import { callsCounter } from '../../schemas/functions/last-call.ts'
import { callTallies } from '../../workers/functions/counters.ts'
import { platform, until } from './platform.ts'

t.setTimeout(120_000)

const echo = 'export function handler(data) { return data }'

t.test(
  'changes that came while no worker ran reach all that want them, however many functions there are',
  async (t) => {
    const place = await platform(t)
    const { call } = await place.gateway()
    const code = 'const handler = ({ data }) => console.log(data.id)'
    const trigger = async (id: string) => {
      await call('POST', '/deploy', { id, code })
      await call('PUT', `/scripts/${id}/triggers`, { triggers: [{ name: 'row', table: id }] })
    }
    await trigger('first')
    const large = `const text = "${'x'.repeat(20_000)}"; const handler = () => text.length`
    for (let n = 0; n < 120; n++) await call('POST', '/deploy', { id: `f${n}`, code: large })
    await trigger('last')
    // The consumer is made: what comes now is kept for the next worker.
    const worker = await place.worker()
    const ids = [1, 2, 3, 4, 5]
    const insert = async (from: number) => {
      for (const id of ids) {
        for (const table of ['first', 'last']) {
          const change = { type: 'INSERT', schema: 'public', table, data: { id: from + id }, timestamp: Date.now() }
          await place.bus.jetstream.publish(`cdc.main.public.${table}.insert`, JSON.stringify(change))
        }
      }
    }
    const seen = async (id: string) => {
      const { logs } = (await call('GET', `/scripts/${id}/logs`)).body as { logs: { message: string }[] }
      return logs.map(({ message }) => Number(message)).sort((one, other) => one - other)
    }
    await insert(0)
    await until(async () => (await seen('first')).length >= 5 && (await seen('last')).length >= 5)
    await worker.stop()
    await insert(5)
    await place.worker()
    await until(async () => (await seen('first')).length >= 10)
    await until(async () => (await seen('last')).length >= 10)
    for (const id of ['first', 'last']) t.same(await seen(id), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], id)
  },
)

t.test('asynchronous calls that nobody runs fill their stream, and then are refused', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  await call('POST', '/deploy', { id: 'f', code: echo })
  const spec = streamSpecs().find(({ name }) => name === 'INVOCATIONS')
  t.match(spec, { max_bytes: 4 * 1024 ** 3, discard: 'new' })
  await place.bus.manager.streams.update('INVOCATIONS', { max_bytes: 200_000 })
  const send = () => call('POST', '/invoke/f', 'x'.repeat(50_000), { Prefer: 'respond-async' })
  t.match(await send(), { status: 202 })
  let last = await send()
  while (last.status === 202) last = await send()
  t.match(last, { status: 503, body: { error: 'As many asynchronous calls as may be are waiting' } })
  t.ok(last.headers.get('retry-after'))
})

t.test('sums that could not be written are written later, also when nobody calls', async (t) => {
  const { bus } = await platform(t)
  let failures = 0
  const tallies = await callTallies(bus, () => {
    failures += 1
  })
  t.teardown(() => tallies.close())
  await bus.manager.streams.delete('COUNTERS')
  tallies.count('f', 1)
  await until(async () => failures > 0)
  await sleep(1_200)
  await reconcileStreams(bus, streamSpecs())
  await until(async () => (await counterValue(bus, callsCounter('f', 1))) === 1)
})

t.test('calls that wait for a worker are looked up now and then, not all the time', async (t) => {
  const { bus } = await platform(t)
  let looked = 0
  bus.connection.subscribe('$JS.API.DIRECT.GET.CALLS.>', {
    callback: () => {
      looked += 1
    },
  })
  const desk = openCallDesk(bus, { timeoutMs: 30_000, maxCalls: 10 })
  const target = { fn: 'f', rev: 1, seq: 1, env: 0, envSeq: null }
  const waiting = desk.call(target, { method: 'POST', path: '/', query: {}, headers: {} }, Buffer.from('1'))
  await sleep(7_000)
  desk.close()
  await waiting
  t.ok(looked > 0 && looked < 6, `it was looked up ${looked} times`)
})

t.test('what a deleted function kept is not there for the next one of its name', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  const worker = await place.worker()
  const code = `export async function handler(data, { kv }) {
    for (const key of data ?? []) await kv.put(key, 'mine')
    return (await kv.list({})).keys.length }`
  const keys = (n: number) => Array.from({ length: n }, (_, key) => `${key}`)
  const kept = async (written?: readonly string[]) => (await call('POST', '/invoke/f', written ?? [])).body
  let counted = 0
  const counting = place.bus.connection.subscribe('$JS.API.STREAM.INFO.KV_functions', {
    callback: () => {
      counted += 1
    },
  })
  await call('POST', '/deploy', { id: 'f', code })
  t.equal(await kept(keys(40)), 40)
  await place.bus.connection.flush()
  counting.unsubscribe()
  t.ok(counted > 0 && counted < 10, `its keys were asked for ${counted} times, and not with each new one`)
  await worker.stop()
  await call('DELETE', '/delete/f')
  await call('POST', '/deploy', { id: 'f', code })
  const next = await place.worker()
  await until(async () => (await kept()) === 0)
  t.equal(await kept(keys(3)), 3)
  await next.stop()
  await place.worker()
  t.equal(await kept(), 3, 'what it keeps itself is left alone')
})

t.test('a gateway that is stopped answers the calls it has, and takes no more', async (t) => {
  const place = await platform(t)
  const { call, stop } = await place.gateway()
  await place.worker()
  const code = `export const handler = (data, context) => {
    console.log('begun'); return new Promise((resolve) => setTimeout(resolve, 1_500, context.method + 'x'.repeat(3e6))) }`
  await call('POST', '/deploy', { id: 'f', code })
  const slow = [call('POST', '/invoke/f', '1'), call('GET', '/invoke/f')]
  const begun = async () => ((await call('GET', '/scripts/f/logs')).body as { logs: unknown[] }).logs.length
  await until(async () => (await begun()) === 2)
  const stopped = stop()
  t.match(await call('POST', '/invoke/f', '2'), { status: 503, body: { error: /being stopped/ } })
  const answers = (await Promise.all(slow)).map(({ status, body }) => [status, String(body).length])
  t.same(answers, [[200, 3e6 + 4], [200, 3e6 + 3]]) // biome-ignore format: one line
  await stopped
  await t.rejects(call('POST', '/invoke/f', '3'))
})
