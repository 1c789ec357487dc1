import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Bus, connectBus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { type Loaded, load } from '../../bus/load.ts'
import { eventSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { type ExecutionState, isEnded } from '../../schemas/workflows/execution-state.ts'
import { decideRevise, flow } from '../../schemas/workflows/flow.ts'
import type { FlowPlan } from '../../schemas/workflows/flow-plan.ts'
import { type EngineOptions, startWorkflowEngine, type WorkflowEngine } from '../../workers/workflows/engine.ts'
import { executionPlace } from '../../workers/workflows/executions.ts'
import type { Plugin, TaskServices } from '../../workers/workflows/plugin.ts'
import { startExecution } from '../../workers/workflows/start-execution.ts'
import { testNats } from '../support/servers.ts'

/** A bus for an engine alone: without gateways and read models. Whatever uses it is to be stopped in a teardown of its own. */
export async function engineStage(t: Tap) {
  const nats = await testNats(t)
  const bus = await connectBus({ url: nats.url, name: 'test' })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  return { nats, bus }
}

/** An engine whose tasks get nothing of the platform; messages that are not handled at once are shown. */
export async function engineOf(
  bus: Bus,
  plugins: readonly Plugin[],
  more: Partial<EngineOptions> = {},
): Promise<WorkflowEngine> {
  return await startWorkflowEngine({
    bus,
    plugins: new Map(plugins.map((each) => [each.manifest.id, each])),
    services: {} as TaskServices,
    credential: async () => null,
    kv: async () => null,
    onObservation: (observation) => {
      if (observation.type === 'message-retried' || observation.type === 'message-dead') console.error(observation)
    },
    ...more,
  })
}

/** @returns the id of the flow */
export async function save(bus: Bus, plan: FlowPlan, namespace = 'default'): Promise<string> {
  const flowId = randomUUID()
  const subject = eventSubject('workflows', 'flow', flowId)
  const text = { flowId, name: plan.name, namespace, yamlContent: '', plan, by: 'test', at: Date.now() }
  await decide(bus, { stream: 'EVT_WORKFLOWS', subject, aggregate: flow, decide: (state) => decideRevise(state, text) })
  return flowId
}

/** @returns the id of the execution */
export async function run(bus: Bus, flowId: string, inputs: Record<string, unknown> = {}): Promise<string> {
  const executionId = randomUUID()
  await startExecution(bus, flowId, { executionId, inputs, trigger: { type: 'manual' }, actor: 'test', at: Date.now() })
  return executionId
}

/** What is stored of an execution. */
export async function stored(bus: Bus, executionId: string): Promise<Loaded<ExecutionState>> {
  return await load(bus, execution, executionPlace(executionId))
}

/** Asks until it is there; what is looked for is not null. */
export async function until<T>(look: () => Promise<T | null>): Promise<T> {
  for (let tries = 0; tries < 3_000; tries++) {
    const found = await look()
    if (found !== null) return found
    await sleep(10)
  }
  throw new Error('what was waited for has not come')
}

/** What an execution is when it has ended. The bus may be away meanwhile. */
export async function ended(bus: Bus, executionId: string): Promise<ExecutionState> {
  return await until(async () => {
    const state = bus.connected ? (await stored(bus, executionId)).state : null
    return state !== null && isEnded(state.stage) ? state : null
  })
}

type Tap = Parameters<typeof testNats>[0]
