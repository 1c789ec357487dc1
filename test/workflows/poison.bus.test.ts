import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { connectBus } from '../../bus/connect.ts'
import { listDead } from '../../bus/dead.ts'
import { decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { publish } from '../../bus/publish.ts'
import { dueSubject, eventSubject, executionSubject, taskSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { knownCommand } from '../../schemas/workflows/execution-decide.ts'
import { isEnded } from '../../schemas/workflows/execution-state.ts'
import { decideRevise, flow } from '../../schemas/workflows/flow.ts'
import { tickPurpose } from '../../schemas/workflows/trigger-ticks.ts'
import { startScheduler } from '../../workers/scheduler/scheduler.ts'
import { startWorkflowEngine } from '../../workers/workflows/engine.ts'
import type { TaskServices } from '../../workers/workflows/plugin.ts'
import { log } from '../../workers/workflows/plugins/core/log.ts'
import { wait } from '../../workers/workflows/plugins/core/wait.ts'
import { startExecution } from '../../workers/workflows/start-execution.ts'
import { testNats } from '../support/servers.ts'
import { flow as plan, sequence, task } from './plans.ts'

t.test('a message that nobody can read lies in DEAD, and those around it are handled', async (t) => {
  const nats = await testNats(t)
  const bus = await connectBus({ url: nats.url, name: 'test' })
  await reconcileStreams(bus, streamSpecs())
  const onObservation = () => undefined
  const engine = await startWorkflowEngine({
    bus,
    plugins: new Map([log, wait].map((each) => [each.manifest.id, each])),
    services: {} as TaskServices,
    credential: async () => null,
    kv: async () => null,
    onObservation,
  })
  const scheduler = await startScheduler({ bus, changeStream: 'cdc-stream', source: 'main', onObservation })
  t.teardown(async () => {
    await scheduler.stop()
    await engine.stop()
    await bus.close()
  })
  const flowId = randomUUID()
  const steps = ['a', 'b'].map((name) => task(name, { properties: { message: name } }))
  const moment = task('moment', { type: 'core.wait', properties: { duration: '10ms' } })
  const both = task('c', { needs: ['moment'], properties: { message: 'c' } })
  const text = { flowId, name: 'x', namespace: 'default', yamlContent: '', by: 'test', at: 1 }
  await decide(bus, {
    stream: 'EVT_WORKFLOWS',
    subject: eventSubject('workflows', 'flow', flowId),
    aggregate: flow,
    // Through every queue: what is parallel, and what a timer wakes.
    decide: (state) => decideRevise(state, { ...text, plan: plan([...sequence(...steps), moment, both]) }),
  })
  const run = async () => {
    const executionId = randomUUID()
    const asked = { executionId, inputs: {}, trigger: { type: 'manual' }, actor: 'test', at: Date.now() }
    await startExecution(bus, flowId, asked)
    return { stream: 'EVT_EXECUTIONS', subject: eventSubject('executions', 'execution', executionId) }
  }
  const poison = [
    [eventSubject('executions', 'execution', 'bad'), 'no message', 'workers-workflows-executions'],
    [executionSubject('bad'), 'no command', 'workers-workflows-commands'],
    [executionSubject('worse'), '{}', 'workers-workflows-commands'],
    [taskSubject('default', 'bad'), 'no task', 'workers-workflows-tasks-default'],
    [dueSubject('executions', 'bad'), 'no timer', 'workers-workflows-timers'],
    [dueSubject(tickPurpose, 'bad'), 'no tick', 'workers-scheduler-ticks'],
  ] as const
  const places = [await run()]
  for (const [subject, body] of poison) {
    await publish(bus, { subject, body })
    places.push(await run())
  }
  for (const place of places) {
    let { state } = await load(bus, execution, place)
    for (; !isEnded(state.stage); { state } = await load(bus, execution, place)) await sleep(10)
    t.equal(state.stage, 'success')
  }
  let letters = await listDead(bus)
  for (; letters.length < poison.length; letters = await listDead(bus)) await sleep(10)
  const shown = (rows: readonly (readonly [string, string, string])[]) => rows.map((row) => row.join(' ')).sort()
  t.same(
    shown(letters.map(({ subject, body, consumer }) => [subject, Buffer.from(body).toString(), consumer])),
    shown(poison),
  )
  t.same([...new Set(letters.map(({ deliveryCount }) => deliveryCount))], [1], 'each at once')
})

t.test('a command that a newer program may know is not given up at once', async (t) => {
  t.throws(() => knownCommand({ type: 'later' }), { name: 'TypeError', message: /later is no command/ })
  t.throws(() => knownCommand(null), { name: 'MessageInvalid' })
  t.same(knownCommand({ type: 'nudge' }), { type: 'nudge' })
})
