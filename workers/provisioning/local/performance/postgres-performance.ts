import type { Client } from 'pg'
import { slowQueryMs, statisticsSchemaSql } from '../metrics/postgres-sample.ts'
import type { PostgresNode } from '../postgres-node.ts'
import { withSession } from '../postgres-session.ts'

export interface PerformanceSummary {
  readonly activeConnections: number
  readonly totalConnections: number
  /** Percent; null before the first read. */
  readonly cacheHitRatio: number | null
  /** With a unit, as PostgreSQL prints it. */
  readonly databaseSize: string
  /** Statements whose mean is over 1 s. */
  readonly slowQueryCount: number | null
  readonly avgQueryTimeMs: number | null
  /** Whether the numbers of queries are known. */
  readonly available: boolean
  readonly unavailableReason: string | null
}

const statisticsMissing = 'pg_stat_statements extension is not enabled'

/** @throws {CareFailure} `unavailable` when the server does not answer. */
export async function readPerformanceSummary(node: PostgresNode): Promise<PerformanceSummary> {
  return withSession(node, async (client) => {
    const { rows } = await client.query<SummaryRow>(`
      select (select count(*) filter (where state = 'active')::int from pg_stat_activity where backend_type = 'client backend') as active,
        (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as total,
        100.0 * blks_hit / nullif(blks_hit + blks_read, 0) as ratio,
        pg_size_pretty(pg_database_size(current_database())) as size, (${statisticsSchemaSql}) as statements
      from pg_stat_database where datname = current_database()`)
    const { active, total, ratio, size, statements } = rows[0]!
    const queries = statements === null ? null : await readMeans(client, statements)
    return {
      activeConnections: active,
      totalConnections: total,
      cacheHitRatio: ratio === null ? null : Math.round(Number(ratio) * 100) / 100,
      databaseSize: size,
      slowQueryCount: queries?.slow ?? null,
      avgQueryTimeMs: queries?.mean ?? null,
      available: queries !== null,
      unavailableReason: queries === null ? statisticsMissing : null,
    }
  })
}

interface SummaryRow {
  readonly active: number
  readonly total: number
  readonly ratio: string | null
  readonly size: string
  readonly statements: string | null
}

const thisDatabase = '(select oid from pg_database where datname = current_database())'

async function readMeans(client: Client, schema: string) {
  const { rows } = await client.query<{ slow: number; mean: number | null }>(
    `select count(*) filter (where mean_exec_time > ${slowQueryMs})::int as slow,
      sum(total_exec_time) / nullif(sum(calls), 0) as mean
    from ${schema}.pg_stat_statements where dbid = ${thisDatabase}`,
  )
  return rows[0]!
}

export interface TopQuery {
  readonly query: string
  readonly calls: number
  readonly totalExecTimeMs: number
  readonly avgExecTimeMs: number
  readonly minExecTimeMs: number
  readonly maxExecTimeMs: number
  readonly rows: number
}

/** Clamps a `limit` of the request: 1 to 100. */
export function topQueryLimit(limit = 10): number {
  return Math.min(Math.max(Math.trunc(limit) || 10, 1), 100)
}

/** By total time, longest first; empty without query statistics. */
export async function readTopQueries(node: PostgresNode, limit?: number): Promise<readonly TopQuery[]> {
  return withSession(node, async (client) => {
    const { rows } = await client.query<{ schema: string | null }>(`select (${statisticsSchemaSql}) as schema`)
    const schema = rows[0]!.schema
    if (schema === null) return []
    const top = await client.query<Record<keyof TopQuery, string | number>>(
      `select left(query, 10000) as query, sum(calls) as calls, sum(total_exec_time) as "totalExecTimeMs",
        sum(total_exec_time) / nullif(sum(calls), 0) as "avgExecTimeMs", min(min_exec_time) as "minExecTimeMs",
        max(max_exec_time) as "maxExecTimeMs", sum(rows) as rows
      from ${schema}.pg_stat_statements
      where queryid is not null and dbid = ${thisDatabase}
        and userid not in (select oid from pg_roles where rolname = current_user)
      group by queryid, left(query, 10000) order by 3 desc limit $1`,
      [topQueryLimit(limit)],
    )
    return top.rows.map((row) => ({
      query: String(row.query),
      calls: Number(row.calls),
      totalExecTimeMs: Number(row.totalExecTimeMs),
      avgExecTimeMs: Number(row.avgExecTimeMs),
      minExecTimeMs: Number(row.minExecTimeMs),
      maxExecTimeMs: Number(row.maxExecTimeMs),
      rows: Number(row.rows),
    }))
  })
}

export interface WaitEvent {
  readonly waitEventType: string
  readonly waitEvent: string
  readonly count: number
}

/** What the working sessions wait for right now; `CPU`/`Running` for those that do not wait. Idle ones are left out. */
export async function readWaitEvents(node: PostgresNode): Promise<readonly WaitEvent[]> {
  return withSession(node, async (client) => {
    const { rows } = await client.query<WaitEvent>(`
      select coalesce(wait_event_type, 'CPU') as "waitEventType", coalesce(wait_event, 'Running') as "waitEvent",
        count(*)::int as count
      from pg_stat_activity
      where pid <> pg_backend_pid() and coalesce(wait_event_type, 'CPU') <> 'Activity'
        and (state = 'active' or (backend_type <> 'client backend' and wait_event_type is not null))
      group by 1, 2 order by 3 desc, 1, 2`)
    return rows
  })
}
