import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { eventSubject } from '../../bus/subject.ts'
import { Rejected } from '../../schemas/failure.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { type CreateExecution, createdExecution } from '../../schemas/workflows/execution-create.ts'
import { type FlowState, flow, requireFlow } from '../../schemas/workflows/flow.ts'

/**
 * Creates an execution of a flow as it is now; the event that says so begins it. With an id that is taken nothing is created: whoever asks again under
 * the id that belongs to a cause gets the execution that is there.
 *
 * @param asking what is asked, or what makes that of the flow
 * @throws {Rejected} `workflows/flow-not-found`, `workflows/flow-disabled`, `workflows/invalid-input`; {BusUnavailable}
 */
export async function startExecution(
  bus: Bus,
  flowId: string,
  asking: CreateExecution | ((flow: FlowState & { stage: 'saved' }) => Promise<CreateExecution>),
): Promise<void> {
  const place = { stream: 'EVT_WORKFLOWS', subject: eventSubject('workflows', 'flow', flowId) }
  const { state, sequence } = await load(bus, flow, place)
  const saved = requireFlow(state)
  if (!saved.enabled) throw new Rejected('workflows/flow-disabled', 'The flow is disabled')
  const asked = typeof asking === 'function' ? await asking(saved) : asking
  const created = createdExecution(saved, sequence, asked)
  const subject = eventSubject('executions', 'execution', asked.executionId)
  await decide(bus, {
    stream: 'EVT_EXECUTIONS',
    subject,
    aggregate: execution,
    id: `${asked.executionId}/created`,
    actor: asked.actor,
    decide: ({ stage }) => (stage === 'absent' ? [created] : []),
  })
}
