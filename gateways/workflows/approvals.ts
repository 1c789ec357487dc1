import type { FastifyInstance } from 'fastify'
import {
  type ApprovalFilter,
  type ApprovalRecord,
  type ApprovalStatus,
  approvalStatuses,
  findApproval,
  listApprovals,
} from '../../projections/workflows/approvals-read.ts'
import { Rejected } from '../../schemas/failure.ts'
import { decideAnswer } from '../../schemas/workflows/execution-decide.ts'
import { type ExecutionState, isEnded, type Run } from '../../schemas/workflows/execution-state.ts'
import { mayAct, type Role } from '../../schemas/workflows/role.ts'
import { bodyOf, invalid } from '../http/request.ts'
import { decideExecution, loadExecution } from './execution-commands.ts'
import { pageOf, queryOf, replyList, textField, timeField } from './request.ts'
import type { WorkflowService } from './service.ts'

type ById = { Params: { id: string } }

const maxCommentLength = 2_000
const filters = ['status', 'executionId', 'namespace', 'flowId', 'from', 'to', 'q', 'limit', 'cursor'] as const

/** Gates at which executions ask somebody. Their answers are decided on the execution itself: once, and not too late. */
export function approvalRoutes(app: FastifyInstance, service: WorkflowService): void {
  app.get('/api/v1/approvals', { config: { role: 'viewer' } }, async (request, reply) => {
    const query = queryOf(request, filters)
    const filter = { now: new Date(service.now()), ...filterOf(query) }
    const page = await listApprovals(service.database, filter, pageOf(query))
    return replyList(request, reply, { ...page, rows: page.rows.map(shownRecord) })
  })
  app.get<ById>('/api/v1/approvals/:id', { config: { role: 'viewer' } }, async (request) => {
    const { executionId, run } = readId(request.params.id)
    const state = await loadExecution(service.bus, executionId).catch(asMissing)
    return await shown(service, executionId, run, state)
  })
  for (const [verb, answer] of [
    ['approve', 'approved'],
    ['reject', 'rejected'],
  ] as const) {
    const config = { role: 'viewer', audit: `approval.${verb}` } as const
    app.post<ById>(`/api/v1/approvals/:id/${verb}`, { config }, async (request) => {
      const { comment = '' } = bodyOf(request, ['comment'])
      const { executionId, run } = readId(request.params.id)
      const { name: by, role } = service.principalOf(request)
      const said = { run, answer, by, comment: textField('comment', comment, { max: maxCommentLength }) }
      const { state, sequence } = await decideExecution(service.bus, {
        executionId,
        actor: by,
        decide: (before) => {
          requireRole(before.runs[run], role)
          return decideAnswer(before, said, service.now())
        },
      })
      await service.readable('EVT_EXECUTIONS', sequence)
      return await shown(service, executionId, run, state)
    })
  }
}

function filterOf(query: Readonly<Partial<Record<(typeof filters)[number], string>>>): ApprovalFilter {
  const { status, from, to, q, executionId, namespace, flowId } = query
  return {
    ...(status !== undefined && { status: statusField(status) }),
    ...(from !== undefined && { from: timeField('from', from) }),
    ...(to !== undefined && { to: timeField('to', to) }),
    ...(q !== undefined && { text: q.slice(0, 200) }),
    ...(executionId !== undefined && { executionId }),
    ...(namespace !== undefined && { namespace }),
    ...(flowId !== undefined && { flowId }),
  }
}

function statusField(status: string): ApprovalStatus {
  if ((approvalStatuses as readonly string[]).includes(status)) return status as ApprovalStatus
  throw invalid('status', `must be one of ${approvalStatuses.join(', ')}`)
}

/** The execution itself knows first; of an iteration that is through, and of when it was decided, the read model knows. */
async function shown({ database, now }: WorkflowService, executionId: string, run: string, state: ExecutionState) {
  const record = await findApproval(database, { executionId, run, now: new Date(now()) })
  const gate = shownGate(executionId, run, state, now())
  if (gate === null && record === null) throw missing()
  return gate === null ? shownRecord(record!) : { ...gate, decidedAt: record?.answer?.at ?? null }
}

function requireRole(run: Run | undefined, role: Role): void {
  if (run?.opening?.kind !== 'pause' || run.opening.question === null) return
  const needed = run.opening.question.role as Role
  if (!mayAct(role, needed)) throw new Rejected('workflows/forbidden', `The gate is for the role ${needed} or above`)
}

/** The execution and the task run in one text that needs no looking up. */
function approvalId(executionId: string, run: string): string {
  return Buffer.from(JSON.stringify([executionId, run])).toString('base64url')
}

function readId(id: string): { readonly executionId: string; readonly run: string } {
  try {
    const [executionId, run] = JSON.parse(Buffer.from(id, 'base64url').toString('utf8')) as unknown[]
    if (typeof executionId === 'string' && typeof run === 'string') return { executionId, run }
  } catch {
    // Whatever it is, it is no id of ours.
  }
  throw missing()
}

function missing(): Rejected {
  return new Rejected('workflows/approval-not-found', 'There is no such approval')
}

function asMissing(error: unknown): never {
  throw error instanceof Rejected ? missing() : error
}

function shownGate(executionId: string, key: string, state: ExecutionState, now: number) {
  const run = state.runs[key]
  if (run?.opening?.kind !== 'pause' || run.opening.question === null) return null
  const { until, question } = run.opening
  const expired = (until !== null && until <= now) || run.status !== 'waiting' || isEnded(state.stage)
  return {
    id: approvalId(executionId, key),
    executionId,
    taskName: run.task,
    status: run.answer?.answer.toUpperCase() ?? (expired ? 'EXPIRED' : 'PENDING'),
    message: question.message,
    role: question.role,
    requestedAt: new Date(run.firstAt).toISOString(),
    expiresAt: until === null ? null : new Date(until).toISOString(),
    decidedBy: run.answer?.by ?? null,
    comment: run.answer?.comment ?? null,
  }
}

function shownRecord(record: ApprovalRecord) {
  const { executionId, run, taskName, status, question, answer, expiresAt, requestedAt } = record
  return {
    id: approvalId(executionId, run),
    executionId,
    taskName,
    status,
    message: question.message,
    role: question.role,
    requestedAt,
    expiresAt,
    decidedBy: answer?.by ?? null,
    decidedAt: answer?.at ?? null,
    comment: answer?.comment ?? null,
  }
}
