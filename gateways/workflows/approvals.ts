import type { FastifyInstance } from 'fastify'
import { type ApprovalRecord, listApprovals } from '../../projections/workflows/executions-read.ts'
import { Rejected } from '../../schemas/failure.ts'
import { type ExecutionState, isEnded, type Run } from '../../schemas/workflows/execution.ts'
import { decideAnswer } from '../../schemas/workflows/execution-decide.ts'
import { mayAct, type Role } from '../../schemas/workflows/role.ts'
import { decideExecution, loadExecution } from './execution-commands.ts'
import { bodyOf, pageOf, queryOf, textField } from './request.ts'
import type { WorkflowService } from './service.ts'

type ById = { Params: { id: string } }

const maxCommentLength = 2_000

/** Gates at which executions ask somebody. Their answers are decided on the execution itself: once, and not too late. */
export function approvalRoutes(app: FastifyInstance, service: WorkflowService): void {
  app.get('/api/v1/approvals', { config: { role: 'viewer' } }, async (request) => {
    const query = queryOf(request, ['status', 'executionId', 'limit'])
    const rows = await listApprovals(service.database, {
      open: query.status === 'PENDING',
      limit: pageOf(query).limit,
      ...(query.executionId !== undefined && { executionId: query.executionId }),
    })
    const shown = rows.map((row) => shownRecord(row, service.now()))
    return query.status === undefined ? shown : shown.filter(({ status }) => status === query.status)
  })
  app.get<ById>('/api/v1/approvals/:id', { config: { role: 'viewer' } }, async (request) => {
    const { executionId, run } = readId(request.params.id)
    const state = await loadExecution(service.bus, executionId).catch(asMissing)
    return shownGate(executionId, run, state, service.now())
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
      return shownGate(executionId, run, state, service.now())
    })
  }
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
  if (run?.opening?.kind !== 'pause' || run.opening.question === null) throw missing()
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

function shownRecord(record: ApprovalRecord, now: number) {
  const { executionId, run, taskName, question, answer, expiresAt, requestedAt } = record
  const expired = (expiresAt !== null && Date.parse(expiresAt) <= now) || record.status !== 'WAITING'
  return {
    id: approvalId(executionId, run),
    executionId,
    taskName,
    status: answer?.answer.toUpperCase() ?? (expired ? 'EXPIRED' : 'PENDING'),
    message: question.message,
    role: question.role,
    requestedAt,
    expiresAt,
    decidedBy: answer?.by ?? null,
    decidedAt: answer?.at ?? null,
    comment: answer?.comment ?? null,
  }
}
