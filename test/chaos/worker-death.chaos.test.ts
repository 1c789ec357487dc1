import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { Bus } from '../../bus/connect.ts'
import { decideExecution } from '../../gateways/workflows/execution-commands.ts'
import { decideAnswer, decideCancel, decidePause, decideResume } from '../../schemas/workflows/execution-decide.ts'
import type { ExecutionState } from '../../schemas/workflows/execution-state.ts'
import { flow as flowPlan, sequence, task } from '../workflows/plans.ts'
import { ackWaitMs, ended, factsOf, parked, place, save, start, stateOf, until } from './worker-place.ts'

t.setTimeout(180_000)

const cancel = (bus: Bus, executionId: string) =>
  decideExecution(bus, {
    executionId,
    actor: 'test',
    decide: (state) => decideCancel(state, { by: 'test', now: Date.now(), kill: false }),
  })

/** Nothing of it lies anywhere any more, nor in anybody's hands. */
async function isQuiet(bus: Bus): Promise<boolean> {
  const { consumers, streams } = bus.manager
  const queues = await Promise.all(['COMMANDS', 'TASKS'].map((name) => streams.info(name)))
  const { num_ack_pending, num_pending } = await consumers.info('EVT_EXECUTIONS', 'workers-workflows-executions')
  return num_ack_pending === 0 && num_pending === 0 && queues.every(({ state }) => state.messages === 0)
}

t.test('a cancelled execution whose worker dies is not revived', async (t) => {
  const { bus, worker, kill, freeze, count, letGo } = await place(t)
  const first = worker()
  const holds = (type: string) => [task('a', { type }), task('b', { type }), task('c', { type })]
  const all = (type: string) => task('all', { type: 'core.parallel', blocks: { tasks: holds(type) } })
  const plans = [
    flowPlan(sequence(task('only', { type: 'test.hold' }), task('next', { type: 'test.pay' }))),
    flowPlan(sequence(all('test.hold'), task('next', { type: 'test.pay' }))),
    flowPlan(sequence(all('test.hold-once'), task('next', { type: 'test.pay' }))),
  ]
  const ids = await Promise.all(plans.map(async (plan) => start(bus, await save(bus, plan))))
  await until(() => count(' begun ') >= 7)
  // It hears nothing of it, and dies with everything in hand.
  freeze(first)
  for (const id of ids) t.equal((await cancel(bus, id)).state.stage, 'cancelled')
  const before = await Promise.all(ids.map((id) => factsOf(bus, id)))
  await kill(first)
  letGo()
  worker()
  await delay(2 * ackWaitMs)
  await until(() => isQuiet(bus))
  t.equal(count(' begun '), 7, 'no attempt has begun')
  t.equal(count('/next '), 0, 'nor anything after it')
  t.same(await Promise.all(ids.map((id) => factsOf(bus, id))), before, 'and nothing was added to the history')
})

t.test('what has ended stays as it ended, whatever is delivered once more', async (t) => {
  const { bus, worker, kill, lines } = await place(t)
  const first = worker()
  const [good, bad] = [
    flowPlan(sequence(task('a', { type: 'test.pay' }), task('b', { type: 'test.once' }))),
    flowPlan(
      sequence(task('a', { type: 'test.pay' }), task('b', { type: 'core.fail', properties: { message: 'no' } })),
    ),
  ]
  const waits = flowPlan(sequence(task('w', { type: 'core.wait', properties: { duration: '1h' } }), task('a')))
  const ids = await Promise.all([good, bad, waits].map(async (plan) => start(bus, await save(bus, plan))))
  await until(async () => (await stateOf(bus, ids[2]!)).runs.w?.status === 'waiting')
  await cancel(bus, ids[2]!)
  const stages = await Promise.all(ids.map(async (id) => (await ended(bus, id)).stage))
  t.same(stages, ['success', 'failed', 'cancelled'])
  await until(() => isQuiet(bus))
  const [facts, ledger] = [await Promise.all(ids.map((id) => factsOf(bus, id))), lines()]
  await kill(first)
  // Who recovers from nothing gets every event again, from the very first.
  await bus.manager.consumers.delete('EVT_EXECUTIONS', 'workers-workflows-executions')
  worker()
  await until(() => isQuiet(bus).catch(() => false))
  // That a step without effects was run in vain may be told.
  const after = await Promise.all(ids.map((id) => factsOf(bus, id)))
  t.same(
    after.map((types) => types.filter((type) => type !== 'executions.task.late-result')),
    facts,
  )
  t.same(await Promise.all(ids.map(async (id) => (await stateOf(bus, id)).stage)), stages)
  t.same(lines(), ledger)
})

t.test('workers go on where others died, also while the bus dies under them', async (t) => {
  const { killBus, bus, worker, kill, lines } = await place(t)
  const names = ['a', 'b', 'c', 'd', 'e', 'f']
  const steps = sequence(...names.map((name) => task(name, { type: 'test.pay', properties: { ms: 150 } })))
  const flowId = await save(bus, flowPlan(steps))
  const ids = await Promise.all(Array.from({ length: 20 }, () => start(bus, flowId)))
  for (let round = 1; round <= 3; round++) {
    const dying = worker()
    await until(() => lines().length > round * 15)
    await kill(dying)
    // The next one is about to take over what is left when the bus is gone.
    const recovering = worker()
    await delay(200 + round * 300)
    await killBus()
    await delay(300)
    await kill(recovering)
  }
  worker()
  const states = await Promise.all(ids.map((id) => ended(bus, id)))
  t.same([...new Set(states.map(({ stage }) => stage))], ['success'])
  const paid = new Set(lines().map((line) => line.split(' ')[0]))
  t.same([...paid].sort(), ids.flatMap((id) => names.map((name) => `${id}/${name}`)).sort())
  for (const id of ids) {
    const succeeded = (await factsOf(bus, id)).filter((type) => type === 'executions.task.succeeded')
    t.equal(succeeded.length, names.length)
  }
})

t.test('what is parked is resumed by workers that come later, with the revision it began with', async (t) => {
  const { bus, worker, kill, lines, letGo } = await place(t)
  const first = worker()
  const child = await save(bus, flowPlan([task('inner', { type: 'test.hold' })]))
  const retry = {
    maxAttempts: 3,
    delayMs: 4_000,
    backoff: 'constant',
    factor: 1,
    maxDelayMs: 4_000,
    jitter: 0,
  } as const
  const gates = {
    asks: task('gate', { type: 'core.approval' }),
    waits: task('gate', { type: 'core.wait', properties: { duration: '4s' } }),
    retries: task('gate', { type: 'test.pay', properties: { failFirst: true }, retry }),
    starts: task('gate', { type: 'core.subflow', properties: { flowId: child } }),
    pauses: task('gate', { type: 'test.hold' }),
  }
  const kinds = Object.keys(gates) as (keyof typeof gates)[]
  const planOf = (kind: keyof typeof gates, last: string) =>
    flowPlan(sequence(gates[kind], task(last, { type: 'test.pay' })))
  const flows = new Map<string, string>()
  const ids = new Map<string, string>()
  for (const kind of kinds) {
    flows.set(kind, await save(bus, planOf(kind, 'old')))
    ids.set(kind, await start(bus, flows.get(kind)!))
  }
  for (const kind of ['asks', 'waits', 'retries', 'starts']) await parked(bus, ids.get(kind)!, 'gate')
  await until(() => lines().filter((line) => line.includes(' begun ')).length >= 2)
  const decideOn = (kind: string, ask: (state: ExecutionState) => ReturnType<typeof decidePause>) =>
    decideExecution(bus, { executionId: ids.get(kind)!, actor: 'test', decide: ask })
  await decideOn('pauses', (state) => decidePause(state, 'test', Date.now()))
  await kill(first)
  // Tasks that it has are called otherwise.
  for (const kind of kinds) await save(bus, planOf(kind, 'new'), flows.get(kind))
  letGo()
  worker()
  const answer = { run: 'gate', answer: 'approved', by: 'test', comment: '' } as const
  await decideOn('asks', (state) => decideAnswer(state, answer, Date.now()))
  await decideOn('pauses', (state) => decideResume(state, 'test', Date.now()))
  for (const kind of kinds) {
    const state = await ended(bus, ids.get(kind)!)
    t.equal(state.stage, 'success', `${kind}: ${JSON.stringify(state.failure)}`)
    t.same(Object.keys(state.executed).sort(), ['gate', 'old'], kind)
    t.equal(state.created!.revision, 1)
  }
  const paid = lines().filter((line) => line.includes('/old '))
  t.equal(new Set(paid.map((line) => line.split(' ')[0])).size, kinds.length)
  if (paid.length > kinds.length) t.comment(`some ran again under their key: ${paid.join(', ')}`)
})
