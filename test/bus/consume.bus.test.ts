import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type Bus, connectBus } from '../../bus/connect.ts'
import { type ConsumeObservation, type ConsumeOptions, consume } from '../../bus/consume.ts'
import { dropDead, listDead, retryDead } from '../../bus/dead.ts'
import { backOffMs } from '../../bus/handle.ts'
import { publish } from '../../bus/publish.ts'
import { changeSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { testNats } from '../support/servers.ts'

type Tap = Parameters<typeof testNats>[0]

async function started(t: Tap) {
  const server = await testNats(t)
  const bus = await connectBus({ url: server.url, name: 'test', timeoutMs: 1_000 })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  return { server, bus }
}

/** A worker on one lane of COMMANDS that is stopped at the end of its test. */
function worker(t: Tap, bus: Bus, lane: string, options: Partial<ConsumeOptions> & Pick<ConsumeOptions, 'handle'>) {
  const stopping = new AbortController()
  const observed: ConsumeObservation[] = []
  const done = consume(
    bus,
    {
      stream: 'COMMANDS',
      consumer: `test-${lane}`,
      subjects: [`command.${lane}.>`],
      delayMs: () => 10,
      onObservation: (observation) => observed.push(observation),
      ...options,
    },
    stopping.signal,
  )
  const stop = async () => {
    stopping.abort()
    await done
  }
  t.teardown(stop)
  const seen = (type: ConsumeObservation['type']) => observed.filter((observation) => observation.type === type)
  return { stop, observed, seen }
}

async function enqueue(bus: Bus, lane: string, ...ids: readonly string[]): Promise<void> {
  for (const id of ids)
    await publish(bus, { subject: `command.${lane}.${id}`, body: id, headers: { 'Nats-Msg-Id': `${lane}/${id}` } })
}

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await what())) await sleep(10)
}

async function left(bus: Bus, lane: string): Promise<number> {
  const { state } = await bus.manager.streams.info('COMMANDS', { subjects_filter: `command.${lane}.>` })
  return Object.keys(state.subjects ?? {}).length
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => String(index))

t.test('on a running bus', async (t) => {
  const { bus } = await started(t)

  t.test('copies share the work, each item is handled once, no more at a time than allowed', async (t) => {
    const handled: string[] = []
    let [now, most] = [0, 0]
    const handle: ConsumeOptions['handle'] = async ({ data, subject, stream, deliveryCount }) => {
      most = Math.max(most, ++now)
      await sleep(1)
      now--
      handled.push(Buffer.from(data).toString())
      t.match(
        { subject, stream, deliveryCount },
        { subject: /^command\.share\.\d+$/, stream: 'COMMANDS', deliveryCount: 1 },
      )
    }
    worker(t, bus, 'share', { handle, concurrency: 2 })
    worker(t, bus, 'share', { handle, concurrency: 2 })
    await enqueue(bus, 'share', ...numbers(100))
    await until(() => handled.length === 100)
    t.same(new Set(handled), new Set(numbers(100)))
    t.ok(most <= 4)
    await until(async () => (await left(bus, 'share')) === 0)
  })

  t.test('a handler that takes long keeps its message by signs of life', async (t) => {
    let calls = 0
    const { seen } = worker(t, bus, 'slow', {
      ackWaitMs: 300,
      handle: async () => {
        calls++
        await sleep(1_000)
      },
    })
    await enqueue(bus, 'slow', 'one')
    await until(() => seen('message-handled').length === 1)
    await until(async () => (await left(bus, 'slow')) === 0)
    t.equal(calls, 1)
  })

  t.test('a poison message is tried, then buried with its reason, and can come back', async (t) => {
    let mended = false
    const bodies: string[] = []
    const { seen } = worker(t, bus, 'poison', {
      maxDeliver: 3,
      handle: async ({ data, headers }) => {
        if (!mended) throw new Error('cannot\nread it')
        bodies.push(`${Buffer.from(data)} ${headers.get('Busbar-Correlation')}`)
      },
    })
    const headers = { 'Nats-Msg-Id': 'poison', 'Busbar-Correlation': 'c-1' }
    const { seq } = await publish(bus, { subject: 'command.poison.a.b', body: 'bad', headers })
    await until(() => seen('message-dead').length === 1)
    t.equal(seen('message-retried').length, 2)
    await until(async () => (await left(bus, 'poison')) === 0)
    const [letter, ...others] = await listDead(bus, { consumer: 'test-poison' })
    t.match(letter, {
      consumer: 'test-poison',
      stream: 'COMMANDS',
      subject: 'command.poison.a.b',
      streamSequence: seq,
      deliveryCount: 3,
      error: 'Error: cannot read it',
      headers: { 'Busbar-Correlation': 'c-1' },
    })
    t.equal(Buffer.from(letter!.body).toString(), 'bad')
    t.same(others, [])
    mended = true
    await retryDead(bus, letter!.sequence)
    await until(() => bodies.length === 1)
    t.same(bodies, ['bad c-1'])
    t.same(await listDead(bus, { consumer: 'test-poison' }), [])
    await t.rejects(retryDead(bus, letter!.sequence), { name: 'DeadLetterRefused' })
    await t.rejects(dropDead(bus, 999_999), { message: 'There is no dead letter 999999' })
  })

  t.test('a rejection is buried at once; a passing fault is waited out and uses up no delivery', async (t) => {
    let away = 5
    const { seen } = worker(t, bus, 'judge', {
      maxDeliver: 2,
      handle: async ({ subject }) => {
        const name = subject.endsWith('no') ? 'Rejected' : 'Unavailable'
        if (name === 'Rejected' || away-- > 0) throw Object.assign(new Error(name), { name })
      },
    })
    await enqueue(bus, 'judge', 'no', 'later')
    await until(() => seen('message-dead').length === 1 && seen('message-handled').length === 1)
    t.equal(seen('message-waiting').length, 5)
    t.match(seen('message-handled'), [{ subject: 'command.judge.later', deliveryCount: 1 }])
    t.match(seen('message-dead'), [{ subject: 'command.judge.no', deliveryCount: 1 }])
    const [letter] = await listDead(bus, { consumer: 'test-judge' })
    await dropDead(bus, letter!.sequence)
    t.same(await listDead(bus, { consumer: 'test-judge' }), [])
  })

  t.test('a message whose handlers die each time is buried without another try', async (t) => {
    const config = {
      durable_name: 'test-crash',
      ack_policy: 'explicit',
      ack_wait: 50_000_000,
      max_deliver: -1,
    } as const
    await bus.manager.consumers.add('COMMANDS', { ...config, filter_subjects: ['command.crash.>'] })
    await enqueue(bus, 'crash', 'killer')
    const consumer = await bus.jetstream.consumers.get('COMMANDS', 'test-crash')
    for (let death = 0; death < 2; death++) t.ok(await consumer.next({ expires: 5_000 }))
    let calls = 0
    const { seen } = worker(t, bus, 'crash', { ackWaitMs: 50, maxDeliver: 2, handle: async () => void calls++ })
    await until(() => seen('message-dead').length === 1)
    t.equal(calls, 0)
    t.match(await listDead(bus, { consumer: 'test-crash' }), [{ error: /Delivered 2 times and never finished/ }])
  })

  t.test('where messages come back soon, those who hang with one are forgiven more often', async (t) => {
    const config = { durable_name: 'test-hang', ack_policy: 'explicit', ack_wait: 50_000_000, max_deliver: -1 } as const
    await bus.manager.consumers.add('COMMANDS', { ...config, filter_subjects: ['command.hang.>'] })
    await enqueue(bus, 'hang', 'patient')
    const consumer = await bus.jetstream.consumers.get('COMMANDS', 'test-hang')
    for (let death = 0; death < 2; death++) t.ok(await consumer.next({ expires: 5_000 }))
    const { seen } = worker(t, bus, 'hang', { ackWaitMs: 50, maxDeliver: 2, maxSilent: 1_000, handle: async () => {} })
    await until(() => seen('message-handled').length === 1)
    t.same(await listDead(bus, { consumer: 'test-hang' }), [])
  })

  t.test('a fact is not published a second time by a retry', async (t) => {
    const { seen } = worker(t, bus, 'facts', {
      stream: 'cdc-stream',
      subjects: [],
      handle: () => Promise.reject(Object.assign(new Error('no'), { name: 'Rejected' })),
    })
    await publish(bus, { subject: changeSubject('main', 'public', 'film', 'insert'), body: '{}' })
    await until(() => seen('message-dead').length === 1)
    const [letter] = await listDead(bus, { consumer: 'test-facts' })
    await t.rejects(retryDead(bus, letter!.sequence), { name: 'DeadLetterRefused', message: /cdc-stream keeps/ })
    t.equal((await listDead(bus, { limit: 1000 })).filter(({ sequence }) => sequence === letter!.sequence).length, 1)
  })

  t.test('a drain finishes what is in flight and takes nothing new', async (t) => {
    const release = Promise.withResolvers<void>()
    const begun: string[] = []
    const { stop, seen } = worker(t, bus, 'drain', {
      concurrency: 2,
      handle: async ({ subject }) => {
        begun.push(subject)
        await release.promise
      },
    })
    await enqueue(bus, 'drain', ...numbers(5))
    await until(() => begun.length === 2)
    let stopped = false
    const stopping = stop().then(() => {
      stopped = true
    })
    await sleep(100)
    t.notOk(stopped, 'it waits for its handlers')
    release.resolve()
    await stopping
    t.equal(begun.length, 2)
    t.equal(seen('message-handled').length, 2)
    t.equal(seen('consumer-drained').length, 1)
    await until(async () => (await left(bus, 'drain')) === 3)
    const after = worker(t, bus, 'drain', { handle: async () => undefined })
    await until(() => after.seen('message-handled').length === 3)
  })

  t.test('a drain hands back what does not finish in time, or only waits', async (t) => {
    let told = false
    const never = worker(t, bus, 'late', {
      drainMs: 50,
      handle: ({ subject }, signal) => {
        if (subject.endsWith('waits'))
          return Promise.reject(Object.assign(new Error('away'), { name: 'Unavailable', retryAfterSeconds: 600 }))
        signal.addEventListener('abort', () => {
          told = true
        })
        return new Promise(() => undefined)
      },
    })
    await enqueue(bus, 'late', 'hangs', 'waits')
    await until(() => never.seen('message-waiting').length === 1)
    await never.stop()
    t.ok(told)
    t.equal(never.seen('message-returned').length, 2)
    const next = worker(t, bus, 'late', { handle: async () => undefined })
    await until(() => next.seen('message-handled').length === 2)
    t.match(next.seen('message-handled'), [{ deliveryCount: 2 }, { deliveryCount: 2 }])
  })

  t.test('a deleted consumer is made again; changed settings are taken over', async (t) => {
    const { seen, stop } = worker(t, bus, 'again', { handle: async () => undefined })
    await enqueue(bus, 'again', 'one')
    await until(() => seen('message-handled').length === 1)
    await bus.manager.consumers.delete('COMMANDS', 'test-again')
    await enqueue(bus, 'again', 'two')
    await until(() => seen('message-handled').length === 2)
    t.ok(seen('consumer-trouble').length >= 1)
    await stop()
    const other = worker(t, bus, 'again', { ackWaitMs: 5_000, maxAckPending: 7, handle: async () => undefined })
    await until(() => other.seen('consumer-ready').length === 1)
    const { config } = await bus.manager.consumers.info('COMMANDS', 'test-again')
    t.match(config, { ack_wait: 5_000_000_000, max_ack_pending: 7, max_deliver: -1 })
  })

  t.test('a consumer may begin with what comes from now on', async (t) => {
    const subject = changeSubject('later', 'public', 'film', 'insert')
    await publish(bus, { subject, body: 'before' })
    const bodies: string[] = []
    const { seen } = worker(t, bus, 'now', {
      stream: 'cdc-stream',
      subjects: ['cdc.later.>'],
      from: 'now',
      handle: async ({ data }) => void bodies.push(Buffer.from(data).toString()),
    })
    await until(() => seen('consumer-ready').length === 1)
    await publish(bus, { subject, body: 'after' })
    await until(() => bodies.length > 0)
    t.same(bodies, ['after'])
  })
})

t.test('a killed server costs no item: all are handled when it is back', async (t) => {
  const { server, bus } = await started(t)
  const handled = new Set<string>()
  let allowed = 30
  const { observed, seen } = worker(t, bus, 'kill', {
    ackWaitMs: 500,
    concurrency: 4,
    handle: async ({ data }) => {
      // So that there is work left at each kill, however slow the machine is at killing.
      await until(() => handled.size < allowed)
      await sleep(5)
      handled.add(Buffer.from(data).toString())
    },
  })
  await enqueue(bus, 'kill', ...numbers(300))
  for (const next of [60, 300]) {
    await until(() => handled.size >= allowed)
    await server.kill('SIGKILL')
    await until(() => !bus.connected)
    await server.restart()
    allowed = next
  }
  await until(() => handled.size === 300)
  await until(() => bus.connected)
  await until(async () => (await left(bus, 'kill')) === 0)
  t.ok(seen('consumer-ready').length >= 2, 'it fetched anew')
  t.same(
    observed.filter(({ type }) => type === 'message-dead'),
    [],
  )
})

t.test('a worker that waits for its stream begins when it is there', async (t) => {
  const server = await testNats(t)
  const bus = await connectBus({ url: server.url, name: 'test', timeoutMs: 1_000 })
  t.teardown(() => bus.close())
  const { seen } = worker(t, bus, 'early', { handle: async () => undefined })
  await until(() => seen('consumer-trouble').length > 0)
  await reconcileStreams(bus, streamSpecs())
  await enqueue(bus, 'early', 'one')
  await until(() => seen('message-handled').length === 1)
})

t.test('the back-off grows from about a second to a minute and never comes at the same time', async (t) => {
  for (let count = 1; count <= 40; count++) {
    const full = Math.min(60_000, 1_000 * 2 ** (count - 1))
    const delay = backOffMs(count)
    t.ok(delay >= full / 2 && delay <= full, `${count}: ${delay}`)
  }
  t.ok(new Set(Array.from({ length: 20 }, () => backOffMs(5))).size > 1)
})
