import { existsSync } from 'node:fs'
import { chown, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { syncFolder, writeDurably } from './durable-files.ts'
import { hasData, isStandby, rewindMark, startStandby } from './members.ts'
import type { PostgresInstance } from './postgres-instance.ts'
import type { PostgresNode } from './postgres-node.ts'
import { waitUntil, withSession } from './postgres-session.ts'
import { memberName } from './postgres-settings.ts'
import { findTool, runTool } from './postgres-tools.ts'

/** Until it has the log that it lacks; what it does not get by then the primary no longer has. */
const streamingMs = 30_000

/**
 * Takes out of a former primary what its successor does not have, and starts it as a standby: only what differs is copied. False
 * where that cannot be done, or did not work: then the data folder is worth nothing, and the server is to be built anew.
 *
 * Source: https://www.postgresql.org/docs/current/app-pgrewind.html
 */
export async function rewindStandby(
  { control }: Pick<PostgresInstance, 'control'>,
  primary: PostgresNode,
  node: PostgresNode,
  signal: AbortSignal,
): Promise<boolean> {
  if (!hasData(node) || isStandby(node)) return false
  const tool = findTool(node, 'pg_rewind', 'same')
  // Half of a rewind cannot be gone on with.
  const begun = rewindMark(node)
  if (tool === undefined || existsSync(begun)) return false
  await control.fence(node)
  // A new primary's control file names its new timeline from the first checkpoint on.
  await withSession(primary, (client) => client.query('checkpoint'), { database: 'postgres', statementTimeoutMs: 0 })
  await writeDurably(begun, '')
  const { user, password } = primary.superuser
  const source = `host=127.0.0.1 port=${primary.port} user=${user} dbname=postgres`
  const args = ['--target-pgdata', node.dataFolder, '--source-server', source]
  const { ok } = await runTool(tool, { args, password, cwd: node.dataFolder, runAs: node.runAs, signal })
  if (!ok) return false
  const mark = join(node.dataFolder, 'standby.signal')
  await writeFile(mark, '', { mode: 0o600, flush: true })
  if (node.runAs !== undefined) await chown(mark, node.runAs.uid, node.runAs.gid)
  await syncFolder(node.dataFolder)
  if (!(await follows({ control }, primary, node, signal))) return false
  await rm(begun)
  return true
}

/** Whether it starts and takes what the primary writes. */
async function follows(
  { control }: Pick<PostgresInstance, 'control'>,
  primary: PostgresNode,
  node: PostgresNode,
  signal: AbortSignal,
): Promise<boolean> {
  const streaming = async () =>
    await withSession(
      primary,
      async (client) => {
        const sql = "select 1 from pg_stat_replication where application_name = $1 and state = 'streaming'"
        return (await client.query(sql, [memberName(node)])).rows.length > 0
      },
      { database: 'postgres' },
    )
  try {
    await startStandby({ control }, primary.port, node, signal)
    await waitUntil(streaming, { timeoutMs: streamingMs, message: 'The rewound server does not follow.', signal })
    return true
  } catch {
    signal.throwIfAborted()
    return false
  }
}
