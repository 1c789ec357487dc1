import type pg from 'pg'
import { schemaOf } from '../projector.ts'
import type { Page } from './executions-read.ts'
import { workflowProjection } from './projection.ts'

export const approvalStatuses = ['PENDING', 'APPROVED', 'REJECTED', 'EXPIRED'] as const
export type ApprovalStatus = (typeof approvalStatuses)[number]

/** A gate at which an execution asks somebody. Times are RFC 3339, UTC. */
export interface ApprovalRecord {
  readonly executionId: string
  readonly run: string
  readonly taskName: string
  readonly status: ApprovalStatus
  readonly question: { readonly message: string; readonly role: string; readonly onTimeout: string }
  readonly answer: {
    readonly answer: string
    readonly by: string
    readonly comment: string
    readonly at: string
  } | null
  readonly expiresAt: string | null
  readonly requestedAt: string
}

const schema = schemaOf(workflowProjection)
const iso = (column: string) => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** @param now the place of a time */
const gates = (now: string) => `
  select execution_id as "executionId", run, task_name as "taskName", question, answer, asked,
    case when answer is not null then upper(answer->>'answer')
      when status = 'WAITING' and (until is null or until > ${now}) then 'PENDING' else 'EXPIRED' end as status,
    ${iso('until')} as "expiresAt", ${iso('coalesce(scheduled_at, started_at)')} as "requestedAt"
  from ${schema}.task_runs`

export interface ApprovalFilter {
  readonly status?: ApprovalStatus
  readonly executionId?: string
  /** Of the execution. */
  readonly namespace?: string
  readonly flowId?: string
  /** Asked at or after, and before. */
  readonly from?: Date
  readonly to?: Date
  /** In the name of the task or what it asks, in any case. */
  readonly text?: string
}

/** Newest first. @param cursor `next` of the page before */
export async function listApprovals(
  database: pg.Pool,
  { now, executionId, status, namespace, flowId, from, to, text }: ApprovalFilter & { readonly now: Date },
  { limit, cursor }: { readonly limit: number; readonly cursor?: string },
): Promise<Page<ApprovalRecord>> {
  const values = [now, executionId, status, namespace, flowId, from, to, text].map((value) => value ?? null)
  const found = `
    from (${gates('$1')} where asked is not null and ($2::text is null or execution_id = $2)
      and (($4::text is null and $5::text is null) or execution_id in (select id from ${schema}.executions
        where ($4::text is null or namespace = $4) and ($5::text is null or flow_id = $5)))
      and ($6::timestamptz is null or coalesce(scheduled_at, started_at) >= $6)
      and ($7::timestamptz is null or coalesce(scheduled_at, started_at) < $7)
      and ($8::text is null or strpos(lower(concat_ws(' ', task_name, question->>'message')), lower($8)) > 0)) as gate
    where ($3::text is null or status = $3)`
  const [{ rows: totals }, { rows }] = await Promise.all([
    database.query(`select count(*)::integer as total ${found}`, values),
    database.query(
      `select * ${found} ${cursor === undefined ? '' : `and asked < ${Number(cursor)}`} order by asked desc limit ${limit + 1}`,
      values,
    ),
  ])
  const page = rows.slice(0, limit)
  const next = rows.length > limit ? String(page.at(-1)!.asked) : null
  return { rows: page.map(({ asked: _, ...row }) => row), total: totals[0].total, next }
}

/** Null when nobody is asked there. */
export async function findApproval(
  database: pg.Pool,
  { executionId, run, now }: { readonly executionId: string; readonly run: string; readonly now: Date },
): Promise<ApprovalRecord | null> {
  const { rows } = await database.query(`${gates('$1')} where execution_id = $2 and run = $3 and asked is not null`, [
    now,
    executionId,
    run,
  ])
  if (rows[0] === undefined) return null
  const { asked: _, ...record } = rows[0]
  return record
}
