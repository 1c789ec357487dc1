import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { AckPolicy } from '@nats-io/jetstream'
import { nanos } from '@nats-io/nats-core'
import t from 'tap'
import { Type } from 'typebox'
import { append } from '../../bus/append.ts'
import { type Bus, connectBus } from '../../bus/connect.ts'
import { carrying } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { dueSubjects, eventSubject } from '../../bus/subject.ts'
import { timerDelivery } from '../../bus/timers.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { evolveAll, execution } from '../../schemas/workflows/execution.ts'
import { createdExecution } from '../../schemas/workflows/execution-create.ts'
import { ExecutionStarted, TaskClaimed, TaskScheduled } from '../../schemas/workflows/execution-facts.ts'
import { initialExecution } from '../../schemas/workflows/execution-state.ts'
import { flow, requireFlow } from '../../schemas/workflows/flow.ts'
import { claim } from '../../workers/workflows/claim.ts'
import { Executions, executionPlace } from '../../workers/workflows/executions.ts'
import { sendCommand, setExecutionTimer } from '../../workers/workflows/follow-ups.ts'
import { leaseConsumers, lostLeases } from '../../workers/workflows/lost-leases.ts'
import { definePlugin } from '../../workers/workflows/plugin.ts'
import { testNats } from '../support/servers.ts'
import { ended, engineOf, engineStage, save, stored } from './engine-stage.ts'
import { flow as plan, task } from './plans.ts'

const ran: string[] = []
const plugin = (id: string, effect: 'idempotent' | 'once') =>
  definePlugin({
    id,
    name: id,
    category: 'Custom',
    description: 'Notes that it ran.',
    input: Type.Object({}),
    output: Type.Object({}),
    example: '',
    effect,
    async run() {
      ran.push(id)
      return {}
    },
  })
const plugins = [plugin('test.again', 'idempotent'), plugin('test.once', 'once')]
const quiet = { onObservation: () => undefined }

t.test('tasks whose message is lost', async (t) => {
  const { bus } = await engineStage(t)

  await t.test('a lease is lost when its message is certainly not there', async (t) => {
    const executionId = await stuck(bus, 'test.again', 'a-command')
    const { state } = await stored(bus, executionId)
    const lost = (held: readonly string[] = []) => lostLeases(bus, executionId, state, new Set(held))
    const leased = (lease: string) => ({ ...state, runs: { ...state.runs, only: { ...state.runs.only!, lease } } })
    t.same([...(await lost())], ['a-command'])
    t.same([...(await lost(['a-command']))], [], 'it is in our own hands')
    await sendCommand(bus, executionId, { type: 'nudge' }, 'a-command')
    t.same([...(await lost())], [], 'it lies on the queue')
    await bus.manager.streams.purge('COMMANDS')
    await sendCommand(bus, executionId, { type: 'slot', granted: true }, 'another')
    t.same([...(await lost())], [], 'somebody will decide')
    await bus.manager.streams.purge('COMMANDS')
    const created = leased(`${executionId}/created`)
    t.same([...(await lostLeases(bus, executionId, created, new Set()))], [], 'no worker has begun')
    t.same([...(await lostLeases(bus, executionId, leased('timer/7'), new Set()))], [], 'nobody has read timers')
    const engine = await engineOf(bus, plugins, quiet)
    const gone = async (lease: string) => {
      for (let tries = 0; tries < 500; tries++) {
        if ((await lostLeases(bus, executionId, leased(lease), new Set())).has(lease)) return true
        await sleep(10)
      }
      return false
    }
    t.ok(await gone(`${executionId}/created`), 'acknowledged, and the task was not run')
    await engine.stop()
  })

  await t.test('run again on the queue, or fail when they must not', async (t) => {
    const engine = await engineOf(bus, plugins, quiet)
    ran.length = 0
    const [again, fresh, claimed] = [
      await stuck(bus, 'test.again', 'gone'),
      await stuck(bus, 'test.once', 'gone'),
      await stuck(bus, 'test.once', 'gone', true),
    ]
    await sleep(100)
    for (const id of [again, fresh, claimed]) await sendCommand(bus, id, { type: 'nudge' }, `${id}/plain`)
    await sleep(100)
    t.same(ran, [], 'no ordinary nudge takes a task from whom it may belong to')
    for (const id of [again, fresh, claimed]) {
      await sendCommand(bus, id, { type: 'nudge', sweep: true }, `${id}/sweep/1`)
      await sendCommand(bus, id, { type: 'nudge', sweep: true }, `${id}/sweep/2`)
    }
    t.equal((await ended(bus, again)).stage, 'success')
    t.equal((await ended(bus, fresh)).stage, 'success', 'nobody had claimed it')
    t.match(await ended(bus, claimed), { stage: 'failed', failure: { kind: 'lost' } })
    t.same(ran.sort(), ['test.again', 'test.once'], 'each once')
    await engine.stop()
  })
})

t.test('a claim that is asked for while the bus is away is decided when it is back, once', async (t) => {
  const nats = await testNats(t)
  const bus = await connectBus({ url: nats.url, name: 'test', timeoutMs: 900 })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  const executionId = await stuck(bus, 'test.once', 'gone')
  const turn = { attempt: 1, round: 0, generation: 0 }
  const asking = (worker: string, signal: AbortSignal) =>
    claim({ bus, executions: new Executions(bus), worker, now: Date.now }, { executionId, run: 'only', turn, signal })
  const { signal } = new AbortController()
  await nats.kill()
  const tired = new AbortController()
  const given = [
    ...['w1', 'w2', 'w3'].map((worker) => asking(worker, signal)),
    t.rejects(asking('w4', tired.signal), { name: 'BusUnavailable' }, 'unless nobody waits for it any more'),
  ]
  tired.abort()
  await sleep(300)
  await nats.restart()
  const won = (await Promise.all(given)).filter((each) => each === true)
  t.equal(won.length, 1)
  t.equal(await asking('w5', signal), false)
})

t.test('no task hangs on a timer, so one in the hands of a worker that died is soon in those of another', async (t) => {
  const { bus } = await engineStage(t)
  const executionId = await stuck(bus, 'test.again', 'gone')
  ran.length = 0
  // Somebody takes it and dies.
  const consumer = leaseConsumers.timers
  const dead = { durable_name: consumer, filter_subjects: [dueSubjects('executions')], ack_policy: AckPolicy.Explicit }
  await bus.manager.consumers.add('TIMERS', { ...dead, ack_wait: nanos(30_000) })
  await setExecutionTimer(bus, executionId, 'only/1/retry', Date.now())
  const taken = await (await bus.jetstream.consumers.get('TIMERS', consumer)).next()
  t.ok(taken)
  const engine = await engineOf(bus, plugins, quiet)
  t.teardown(() => engine.stop())
  for (let tries = 0; tries < 500; tries++) {
    const { config } = await bus.manager.consumers.info('TIMERS', consumer)
    if (config.ack_wait === nanos(timerDelivery.ackWaitMs)) break
    await sleep(10)
  }
  const { config } = await bus.manager.consumers.info('TIMERS', consumer)
  t.equal(config.ack_wait, nanos(timerDelivery.ackWaitMs))
})

/** An execution whose one task hangs on a message that nobody has. */
async function stuck(bus: Bus, type: string, lease: string, claimed = false): Promise<string> {
  const [executionId, at] = [randomUUID(), Date.now()]
  const flowId = await save(bus, plan([task('only', { type })]))
  const flowPlace = { stream: 'EVT_WORKFLOWS', subject: eventSubject('workflows', 'flow', flowId) }
  const { state, sequence } = await load(bus, flow, flowPlace)
  const asked = { executionId, inputs: {}, trigger: { type: 'manual' }, actor: 'test', at }
  const facts = [
    createdExecution(requireFlow(state), sequence, asked),
    ExecutionStarted.of({ at, deadlineAt: null }),
    TaskScheduled.of({ run: 'only', task: 'only', type, attempt: 1, at, lease }),
    ...(claimed ? [TaskClaimed.of({ run: 'only', attempt: 1, worker: 'dead', at })] : []),
  ]
  const message = {
    id: `${executionId}/created`,
    facts,
    ...carrying(execution, evolveAll(initialExecution, facts)),
  }
  await append(bus, { ...executionPlace(executionId), expectedSequence: 0, events: execution.events, message })
  return executionId
}
