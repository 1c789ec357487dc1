import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Type } from 'typebox'
import { type Bus, connectBus } from '../../bus/connect.ts'
import { consume } from '../../bus/consume.ts'
import { counterValue, openCounters } from '../../bus/counters.ts'
import { type KvChange, openCollection } from '../../bus/kv.ts'
import { dueSubjects } from '../../bus/subject.ts'
import { cancelTimer, setTimer } from '../../bus/timers.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { testNats } from '../support/servers.ts'

type Tap = Parameters<typeof testNats>[0]

async function started(t: Tap, syncInterval = '2m') {
  const server = await testNats(t, { syncInterval })
  const bus = await connectBus({ url: server.url, name: 'test', timeoutMs: 900 })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  return { server, bus }
}

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await what())) await sleep(10)
}

/** What comes out of the timers of a purpose, in order. */
function due(t: Tap, bus: Bus, purpose: string) {
  const fired: { subject: string; body: unknown; correlation: string; at: number }[] = []
  const stopping = new AbortController()
  const done = consume(
    bus,
    {
      stream: 'TIMERS',
      consumer: `test-${purpose}`,
      subjects: [dueSubjects(purpose)],
      handle: async ({ subject, headers, data, at }) => {
        const body = JSON.parse(Buffer.from(data).toString())
        fired.push({ subject, body, correlation: headers.get('Busbar-Correlation'), at })
      },
    },
    stopping.signal,
  )
  t.teardown(async () => {
    stopping.abort()
    await done
  })
  return fired
}

t.test('timers', async (t) => {
  const { bus } = await started(t)

  t.test('go off once each, at their time, with their body and headers', async (t) => {
    const fired = due(t, bus, 'wake')
    const at = Date.now() + 1_200
    const headers = { 'Busbar-Correlation': 'c-1' }
    await setTimer(bus, { purpose: 'wake', id: 'b.2', at, body: { n: 2 }, headers })
    await setTimer(bus, { purpose: 'wake', id: 'past', at: Date.now() - 60_000, body: 'late' })
    await until(() => fired.length >= 2)
    await setTimer(bus, { purpose: 'wake', id: 'last', at: Date.now() + 1_000, body: 0 })
    await until(() => fired.some(({ body }) => body === 0))
    t.match(fired, [
      { subject: 'due.wake.past', body: 'late' },
      { subject: 'due.wake.b%2E2', body: { n: 2 }, correlation: 'c-1' },
      { subject: 'due.wake.last' },
    ])
    t.equal(fired.length, 3)
    t.ok(fired[1]!.at >= at, 'not before its time')
    const { state } = await bus.manager.streams.info('TIMERS', { subjects_filter: 'timer.wake.>' })
    t.same(state.subjects ?? {}, {}, 'what has gone off is no timer any more')
  })

  t.test('are taken back, and set anew', async (t) => {
    const fired = due(t, bus, 'change')
    const at = Date.now() + 1_000
    await setTimer(bus, { purpose: 'change', id: 'gone', at, body: 'gone' })
    await setTimer(bus, { purpose: 'change', id: 'moved', at, body: 'first' })
    await setTimer(bus, { purpose: 'change', id: 'moved', at: at + 1_000, body: 'second' })
    t.equal(await cancelTimer(bus, 'change', 'gone'), true)
    t.equal(await cancelTimer(bus, 'change', 'gone'), false)
    await setTimer(bus, { purpose: 'change', id: 'end', at: at + 2_000, body: 'end' })
    await until(() => fired.some(({ body }) => body === 'end'))
    t.same(
      fired.map(({ body }) => body),
      ['second', 'end'],
    )
    t.equal(await cancelTimer(bus, 'change', 'end'), false, 'it has gone off')
  })

  t.test('refuse what cannot be stored', async (t) => {
    const timer = { purpose: 'bad', id: 'one', at: Date.now(), body: 'x'.repeat(70_000) }
    await t.rejects(setTimer(bus, timer), RangeError)
    await t.rejects(setTimer(bus, { ...timer, body: '', at: Number.NaN }), RangeError)
  })
})

t.test('timers outlive a killed server, and those that fell due meanwhile go off', async (t) => {
  const { server, bus } = await started(t, 'always')
  const fired = due(t, bus, 'kill')
  const now = Date.now()
  await setTimer(bus, { purpose: 'kill', id: 'meanwhile', at: now + 800, body: 'meanwhile' })
  await setTimer(bus, { purpose: 'kill', id: 'after', at: now + 4_000, body: 'after' })
  await server.kill('SIGKILL')
  await until(() => Date.now() > now + 1_000)
  t.same(fired, [])
  await server.restart()
  await until(() => fired.some(({ body }) => body === 'after'))
  t.same(
    fired.map(({ body }) => body),
    ['meanwhile', 'after'],
  )
  await server.kill('SIGKILL')
  await until(() => !bus.connected)
  await t.rejects(setTimer(bus, { purpose: 'kill', id: 'x', at: now, body: 0 }), { name: 'BusUnavailable' })
})

t.test('a key-value collection', async (t) => {
  const { bus } = await started(t)
  const schema = Type.Object({ n: Type.Integer(), text: Type.Optional(Type.String()) })
  const things = await openCollection(bus, { name: 'things', schema })

  t.test('creates, updates by revision and deletes; who comes second is told', async (t) => {
    for (const key of ['plain', 'a.b > * ü', '']) {
      t.equal(await things.get(key), null)
      const first = await things.create(key, { n: 1 })
      await t.rejects(things.create(key, { n: 2 }), { name: 'KvConflict' })
      const second = await things.update(key, { n: 2 }, first)
      await t.rejects(things.update(key, { n: 3 }, first), { name: 'KvConflict' })
      await t.rejects(things.delete(key, first), { name: 'KvConflict' })
      t.same(await things.get(key), { value: { n: 2 }, revision: second })
      await things.delete(key, second)
      t.equal(await things.get(key), null)
      t.ok((await things.create(key, { n: 4 })) > second, 'a deleted key can be made again')
      await things.delete(key)
    }
  })

  t.test('refuses what breaks the schema or is too large, when written and when read', async (t) => {
    await t.rejects(things.create('bad', { n: 'one' } as never), { name: 'KvInvalid', message: /things bad\/n/ })
    await t.rejects(things.create('big', { n: 1, text: 'x'.repeat(65_536) }), { message: /more than 65536 bytes/ })
    await things.create('ok', { n: 1, text: 'x'.repeat(65_000) })
    const strict = await openCollection(bus, { name: 'things', schema: Type.Object({ other: Type.String() }) })
    await t.rejects(strict.get('ok'), { name: 'KvInvalid' })
  })

  t.test('shows what is there and then every change', async (t) => {
    const watched = await openCollection(bus, { name: 'watched', schema })
    const one = await watched.create('one.1', { n: 1 })
    const stopping = new AbortController()
    const changes: KvChange<unknown>[] = []
    const watching = (async () => {
      for await (const change of watched.watch(stopping.signal)) changes.push(change)
    })()
    await until(() => changes.length === 1)
    await things.create('unseen', { n: 9 })
    const two = await watched.update('one.1', { n: 2 }, one)
    await watched.delete('one.1')
    await until(() => changes.length === 3)
    stopping.abort()
    await watching
    t.match(changes, [
      { key: 'one.1', value: { n: 1 }, revision: one },
      { key: 'one.1', value: { n: 2 }, revision: two },
      { key: 'one.1', value: null },
    ])
  })

  t.test('is not made by opening it', async (t) => {
    await t.rejects(async () => (await openCollection(bus, { name: 'a', schema, bucket: 'nowhere' })).get('a'))
    await t.rejects(bus.manager.streams.info('KV_nowhere'), /stream not found/)
  })
})

t.test('counters', async (t) => {
  const { bus, server } = await started(t)

  t.test('add up over many processes', async (t) => {
    t.equal(await counterValue(bus, ['calls', 'a.b']), 0)
    const many = Array.from({ length: 8 }, () => openCounters(bus, { flushMs: 20 }))
    for (let round = 0; round < 50; round++) {
      for (const counters of many) {
        counters.add(['calls', 'a.b'])
        counters.add(['calls', 'other'], -2)
      }
      await sleep(2)
    }
    await Promise.all(many.map((counters) => counters.close()))
    t.equal(await counterValue(bus, ['calls', 'a.b']), 400)
    t.equal(await counterValue(bus, ['calls', 'other']), -800)
    const { state } = await bus.manager.streams.info('COUNTERS')
    t.equal(state.messages, 2, 'one message a counter')
    t.throws(() => many[0]!.add(['calls', 'half'], 0.5), RangeError)
  })

  t.test('are flushed by themselves, and what got no answer is counted once', async (t) => {
    const failures: number[] = []
    await using counters = openCounters(bus, { flushMs: 50, onObservation: ({ waiting }) => failures.push(waiting) })
    counters.add(['held'], 3)
    await until(async () => (await counterValue(bus, ['held'])) === 3)
    void server.kill('SIGSTOP')
    counters.add(['held'], 4)
    await until(() => failures.length > 0)
    counters.add(['held'], 5)
    void server.kill('SIGCONT')
    await until(async () => (await counterValue(bus, ['held'])) >= 12)
    await counters.flush()
    t.equal(await counterValue(bus, ['held']), 12)
    t.equal(failures[0], 1)
  })
})
