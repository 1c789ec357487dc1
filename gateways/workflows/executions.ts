import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { asking } from '../../bus/publish.ts'
import {
  type ExecutionFilter,
  findExecution,
  findTask,
  listExecutions,
  tasksOfExecution,
} from '../../projections/workflows/executions-read.ts'
import { Rejected } from '../../schemas/failure.ts'
import { evolveAll } from '../../schemas/workflows/execution.ts'
import { decideCancel, decidePause, decideResume } from '../../schemas/workflows/execution-decide.ts'
import { type ExecutionState, initialExecution } from '../../schemas/workflows/execution-state.ts'
import { bodyOf, invalid } from '../http/request.ts'
import { decideExecution, executionHistory, loadExecution } from './execution-commands.ts'
import { shownExecution, shownTask, wholeText } from './execution-view.ts'
import { repeatRoutes } from './executions-repeat.ts'
import { labelsField, pageOf, queryOf, replyList, timeField, wholeNumber } from './request.ts'
import type { WorkflowService } from './service.ts'

type ById = { Params: { id: string } }

const statuses = ['QUEUED', 'RUNNING', 'PAUSED', 'SUCCESS', 'FAILED', 'CANCELLED', 'TIMED_OUT'] as const
const maxTasks = 10_000
const maxEvents = 1_000

/** Lists and single executions, their history, and what can be done to one that runs. */
export function executionRoutes(app: FastifyInstance, service: WorkflowService): void {
  const { bus, database } = service
  app.get('/api/v1/executions', { config: { role: 'viewer' } }, (request, reply) => list(service, request, reply))
  app.get<ById>('/api/v1/executions/:id', { config: { role: 'viewer' } }, async (request) => {
    const query = queryOf(request, ['limit', 'offset'])
    const range = {
      limit: query.limit === undefined ? 1_000 : wholeNumber('limit', query.limit, { min: 0, max: maxTasks }),
      offset: query.offset === undefined ? 0 : wholeNumber('offset', query.offset, { min: 0, max: 1e9 }),
    }
    const { id } = request.params
    const found = await record(service, id)
    const tasks = await tasksOfExecution(database, id, range)
    return {
      execution: await shownExecution(bus, found),
      tasks: await Promise.all(tasks.map((task) => shownTask(bus, task))),
    }
  })
  app.get<ById & { Params: { run: string } }>(
    '/api/v1/executions/:id/tasks/:run/outputs',
    { config: { role: 'viewer' } },
    async (request, reply) => {
      const { id, run } = request.params
      const { runs } = await loadExecution(bus, id)
      // Of an iteration that is through the execution itself has forgotten the tasks.
      const { outputs = null } = runs[run] ?? (await findTask(database, id, run)) ?? {}
      if (outputs === null) {
        throw new Rejected('workflows/execution-not-found', 'There is no such task run with outputs')
      }
      return reply.type('application/json; charset=utf-8').send(await wholeText(bus, outputs))
    },
  )
  app.get<ById>('/api/v1/executions/:id/events', { config: { role: 'viewer' } }, (request) => history(service, request))
  for (const [verb, kill] of [
    ['cancel', false],
    ['kill', true],
  ] as const) {
    change(app, service, verb, (state, by) => decideCancel(state, { by, now: service.now(), kill }))
  }
  change(app, service, 'pause', (state, by) => decidePause(state, by, service.now()))
  change(app, service, 'resume', (state, by) => decideResume(state, by, service.now()))
  repeatRoutes(app, service)
}

function change(
  app: FastifyInstance,
  service: WorkflowService,
  verb: string,
  decide: (state: ExecutionState, by: string) => ReturnType<typeof decidePause>,
): void {
  const config = { role: 'executor', audit: `execution.${verb}` } as const
  app.post<ById>(`/api/v1/executions/:id/${verb}`, { config }, async (request) => {
    bodyOf(request, [])
    const executionId = request.params.id
    const actor = service.principalOf(request).name
    const { state, sequence } = await decideExecution(service.bus, {
      executionId,
      actor,
      decide: (before) => decide(before, actor),
    })
    await service.readable('EVT_EXECUTIONS', sequence)
    return { executionId, status: statusOf(state) }
  })
}

/** @throws {Rejected} `workflows/execution-not-found` */
async function record({ bus, database, readable }: WorkflowService, id: string) {
  const found = await findExecution(database, id)
  if (found !== null) return found
  // It may have been created a moment ago.
  await loadExecution(bus, id)
  const { state } = await asking(bus, () => bus.manager.streams.info('EVT_EXECUTIONS'))
  await readable('EVT_EXECUTIONS', state.last_seq)
  const again = await findExecution(database, id)
  if (again !== null) return again
  throw new Rejected('workflows/execution-not-found', 'There is no such execution')
}

const listParameters = [
  'namespace',
  'flowId',
  'status',
  'from',
  'to',
  'label',
  'q',
  'relatedTo',
  'limit',
  'cursor',
] as const

async function list({ bus, database }: WorkflowService, request: FastifyRequest, reply: FastifyReply) {
  const query = queryOf(request, listParameters)
  const page = await listExecutions(database, filterOf(query), pageOf(query))
  return replyList(request, reply, {
    ...page,
    rows: await Promise.all(page.rows.map((row) => shownExecution(bus, row))),
  })
}

function filterOf(query: Readonly<Partial<Record<(typeof listParameters)[number], string>>>): ExecutionFilter {
  const { namespace, flowId, status, from, to, label, q, relatedTo } = query
  return {
    ...(namespace !== undefined && { namespace }),
    ...(flowId !== undefined && { flowId }),
    ...(status !== undefined && { statuses: status.split(',').map(statusField) }),
    ...(from !== undefined && { from: timeField('from', from) }),
    ...(to !== undefined && { to: timeField('to', to) }),
    ...(label !== undefined && { labels: labelsField(label) }),
    ...(q !== undefined && { text: q.slice(0, 200) }),
    ...(relatedTo !== undefined && { relatedTo }),
  }
}

function statusField(status: string): string {
  if ((statuses as readonly string[]).includes(status)) return status
  throw invalid('status', `must be one of ${statuses.join(', ')}, or several with commas`)
}

/** The raw history, or with `?at=<sequence>` the state as it was behind that message. */
async function history({ bus }: WorkflowService, request: FastifyRequest<ById>) {
  const query = queryOf(request, ['at', 'after', 'limit'])
  const limit = query.limit === undefined ? 100 : wholeNumber('limit', query.limit, { min: 1, max: maxEvents })
  const at = query.at === undefined ? null : wholeNumber('at', query.at, { min: 1, max: Number.MAX_SAFE_INTEGER })
  const after = query.after === undefined || at !== null ? 0 : wholeNumber('after', query.after, { min: 0, max: 1e15 })
  const events: unknown[] = []
  let state = initialExecution
  for await (const { sequence, time, message } of executionHistory(bus, request.params.id, after)) {
    const { id, facts, actor, causation } = message
    if (at === null) {
      const timestamp = time.toISOString()
      events.push({ sequence, id, timestamp, actor: actor ?? null, causation: causation ?? null, facts })
      if (events.length === limit) return events
    } else if (sequence <= at) state = evolveAll(state, facts)
    else return stateAt(state)
  }
  if (at !== null) return stateAt(state)
  if (events.length === 0 && query.after === undefined) {
    throw new Rejected('workflows/execution-not-found', 'There is no such execution')
  }
  return events
}

function stateAt(state: ExecutionState) {
  if (state.stage === 'absent') throw new Rejected('workflows/execution-not-found', 'There was no such execution then')
  return { ...state, status: statusOf(state) }
}

/** As the specification writes it. */
export function statusOf({ stage }: Pick<ExecutionState, 'stage'>): string {
  return stage === 'timed-out' ? 'TIMED_OUT' : stage.toUpperCase()
}
