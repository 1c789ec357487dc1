import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Bus, connectBus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load, readMessage } from '../../bus/load.ts'
import { readPage } from '../../bus/page.ts'
import { eventSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { type ExecutionState, isEnded } from '../../schemas/workflows/execution-state.ts'
import { decideRevise, flow } from '../../schemas/workflows/flow.ts'
import type { FlowPlan } from '../../schemas/workflows/flow-plan.ts'
import { startExecution } from '../../workers/workflows/start-execution.ts'
import { type Owner, testNats } from '../support/servers.ts'
import { Presence } from './lateness.ts'

/** Of what the workers have in hand, but for timers. */
export const ackWaitMs = 1_000

/** A worker process; how long its start took is known when it is ready. */
export interface Worker {
  readonly child: ChildProcess
  readonly ready: Promise<void>
  startMs: number
}

/** A bus, and worker processes that can be killed and frozen. */
export async function place(t: Owner) {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-death-'))
  const ledger = join(folder, 'ledger')
  writeFileSync(ledger, '')
  const nats = await testNats(t, { syncInterval: 'always' })
  const bus = await connectBus({ url: nats.url, name: 'test' })
  await reconcileStreams(bus, streamSpecs())
  const presence = new Presence()
  presence.came('bus')
  const workers = new Set<Worker>()
  const there = new Set<Worker>()
  const leaves = (worker: Worker) => {
    if (there.delete(worker)) presence.left('worker')
  }
  const start = (): Worker => {
    const script = join(import.meta.dirname, 'workflows-process.ts')
    const args = [script, nats.url, ledger, String(ackWaitMs)]
    const startedAt = performance.now()
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    const ready = once(child.stdout!, 'data').then(() => {
      worker.startMs = performance.now() - startedAt
      if (child.exitCode !== null || child.signalCode !== null) return
      there.add(worker)
      presence.came('worker')
    })
    const worker: Worker = { child, ready, startMs: 0 }
    child.once('exit', () => leaves(worker))
    workers.add(worker)
    return worker
  }
  const kill = async (worker: Worker) => {
    const { child } = worker
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    leaves(worker)
    child.kill('SIGKILL')
    await exited
  }
  /** It is there, and does nothing. */
  const freeze = (worker: Worker) => {
    leaves(worker)
    worker.child.kill('SIGSTOP')
  }
  const killBus = async () => {
    presence.left('bus')
    await nats.kill()
    await nats.restart()
    presence.came('bus')
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
  return { bus, worker: start, kill, freeze, killBus, presence, lines, count, letGo }
}

export async function until(look: () => Promise<boolean> | boolean): Promise<void> {
  for (let tries = 0; tries < 3_000; tries++) {
    if (await look()) return
    await delay(20)
  }
  throw new Error('what was waited for has not come')
}

/** @returns the id of the flow */
export async function save(bus: Bus, plan: FlowPlan, flowId: string = randomUUID()): Promise<string> {
  const subject = eventSubject('workflows', 'flow', flowId)
  const text = { flowId, name: 'x', namespace: 'default', yamlContent: '', plan, by: 'test', at: Date.now() }
  await decide(bus, { stream: 'EVT_WORKFLOWS', subject, aggregate: flow, decide: (state) => decideRevise(state, text) })
  return flowId
}

/** @returns the id of the execution */
export async function start(bus: Bus, flowId: string): Promise<string> {
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

export async function stateOf(bus: Bus, id: string): Promise<ExecutionState> {
  return (await load(bus, execution, placeOf(id))).state
}

/** Resolves when a run waits for something, or has done so: a slow machine looks late. */
export async function parked(bus: Bus, id: string, run: string): Promise<void> {
  await until(async () => {
    const { status, attempt } = (await stateOf(bus, id)).runs[run] ?? {}
    return status === 'waiting' || status === 'retrying' || status === 'success' || (attempt ?? 1) > 1
  })
}

export async function ended(bus: Bus, id: string): Promise<ExecutionState> {
  await until(async () => bus.connected && isEnded((await stateOf(bus, id).catch(() => execution.initial)).stage))
  return await stateOf(bus, id)
}

/** What has come to its history, and when that was stored, epoch ms. */
export async function historyOf(bus: Bus, id: string) {
  const page = await readPage(bus, 'EVT_EXECUTIONS', { seq: 1, next_by_subj: placeOf(id).subject, batch: 500 })
  const messages = await Promise.all(page.map((stored) => readMessage(bus, execution.events, stored)))
  return messages.flatMap(({ facts }, index) => facts.map((fact) => ({ fact, at: page[index]!.time.getTime() })))
}

export async function factsOf(bus: Bus, id: string): Promise<readonly string[]> {
  return (await historyOf(bus, id)).map(({ fact }) => fact.type)
}
