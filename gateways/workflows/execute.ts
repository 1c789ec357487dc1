import type { FastifyInstance, FastifyRequest } from 'fastify'
import { newId } from '../../bus/message.ts'
import { Rejected } from '../../schemas/failure.ts'
import { derivedId } from '../../schemas/workflows/derived-id.ts'
import { createdExecution } from '../../schemas/workflows/execution-create.ts'
import type { ExecutionFact } from '../../schemas/workflows/execution-facts.ts'
import { bodyOf, invalid } from '../http/request.ts'
import { type CreatedExecution, createExecution } from './execution-start.ts'
import { executionAnswers, waitField } from './execution-wait.ts'
import { requireSaved } from './flow-store.ts'
import type { ById } from './flow-view.ts'
import { idempotencyKey, objectField, queryOf, textField } from './request.ts'
import type { WorkflowService } from './service.ts'

/** `POST /flows/{id}/execute`: accepts an execution, and with `?wait=<seconds>` answers when it has ended or the time is over. */
export function executeRoutes(app: FastifyInstance, service: WorkflowService): void {
  const answers = executionAnswers(service)
  const config = { role: 'executor', audit: 'flow.execute' } as const
  app.post<ById>('/api/v1/flows/:id/execute', { config }, async (request, reply) => {
    const { wait } = queryOf(request, ['wait'])
    const seconds = wait === undefined ? 0 : waitField(wait)
    const created = await execute(service, request)
    request.commandStored()
    return await answers.answer(reply, created, seconds)
  })
}

/** @throws {Rejected} of the flow, its inputs, or an id that is taken; {BusUnavailable} */
async function execute(service: WorkflowService, request: FastifyRequest<ById>): Promise<CreatedExecution> {
  const { inputs = {}, labels = {}, executionId } = bodyOf(request, ['inputs', 'labels', 'executionId'])
  const flowId = request.params.id
  const { flow, sequence } = await requireSaved(service.bus, flowId)
  if (!flow.enabled) throw new Rejected('workflows/flow-disabled', 'The flow is disabled')
  const fact = createdExecution(flow, sequence, {
    executionId: idOf(request, executionId),
    inputs: objectField('inputs', inputs),
    labels: labelsOf(labels),
    trigger: { type: 'manual' },
    actor: service.principalOf(request).name,
    at: service.now(),
  }) as Extract<ExecutionFact, { type: 'executions.execution.created' }>
  const created = await createExecution(service, fact.data)
  if (created.state.created?.flowId === flowId) return created
  throw new Rejected('workflows/execution-state', 'The id is that of an execution of another flow', {
    details: { executionId: fact.data.executionId },
  })
}

/** Of its own, or of what the caller repeats when it asks again. @throws {Rejected} `http/bad-request` */
function idOf(request: FastifyRequest<ById>, given: unknown): string {
  const key = idempotencyKey(request)
  if (given !== undefined) {
    if (key !== null) throw invalid('executionId', 'and the header Idempotency-Key are two ways of one: send one')
    const id = textField('executionId', given, { min: 1, max: 64 })
    if (/^[A-Za-z0-9][A-Za-z0-9_-]*$/.test(id)) return id
    throw invalid('executionId', 'must hold letters, digits, _ and - only')
  }
  return key === null ? newId() : derivedId(`execute/${request.params.id}/${key}`)
}

function labelsOf(value: unknown): Readonly<Record<string, string>> {
  const labels = Object.entries(objectField('labels', value))
  if (labels.length > 50) throw invalid('labels', 'has more than 50 members')
  return Object.fromEntries(
    labels.map(([name, text]) => {
      textField('labels', name, { min: 1, max: 100 })
      return [name, textField(`labels.${name}`, text, { max: 200 })]
    }),
  )
}
