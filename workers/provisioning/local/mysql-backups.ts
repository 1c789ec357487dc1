import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Plan, Step } from '../driver.ts'
import { cleanPartialBackups, listBackups, newBackupId } from './backup/backup-record.ts'
import { applyMysqlRetention, type MysqlBackupRecord, makeMysqlBackup } from './mysql/mysql-backup.ts'
import type { MakeStep } from './mysql-step.ts'

/** A first backup, where backups are wanted: from then on there are times to restore to. */
export function firstMysqlBackup(step: MakeStep): Step {
  return step('BACKUP_CONFIGURATION', async (opened, { instance, signal }) => {
    const { backups: backupsFolder } = opened.folders
    if (!instance.backup.enabled || listBackups(backupsFolder).length > 0) return undefined
    await cleanPartialBackups(backupsFolder)
    const request = { projectId: instance.projectName, type: 'SCHEDULED', backupsFolder, signal } as const
    await makeMysqlBackup(opened.primary(), request)
    return undefined
  })
}

/** A backup, then what has become too old goes. */
export function mysqlBackupPlan(step: MakeStep): Plan {
  return { steps: [nameBackup(step), copyBackup(step)], undo: [] }
}

function nameBackup(step: MakeStep): Step {
  return step('NAME', async ({ folders }, { instance, operation }) => {
    const taken = (id: string) => existsSync(join(folders.backups, id))
    return { data: { backupId: newBackupId(instance.projectName, new Date(operation.startedAt), taken) } }
  })
}

function copyBackup(step: MakeStep): Step {
  return step('COPY', async (opened, { instance, operation, signal }) => {
    const { backups: backupsFolder } = opened.folders
    const id = String(operation.data.backupId)
    const type = operation.request.type === 'SCHEDULED' ? 'SCHEDULED' : 'MANUAL'
    const { projectName: projectId, backup } = instance
    const done = listBackups<MysqlBackupRecord>(backupsFolder).find((each) => each.id === id)
    if (done === undefined) await cleanPartialBackups(backupsFolder)
    const made = done ?? (await makeMysqlBackup(opened.primary(), { projectId, type, backupsFolder, id, signal }))
    await applyMysqlRetention(opened.primary(), backupsFolder, { retentionDays: backup.retention, now: Date.now() })
    return { data: { result: { ...shownMysqlBackup(made) } } }
  })
}

/** With the names that every backup has. */
export function shownMysqlBackup({ consistentAt, ...backup }: MysqlBackupRecord) {
  const { id, timestamp } = backup
  const restorableFrom = new Date(consistentAt).toISOString()
  return { ...backup, backupId: id, startedAt: timestamp, restorableFrom, expiresAt: null, error: null }
}
