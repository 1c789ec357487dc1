import type { Connection } from 'mysql2/promise'
import { CareFailure } from '../care-failure.ts'
import type { ServerSample } from '../metrics/metrics.ts'
import { slowQueryMs } from '../metrics/postgres-sample.ts'
import {
  type PerformanceSummary,
  type TopQuery,
  topQueryLimit,
  type WaitEvent,
} from '../performance/postgres-performance.ts'
import type { MysqlControl, MysqlNode, MysqlStartOptions } from './mysql-node.ts'
import { applyMysqlParameters, restartMysqlWithParameters } from './mysql-parameters.ts'
import { rowsOf, withMysql } from './mysql-session.ts'

const statisticsMissing = 'performance_schema is not enabled'

/** The performance schema counts in picoseconds. */
const perMs = 1e9

type Status = Readonly<Record<string, number>>

async function readStatus(connection: Connection): Promise<Status> {
  const rows = await rowsOf<{ Variable_name: string; Value: string }>(
    connection,
    `show global status where variable_name in ('Threads_connected', 'Threads_running', 'Questions', 'Slow_queries',
      'Innodb_buffer_pool_read_requests', 'Innodb_buffer_pool_reads')`,
  )
  return Object.fromEntries(rows.map(({ Variable_name, Value }) => [Variable_name.toLowerCase(), Number(Value)]))
}

async function hasStatistics(connection: Connection): Promise<boolean> {
  const [row] = await rowsOf<{ on: number }>(connection, 'select @@performance_schema as `on`')
  return row?.on === 1
}

async function readTotals(connection: Connection) {
  const [row] = await rowsOf<{ calls: number | null; total: number | null; slow: number | null }>(
    connection,
    `select sum(count_star) as calls, sum(sum_timer_wait) / ${perMs} as total,
      sum(avg_timer_wait > ${slowQueryMs * perMs}) as slow
    from performance_schema.events_statements_summary_by_digest where schema_name = database()`,
  )
  return { calls: Number(row?.calls ?? 0), totalMs: Number(row?.total ?? 0), slow: Number(row?.slow ?? 0) }
}

async function databaseBytes(connection: Connection): Promise<number> {
  const [row] = await rowsOf<{ bytes: number | null }>(
    connection,
    'select sum(data_length + index_length) as bytes from information_schema.tables where table_schema = database()',
  )
  return Number(row?.bytes ?? 0)
}

/** Asks a server for its numbers. @throws {CareFailure} `unavailable` when it does not answer. */
export async function readMysqlSample(node: MysqlNode): Promise<ServerSample> {
  return withMysql(node, async (connection) => {
    const status = await readStatus(connection)
    const [limits] = await rowsOf<{ max: number }>(connection, 'select @@max_connections as max')
    const [oldest] = await rowsOf<{ seconds: number | null }>(
      connection,
      'select max(timestampdiff(second, trx_started, now())) as seconds from information_schema.innodb_trx',
    )
    // This session is connected and running too.
    const running = (status.threads_running ?? 1) - 1
    return {
      at: Date.now(),
      activeConnections: running,
      idleConnections: Math.max(0, (status.threads_connected ?? 1) - 1 - running),
      maxConnections: limits!.max,
      databaseBytes: await databaseBytes(connection),
      queries: (await hasStatistics(connection)) ? await readTotals(connection) : null,
      archiveProblem: null,
      longestTransactionSeconds: oldest?.seconds ?? null,
    }
  })
}

/** @throws {CareFailure} `unavailable` when the server does not answer. */
export async function readMysqlSummary(node: MysqlNode): Promise<PerformanceSummary> {
  return withMysql(node, async (connection) => {
    const status = await readStatus(connection)
    const asked = status.innodb_buffer_pool_read_requests ?? 0
    const read = status.innodb_buffer_pool_reads ?? 0
    const totals = (await hasStatistics(connection)) ? await readTotals(connection) : null
    return {
      activeConnections: (status.threads_running ?? 1) - 1,
      totalConnections: (status.threads_connected ?? 1) - 1,
      cacheHitRatio: asked === 0 ? null : Math.round((1 - read / asked) * 10_000) / 100,
      databaseSize: `${Math.round((await databaseBytes(connection)) / 1024)} kB`,
      slowQueryCount: totals?.slow ?? null,
      avgQueryTimeMs: totals === null || totals.calls === 0 ? null : totals.totalMs / totals.calls,
      available: totals !== null,
      unavailableReason: totals === null ? statisticsMissing : null,
    }
  })
}

/** By total time, longest first; empty without query statistics. */
export async function readMysqlTopQueries(node: MysqlNode, limit?: number): Promise<readonly TopQuery[]> {
  return withMysql(node, async (connection) => {
    if (!(await hasStatistics(connection))) return []
    const rows = await rowsOf<Record<keyof TopQuery, string | number>>(
      connection,
      `select left(digest_text, 10000) as query, count_star as calls, sum_timer_wait / ${perMs} as totalExecTimeMs,
        avg_timer_wait / ${perMs} as avgExecTimeMs, min_timer_wait / ${perMs} as minExecTimeMs,
        max_timer_wait / ${perMs} as maxExecTimeMs, sum_rows_sent + sum_rows_affected as \`rows\`
      from performance_schema.events_statements_summary_by_digest
      where schema_name = database() and digest_text is not null
        and digest_text not like '%performance_schema%' and digest_text not like '%information_schema%'
      order by sum_timer_wait desc limit ?`,
      [topQueryLimit(limit)],
    )
    return rows.map((row) => ({
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

/** What the working sessions do or wait for right now, by the server's words for it. */
export async function readMysqlWaitEvents(node: MysqlNode): Promise<readonly WaitEvent[]> {
  return withMysql(node, async (connection) => {
    const rows = await rowsOf<{ state: string; count: number }>(
      connection,
      `select coalesce(nullif(state, ''), 'Running') as state, count(*) as count from information_schema.processlist
      where command = 'Query' and id <> connection_id() group by 1 order by 2 desc, 1`,
    )
    return rows.map(({ state, count }) => ({
      waitEventType: /lock/i.test(state) ? 'Lock' : state === 'Running' ? 'CPU' : 'State',
      waitEvent: state,
      count: Number(count),
    }))
  })
}

/**
 * Turns the performance schema on, which takes a restart; with a way back when the server does not come up so.
 *
 * @throws {CareFailure} `failed` when it does not start with it (it runs without).
 */
export async function enableMysqlStatistics(
  control: MysqlControl,
  node: MysqlNode,
  start: Pick<MysqlStartOptions, 'settings'> = {},
): Promise<void> {
  if (await withMysql(node, hasStatistics)) return
  await applyMysqlParameters(node, { performance_schema: 'ON' })
  const { applied, reason } = await restartMysqlWithParameters(control, node, start)
  if (!applied) throw new CareFailure('failed', `The server does not start with query statistics: ${reason}.`)
}
