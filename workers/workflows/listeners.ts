import type { Bus } from '../../bus/connect.ts'
import { Rejected } from '../../schemas/failure.ts'
import { nextDepth } from '../../schemas/workflows/chain.ts'
import { derivedId } from '../../schemas/workflows/derived-id.ts'
import { type ExecutionState, rootKey } from '../../schemas/workflows/execution-state.ts'
import type { FlowPlan, ListenedTo, ListenerPlan } from '../../schemas/workflows/flow-plan.ts'
import { renderValue, TemplateMistake } from '../../schemas/workflows/template.ts'
import { findFlow } from './find-flow.ts'
import { type ScopeSources, scopeOf } from './scope.ts'
import { startExecution } from './start-execution.ts'

export interface Listened {
  readonly plan: FlowPlan
  readonly state: ExecutionState
  readonly to: ListenedTo
  readonly sources: ScopeSources
  readonly at: number
}

/** Listeners that listen to what listeners start end here. */
const maxInRow = 5

/**
 * Starts the flows that listen to what an execution has come to, each once however often this is done. One that cannot be started is
 * told, and hinders neither the others nor the execution.
 *
 * @throws {BusUnavailable}
 */
export async function startListeners(bus: Bus, listened: Listened, refused: (error: unknown) => void): Promise<void> {
  const { plan, state, to } = listened
  for (const [index, listener] of (plan.listeners ?? []).entries()) {
    if (!listener.on.includes(to)) continue
    try {
      await start(bus, listened, listener, derivedId(`${state.created!.executionId}/listener/${index}/${to}`))
    } catch (error) {
      if (!(error instanceof Rejected || error instanceof TemplateMistake)) throw error
      refused(error)
    }
  }
}

async function start(bus: Bus, { plan, state, to, sources, at }: Listened, listener: ListenerPlan, id: string) {
  const { executionId, flowId, flowName: name, namespace, actor, trigger } = state.created!
  const inRow = Number(trigger.type === 'listener' ? (trigger.inRow ?? trigger.depth) : 0) + 1
  if (inRow > maxInRow) throw new Rejected('workflows/execution-state', `Listeners start listeners ${maxInRow} deep`)
  const scope = await scopeOf(plan, state, rootKey, sources)
  const told = { ...(scope.execution as object), status: to }
  // So that one text serves for all that it listens to.
  const failure = state.failure ?? { message: '', kind: '', task: '' }
  const inputs = await renderValue(listener.inputs, { ...scope, execution: told, failure })
  await startExecution(bus, await findFlow(bus, listener.namespace ?? namespace, listener.flow), {
    executionId: id,
    inputs: inputs as Readonly<Record<string, unknown>>,
    trigger: { type: 'listener', executionId, flowId, flowName: name, status: to, inRow, depth: nextDepth(trigger) },
    actor,
    at,
  })
}
