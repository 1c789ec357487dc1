import type pg from 'pg'
import { schemaOf } from '../projector.ts'
import { workflowProjection } from './projection.ts'

/** Upper bounds of the counts of durations, seconds. */
export const durationBounds = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1_800, 3_600] as const

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

/** How many there are of each status now. */
export async function countByStatus(
  database: pg.Pool,
  table: 'executions' | 'task_runs',
): Promise<Readonly<Record<string, number>>> {
  const { rows } = await database.query(`select status, count(*)::integer as n from ${schema}.${table} group by status`)
  return Object.fromEntries(rows.map(({ status, n }) => [status, n]))
}

export async function executionTotals(database: pg.Pool): Promise<readonly EndedTotals[]> {
  return await totals(database, `'' as type, status, finished_at - started_at as took from ${schema}.executions`)
}

export async function taskTotals(database: pg.Pool): Promise<readonly EndedTotals[]> {
  return await totals(database, `task_type as type, status, finished_at - started_at as took from ${schema}.task_runs`)
}

async function totals(database: pg.Pool, ended: string): Promise<readonly EndedTotals[]> {
  const counts = durationBounds.map((bound) => `count(*) filter (where seconds <= ${bound})`)
  const { rows } = await database.query<EndedTotals>(
    `select type, status, count(*)::float8 as total, count(seconds)::float8 as count,
       coalesce(sum(seconds), 0)::float8 as "sumSeconds", array[${counts.join(', ')}]::float8[] as counts
     from (select type, status, extract(epoch from took) as seconds from (select ${ended} where finished_at is not null) as ended) as timed
     group by type, status order by type, status`,
  )
  return rows
}
