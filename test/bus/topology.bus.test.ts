import fc from 'fast-check'
import t from 'tap'
import { type Bus, connectBus } from '../../bus/connect.ts'
import * as subject from '../../bus/subject.ts'
import {
  differences,
  keptSamples,
  reconcileStreams,
  requirePayload,
  requireServer,
  streamSpecs,
} from '../../bus/topology.ts'
import { testNats } from '../support/servers.ts'

async function connected(t: Tap): Promise<Bus> {
  const { url } = await testNats(t)
  const bus = await connectBus({ url, name: 'test' })
  t.teardown(() => bus.close())
  return bus
}

type Tap = Parameters<typeof testNats>[0]

t.test('a subject escapes whatever text and gives it back', async (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      // Lone surrogates have no UTF-8.
      fc.pre(text.isWellFormed())
      const token = subject.escapeToken(text)
      t.match(token, /^[A-Za-z0-9_%-]+$/)
      return subject.unescapeToken(token) === text
    }),
  )
  t.equal(subject.changeSubject('main', 'public', 'a.b *>', 'insert'), 'cdc.main.public.a%2Eb%20%2A%3E.insert')
  t.equal(subject.eventSubject('functions', 'function', ''), 'evt.functions.function.%')
  t.equal(subject.deadSubject('workers-x', 'command.lane.1'), 'dead.workers-x.command.lane.1')
})

t.test('the streams are created once, and found as they are the second time', async (t) => {
  const bus = await connected(t)
  const first = await reconcileStreams(bus, streamSpecs())
  t.ok(first.every(({ outcome }) => outcome === 'created'))
  const second = await reconcileStreams(bus, streamSpecs())
  t.ok(second.every(({ outcome }) => outcome === 'unchanged'))
  t.equal((await bus.manager.streams.info('TIMERS')).config.allow_msg_schedules, true)
})

t.test('a setting that may change is changed, and what lies on the stream stays', async (t) => {
  const bus = await connected(t)
  await reconcileStreams(bus, streamSpecs())
  await bus.jetstream.publish(subject.changeSubject('main', 'public', 'film', 'insert'), '{}')
  const outcomes = await reconcileStreams(bus, streamSpecs({ changeAgeMs: 3_600_000 }))
  t.same(
    outcomes.filter(({ outcome }) => outcome !== 'unchanged'),
    [{ name: 'cdc-stream', outcome: 'updated', changed: ['max_age'] }],
  )
  const { config, state } = await bus.manager.streams.info('cdc-stream')
  t.equal(config.max_age, 3_600_000 * 1_000_000)
  t.equal(state.messages, 1)
})

t.test('samples of an older version are brought within the bounds', async (t) => {
  const bus = await connected(t)
  const samples = subject.metricSubject('instance', 'shop')
  const spec = streamSpecs().find(({ name }) => name === 'METRICS')!
  const { max_bytes, max_msgs_per_subject, ...unbounded } = spec
  await bus.manager.streams.add(unbounded)
  for (let n = 0; n < keptSamples + 20; n++) bus.connection.publish(samples, String(n))
  await bus.connection.flush()
  const outcomes = await reconcileStreams(bus, [spec])
  t.match(outcomes, [{ outcome: 'updated', changed: ['max_bytes', 'max_msgs_per_subject'] }])
  bus.connection.publish(samples, 'the next')
  await bus.connection.flush()
  for (;;) {
    const last = await bus.manager.direct.getMessage('METRICS', { last_by_subj: samples })
    if (last?.string() === 'the next') break
  }
  const { config, state } = await bus.manager.streams.info('METRICS')
  t.match(config, { max_bytes, max_msgs_per_subject, discard: 'old', persist_mode: 'async' })
  t.ok(max_bytes! > 0)
  t.equal(state.messages, keptSamples)
})

t.test('a setting that must not change is refused with the difference', async (t) => {
  const bus = await connected(t)
  await bus.manager.streams.add({ name: 'COMMANDS', subjects: ['command.>'] })
  await t.rejects(reconcileStreams(bus, streamSpecs()), {
    name: 'TopologyRefused',
    message: /COMMANDS cannot be changed .*retention="workqueue".* it has .*retention="limits"/,
  })
})

t.test('another stream on our subjects is refused by name', async (t) => {
  const bus = await connected(t)
  await bus.manager.streams.add({ name: 'MINE', subjects: ['cdc.>'] })
  await t.rejects(reconcileStreams(bus, streamSpecs()), {
    name: 'TopologyRefused',
    message: /cdc-stream cannot be created/,
  })
})

t.test('a setting that an old server dropped without a word is found', async (t) => {
  const [spec] = streamSpecs().filter(({ name }) => name === 'TIMERS')
  const { allow_msg_schedules: _, ...dropped } = spec!
  t.same(differences(spec!, dropped), ['allow_msg_schedules'])
  t.same(differences(spec!, spec!), [])
})

t.test('an old server is refused with both versions', async (t) => {
  for (const version of ['2.9.10', '2.11.99', '1.99.0']) {
    t.throws(() => requireServer(version), { name: 'TopologyRefused', message: new RegExp(`${version}.*2\\.12\\.0`) })
  }
  for (const version of ['2.12.0', '2.12.0-beta.1', '2.15.1', '3.0.0']) t.doesNotThrow(() => requireServer(version))
})

t.test('a server that takes too little in one message is refused with what it needs', async (t) => {
  const message = /1048576 bytes, and up to \d+ are needed: set its max_payload to 8MB/
  t.throws(() => requirePayload(1_048_576, streamSpecs()), { name: 'TopologyRefused', message })
  t.doesNotThrow(() => requirePayload(8 * 1024 ** 2, streamSpecs()))
  const changes = streamSpecs().filter(({ name }) => name === 'cdc-stream')
  t.doesNotThrow(() => requirePayload(1_048_576, changes), 'row changes alone are smaller')
})

t.test('a connection says at once that the bus is away, and comes back by itself', async (t) => {
  const server = await testNats(t)
  const observed: string[] = []
  const lost = Promise.withResolvers<void>()
  const back = Promise.withResolvers<void>()
  const bus = await connectBus({
    url: server.url,
    name: 'test',
    onObservation({ type }) {
      observed.push(type)
      if (type === 'bus-disconnected') lost.resolve()
      else back.resolve()
    },
  })
  t.teardown(() => bus.close())
  await bus.manager.streams.add({ name: 'KEPT', subjects: ['kept'] })
  await bus.jetstream.publish('kept', 'stored')
  await server.kill()
  await lost.promise
  t.throws(() => bus.requireConnected(), { name: 'BusUnavailable' })
  await server.restart()
  await back.promise
  t.doesNotThrow(() => bus.requireConnected())
  t.equal((await bus.manager.streams.info('KEPT')).state.messages, 1)
  t.same(observed.slice(0, 2), ['bus-disconnected', 'bus-reconnected'])
})
