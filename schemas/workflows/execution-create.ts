import { ExecutionCreated, type ExecutionFact } from './execution-facts.ts'
import type { FlowState } from './flow.ts'
import { countTasks } from './flow-plan.ts'
import { bindInputs } from './inputs.ts'

type Created = Extract<ExecutionFact, { type: 'executions.execution.created' }>['data']

export interface CreateExecution {
  /** Derived from its cause where there is one, so that it is created once. */
  readonly executionId: string
  readonly inputs: Readonly<Record<string, unknown>>
  readonly trigger: Created['trigger']
  readonly actor: string
  readonly at: number
  readonly labels?: Readonly<Record<string, string>>
  readonly parent?: Created['parent']
  readonly origin?: Created['origin']
  readonly carried?: Created['carried']
}

/**
 * An execution of the latest revision of a flow.
 * @throws {Rejected} `workflows/invalid-input`
 */
export function createdExecution(
  { latest }: Extract<FlowState, { stage: 'saved' }>,
  flowSequence: number,
  { executionId, inputs, trigger, actor, at, labels, parent, origin, carried }: CreateExecution,
): ExecutionFact {
  const { flowId, name, namespace, revision, plan } = latest
  return ExecutionCreated.of({
    executionId,
    flowId,
    flowName: name,
    namespace,
    revision,
    flowSequence,
    inputs: bindInputs(plan, inputs),
    trigger,
    labels: { ...plan.labels, ...labels },
    tasksTotal: countTasks(plan),
    actor,
    at,
    hasFinally: plan.finally.length > 0,
    ...(parent && { parent }),
    ...(origin && { origin }),
    ...(carried && { carried }),
  })
}
