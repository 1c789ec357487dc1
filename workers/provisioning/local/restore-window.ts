import { join } from 'node:path'
import { listBackups } from './backup/backup-record.ts'
import type { WindowSource } from './backup/restore-target.ts'
import type { PostgresInstance } from './postgres-instance.ts'
import { withSession } from './postgres-session.ts'

/** Which times there are to restore to. */
export async function windowOf(opened: PostgresInstance): Promise<WindowSource> {
  const backups = listBackups(opened.folders.backups)
  const primary = opened.primary()
  try {
    const liveAt = await withSession(
      primary,
      async (client) => {
        const { rows } = await client.query<{ at: Date }>('select clock_timestamp() as at')
        return rows[0]!.at.getTime()
      },
      { database: 'postgres', statementTimeoutMs: 3_000 },
    )
    return { backups, logFolders: [opened.folders.archive], liveAt }
  } catch {
    // A stopped server's last log is not in the archive.
    return { backups, logFolders: [opened.folders.archive, join(primary.dataFolder, 'pg_wal')] }
  }
}
