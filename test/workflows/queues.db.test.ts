import t from 'tap'
import { decide } from '../../bus/decide.ts'
import { loadMessage } from '../../bus/load.ts'
import { eventSubject } from '../../bus/subject.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { decideCancel } from '../../schemas/workflows/execution-decide.ts'
import { decideGrant, slots } from '../../schemas/workflows/slots.ts'
import { sendCommand } from '../../workers/workflows/follow-ups.ts'
import { requestSlot } from '../../workers/workflows/slots.ts'
import { startWorkflowWorker } from '../../workers/workflows/worker.ts'
import { workflowStage } from './stage.ts'

t.setTimeout(120_000)
t.jobs = 1

const { ask, save, execute, inStatus, until, bus, faults } = await workflowStage(t)
const waits = 'tasks: [{name: first, type: core.wait, properties: {duration: 1h}}]'
const says = 'tasks: [{name: first, type: util.log, properties: {message: m}}]'
const slotsPlace = (flowId: string) => ({
  stream: 'EVT_WORKFLOWS',
  subject: eventSubject('workflows', 'slots', flowId),
})
const cancel = (id: string) => ask('POST', `/executions/${id}/cancel`)

/** As a gateway that dies before it can send anything more. */
const cancelUntold = (id: string) =>
  decide(bus, {
    stream: 'EVT_EXECUTIONS',
    subject: eventSubject('executions', 'execution', id),
    aggregate: execution,
    actor: 'test',
    decide: (state) => decideCancel(state, { by: 'test', now: Date.now(), kill: false }),
  })

t.test('a long queue drains in its order, and never more than the limit run', async (t) => {
  const flowId = await save(`name: queue\nconcurrency: 2\n${says}`)
  const ids = await Promise.all(Array.from({ length: 500 }, () => execute(flowId)))
  await until(async () => {
    const { headers } = await ask('GET', `/executions?flowId=${flowId}&status=SUCCESS&limit=1`)
    return headers.get('x-total-count') === '500' ? true : null
  })
  const { subject, stream } = slotsPlace(flowId)
  const last = await bus.manager.direct.getMessage(stream, { last_by_subj: subject })
  let state = slots.initial
  let most = 0
  const granted: string[] = []
  for (let sequence = 1; sequence <= last!.seq; sequence++) {
    const stored = await bus.manager.direct.getMessage(stream, { seq: sequence })
    if (stored?.subject !== subject) continue
    for (const fact of (await loadMessage(bus, slots.events, stream, sequence))!.facts) {
      state = slots.evolve(state, fact)
      if (fact.type === 'workflows.slots.granted') granted.push(fact.data.executionId)
    }
    most = Math.max(most, state.holders.length)
  }
  t.equal(most, 2)
  t.same(state.holders, [])
  t.same([...granted].sort(), [...ids].sort(), 'each once')
  const waiting = await bus.manager.streams.info('WAITING', { subjects_filter: 'waiting.>' })
  t.same(waiting.state.subjects ?? {}, {})
})

t.test('the end of an execution that nobody told of gives its place on', async (t) => {
  const flowId = await save(`name: untold\nconcurrency: 1\n${waits}`)
  const [first, second] = [await execute(flowId), await execute(flowId)]
  await inStatus(first, 'RUNNING')
  await cancelUntold(first)
  await inStatus(second, 'RUNNING')
  await cancel(second)
  t.match((await inStatus(second, 'CANCELLED')).execution, { status: 'CANCELLED' })
})

t.test('an execution that has ended gets no place, however late it is asked for', async (t) => {
  const flowId = await save(`name: late\nconcurrency: 1\n${says}`)
  const first = await execute(flowId)
  await inStatus(first, 'SUCCESS')
  await requestSlot(bus, {
    flowId,
    executionId: first,
    concurrency: { limit: 1, behavior: 'queue' },
    again: false,
  })
  const second = await execute(flowId)
  t.match((await inStatus(second, 'SUCCESS')).execution, { status: 'SUCCESS' })
})

t.test('a place that was never given back is taken from who has ended', async (t) => {
  const lose = (flowId: string) =>
    decide(bus, { ...slotsPlace(flowId), aggregate: slots, decide: (state) => decideGrant(state, 'gone', 1) })
  const queued = await save(`name: lost-queue\nconcurrency: 1\n${says}`)
  await lose(queued)
  const waiting = await execute(queued)
  await inStatus(waiting, 'QUEUED')
  await until(async () => {
    // As the sweeper does with what has been still for long.
    await sendCommand(bus, waiting, { type: 'nudge', sweep: true }, `${waiting}/nudge/${Math.random()}`)
    const { json } = await ask('GET', `/executions/${waiting}`)
    return json.execution.status === 'SUCCESS' ? true : null
  })
  const refusing = await save(`name: lost-fail\nconcurrency: { limit: 1, behavior: fail }\n${says}`)
  await lose(refusing)
  t.match((await inStatus(await execute(refusing), 'SUCCESS', 'FAILED')).execution, { status: 'SUCCESS' })
})

t.test('or who finds none ends', async (t) => {
  for (const [behavior, status] of [
    ['cancel', 'CANCELLED'],
    ['fail', 'FAILED'],
  ] as const) {
    const flowId = await save(`name: full-${behavior}\nconcurrency: { limit: 1, behavior: ${behavior} }\n${waits}`)
    const first = await execute(flowId)
    await inStatus(first, 'RUNNING')
    t.match((await inStatus(await execute(flowId), 'CANCELLED', 'FAILED')).execution, { status })
    await cancel(first)
  }
})

t.test('tasks of a group wait for a worker that serves it', async (t) => {
  const yamlContent = `name: grouped\ntasks: [{name: first, type: util.log, workerGroup: gpu, properties: {message: m}}]`
  const warnings = async () => (await ask('POST', '/flows/validate', { body: { yamlContent } })).json.warnings
  t.match(await warnings(), [{ path: 'first.workerGroup', message: /app\.workflows\.worker-groups=gpu/ }])
  const id = await execute(await save(yamlContent))
  await inStatus(id, 'RUNNING')
  const worker = await startWorkflowWorker({
    bus,
    egress: { allow: [], deny: [] },
    groups: ['gpu'],
    onObservation: () => undefined,
  })
  t.teardown(() => worker.stop())
  await inStatus(id, 'SUCCESS')
  t.equal(await warnings(), undefined)
})

t.test('what went wrong', async (t) => t.same(faults, []))
