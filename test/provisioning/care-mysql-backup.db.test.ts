import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { backupData, listBackups } from '../../workers/provisioning/local/backup/backup-record.ts'
import { chooseBackup, type RestoreTarget } from '../../workers/provisioning/local/backup/restore-target.ts'
import {
  binlogFiles,
  flushBinlog,
  newestBinlogAt,
  trimUnusedBinlog,
} from '../../workers/provisioning/local/mysql/binlog.ts'
import {
  applyMysqlRetention,
  type MysqlBackupRecord,
  makeMysqlBackup,
} from '../../workers/provisioning/local/mysql/mysql-backup.ts'
import type { MysqlNode } from '../../workers/provisioning/local/mysql/mysql-node.ts'
import { type MysqlRestoreRequest, restoreMysql } from '../../workers/provisioning/local/mysql/mysql-restore.ts'
import { rowsOf, withMysql } from '../../workers/provisioning/local/mysql/mysql-session.ts'
import {
  cloneMysql,
  makeMysqlReplica,
  promoteMysql,
  readReplicaStatus,
} from '../../workers/provisioning/local/mysql/replica.ts'
import { mariadbHere, mysqlGround } from './care-mysql-node.ts'

const binaries = mariadbHere()
if (binaries === undefined) t.plan(0, 'no MariaDB on this machine')
else {
  t.setTimeout(240_000)
  const ground = mysqlGround(t, binaries)
  const { control } = ground
  const node = await ground.create('shop')
  const backupsFolder = join(ground.folder, 'backups')
  const user = { user: 'app', password: 'first-secret' }
  const run = (on: MysqlNode, sql: string, as = user) =>
    withMysql(on, (connection) => rowsOf<{ n: number }>(connection, sql), { user: as })
  const numbers = async (on: MysqlNode, as = user) =>
    (await run(on, 'select n from event order by n', as)).map(({ n }) => n)
  const insert = (n: number) => run(node, `insert into event values (${n})`)
  /** The binary log knows whole seconds. */
  const nextSecond = async () => {
    const second = Math.floor(Date.now() / 1000) + 1
    while (Date.now() < second * 1000) await new Promise((later) => setTimeout(later, 20))
    return second * 1000
  }
  let made = 0
  const restore = async (
    backup: MysqlBackupRecord,
    target: RestoreTarget,
    options: Partial<MysqlRestoreRequest> = {},
  ) => {
    const into = await ground.describe(`restored-${++made}`)
    const restored = await restoreMysql({
      backupsFolder,
      backup,
      target,
      binlogFolder: node.binlogFolder,
      into,
      control,
      ...options,
    })
    return { into, restored }
  }
  await run(node, 'create table event (n int primary key)')
  await insert(1)

  t.test('a backup is whole and starts in a new node under new passwords', async (t) => {
    const backup = await makeMysqlBackup(node, { projectId: 'shop', type: 'MANUAL', backupsFolder })
    t.match(backup, {
      id: /^shop-backup-\d{8}-\d{6}$/,
      status: 'COMPLETED',
      binlogFile: /^binlog\.\d+$/,
      gtid: /^\d+-1-\d+$/,
      verified: null,
    })
    t.match(listBackups<MysqlBackupRecord>(backupsFolder), [{ id: backup.id }])
    await insert(2)
    const renewed = { user: 'app', password: 'another-secret' }
    const { into } = await restore(backup, { kind: 'backup' }, { passwords: { app: renewed.password } })
    await control.start(into)
    t.strictSame(await numbers(into, renewed), [1])
    await control.stop(into)
    await t.rejects(makeMysqlBackup(node, { projectId: 'shop', type: 'MANUAL', backupsFolder, id: backup.id }), {
      status: 409,
      message: /not overwritten/,
    })
    await t.rejects(restore(backup, { kind: 'backup' }, { into: node }), {
      status: 409,
      message: /data folder already/,
    })
  })

  t.test('a recovery reaches a second, and all there is', async (t) => {
    const backup = listBackups<MysqlBackupRecord>(backupsFolder)[0]!
    await nextSecond()
    await insert(3)
    const at = await nextSecond()
    await insert(4)
    const source = { backups: [backup], logFolders: [], liveAt: Date.now() }
    t.equal(chooseBackup(source, { kind: 'time', at }, { now: Date.now() }).id, backup.id)
    t.throws(() => chooseBackup(source, { kind: 'time', at: backup.consistentAt - 1 }, { now: Date.now() }), {
      status: 422,
      message: /before the first/,
    })
    const three = await restore(backup, { kind: 'time', at }, { liveSource: node })
    t.equal(three.restored.restoredTo, at)
    await control.start(three.into)
    t.strictSame(await numbers(three.into), [1, 2, 3])
    await control.stop(three.into)

    await insert(5)
    await ground.kill(node, 'SIGKILL')
    t.ok(newestBinlogAt(node.binlogFolder)! >= at)
    const all = await restore(backup, { kind: 'latest' })
    await control.start(all.into)
    t.strictSame(await numbers(all.into), [1, 2, 3, 4, 5], 'what a killed source committed')
    await control.stop(all.into)
    await control.start(node)
  })

  t.test('a damaged backup and a hole in the log are told', async (t) => {
    const backup = listBackups<MysqlBackupRecord>(backupsFolder)[0]!
    await flushBinlog(node)
    const [, second] = binlogFiles(node.binlogFolder).filter((name) => name >= backup.binlogFile)
    const hole = join(node.binlogFolder, second!)
    const kept = readFileSync(hole)
    rmSync(hole)
    await t.rejects(restore(backup, { kind: 'latest' }), { status: 422, message: /hole/ })
    writeFileSync(hole, kept)
    const victim = join(backupData(backupsFolder, backup.id), 'ibdata1')
    const bytes = readFileSync(victim)
    writeFileSync(victim, Buffer.concat([bytes.subarray(0, 100), Buffer.from([bytes[100]! ^ 1]), bytes.subarray(101)]))
    await t.rejects(restore(backup, { kind: 'latest' }), { kind: 'failed', message: /damaged: ibdata1 was changed/ })
    writeFileSync(victim, bytes)
    const stop = AbortSignal.timeout(20)
    await t.rejects(makeMysqlBackup(node, { projectId: 'shop', type: 'MANUAL', backupsFolder, signal: stop }))
    t.strictSame(readdirSync(backupsFolder), [backup.id], 'no half is left')
  })

  t.test('a replica follows, and takes over with everything', async (t) => {
    const into = { ...(await ground.describe('replica')), superuser: node.superuser }
    await makeMysqlReplica({ source: node, into, control })
    await insert(6)
    while ((await numbers(into)).at(-1) !== 6);
    t.match(await readReplicaStatus(into), { state: 'STREAMING', error: null })
    await t.rejects(run(into, 'insert into event values (99)'), { message: /read-only/ })
    t.equal(await readReplicaStatus(node), undefined)
    await withMysql(into, async (connection) => {
      await connection.query('stop slave')
      await connection.query('reset slave all')
    })
    await makeMysqlReplica({ source: node, into, control })
    await insert(7)
    while ((await numbers(into)).at(-1) !== 7);
    await promoteMysql(into)
    t.equal(await readReplicaStatus(into), undefined)
    await run(into, 'insert into event values (8)')
    t.strictSame(await numbers(into), [1, 2, 3, 4, 5, 6, 7, 8])
    t.strictSame(await numbers(node), [1, 2, 3, 4, 5, 6, 7], 'they are apart')
    await control.stop(into)
  })

  t.test('a clone has what the source has now; retention drops what nobody needs', async (t) => {
    const into = await ground.describe('clone')
    await cloneMysql({ source: node, into, control, passwords: { app: 'clone-secret' } })
    await control.start(into)
    t.strictSame(await numbers(into, { user: 'app', password: 'clone-secret' }), [1, 2, 3, 4, 5, 6, 7])
    t.notOk(readdirSync(join(into.dataFolder, '..')).some((name) => name.startsWith('.copy')))
    await control.stop(into)

    const first = listBackups<MysqlBackupRecord>(backupsFolder)[0]!
    await flushBinlog(node)
    const second = await makeMysqlBackup(node, { projectId: 'shop', type: 'SCHEDULED', backupsFolder })
    const pruned = await applyMysqlRetention(node, backupsFolder, {
      retentionDays: 7,
      now: Date.now() + 8 * 86_400_000,
    })
    t.strictSame(pruned.backups, [first.id])
    t.ok(pruned.binlogs > 0)
    t.equal(binlogFiles(node.binlogFolder)[0], second.binlogFile)
    t.ok(existsSync(join(backupsFolder, second.id)))

    await flushBinlog(node)
    const kept = binlogFiles(node.binlogFolder)
    t.equal(kept.length, 2)
    await trimUnusedBinlog(node, { full: false, now: Date.now() })
    t.strictSame(binlogFiles(node.binlogFolder), kept, 'a copy may be in the making')
    await nextSecond()
    await trimUnusedBinlog(node, { full: true, now: Date.now() })
    t.strictSame(binlogFiles(node.binlogFolder), kept.slice(1), 'where no backup is, the log does not fill the disk')
  })
}
