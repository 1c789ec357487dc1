import { existsSync } from 'node:fs'
import { Rejected } from '../../../schemas/failure.ts'
import type { StepOutcome, StepWork } from '../driver.ts'
import { listBackups } from './backup/backup-record.ts'
import { chooseBackup, parseTargetTime, type RestoreTarget, type WindowSource } from './backup/restore-target.ts'
import { newestBinlogAt } from './mysql/binlog.ts'
import type { MysqlBackupRecord } from './mysql/mysql-backup.ts'
import { restoreMysql } from './mysql/mysql-restore.ts'
import { cloneMysql, removeCopy } from './mysql/replica.ts'
import { type MysqlInstance, openMysqlInstance } from './mysql-instance.ts'
import type { LocalPlace } from './place.ts'

/** What another instance has now, or had at a time. The other is only read. */
export async function copyMysqlData(
  place: LocalPlace,
  opened: MysqlInstance,
  { instance, operation, signal }: StepWork,
): Promise<StepOutcome | undefined> {
  const into = opened.primary()
  if (existsSync(into.dataFolder)) {
    await removeCopy(into)
    return undefined
  }
  const source = place.instances().find(({ uid }) => uid === instance.source?.uid)
  if (source === undefined)
    throw new Rejected('provisioning/invalid-state', 'The instance that was to be copied is gone')
  const from = await openMysqlInstance(place, source)
  const passwords = { [instance.masterUsername]: opened.password('master') }
  if (operation.type === 'CLONE') {
    await cloneMysql({ source: from.primary(), into, control: opened.control, passwords, signal })
    return { data: { result: { source: source.projectName } } }
  }
  const { target, backupId } = mysqlTarget(instance.source?.targetTime ?? null, instance.source?.backupId ?? null)
  const window = await mysqlWindow(from)
  const { restoredTo } = await restoreMysql({
    backupsFolder: from.folders.backups,
    backup: chooseBackup(window, target, { backupId, now: Date.now() }) as unknown as MysqlBackupRecord,
    target,
    binlogFolder: from.primary().binlogFolder,
    ...(window.liveAt !== undefined && { liveSource: from.primary() }),
    into,
    control: opened.control,
    passwords,
    signal,
  })
  return { data: { result: { restoredTo: restoredTo === null ? null : new Date(restoredTo).toISOString() } } }
}

export function mysqlTarget(targetTime: string | null, backupId: string | null) {
  const target: RestoreTarget =
    targetTime !== null
      ? { kind: 'time', at: parseTargetTime(targetTime) }
      : { kind: backupId === null ? 'latest' : 'backup' }
  return { target, backupId: backupId ?? undefined }
}

/** Which times there are to restore to. */
export async function mysqlWindow(opened: MysqlInstance): Promise<WindowSource> {
  const primary = opened.primary()
  const backups = listBackups(opened.folders.backups)
  const running = (await opened.control.pid(primary)) !== undefined
  const liveAt = running ? Date.now() : (newestBinlogAt(primary.binlogFolder) ?? undefined)
  return { backups, logFolders: [], ...(liveAt !== undefined && { liveAt }) }
}
