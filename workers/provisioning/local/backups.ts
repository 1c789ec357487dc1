import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import type { Plan, Step } from '../driver.ts'
import { type ArchivingState, makeArchive, readArchiveStatus } from './backup/archive.ts'
import { type BackupRecord, cleanPartialBackups, listBackups, newBackupId } from './backup/backup-record.ts'
import { makeBaseBackup } from './backup/base-backup.ts'
import { restorableWindow } from './backup/restore-target.ts'
import { applyRetention, expiresAt } from './backup/retention.ts'
import { verifyBackup } from './backup/verify.ts'
import { freePorts, type LocalPlace } from './place.ts'
import { openPostgres } from './postgres-instance.ts'
import { windowOf } from './restore-window.ts'

/** A first backup, where backups are wanted: from then on there are times to restore to. */
export function firstBackup(place: LocalPlace): Step {
  return {
    name: 'BACKUP_CONFIGURATION',
    async run({ instance, signal }) {
      if (!instance.backup.enabled) return undefined
      const opened = await openPostgres(place, instance)
      const { backups: backupsFolder } = opened.folders
      if (listBackups(backupsFolder).length > 0) return undefined
      await cleanPartialBackups(backupsFolder)
      const { projectName: projectId } = instance
      await makeBaseBackup(opened.primary(), { projectId, type: 'SCHEDULED', backupsFolder, signal })
      return undefined
    },
  }
}

/** A backup, then what has become too old goes. */
export function backupPlan(place: LocalPlace): Plan {
  const name: Step = {
    name: 'NAME',
    async run({ instance, operation }) {
      const { folders } = await openPostgres(place, instance)
      const taken = (id: string) => existsSync(join(folders.backups, id))
      const at = new Date(operation.startedAt)
      return { data: { backupId: newBackupId(instance.projectName, at, taken) } }
    },
  }
  const copy: Step = {
    name: 'COPY',
    async run({ instance, operation, signal }) {
      const opened = await openPostgres(place, instance)
      const { backups: backupsFolder } = opened.folders
      const id = String(operation.data.backupId)
      const type = operation.request.type === 'SCHEDULED' ? 'SCHEDULED' : 'MANUAL'
      const { projectName: projectId } = instance
      const done = listBackups(backupsFolder).find((backup) => backup.id === id)
      if (done === undefined) await cleanPartialBackups(backupsFolder)
      // An archive that was lost begins anew behind a new backup.
      makeArchive(opened.primary())
      const made = done ?? (await makeBaseBackup(opened.primary(), { projectId, type, backupsFolder, id, signal }))
      return { data: { result: { ...shownBackup(made, undefined, instance) } } }
    },
  }
  const prune: Step = {
    name: 'RETENTION',
    async run({ instance }) {
      const { folders } = await openPostgres(place, instance)
      const rule = { retentionDays: instance.backup.retention, now: Date.now() }
      await applyRetention({ backupsFolder: folders.backups, archiveFolder: folders.archive }, rule)
      return undefined
    },
  }
  return { steps: [name, copy, prune], undo: [] }
}

/** A restore test: a backup nobody has restored is a hope. */
export function verifyBackupPlan(place: LocalPlace): Plan {
  const test: Step = {
    name: 'VERIFY',
    async run({ instance, operation, signal }) {
      const opened = await openPostgres(place, instance)
      const backupId = String(operation.request.backupId)
      const [port] = await freePorts(place, 1)
      const folder = join(opened.folders.members, 'test')
      const scratch = {
        ...opened.primary(),
        port: port!,
        dataFolder: join(folder, 'data'),
        logFile: join(folder, 'log', 'server.log'),
        archiveFolder: join(folder, 'archive'),
      }
      await opened.control.fence({ ...scratch, dataFolder: `${scratch.dataFolder}.restoring` })
      const { backups: backupsFolder } = opened.folders
      const verified = await verifyBackup({ backupsFolder, backupId, scratch, control: opened.control, signal })
      return { data: { result: { backupId, verified } } }
    },
  }
  return { steps: [test], undo: [] }
}

function shownBackup(backup: BackupRecord, following: BackupRecord | undefined, { backup: rule }: Instance) {
  const { id, projectId, timestamp, type, status, method, completedAt, durationMs, sizeBytes, timeline } = backup
  const { beginWal, endWal, beginLsn, endLsn, majorVersion, consistentAt, verified } = backup
  const until = expiresAt(backup, following, rule.retention)
  return {
    id,
    backupId: id,
    projectId,
    timestamp,
    type,
    status,
    method,
    startedAt: timestamp,
    completedAt,
    durationMs,
    sizeBytes,
    beginWal,
    endWal,
    beginLsn,
    endLsn,
    timeline,
    majorVersion,
    restorableFrom: new Date(consistentAt).toISOString(),
    verified,
    expiresAt: until === null ? null : new Date(until).toISOString(),
    error: null,
  }
}

/** Every backup there is, the newest last, and the times that can be restored. */
export async function shownBackups(place: LocalPlace, instance: Instance): Promise<object> {
  const opened = await openPostgres(place, instance)
  const window = await windowOf(opened)
  const { earliest, latest } = restorableWindow(window)
  const { backups } = window
  let archiving: ArchivingState | 'UNKNOWN' = 'UNKNOWN'
  if (window.liveAt !== undefined) archiving = (await readArchiveStatus(opened.primary())).state
  return {
    backups: backups.map((each, index) => shownBackup(each, backups[index + 1], instance)),
    archiving,
    earliestRestorableTime: earliest === null ? null : new Date(earliest).toISOString(),
    latestRestorableTime: latest === null ? null : new Date(latest).toISOString(),
  }
}

export async function lastBackupAt(place: LocalPlace, instance: Instance): Promise<number | null> {
  const last = listBackups((await openPostgres(place, instance)).folders.backups).at(-1)
  return last === undefined ? null : Date.parse(last.timestamp)
}

const testEveryMs = 7 * 86_400_000
/** A young instance has something better to do. */
const testAfterMs = 3_600_000

/** The newest backup, when none was restored as a test for a week. */
export async function untestedBackup(place: LocalPlace, instance: Instance, now: number): Promise<string | null> {
  if (instance.databaseType !== 'POSTGRESQL' || now - instance.createdAt < testAfterMs) return null
  const backups = listBackups((await openPostgres(place, instance)).folders.backups)
  const tested = backups.some(({ verified }) => verified !== null && now - Date.parse(verified.at) < testEveryMs)
  const newest = backups.at(-1)
  return tested || newest === undefined ? null : newest.id
}
