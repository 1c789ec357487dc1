import { decide } from '../../bus/decide.ts'
import { readMessage } from '../../bus/load.ts'
import { asking } from '../../bus/publish.ts'
import { Rejected } from '../../schemas/failure.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { ExecutionCreated, type ExecutionFact } from '../../schemas/workflows/execution-facts.ts'
import type { ExecutionState } from '../../schemas/workflows/execution-state.ts'
import { flowEvents } from '../../schemas/workflows/flow.ts'
import type { FlowPlan } from '../../schemas/workflows/flow-plan.ts'
import { executionPlace } from './execution-commands.ts'
import { flowPlace, requireSaved } from './flow-store.ts'
import type { WorkflowService } from './service.ts'

type Created = Extract<ExecutionFact, { type: 'executions.execution.created' }>['data']

export interface CreatedExecution {
  readonly state: ExecutionState
  /** In `EVT_EXECUTIONS`; the read models may not have come to it yet. */
  readonly sequence: number
}

/**
 * Creates an execution, which begins with the event that says so; gives the one that is there already when the id is taken.
 * @throws {BusUnavailable}
 */
export async function createExecution(
  { bus }: Pick<WorkflowService, 'bus'>,
  created: Created,
): Promise<CreatedExecution> {
  const { executionId, actor } = created
  return await decide(bus, {
    ...executionPlace(executionId),
    aggregate: execution,
    id: `${executionId}/created`,
    actor,
    likelyNew: true,
    decide: ({ stage }) => (stage === 'absent' ? [ExecutionCreated.of(created)] : []),
  })
}

/** The flow as it is now. @throws {Rejected} `workflows/flow-not-found`; {BusUnavailable} */
export async function latestFlow({ bus }: Pick<WorkflowService, 'bus'>, flowId: string) {
  const { flow: saved, sequence } = await requireSaved(bus, flowId)
  return { ...saved, sequence }
}

/** The plan of one revision. @throws {Rejected} `workflows/flow-not-found`; {BusUnavailable} */
export async function pinnedFlow(
  { bus }: Pick<WorkflowService, 'bus'>,
  { flowId, revision }: { readonly flowId: string; readonly revision: number },
): Promise<FlowPlan> {
  const { stream, subject } = flowPlace(flowId)
  for (let sequence = 1; ; ) {
    const query = { seq: sequence, next_by_subj: subject }
    const stored = await asking(bus, () => bus.manager.direct.getMessage(stream, query))
    if (stored === null) throw new Rejected('workflows/flow-not-found', 'The flow has no such revision')
    const { facts } = await readMessage(bus, flowEvents, stored)
    for (const { type, data } of facts) {
      if (type === 'workflows.flow.revised' && data.revision === revision) return data.plan
    }
    sequence = stored.seq + 1
  }
}
