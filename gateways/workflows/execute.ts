import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import { newId } from '../../bus/message.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import { derivedId } from '../../schemas/workflows/derived-id.ts'
import { type ExecutionState, isEnded } from '../../schemas/workflows/execution.ts'
import { createdExecution } from '../../schemas/workflows/execution-create.ts'
import type { ExecutionFact } from '../../schemas/workflows/execution-facts.ts'
import { loadExecution } from './execution-commands.ts'
import { createExecution } from './execution-start.ts'
import { outputText } from './execution-view.ts'
import { statusOf } from './executions.ts'
import { requireSaved } from './flow-store.ts'
import type { ById } from './flow-view.ts'
import { bodyOf, invalid, objectField, queryOf, textField, wholeNumber } from './request.ts'
import type { WorkflowService } from './service.ts'

const maxWaitSeconds = 300
const maxWaiting = 1_000
const maxKeyLength = 255
const firstPollMs = 5
const lastPollMs = 200

/** `POST /flows/{id}/execute`: accepts an execution, and with `?wait=<seconds>` answers when it has ended or the time is over. */
export function executeRoutes(app: FastifyInstance, service: WorkflowService): void {
  let waiting = 0
  const config = { role: 'executor', audit: 'flow.execute' } as const
  app.post<ById>('/api/v1/flows/:id/execute', { config }, async (request, reply) => {
    const { wait } = queryOf(request, ['wait'])
    const seconds = wait === undefined ? 0 : wholeNumber('wait', wait, { min: 0, max: maxWaitSeconds })
    const state = await execute(service, request)
    const { executionId, tasksTotal } = state.created!
    const accepted = { executionId, status: statusOf(state), tasksTotal }
    if (seconds === 0 || isEnded(state.stage)) return seconds === 0 ? accepted : await result(service.bus, state)
    if (waiting >= maxWaiting) {
      throw new Unavailable('http/unavailable', 'Too many requests wait for the end of an execution', {
        details: { executionId },
      })
    }
    waiting++
    try {
      const ended = await endOf(service.bus, executionId, { seconds, gone: goneSignal(reply) })
      return ended === null ? accepted : await result(service.bus, ended)
    } finally {
      waiting--
    }
  })
}

/** @throws {Rejected} of the flow, its inputs, or an id that is taken; {BusUnavailable} */
async function execute(service: WorkflowService, request: FastifyRequest<ById>): Promise<ExecutionState> {
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
  const state = await createExecution(service, fact.data)
  if (state.created?.flowId === flowId) return state
  throw new Rejected('workflows/execution-state', 'The id is that of an execution of another flow', {
    details: { executionId: fact.data.executionId },
  })
}

/** Of its own, or of what the caller repeats when it asks again. @throws {Rejected} `http/bad-request` */
function idOf({ headers, params }: FastifyRequest<ById>, given: unknown): string {
  const key = headers['idempotency-key']
  if (given !== undefined) {
    if (key !== undefined) throw invalid('executionId', 'and the header Idempotency-Key are two ways of one: send one')
    const id = textField('executionId', given, { min: 1, max: 64 })
    if (/^[A-Za-z0-9][A-Za-z0-9_-]*$/.test(id)) return id
    throw invalid('executionId', 'must hold letters, digits, _ and - only')
  }
  if (key === undefined) return newId()
  if (typeof key === 'string' && /^[\x21-\x7e]+$/.test(key) && key.length <= maxKeyLength) {
    return derivedId(`execute/${params.id}/${key}`)
  }
  throw invalid('Idempotency-Key', `must be 1 to ${maxKeyLength} visible ASCII characters`)
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

/** Null when the time is over before. @throws {BusUnavailable} */
async function endOf(
  bus: Bus,
  executionId: string,
  { seconds, gone }: { readonly seconds: number; readonly gone: AbortSignal },
): Promise<ExecutionState | null> {
  const until = performance.now() + seconds * 1_000
  for (let pollMs = firstPollMs; ; pollMs = Math.min(lastPollMs, pollMs * 1.5)) {
    const state = await loadExecution(bus, executionId)
    if (isEnded(state.stage)) return state
    const leftMs = until - performance.now()
    if (leftMs <= 0 || gone.aborted) return null
    await delay(Math.min(pollMs, leftMs), undefined, { signal: gone }).catch(() => undefined)
  }
}

/** Nobody waits for a caller who has left. */
function goneSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => gone.abort())
  return gone.signal
}

async function result(bus: Bus, state: ExecutionState) {
  const { created, outputs, failure } = state
  return {
    executionId: created!.executionId,
    status: statusOf(state),
    tasksTotal: created!.tasksTotal,
    outputs: outputs === null ? null : await outputText(bus, outputs),
    error: failure === null ? null : failure.message,
  }
}
