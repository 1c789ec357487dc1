import { Rejected } from '../../schemas/failure.ts'
import { createdExecution } from '../../schemas/workflows/execution-create.ts'
import type { ExecutionFact } from '../../schemas/workflows/execution-facts.ts'
import type { Saved } from '../../schemas/workflows/trigger.ts'
import { type Firing, firedExecution } from '../../schemas/workflows/trigger-fire.ts'
import { createExecution } from './execution-start.ts'
import { requireSaved } from './flow-store.ts'
import type { WorkflowService } from './service.ts'

/**
 * Starts the execution that belongs to a cause, or gives the one that was started for it before.
 * @throws {Rejected} `workflows/flow-not-found`, `workflows/flow-disabled`, `workflows/invalid-input`; {BusUnavailable}
 */
export async function startTriggered(service: Pick<WorkflowService, 'bus'>, saved: Saved, firing: Firing) {
  const { flow, sequence } = await requireSaved(service.bus, saved.flowId)
  if (!flow.enabled) throw new Rejected('workflows/flow-disabled', 'The flow is disabled')
  const asked = await firedExecution(saved, flow.latest.plan, firing)
  const fact = createdExecution(flow, sequence, asked) as Extract<
    ExecutionFact,
    { type: 'executions.execution.created' }
  >
  return await createExecution(service, fact.data)
}
