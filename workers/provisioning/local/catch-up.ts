import type { PostgresNode } from './postgres-node.ts'
import { waitUntil, withSession } from './postgres-session.ts'

const catchUpMs = 30_000

/**
 * Resolves when a standby has replayed all that its primary has written by now, and would begin behind it after a restart; or when it
 * has paused, for it has lower limits. A primary tells its limits in its log: a standby that has not read of lower ones does not start
 * with them.
 *
 * @throws {CareFailure}
 */
export async function catchUp(primary: PostgresNode, standby: PostgresNode, signal: AbortSignal): Promise<void> {
  const written = await withSession(
    primary,
    async (client) => (await client.query<{ lsn: string }>('select pg_current_wal_lsn()::text as lsn')).rows[0]!.lsn,
    { database: 'postgres' },
  )
  await withSession(
    standby,
    async (client) => {
      const replayed = async () => {
        const sql =
          "select pg_last_wal_replay_lsn() >= $1::pg_lsn or pg_get_wal_replay_pause_state() = 'paused' as done"
        return (await client.query<{ done: boolean }>(sql, [written])).rows[0]!.done
      }
      await waitUntil(replayed, { timeoutMs: catchUpMs, message: 'A replica does not follow its primary.', signal })
      await client.query('checkpoint')
    },
    { database: 'postgres', statementTimeoutMs: 0 },
  )
}
