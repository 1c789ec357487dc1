import type { Bus } from '../../bus/connect.ts'
import { type ConsumeObservation, consume } from '../../bus/consume.ts'
import { factsHeader } from '../../bus/envelope.ts'
import type { Delivery } from '../../bus/handle.ts'
import { load } from '../../bus/load.ts'
import { readBytes } from '../../bus/objects.ts'
import { eventSubject } from '../../bus/subject.ts'
import { Rejected } from '../../schemas/failure.ts'
import { nextDepth } from '../../schemas/workflows/chain.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { ExecutionEnded } from '../../schemas/workflows/execution-facts.ts'
import { type ExecutionState, isEnded } from '../../schemas/workflows/execution-state.ts'
import { flow } from '../../schemas/workflows/flow.ts'
import type { Value } from '../../schemas/workflows/task-result.ts'
import type { SavedTrigger } from '../../schemas/workflows/trigger.ts'
import type { TriggerConfig } from '../../schemas/workflows/trigger-plan.ts'
import { bodyOf, fireTrigger, type RefusedObservation, tellRefused } from './fire.ts'
import { liveTrigger, type TriggerView, triggerStream } from './trigger-view.ts'

/** Larger outputs do not travel on to the next flow; it can ask for them by the execution's id. */
const maxOutputBytes = 512 * 1024

/** Starts executions when those of other flows end. */
export async function serveFlowTriggers(
  bus: Bus,
  view: TriggerView,
  onObservation: (observation: ConsumeObservation | RefusedObservation) => void,
  signal: AbortSignal,
): Promise<void> {
  await consume(
    bus,
    {
      stream: 'EVT_EXECUTIONS',
      consumer: 'workers-scheduler-executions',
      concurrency: 64,
      handle: async (delivery) => {
        if (!delivery.headers.get(factsHeader).includes(ExecutionEnded.type)) return
        await view.caughtUp()
        const waiting = view.enabled('flow').filter(({ since }) => since <= delivery.at)
        if (waiting.length > 0) await takeEnd(bus, waiting, delivery, onObservation)
      },
      onObservation,
    },
    signal,
  )
}

async function takeEnd(
  bus: Bus,
  waiting: readonly SavedTrigger[],
  { subject, stream }: Delivery,
  onObservation: (observation: RefusedObservation) => void,
): Promise<void> {
  const { state } = await load(bus, execution, { stream, subject })
  if (!isEnded(state.stage)) return
  let brings: Record<string, unknown> | null = null
  for (const { saved } of waiting) {
    if (!(await fits(bus, saved, state))) continue
    const live = await liveTrigger(bus, saved.triggerId)
    if (live === null) continue
    try {
      brings ??= await broughtBy(bus, state)
    } catch (error) {
      if (!(error instanceof Rejected)) throw error
      await tellRefused(bus, saved, error, onObservation)
      continue
    }
    const { executionId } = state.created!
    await fireTrigger(bus, live, { cause: `ended/${executionId}`, brings, at: Date.now() }, onObservation)
  }
}

async function fits(bus: Bus, { flowId, config }: SavedTrigger['saved'], state: ExecutionState): Promise<boolean> {
  const { flow: name, namespace, statuses = ['SUCCESS'], labels = {} } = config as TriggerConfig<'flow'>
  const created = state.created!
  if (created.flowName !== name || !(statuses as readonly string[]).includes(statusOf(state))) return false
  if (Object.entries(labels).some(([label, value]) => created.labels[label] !== value)) return false
  if (namespace !== undefined) return namespace === created.namespace
  const own = await load(bus, flow, { stream: triggerStream, subject: eventSubject('workflows', 'flow', flowId) })
  return own.state.stage === 'saved' && own.state.latest.namespace === created.namespace
}

/** @throws {Rejected} `workflows/execution-state` for flows that start each other in a circle */
async function broughtBy(bus: Bus, state: ExecutionState): Promise<Record<string, unknown>> {
  const { executionId, flowId, flowName, namespace, labels, inputs, trigger } = state.created!
  const depth = nextDepth(trigger)
  return {
    executionId,
    flowId,
    flowName,
    namespace,
    labels,
    inputs,
    status: statusOf(state),
    outputs: await outputsOf(bus, state.outputs),
    error: state.failure?.message ?? null,
    depth,
  }
}

async function outputsOf(bus: Bus, outputs: Value | null): Promise<unknown> {
  if (outputs === null) return null
  if ('json' in outputs) return outputs.json
  return outputs.sizeBytes > maxOutputBytes ? null : bodyOf(await readBytes(bus, outputs.object))
}

function statusOf({ stage }: ExecutionState): string {
  return stage === 'timed-out' ? 'TIMED_OUT' : stage.toUpperCase()
}
