import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Type } from 'typebox'
import { connectBus } from '../../bus/connect.ts'
import { counterValues, openCounters } from '../../bus/counters.ts'
import { decide } from '../../bus/decide.ts'
import { follow } from '../../bus/follow.ts'
import { type Aggregate, defineEvent, defineEvents, type FactOf } from '../../bus/message.ts'
import { eventSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { testNats } from '../support/servers.ts'

const Added = defineEvent(
  'functions.sum.added',
  Type.Object({ n: Type.Integer(), filler: Type.Optional(Type.String()) }),
)
type Fact = FactOf<typeof Added>
const sum: Aggregate<{ total: number }, Fact> = {
  events: defineEvents(Added),
  initial: { total: 0 },
  evolve: ({ total }, { data }) => ({ total: total + data.n }),
}

t.test('followed aggregates', async (t) => {
  const server = await testNats(t)
  const bus = await connectBus({ url: server.url, name: 'test', timeoutMs: 2_000 })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  const stream = 'EVT_FUNCTIONS'
  const add = (id: string, n: number, messageId?: string, filler?: string) =>
    decide(bus, {
      stream,
      subject: eventSubject('functions', 'sum', id),
      aggregate: sum,
      ...(messageId !== undefined && { id: messageId }),
      decide: () => [Added.of({ n, ...(filler !== undefined && { filler }) })],
    })
  await add('a.b', 1)
  await add('a.b', 2)
  await add('c', 5, 'large', 'x'.repeat(100_000))
  const told: [string, number][] = []
  const follower = await follow(bus, {
    stream,
    subject: 'evt.functions.sum',
    aggregate: sum,
    onState: (id, { total }) => told.push([id, total]),
  })
  t.teardown(() => follower.close())
  t.same(told, [['a.b', 3], ['c', 5]], 'the last state of each, also of a body that was put aside') // biome-ignore format: pairs

  await add('c', 1, 'next')
  t.equal(await follower.passed('next', 5_000), true)
  t.equal(await follower.passed('next', 0), true, 'also when it has passed already')
  t.equal(await follower.passed('never', 10), false)
  t.same(told.at(-1), ['c', 6])

  await server.kill()
  await server.restart()
  for (let sent = false; !sent; await sleep(20)) sent = await add('d', 7, 'back').then(Boolean, () => false)
  t.equal(await follower.passed('back', 10_000), true, 'a server that comes back is followed on')
  t.same(told.at(-1), ['d', 7])

  const others = await Promise.all(
    Array.from({ length: 20 }, () => follow(bus, { stream, subject: 'evt.functions.sum', aggregate: sum, onState: () => {} })), // biome-ignore format: one line
  )
  const back = new Promise<void>((resolve) => bus.onReconnect(resolve))
  await server.kill()
  await server.restart()
  await back
  // Each at another moment of its being opened again.
  const closing = others.map((other, index) => sleep(240 + index * 2).then(() => other.close()))
  const ended = await Promise.race([Promise.all(closing).then(() => true), sleep(5_000).then(() => false)])
  t.equal(ended, true, 'one that is closed meanwhile is closed')
})

t.test('many counters are read at once', async (t) => {
  const server = await testNats(t)
  const bus = await connectBus({ url: server.url, name: 'test' })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  const names = Array.from({ length: 500 }, (_, index) => ['f', `${index}`] as const)
  t.same(new Set(await counterValues(bus, names)), new Set([0]), 'before anyone has counted')
  const counters = openCounters(bus)
  for (const [index, name] of names.entries()) counters.add(name, index)
  await counters.close()
  t.same(
    await counterValues(bus, names),
    names.map((_, index) => index),
  )
  t.same(await counterValues(bus, []), [])
})
