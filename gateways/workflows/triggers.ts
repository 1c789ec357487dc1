import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { newId } from '../../bus/message.ts'
import { lastStarted, listTriggers } from '../../projections/workflows/triggers-read.ts'
import { Rejected } from '../../schemas/failure.ts'
import {
  decideDeleteTrigger,
  decideEnableTrigger,
  decideSaveTrigger,
  requireTrigger,
  type SavedTrigger,
  type TriggerState,
} from '../../schemas/workflows/trigger.ts'
import { isTimed, triggerTicks } from '../../schemas/workflows/trigger-ticks.ts'
import { bodyOf, invalid } from '../http/request.ts'
import { statusOf } from './executions.ts'
import { requireSaved } from './flow-store.ts'
import type { ById } from './flow-view.ts'
import { idempotencyKey, objectField, pageOf, queryOf, replyList, textField, timeField } from './request.ts'
import type { WorkflowService } from './service.ts'
import { draftOf, triggerBodyOf, typeField } from './trigger-body.ts'
import { startTriggered } from './trigger-start.ts'
import { changeTrigger, countedTrigger, savedTrigger } from './trigger-store.ts'
import { rowOf, shownTrigger } from './trigger-view.ts'

const maxBackfill = 1_000

/** What starts flows by itself: lists, changes, and starting by hand. */
export function triggerRoutes(app: FastifyInstance, service: WorkflowService): void {
  const viewer = { config: { role: 'viewer' } } as const
  const editor = (audit: string) => ({ config: { role: 'editor', audit } }) as const
  app.get('/api/v1/triggers', viewer, (request, reply) => list(service, request, reply))
  app.get<ById>('/api/v1/triggers/:id', viewer, async (request) => {
    return await shown(service, request, await savedTrigger(service.bus, request.params.id))
  })
  app.post('/api/v1/triggers', editor('trigger.create'), (request, reply) => create(service, request, reply))
  app.put<ById>('/api/v1/triggers/:id', editor('trigger.update'), async (request) => {
    const body = triggerBodyOf(request)
    const { id } = request.params
    const own = byOf(service, request)
    return await changed(service, request, id, (before) => {
      requireTrigger(before)
      return decideSaveTrigger(before, draftOf(service, id, before, body, own))
    })
  })
  app.delete<ById>('/api/v1/triggers/:id', editor('trigger.delete'), async (request, reply) => {
    const own = byOf(service, request)
    const { sequence } = await countedTrigger(service.bus, request.params.id, own.by, (before) => {
      return decideDeleteTrigger(before, false, own)
    })
    await service.readable('EVT_WORKFLOWS', sequence)
    return reply.code(204).send()
  })
  for (const verb of ['enable', 'disable'] as const) {
    app.post<ById>(`/api/v1/triggers/:id/${verb}`, editor(`trigger.${verb}`), async (request) => {
      bodyOf(request, [])
      const own = byOf(service, request)
      return await changed(service, request, request.params.id, (before) => {
        return decideEnableTrigger(before, verb === 'enable', own)
      })
    })
  }
  startRoutes(app, service)
}

function startRoutes(app: FastifyInstance, service: WorkflowService): void {
  const config = (audit: string) => ({ config: { role: 'executor', audit } }) as const
  app.post<ById>('/api/v1/triggers/:id/fire', config('trigger.fire'), async (request) => {
    const { inputs = {} } = bodyOf(request, ['inputs'])
    const body = objectField('inputs', inputs)
    const { saved } = await enabledTrigger(service, request.params.id)
    const brings = { by: service.principalOf(request).name, body }
    const cause = `fire/${idempotencyKey(request) ?? newId()}`
    const { state, sequence } = await startTriggered(service, saved, { cause, brings, body, at: service.now() })
    await service.readable('EVT_EXECUTIONS', sequence)
    const { executionId, tasksTotal } = state.created!
    return { executionId, status: statusOf(state), tasksTotal }
  })
  app.post<ById>('/api/v1/triggers/:id/backfill', config('trigger.backfill'), async (request, reply) => {
    const range = rangeOf(request, service.now())
    const state = await enabledTrigger(service, request.params.id)
    if (!isTimed(state.saved)) throw invalid('id', 'is of a trigger that has no ticks: it must be cron or interval')
    const ticks = triggerTicks(state, range.from - 1, range.to, maxBackfill + 1)
    if (ticks.length > maxBackfill) throw invalid('from', `and to must be less than ${maxBackfill} ticks apart`)
    const executions: string[] = []
    let last = 0
    for (const tick of ticks) {
      const brings = { date: new Date(tick).toISOString(), backfill: true }
      // A tick that has started an execution does not start another.
      const started = await startTriggered(service, state.saved, { cause: String(tick), brings, at: service.now() })
      executions.push(started.state.created!.executionId)
      last = Math.max(last, started.sequence)
    }
    if (last > 0) await service.readable('EVT_EXECUTIONS', last)
    return reply.code(202).send({ count: executions.length, executions })
  })
}

function rangeOf(request: FastifyRequest, now: number): { readonly from: number; readonly to: number } {
  const { from, to } = bodyOf(request, ['from', 'to'])
  const time = (field: string, value: unknown) =>
    timeField(field, textField(field, value, { min: 1, max: 50 })).getTime()
  const range = { from: time('from', from), to: to === undefined ? now : time('to', to) }
  if (range.to < range.from) throw invalid('to', 'is before from')
  if (range.to > now) throw invalid('to', 'has not come')
  return range
}

/** @throws {Rejected} `workflows/trigger-not-found` */
async function enabledTrigger({ bus }: WorkflowService, id: string): Promise<SavedTrigger> {
  const state = await savedTrigger(bus, id)
  if (state.enabled) return state
  throw new Rejected('workflows/trigger-not-found', 'The trigger is disabled')
}

async function create(service: WorkflowService, request: FastifyRequest, reply: FastifyReply) {
  const body = triggerBodyOf(request)
  const id = newId()
  const own = byOf(service, request)
  const nothing: TriggerState = { stage: 'absent', version: 0 }
  const draft = draftOf(service, id, nothing, body, own)
  await requireSaved(service.bus, draft.flowId)
  const { state, sequence } = await countedTrigger(service.bus, id, own.by, (before) =>
    decideSaveTrigger(before, draft),
  )
  await service.readable('EVT_WORKFLOWS', sequence)
  const made = await shown(service, request, requireTrigger(state))
  return reply.code(201).header('Location', `/api/v1/triggers/${id}`).send(made)
}

async function changed(
  service: WorkflowService,
  request: FastifyRequest,
  id: string,
  decide: Parameters<typeof changeTrigger>[3],
) {
  const { state, sequence } = await changeTrigger(service.bus, id, byOf(service, request).by, decide)
  await service.readable('EVT_WORKFLOWS', sequence)
  return await shown(service, request, requireTrigger(state))
}

async function shown(service: WorkflowService, request: FastifyRequest, state: SavedTrigger) {
  const last = await lastStarted(service.database, state.saved.triggerId)
  return shownTrigger(rowOf(state, last), service.principalOf(request), service.now())
}

async function list(service: WorkflowService, request: FastifyRequest, reply: FastifyReply) {
  const query = queryOf(request, ['namespace', 'flowId', 'type', 'enabled', 'q', 'limit', 'cursor'])
  const { namespace, flowId, type, enabled, q } = query
  if (enabled !== undefined && enabled !== 'true' && enabled !== 'false') {
    throw invalid('enabled', 'must be true or false')
  }
  const filter = {
    ...(namespace !== undefined && { namespace }),
    ...(flowId !== undefined && { flowId }),
    ...(type !== undefined && { type: typeField('type', type) }),
    ...(enabled !== undefined && { enabled: enabled === 'true' }),
    ...(q !== undefined && { text: q.slice(0, 200) }),
  }
  const page = await listTriggers(service.database, filter, pageOf(query))
  const principal = service.principalOf(request)
  const now = service.now()
  return replyList(request, reply, { ...page, rows: page.rows.map((row) => shownTrigger(row, principal, now)) })
}

function byOf({ principalOf, now }: WorkflowService, request: FastifyRequest) {
  return { by: principalOf(request).name, at: now() }
}
