import type { Client } from 'pg'
import { readArchiveStatus } from '../backup/archive.ts'
import type { PostgresNode } from '../postgres-node.ts'
import { withSession } from '../postgres-session.ts'
import type { ServerSample } from './metrics.ts'

interface SampleRow {
  readonly active: number
  readonly idle: number
  readonly max: number
  readonly bytes: string
  readonly oldest: string | null
  readonly statements: string | null
}

/** Mean execution time from which a statement counts as slow. */
export const slowQueryMs = 1000

const answerMs = 4000

/**
 * Asks a server for its numbers. `archiveFrom`: the segment from which on the archived log is wanted; by default all of it.
 *
 * @throws {CareFailure} `unavailable` when it does not answer in time.
 */
export async function readPostgresSample(node: PostgresNode, archiveFrom?: string): Promise<ServerSample> {
  const archive = await readArchiveStatus(node, archiveFrom)
  return withSession(
    node,
    async (client) => {
      const { rows } = await client.query<SampleRow>(`
        select count(*) filter (where state <> 'idle')::int as active, count(*) filter (where state = 'idle')::int as idle,
          current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as max,
          pg_database_size(current_database()) as bytes,
          extract(epoch from max(now() - xact_start)) as oldest,
          (${statisticsSchemaSql}) as statements
        from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`)
      const row = rows[0]!
      return {
        at: Date.now(),
        activeConnections: row.active,
        idleConnections: row.idle,
        maxConnections: row.max,
        databaseBytes: Number(row.bytes),
        queries: row.statements === null ? null : await readQueries(client, row.statements),
        archiveProblem: archive.reason,
        longestTransactionSeconds: row.oldest === null ? null : Number(row.oldest),
      }
    },
    { statementTimeoutMs: answerMs, applicationName: 'busbar metrics' },
  )
}

/** The schema pg_stat_statements is in, where it is both made and loaded. */
export const statisticsSchemaSql = `
  select quote_ident(n.nspname) from pg_extension e join pg_namespace n on n.oid = e.extnamespace
  where e.extname = 'pg_stat_statements' and current_setting('shared_preload_libraries') ~ 'pg_stat_statements'`

async function readQueries(client: Client, schema: string): Promise<ServerSample['queries']> {
  const { rows } = await client.query<{ calls: string; total: number; slow: number }>(
    `select coalesce(sum(calls), 0) as calls, coalesce(sum(total_exec_time), 0) as total,
      count(*) filter (where mean_exec_time > ${slowQueryMs})::int as slow
    from ${schema}.pg_stat_statements s where s.dbid = (select oid from pg_database where datname = current_database())`,
  )
  const { calls, total, slow } = rows[0]!
  return { calls: Number(calls), totalMs: total, slow }
}
