import { existsSync } from 'node:fs'
import { chmod, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { backupData } from '../backup/backup-record.ts'
import type { RestoreTarget } from '../backup/restore-target.ts'
import { CareFailure, refuse } from '../care-failure.ts'
import { copyTree, giveTree, requireRoom, syncFolder, syncTree } from '../durable-files.ts'
import { ServerStartFailed } from '../postgres-node.ts'
import { flushBinlog, replayBinlog } from './binlog.ts'
import { inClosedServer, unfinishedNode } from './closed-server.ts'
import { makeMysqlFolders } from './create.ts'
import { checkMysqlBackup, type MysqlBackupRecord } from './mysql-backup.ts'
import type { MysqlControl, MysqlNode } from './mysql-node.ts'
import { withMysql } from './mysql-session.ts'
import { dropReplicationUsers, setPassword } from './passwords.ts'

export interface MysqlRestoreRequest {
  readonly backupsFolder: string
  readonly backup: MysqlBackupRecord
  /** A time is reached to the second, never beyond: what happened in its own second is left out. */
  readonly target: RestoreTarget
  /** The source's binary logs. */
  readonly binlogFolder: string
  /** The running source: its log is closed first. */
  readonly liveSource?: MysqlNode
  /** The new node: its data folder must not exist. Superuser's and database's names are the source's. */
  readonly into: MysqlNode
  readonly control: MysqlControl
  /** Passwords of users in the new instance; as in the source when not named. */
  readonly passwords?: Readonly<Record<string, string>>
  /** A replica: keeps its place in the source's log, and the source's passwords. */
  readonly asReplica?: boolean
  readonly signal?: AbortSignal
}

export interface MysqlRestored {
  /** Epoch ms; null when nothing bounds it: all of the log, or the backup alone. */
  readonly restoredTo: number | null
  readonly backupId: string
}

/**
 * Makes a new node's data folder from a backup and the binary log after it. The folder appears, whole and stopped, at the end;
 * a repetition after a kill begins anew.
 *
 * @throws {CareFailure} `refused` (409) when the data folder exists; `failed`: (507) without room, (422) with a hole in the log,
 *   when the backup was changed, or the server does not start.
 */
export async function restoreMysql(request: MysqlRestoreRequest): Promise<MysqlRestored> {
  const { into, backup, target, control, signal } = request
  if (existsSync(into.dataFolder)) refuse('The new instance has a data folder already.', { status: 409 })
  const problem = await checkMysqlBackup(request.backupsFolder, backup)
  if (problem !== null) throw new CareFailure('failed', `The backup is damaged: ${problem}.`)
  if (request.liveSource !== undefined && target.kind !== 'backup') await flushBinlog(request.liveSource)
  makeMysqlFolders(into)
  const working = unfinishedNode(into)
  try {
    await control.stop(working, { mode: 'immediate' })
    await copyBackup(request, working)
    await inClosedServer(control, working, { settings: { skip_log_bin: null } }, (closed) => bringUpTo(closed, request))
    await syncTree(working.dataFolder)
    await rename(working.dataFolder, into.dataFolder)
    await syncFolder(dirname(into.dataFolder))
  } catch (error) {
    await control.stop(working, { mode: 'immediate' })
    await rm(working.dataFolder, { recursive: true, force: true })
    signal?.throwIfAborted()
    if (error instanceof ServerStartFailed) throw new CareFailure('failed', 'The restored server did not start.', { cause: error }) // biome-ignore format: one sentence
    throw error
  }
  return { restoredTo: target.kind === 'time' ? Math.floor(target.at / 1000) * 1000 : null, backupId: backup.id }
}

async function copyBackup({ backupsFolder, backup, signal }: MysqlRestoreRequest, working: MysqlNode): Promise<void> {
  await rm(working.dataFolder, { recursive: true, force: true })
  await requireRoom(dirname(working.dataFolder), backup.sizeBytes, 'the restored data')
  await copyTree(backupData(backupsFolder, backup.id), working.dataFolder, signal)
  await chmod(working.dataFolder, 0o700)
  for (const name of await readdir(working.dataFolder)) {
    if (/^(xtrabackup|mariadb_backup)_|^backup-my\.cnf$/.test(name)) await rm(join(working.dataFolder, name))
  }
  await giveTree(working.dataFolder, working.runAs)
}

async function bringUpTo(closed: MysqlNode, request: MysqlRestoreRequest): Promise<void> {
  const { target, backup, binlogFolder, signal } = request
  if (target.kind !== 'backup') {
    // Without the tables of rights no user could be made, changed or granted anything by the log.
    await withMysql(
      closed,
      async (connection) => {
        await connection.query('flush privileges')
        await setPassword(connection, closed.superuser.user, closed.superuser.password)
      },
      { database: null },
    )
    await replayBinlog(closed, {
      binlogFolder,
      fromFile: backup.binlogFile,
      fromPosition: backup.binlogPosition,
      ...(target.kind === 'time' ? { until: target.at } : {}),
      signal,
    })
  }
  const { user, password } = closed.superuser
  const passwords = request.asReplica ? {} : { ...request.passwords, [user]: password }
  await withMysql(
    closed,
    async (connection) => {
      await connection.query('flush privileges')
      for (const [name, value] of Object.entries(passwords)) await setPassword(connection, name, value)
      if (request.asReplica) await connection.query('set global gtid_slave_pos = ?', [backup.gtid])
      else await dropReplicationUsers(connection)
    },
    { database: null },
  )
}
