import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { type Bus, BusUnavailable, connectBus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load, readMessage } from '../../bus/load.ts'
import { readPage } from '../../bus/page.ts'
import { eventSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { environment } from '../../schemas/config/environment.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { executionEvents } from '../../schemas/workflows/execution-facts.ts'
import { type ExecutionState, isEnded } from '../../schemas/workflows/execution-state.ts'
import { decideRevise, flow } from '../../schemas/workflows/flow.ts'
import { startExecution } from '../../workers/workflows/start-execution.ts'
import { testNats } from '../support/servers.ts'
import { flow as flowPlan, sequence, task } from '../workflows/plans.ts'

t.setTimeout(600_000)

/** The whole run has 2,000: `CHAOS_EXECUTIONS=2000`. */
const executions = Number(environment().CHAOS_EXECUTIONS ?? 300)
const ackWaitMs = 2_000
const submitters = 16
const leastWounds = 10

const folder = mkdtempSync(join(tmpdir(), 'busbar-chaos-'))
const ledger = join(folder, 'ledger')
writeFileSync(ledger, '')
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

const nats = await testNats(t, { syncInterval: 'always' })
const bus = await connectBus({ url: nats.url, name: 'chaos' })
t.teardown(() => bus.close())
await reconcileStreams(bus, streamSpecs())

class Worker {
  #child: ChildProcess | null = null
  start(): void {
    const script = join(import.meta.dirname, 'workflows-process.ts')
    const args = [script, nats.url, ledger, String(ackWaitMs)]
    this.#child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  }
  async kill(): Promise<void> {
    const child = this.#child!
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
}

const retry = { maxAttempts: 5, delayMs: 50, backoff: 'constant', factor: 1, maxDelayMs: 50, jitter: 0 } as const
const pay = (name: string, more: object = {}) => task(name, { type: 'test.pay', properties: { ms: 5 }, ...more })

/** Steps in order, some at the same time, one that fails at first, a wait, and a loop. */
const plan = flowPlan(
  sequence(
    pay('first'),
    task('all', { type: 'core.parallel', blocks: { tasks: [pay('left'), pay('middle'), pay('right')] } }),
    pay('again', { retry, properties: { failFirst: true, ms: 0 } }),
    task('moment', { type: 'core.wait', properties: { duration: '30ms' } }),
    task('each', {
      type: 'core.foreach',
      properties: { items: [1, 2, 3], concurrency: 2 },
      blocks: { tasks: sequence(pay('inner'), task('note', { properties: { message: '{{ item }}' } })) },
    }),
    pay('last'),
  ),
  { finally: [pay('tidy')] },
)

const keys = [
  'first',
  'all.left',
  'all.middle',
  'all.right',
  'again',
  'each[0].inner',
  'each[1].inner',
  'each[2].inner',
  'last',
  'tidy',
]

t.test(
  'workers and the bus are killed under load: nothing is lost, nothing is recorded twice, nothing is stuck',
  async (t) => {
    const flowId = await save(bus)
    const workers = [new Worker(), new Worker()]
    for (const worker of workers) worker.start()
    t.teardown(() => Promise.all(workers.map((worker) => worker.kill())))

    const ids: string[] = []
    let isOver = false
    let wounds = 0
    const submitting = Promise.all(
      Array.from({ length: submitters }, async () => {
        while (ids.length < executions || wounds < leastWounds) {
          const id = randomUUID()
          ids.push(id)
          await submit(flowId, id)
          await delay(200)
        }
      }),
    )
    const wounding = (async () => {
      while (!isOver) {
        await delay(700)
        if (isOver) return
        wounds++
        if (wounds % 5 === 3) {
          await nats.kill()
          await nats.restart()
        } else {
          const worker = workers[wounds % workers.length]!
          await worker.kill()
          worker.start()
        }
      }
    })()
    await submitting
    isOver = true
    await wounding

    const states = await untilEnded(ids)
    t.comment(`${ids.length} executions, ${wounds} wounds`)
    t.same(
      states.filter(({ stage }) => stage !== 'success').map(({ stage, failure }) => [stage, failure]),
      [],
      'every execution has ended well',
    )
    const lines = readFileSync(ledger, 'utf8').trim().split('\n')
    const paid = new Map<string, number>()
    for (const line of lines) paid.set(line.split(' ')[0]!, (paid.get(line.split(' ')[0]!) ?? 0) + 1)
    const expected = ids.flatMap((id) => keys.map((key) => `${id}/${key}`))
    t.same(
      expected.filter((key) => !paid.has(key)),
      [],
      'every side effect is in the ledger',
    )
    t.equal(paid.size, expected.length, 'and no other')
    t.comment(`${lines.length - paid.size} of ${lines.length} side effects ran again under their key`)
    t.same(await acceptedTwice(), [], 'every task run has one accepted result')
    const dead = await bus.manager.streams.info('DEAD')
    t.equal(dead.state.messages, 0, 'nothing was given up')
  },
)

/** As a client does that wants to be sure: again under the same id until it is answered. */
async function submit(flowId: string, executionId: string): Promise<void> {
  const asked = { executionId, inputs: {}, trigger: { type: 'manual' }, actor: 'test', at: Date.now() }
  await outlast(() => startExecution(bus, flowId, asked))
}

async function outlast<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof BusUnavailable)) throw error
      await delay(100)
    }
  }
}

async function save(bus: Bus): Promise<string> {
  const flowId = randomUUID()
  const subject = eventSubject('workflows', 'flow', flowId)
  const text = { flowId, name: 'chaos', namespace: 'default', yamlContent: '', plan, by: 'test', at: 1 }
  await decide(bus, { stream: 'EVT_WORKFLOWS', subject, aggregate: flow, decide: (state) => decideRevise(state, text) })
  return flowId
}

async function untilEnded(ids: readonly string[]): Promise<readonly ExecutionState[]> {
  const states: ExecutionState[] = []
  const deadline = performance.now() + 120_000
  for (const id of ids) {
    const place = { stream: 'EVT_EXECUTIONS', subject: eventSubject('executions', 'execution', id) }
    for (;;) {
      // A machine with too much to do is slow to answer.
      const { state } = await outlast(() => load(bus, execution, place))
      if (isEnded(state.stage)) {
        states.push(state)
        break
      }
      if (performance.now() > deadline) throw new Error(`${id} is stuck: ${JSON.stringify(state)}`)
      await delay(50)
    }
  }
  return states
}

/** Task runs that the history accepts more than one result of. */
async function acceptedTwice(): Promise<readonly string[]> {
  const accepted = new Map<string, number>()
  for (let sequence = 0; ; ) {
    const page = await readPage(bus, 'EVT_EXECUTIONS', { seq: sequence + 1, batch: 512 })
    if (page.length === 0) break
    for (const stored of page) {
      sequence = stored.seq
      for (const { type, data } of (await readMessage(bus, executionEvents, stored)).facts) {
        if (type !== 'executions.task.succeeded') continue
        const key = `${stored.subject}/${data.run}`
        accepted.set(key, (accepted.get(key) ?? 0) + 1)
      }
    }
  }
  return [...accepted].filter(([, count]) => count > 1).map(([key]) => key)
}
