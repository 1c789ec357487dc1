import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { type Bus, connectBus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load, readMessage, readPage } from '../../bus/load.ts'
import { eventSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { decideExecution } from '../../gateways/workflows/execution-commands.ts'
import { type ExecutionState, execution, isEnded } from '../../schemas/workflows/execution.ts'
import { decideAnswer, decideCancel, decidePause, decideResume } from '../../schemas/workflows/execution-decide.ts'
import { decideRevise, flow } from '../../schemas/workflows/flow.ts'
import type { FlowPlan } from '../../schemas/workflows/flow-plan.ts'
import { startExecution } from '../../workers/workflows/start-execution.ts'
import { testNats } from '../support/servers.ts'
import { flow as flowPlan, sequence, task } from '../workflows/plans.ts'

t.setTimeout(180_000)

const ackWaitMs = 1_000

/** A bus, and worker processes that can be killed and stopped. */
async function place(t: Tap) {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-death-'))
  const ledger = join(folder, 'ledger')
  writeFileSync(ledger, '')
  const nats = await testNats(t, { syncInterval: 'always' })
  const bus = await connectBus({ url: nats.url, name: 'test' })
  await reconcileStreams(bus, streamSpecs())
  const workers = new Set<ChildProcess>()
  const worker = () => {
    const script = join(import.meta.dirname, 'workflows-process.ts')
    const args = [script, nats.url, ledger, String(ackWaitMs)]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
    workers.add(child)
    return child
  }
  const kill = async (child: ChildProcess) => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
  t.teardown(async () => {
    await Promise.all([...workers].map(kill))
    await bus.close()
    rmSync(folder, { recursive: true, force: true })
  })
  /** `<key> <what> <pid> …`, of runs that hold. */
  const lines = () => readFileSync(ledger, 'utf8').split('\n').filter(Boolean)
  const count = (text: string) => lines().filter((line) => line.includes(text)).length
  const letGo = () => writeFileSync(`${ledger}.go`, '')
  return { nats, bus, worker, kill, lines, count, letGo }
}

type Tap = Pick<typeof t, 'teardown'>

async function until(look: () => Promise<boolean> | boolean): Promise<void> {
  for (let tries = 0; tries < 3_000; tries++) {
    if (await look()) return
    await delay(20)
  }
  throw new Error('what was waited for has not come')
}

async function save(bus: Bus, plan: FlowPlan, flowId: string = randomUUID()): Promise<string> {
  const subject = eventSubject('workflows', 'flow', flowId)
  const text = { flowId, name: 'x', namespace: 'default', yamlContent: '', plan, by: 'test', at: Date.now() }
  await decide(bus, { stream: 'EVT_WORKFLOWS', subject, aggregate: flow, decide: (state) => decideRevise(state, text) })
  return flowId
}

async function start(bus: Bus, flowId: string): Promise<string> {
  const executionId = randomUUID()
  await startExecution(bus, flowId, {
    executionId,
    inputs: {},
    trigger: { type: 'manual' },
    actor: 'test',
    at: Date.now(),
  })
  return executionId
}

const placeOf = (id: string) => ({ stream: 'EVT_EXECUTIONS', subject: eventSubject('executions', 'execution', id) })

async function stateOf(bus: Bus, id: string): Promise<ExecutionState> {
  return (await load(bus, execution, placeOf(id))).state
}

async function ended(bus: Bus, id: string): Promise<ExecutionState> {
  await until(async () => bus.connected && isEnded((await stateOf(bus, id).catch(() => execution.initial)).stage))
  return await stateOf(bus, id)
}

async function factsOf(bus: Bus, id: string): Promise<readonly string[]> {
  const page = await readPage(bus, 'EVT_EXECUTIONS', { seq: 1, next_by_subj: placeOf(id).subject, batch: 500 })
  const messages = await Promise.all(page.map((stored) => readMessage(bus, execution.events, stored)))
  return messages.flatMap(({ facts }) => facts.map(({ type }) => type))
}

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
  const { bus, worker, kill, count, letGo } = await place(t)
  const first = worker()
  const holds = (type: string) => [task('a', { type }), task('b', { type }), task('c', { type })]
  const all = (type: string) => task('all', { type: 'core.parallel', blocks: { tasks: holds(type) } })
  const plans = [
    flowPlan(sequence(task('only', { type: 'test.hold' }), task('next', { type: 'test.pay' }))),
    flowPlan(sequence(all('test.hold'), task('next', { type: 'test.pay' }))),
    flowPlan(sequence(all('test.hold-once'), task('next', { type: 'test.pay' }))),
  ]
  const ids = await Promise.all(plans.map(async (plan) => start(bus, await save(bus, plan))))
  await until(() => count(' begun ') === 7)
  // It hears nothing of it, and dies with everything in hand.
  first.kill('SIGSTOP')
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
  const { nats, bus, worker, kill, lines } = await place(t)
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
    await nats.kill()
    await nats.restart()
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
  const parked = {
    asks: task('gate', { type: 'core.approval' }),
    waits: task('gate', { type: 'core.wait', properties: { duration: '4s' } }),
    retries: task('gate', { type: 'test.pay', properties: { failFirst: true }, retry }),
    starts: task('gate', { type: 'core.subflow', properties: { flowId: child } }),
    pauses: task('gate', { type: 'test.hold' }),
  }
  const kinds = Object.keys(parked) as (keyof typeof parked)[]
  const planOf = (kind: keyof typeof parked, last: string) =>
    flowPlan(sequence(parked[kind], task(last, { type: 'test.pay' })))
  const flows = new Map<string, string>()
  const ids = new Map<string, string>()
  for (const kind of kinds) {
    flows.set(kind, await save(bus, planOf(kind, 'old')))
    ids.set(kind, await start(bus, flows.get(kind)!))
  }
  const gate = async (kind: string) => (await stateOf(bus, ids.get(kind)!)).runs.gate?.status
  await until(async () => (await gate('asks')) === 'waiting' && (await gate('waits')) === 'waiting')
  await until(async () => (await gate('retries')) === 'retrying' && (await gate('starts')) === 'waiting')
  await until(() => lines().filter((line) => line.includes(' begun ')).length === 2)
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

t.test('timers go off once, whoever died before or holds them', async (t) => {
  const { nats, bus, worker, kill, lines } = await place(t)
  const [first, second] = [worker(), worker()]
  const steps = sequence(
    task('moment', { type: 'core.wait', properties: { duration: '5s' } }),
    task('after', { type: 'test.pay', properties: { ms: 0 } }),
  )
  const flowId = await save(bus, flowPlan(steps))
  const ids = await Promise.all(Array.from({ length: 30 }, () => start(bus, flowId)))
  const waiting = async (id: string) => (await stateOf(bus, id)).runs.moment?.status === 'waiting'
  for (const id of ids) await until(() => waiting(id))
  // The bus was away before, and one dies with its share of them in hand.
  await nats.kill()
  await nats.restart()
  await until(async () => bus.connected && (await isListening(bus, 2)))
  first.kill('SIGSTOP')
  const isTaken = async () => (await bus.manager.consumers.info('TIMERS', timers)).num_ack_pending > 0
  // On a machine that is too slow for this it was all over before.
  await until(async () => (await isTaken()) || isEnded((await stateOf(bus, ids[0]!)).stage))
  await kill(first)
  const states = await Promise.all(ids.map((id) => ended(bus, id)))
  const lateMs = states.map(({ endedAt, runs }) => {
    const { opening } = runs.moment!
    return endedAt! - (opening?.kind === 'pause' ? opening.until! : 0)
  })
  t.comment(`ended ${lateMs.sort((left, right) => left - right).join(' ')} ms after the time`)
  t.same([...new Set(states.map(({ stage }) => stage))], ['success'])
  t.same(
    lines()
      .map((line) => line.split(' ')[0])
      .sort(),
    ids.map((id) => `${id}/after`).sort(),
  )
  for (const id of ids) {
    t.equal((await factsOf(bus, id)).filter((type) => type === 'executions.task.succeeded').length, 2)
  }
  await kill(second)
})

const timers = 'workers-workflows-timers'

async function isListening(bus: Bus, workers: number): Promise<boolean> {
  const { num_waiting } = await bus.manager.consumers.info('TIMERS', timers)
  return num_waiting >= workers
}
