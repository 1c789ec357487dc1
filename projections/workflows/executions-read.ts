import type pg from 'pg'
import type { Failure, Value } from '../../schemas/workflows/task-result.ts'
import { schemaOf } from '../projector.ts'
import { workflowProjection } from './projection.ts'

/** An execution, whole or as a list shows it. Times are RFC 3339, UTC. */
export interface ExecutionRecord {
  readonly id: string
  readonly flowId: string
  readonly flowName: string
  readonly namespace: string
  readonly revision: number
  readonly status: string
  readonly tasksTotal: number
  readonly tasksExecuted: number
  readonly inputs: Readonly<Record<string, unknown>>
  readonly outputs: Value | null
  readonly failure: Failure | null
  readonly trigger: Readonly<Record<string, unknown>>
  readonly labels: Readonly<Record<string, string>>
  readonly actor: string
  readonly parent: { readonly executionId: string; readonly run: string } | null
  readonly origin: { readonly executionId: string; readonly kind: string } | null
  readonly createdAt: string
  readonly startedAt: string | null
  readonly finishedAt: string | null
  /** From start to end, or null while there is no end. */
  readonly durationMs: number | null
}

export interface TaskRecord {
  readonly run: string
  readonly taskName: string
  readonly taskType: string
  readonly status: string
  readonly attempt: number
  readonly outputs: Value | null
  readonly failure: Failure | null
  readonly scheduledAt: string | null
  readonly startedAt: string | null
  readonly finishedAt: string | null
  readonly worker: string | null
}

export interface ExecutionFilter {
  readonly namespace?: string
  readonly flowId?: string
  /** Public words, `RUNNING` and so on. */
  readonly statuses?: readonly string[]
  /** Created at or after, and before. */
  readonly from?: Date
  readonly to?: Date
  readonly labels?: Readonly<Record<string, string>>
  /** In the id, the flow's name or the failure's text. */
  readonly text?: string
  /** Of the execution whose sub-flow or repetition it is. */
  readonly relatedTo?: string
}

export interface Page<T> {
  readonly rows: readonly T[]
  readonly total: number
  /** Where the next page begins; null at the end. */
  readonly next: string | null
}

const schema = schemaOf(workflowProjection)
const iso = (column: string) => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

const ownColumns = `
  id, flow_id as "flowId", flow_name as "flowName", namespace, revision, status, tasks_total as "tasksTotal",
  tasks_executed as "tasksExecuted", labels, actor, parent, origin,
  ${iso('created_at')} as "createdAt", ${iso('started_at')} as "startedAt", ${iso('finished_at')} as "finishedAt",
  round(extract(epoch from finished_at - coalesce(started_at, created_at)) * 1000)::float8 as "durationMs"`

const wholeColumns = `${ownColumns}, inputs, outputs, failure, trigger`

const listedColumns = `${ownColumns}, coalesce(brief_inputs, inputs) as inputs, coalesce(brief_trigger, trigger) as trigger,
  case when length(failure->>'message') <= 4096 then failure
    else jsonb_set(failure, '{message}', to_jsonb(left(failure->>'message', 4096) || '…')) end as failure,
  case when brief_outputs is null then outputs else jsonb_build_object('json', brief_outputs) end as outputs`

const taskColumns = `
  run, task_name as "taskName", task_type as "taskType", status, attempt, outputs, failure,
  ${iso('scheduled_at')} as "scheduledAt", ${iso('started_at')} as "startedAt", ${iso('finished_at')} as "finishedAt", worker`

/** Newest first; large inputs, outputs and triggers are told by their size alone. @param cursor `next` of the page before */
export async function listExecutions(
  database: pg.Pool,
  filter: ExecutionFilter,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string },
): Promise<Page<ExecutionRecord>> {
  const { where, values } = conditions(filter)
  const counted = database.query(`select count(*)::integer as total from ${schema}.executions ${where}`, values)
  const after = cursor === undefined ? '' : `${where === '' ? 'where' : 'and'} created_sequence < ${Number(cursor)}`
  const found = database.query(
    `select ${listedColumns}, created_sequence::text as sequence from ${schema}.executions ${where} ${after}
     order by created_sequence desc limit ${limit + 1}`,
    values,
  )
  const [{ rows: totals }, { rows }] = await Promise.all([counted, found])
  const page = rows.slice(0, limit)
  const next = rows.length > limit ? (page.at(-1)!.sequence as string) : null
  return { rows: page.map(({ sequence: _, ...row }) => row), total: totals[0].total, next }
}

export async function findExecution(database: pg.Pool, id: string): Promise<ExecutionRecord | null> {
  const { rows } = await database.query(`select ${wholeColumns} from ${schema}.executions where id = $1`, [id])
  return rows[0] ?? null
}

/** In the order of the flow; those of loops in the order in which they were first scheduled. */
export async function tasksOfExecution(
  database: pg.Pool,
  id: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<readonly TaskRecord[]> {
  const { rows } = await database.query(
    `select ${taskColumns} from ${schema}.task_runs where execution_id = $1 order by position limit $2 offset $3`,
    [id, limit, offset],
  )
  return rows
}

export interface IdleExecution {
  readonly id: string
  /** Of the event in EVT_EXECUTIONS that created it. */
  readonly createdSequence: number
}

/**
 * Executions that have not ended and of which nothing was heard for a time, those first of which for the longest: something may have
 * been lost. @param after `next` of the page before
 */
export async function idleExecutions(
  database: pg.Pool,
  { idleMs, limit, after }: { readonly idleMs: number; readonly limit: number; readonly after: string | null },
): Promise<{ readonly executions: readonly IdleExecution[]; readonly next: string | null }> {
  const [at, id] = after?.split(' ') ?? [null, '']
  const { rows } = await database.query(
    `select id, created_sequence::float8 as "createdSequence", extract(epoch from last_at)::text as at
     from ${schema}.executions
     where finished_at is null and last_at < now() - $1 * interval '1 millisecond'
       and ($3::text is null or (last_at, id) > (to_timestamp($3::float8), $4))
     order by last_at, id limit $2`,
    [idleMs, limit, at, id],
  )
  const last = rows.length < limit ? undefined : rows.at(-1)
  return {
    executions: rows.map(({ id, createdSequence }) => ({ id, createdSequence })),
    next: last === undefined ? null : `${last.at} ${last.id}`,
  }
}

/** One run of a task, also of an iteration that is through; null when there is none. */
export async function findTask(database: pg.Pool, id: string, run: string): Promise<TaskRecord | null> {
  const { rows } = await database.query(
    `select ${taskColumns} from ${schema}.task_runs where execution_id = $1 and run = $2`,
    [id, run],
  )
  return rows[0] ?? null
}

function conditions(filter: ExecutionFilter): { readonly where: string; readonly values: unknown[] } {
  const values: unknown[] = []
  const parts: string[] = []
  const add = (value: unknown, text: (place: string) => string) => {
    if (value === undefined) return
    values.push(value)
    parts.push(text(`$${values.length}`))
  }
  add(filter.namespace, (place) => `namespace = ${place}`)
  add(filter.flowId, (place) => `flow_id = ${place}`)
  add(filter.statuses, (place) => `status = any(${place})`)
  add(filter.from, (place) => `created_at >= ${place}`)
  add(filter.to, (place) => `created_at < ${place}`)
  add(filter.labels && JSON.stringify(filter.labels), (place) => `labels @> ${place}::jsonb`)
  add(filter.relatedTo, (place) => `(parent->>'executionId' = ${place} or origin->>'executionId' = ${place})`)
  add(filter.text && `%${filter.text.replace(/[\\%_]/g, '\\$&')}%`, (place) => {
    return `(id ilike ${place} or flow_name ilike ${place} or failure->>'message' ilike ${place})`
  })
  return { where: parts.length === 0 ? '' : `where ${parts.join(' and ')}`, values }
}
