import { existsSync, readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { syncFolder } from '../durable-files.ts'
import { type BackupRecord, deleteBackup, listBackups } from './backup-record.ts'
import { isArchived, positionOf } from './wal-name.ts'

const dayMs = 86_400_000

/**
 * The backups that are no longer needed to restore to any time within the last `retentionDays`: the newest one from before
 * that time is still needed, and the newest of all always stays, however old. One that failed its check covers nothing.
 */
export function expiredBackups<B extends Pick<BackupRecord, 'consistentAt' | 'verified'>>(
  backups: readonly B[],
  { retentionDays, now }: { readonly retentionDays: number; readonly now: number },
): readonly B[] {
  const horizon = now - retentionDays * dayMs
  const newestFirst = backups.toSorted((a, b) => b.consistentAt - a.consistentAt)
  const good = newestFirst.filter(({ verified }) => verified?.result !== 'FAILED')
  const covering = good.find(({ consistentAt }) => consistentAt <= horizon)
  const kept = new Set([newestFirst[0], good[0], covering])
  return newestFirst.filter((backup) => backup.consistentAt <= horizon && !kept.has(backup)).reverse()
}

/** When a backup leaves if nothing replaces the rules: after it the next one covers the whole retention time. */
export function expiresAt(
  backup: BackupRecord,
  following: BackupRecord | undefined,
  retentionDays: number,
): number | null {
  return following === undefined ? null : Math.max(backup.consistentAt, following.consistentAt) + retentionDays * dayMs
}

/**
 * The archived files nobody needs: segments and backup histories from before the first segment of the oldest kept backup.
 * Timeline histories are small and stay. Without a backup nothing is unneeded: the first one may be in the making.
 */
export function unneededWal(names: readonly string[], kept: readonly BackupRecord[]): readonly string[] {
  const positions = kept.map(({ beginWal }) => positionOf(beginWal)).sort()
  const [oldest] = positions
  if (oldest === undefined) return []
  return names.filter((name) => isArchived(name) && !name.endsWith('.history') && positionOf(name) < oldest)
}

/** Kept of a log that no backup needs: some minutes of it, should one be made now. */
const sparedSegments = 16

/** Removes what no backup will ever need from an archive: without one it would grow for ever. Only while none is being made. */
export async function trimArchive(folders: { readonly backups: string; readonly archive: string }): Promise<number> {
  if (listBackups(folders.backups).length > 0 || !existsSync(folders.archive)) return 0
  const archived = readdirSync(folders.archive).filter((name) => isArchived(name) && !name.endsWith('.history'))
  const unneeded = archived.toSorted((a, b) => (positionOf(a) < positionOf(b) ? -1 : 1)).slice(0, -sparedSegments)
  for (const name of unneeded) await rm(join(folders.archive, name), { force: true })
  return unneeded.length
}

export interface Pruned {
  readonly backups: readonly string[]
  readonly walFiles: number
}

/** Applies the retention: expired backups first, then the log before the oldest one left. Safe to cut off and repeat. */
export async function applyRetention(
  { backupsFolder, archiveFolder }: { readonly backupsFolder: string; readonly archiveFolder: string },
  rule: { readonly retentionDays: number; readonly now: number },
): Promise<Pruned> {
  const expired = expiredBackups(listBackups(backupsFolder), rule)
  for (const { id } of expired) await deleteBackup(backupsFolder, id)
  const names = existsSync(archiveFolder) ? readdirSync(archiveFolder) : []
  const unneeded = unneededWal(names, listBackups(backupsFolder)).toSorted()
  for (const name of unneeded) await rm(join(archiveFolder, name), { force: true })
  if (unneeded.length > 0) await syncFolder(archiveFolder)
  return { backups: expired.map(({ id }) => id), walFiles: unneeded.length }
}
