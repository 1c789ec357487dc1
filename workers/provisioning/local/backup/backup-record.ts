import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { refuse } from '../care-failure.ts'
import { syncFolder, writeDurably } from '../durable-files.ts'
import { stampedId } from '../stamped-id.ts'

/** Outcome of a check of a backup: its files against the manifest, and a start from a copy of it. */
export interface BackupVerification {
  /** RFC 3339. */
  readonly at: string
  readonly result: 'OK' | 'FAILED'
  /** Whether a server was started on a copy and read every table. */
  readonly restored: boolean
  /** In words for the user when FAILED. */
  readonly problem: string | null
}

/** A finished backup. Times are RFC 3339, UTC. */
export interface BackupRecord {
  /** `<project>-backup-YYYYMMDD-HHMMSS`. */
  readonly id: string
  readonly projectId: string
  /** When the backup began. */
  readonly timestamp: string
  readonly type: 'MANUAL' | 'SCHEDULED'
  readonly status: 'COMPLETED'
  readonly method: 'base-backup'
  readonly completedAt: string
  readonly durationMs: number
  readonly sizeBytes: number
  readonly beginWal: string
  readonly endWal: string
  readonly beginLsn: string
  readonly endLsn: string
  readonly timeline: number
  /** The first time a point-in-time recovery can reach with this backup, on the server's clock (epoch ms). */
  readonly consistentAt: number
  readonly majorVersion: number
  readonly segmentBytes: number
  readonly databaseName: string
  readonly manifestSha256: string
  readonly verified: BackupVerification | null
}

/** What every kind of backup says of itself. */
type ListedBackup = Pick<BackupRecord, 'id' | 'timestamp'>

const recordFile = 'backup.json'
const partialPrefix = '.partial-'

/** The copied data folder of a backup. */
export function backupData(backupsFolder: string, id: string): string {
  return join(backupsFolder, id, 'data')
}

/** The place of a backup in the making; only a whole one is renamed to its id. */
export function partialBackup(backupsFolder: string, id: string): string {
  return join(backupsFolder, partialPrefix + id)
}

/** Finished backups, oldest first. */
export function listBackups<B extends ListedBackup = BackupRecord>(backupsFolder: string): readonly B[] {
  if (!existsSync(backupsFolder)) return []
  return readdirSync(backupsFolder)
    .filter((name) => !name.startsWith('.') && existsSync(join(backupsFolder, name, recordFile)))
    .map((name) => JSON.parse(readFileSync(join(backupsFolder, name, recordFile), 'utf8')) as B)
    .sort((a, b) => a.timestamp.localeCompare(b.timestamp) || a.id.localeCompare(b.id))
}

/** @throws {CareFailure} `refused` (404) when there is none of this id. */
export function readBackup<B extends ListedBackup = BackupRecord>(backupsFolder: string, id: string): B {
  return (
    listBackups<B>(backupsFolder).find((backup) => backup.id === id) ??
    refuse(`backup not found: ${id}`, { status: 404, field: 'backupId' })
  )
}

export async function writeRecord<B extends ListedBackup>(folder: string, record: B): Promise<void> {
  await writeDurably(join(folder, recordFile), `${JSON.stringify(record, null, 2)}\n`)
}

/** Removes backups that were cut off. Only while none of this instance is being made. */
export async function cleanPartialBackups(backupsFolder: string): Promise<readonly string[]> {
  if (!existsSync(backupsFolder)) return []
  const partial = readdirSync(backupsFolder).filter((name) => name.startsWith('.'))
  for (const name of partial) await rm(join(backupsFolder, name), { recursive: true, force: true })
  return partial.map((name) => name.slice(partialPrefix.length))
}

/** Deletes a backup: out of the list first, so that a cut-off deletion never leaves half of one in it. */
export async function deleteBackup(backupsFolder: string, id: string): Promise<void> {
  readBackup(backupsFolder, id)
  const leaving = join(backupsFolder, `.deleted-${id}`)
  await rm(leaving, { recursive: true, force: true })
  await rename(join(backupsFolder, id), leaving)
  await syncFolder(backupsFolder)
  await rm(leaving, { recursive: true, force: true })
}

/** `<project>-backup-YYYYMMDD-HHMMSS`, with `-2` and so on when a backup of that second exists. */
export function newBackupId(projectId: string, at: Date, taken: (id: string) => boolean): string {
  return stampedId(`${projectId}-backup`, at, taken)
}
