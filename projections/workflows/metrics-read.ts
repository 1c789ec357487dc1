import type pg from 'pg'
import { schemaOf } from '../projector.ts'
import { workflowProjection } from './projection.ts'

export interface Durations {
  /** By bound: how many took as long or less. */
  readonly counts: readonly number[]
  readonly count: number
  readonly sumSeconds: number
}

/** What has ended with one status; of tasks, those of one type. */
export interface EndedTotals extends Durations {
  /** Empty for executions. */
  readonly type: string
  readonly status: string
  /** Also those that have not begun and so have no duration. */
  readonly total: number
}

const schema = schemaOf(workflowProjection)

/** Of executions that have ended, and of their tasks: kept as they end. */
export async function endedTotals(database: pg.Pool): Promise<readonly EndedTotals[]> {
  const { rows } = await database.query<EndedTotals>(
    `select type, status, total::float8, timed::float8 as count, sum_seconds as "sumSeconds", counts::float8[]
     from ${schema}.ended_totals order by type, status`,
  )
  return rows
}

/** How many there are of each status that have not ended: executions, and their tasks. */
export async function liveCounts(
  database: pg.Pool,
): Promise<Readonly<Record<'executions' | 'tasks', Readonly<Record<string, number>>>>> {
  const live = `${schema}.executions e where e.finished_at is null`
  const [executions, tasks] = await Promise.all([
    database.query(`select status, count(*)::integer as n from ${live} group by status`),
    database.query(
      `select t.status, count(*)::integer as n from ${schema}.task_runs t where t.execution_id in (select id from ${live}) group by t.status`,
    ),
  ])
  const byStatus = (rows: { status: string; n: number }[]) =>
    Object.fromEntries(rows.map(({ status, n }) => [status, n]))
  return { executions: byStatus(executions.rows), tasks: byStatus(tasks.rows) }
}
