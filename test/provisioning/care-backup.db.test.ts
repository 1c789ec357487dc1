import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  archivedSegments,
  archiveUpToNow,
  makeArchive,
  readArchiveStatus,
} from '../../workers/provisioning/local/backup/archive.ts'
import {
  type BackupRecord,
  backupData,
  cleanPartialBackups,
  deleteBackup,
  listBackups,
} from '../../workers/provisioning/local/backup/backup-record.ts'
import { makeBaseBackup } from '../../workers/provisioning/local/backup/base-backup.ts'
import { type RestoreRequest, restoreBackup } from '../../workers/provisioning/local/backup/restore.ts'
import { chooseBackup, type RestoreTarget } from '../../workers/provisioning/local/backup/restore-target.ts'
import { applyRetention } from '../../workers/provisioning/local/backup/retention.ts'
import { verifyBackup } from '../../workers/provisioning/local/backup/verify.ts'
import type { PostgresNode } from '../../workers/provisioning/local/postgres-node.ts'
import { withSession } from '../../workers/provisioning/local/postgres-session.ts'
import { careGround } from './care-node.ts'

// A busy machine starts a dozen servers slowly.
t.setTimeout(240_000)
const ground = careGround(t)
const source = await ground.create('source')
const backupsFolder = join(ground.folder, 'backups')
const project = { projectId: 'shop', backupsFolder, type: 'MANUAL' as const }

const run = <T>(node: PostgresNode, sql: string) =>
  withSession(node, async (client) => (await client.query(sql)).rows as T[], { user: node.superuser })
const rowsOf = async (node: PostgresNode) =>
  (await run<{ n: number }>(node, 'select n from event order by n')).map(({ n }) => n)
/** Commits a row and answers a time just after the commit, on the server's clock. */
const commit = async (n: number) => {
  await run(source, `insert into event values (${n})`)
  const [{ at }] = (await run<{ at: Date }>(source, 'select clock_timestamp() as at')) as [{ at: Date }]
  await new Promise((passed) => setTimeout(passed, 5))
  return at.getTime() + 1
}
let made = 0
const restore = async (backup: BackupRecord, target: RestoreTarget, options: Partial<RestoreRequest> = {}) => {
  const into = await ground.describe(`restored-${++made}`)
  makeArchive(into)
  const restored = await restoreBackup({
    backupsFolder,
    backup,
    target,
    logFolders: [source.archiveFolder],
    into,
    control: ground.control,
    ...options,
  })
  return { into, restored }
}

await run(source, 'create table event (n int)')
await run(source, 'insert into event values (1)')

t.test('a backup is whole, verified, and starts in a new node without the archive', async (t) => {
  const steps: number[] = []
  const record = await makeBaseBackup(source, { ...project, onProgress: (bytes) => steps.push(bytes) })
  t.match(record, { id: /^shop-backup-\d{8}-\d{6}$/, status: 'COMPLETED', type: 'MANUAL', timeline: 1, verified: null })
  t.ok(record.sizeBytes > 1_000_000 && steps.length > 10)
  const scratch = await ground.describe('scratch')
  const verified = await verifyBackup({ backupsFolder, backupId: record.id, scratch, control: ground.control })
  t.match(verified, { result: 'OK', restored: true, problem: null })
  t.match(listBackups(backupsFolder), [{ id: record.id, verified: { result: 'OK' } }])
  t.notOk(existsSync(scratch.dataFolder), 'the restore test leaves nothing')

  await run(source, 'insert into event values (2)')
  const { into } = await restore(record, { kind: 'backup' }, { logFolders: [] })
  await ground.control.start(into)
  t.strictSame(await rowsOf(into), [1], 'the state of the backup, under the password of the new node')
  await ground.control.stop(into)

  await t.rejects(makeBaseBackup(source, { ...project, id: record.id }), { message: /not overwritten/, status: 409 })
})

t.test('a recovery reaches every millisecond after the backup, and refuses what it cannot reach', async (t) => {
  const record = listBackups(backupsFolder)[0]!
  const afterThree = await commit(3)
  const afterFour = await commit(4)
  const liveAt = Date.now()
  const window = { backups: listBackups(backupsFolder), logFolders: [source.archiveFolder], liveAt }
  t.equal(chooseBackup(window, { kind: 'time', at: afterThree }, { now: liveAt }).id, record.id)

  const three = await restore(record, { kind: 'time', at: afterThree }, { liveSource: source })
  await ground.control.start(three.into)
  t.strictSame(await rowsOf(three.into), [1, 2, 3])
  t.ok(three.restored.restoredTo! <= afterThree)
  await run(three.into, 'insert into event values (99)')
  await archiveUpToNow(three.into)
  t.ok(
    archivedSegments(three.into.archiveFolder).every((name) => name.startsWith('00000002')),
    'an archive of its own',
  )
  await ground.control.stop(three.into)
  t.ok(afterFour > afterThree)

  const four = await restore(record, { kind: 'latest' }, { liveSource: source })
  await ground.control.start(four.into)
  t.strictSame(await rowsOf(four.into), [1, 2, 3, 4])
  await ground.control.stop(four.into)

  const early = record.consistentAt - 1
  t.throws(() => chooseBackup(window, { kind: 'time', at: early }, { now: liveAt }), {
    status: 422,
    message: /before the first backup/,
  })
  t.throws(() => chooseBackup(window, { kind: 'time', at: liveAt + 60_000 }, { now: liveAt }), {
    status: 422,
    message: /future/,
  })
  const dead = { backups: window.backups, logFolders: window.logFolders }
  t.throws(() => chooseBackup(dead, { kind: 'time', at: liveAt + 60_000 }, { now: liveAt + 120_000 }), {
    status: 422,
    message: /after the last/,
  })
  await t.rejects(restore(record, { kind: 'time', at: Date.now() + 3600_000 }), {
    status: 422,
    message: /after the end of the archived write-ahead log; its last transaction is of/,
    details: { latestRestorableTime: /Z$/ },
  })
  await t.rejects(restore(record, { kind: 'latest' }, { into: source }), {
    message: /data folder already/,
    status: 409,
  })
})

t.test('a source that is stopped gives everything it committed', async (t) => {
  const record = listBackups(backupsFolder)[0]!
  await commit(5)
  const at = Date.now()
  await ground.kill(source, 'SIGKILL')
  const logFolders = [source.archiveFolder, join(source.dataFolder, 'pg_wal')]
  const { into } = await restore(record, { kind: 'time', at }, { logFolders, sourceIsWhole: true })
  await ground.control.start(into)
  t.strictSame(await rowsOf(into), [1, 2, 3, 4, 5])
  await ground.control.stop(into)
  await ground.control.start(source)
})

t.test('a damaged backup is told, and a cut-off one removed', async (t) => {
  const record = await makeBaseBackup(source, project)
  const scratch = await ground.describe('scratch-2')
  const victim = join(backupData(backupsFolder, record.id), 'global', 'pg_filenode.map')
  const bytes = readFileSync(victim)
  writeFileSync(victim, Buffer.from(bytes.map((byte, index) => (index === 9 ? byte ^ 1 : byte))))
  const check = { backupsFolder, backupId: record.id, scratch, control: ground.control }
  t.match(await verifyBackup(check), { result: 'FAILED', problem: /pg_filenode.map was changed/ })
  await deleteBackup(backupsFolder, record.id)
  t.equal(listBackups(backupsFolder).length, 1)
  await t.rejects(deleteBackup(backupsFolder, record.id), { message: /backup not found/, status: 404 })

  const stopping = new AbortController()
  const cut = makeBaseBackup(source, { ...project, signal: stopping.signal, onProgress: () => stopping.abort() })
  await t.rejects(cut, { name: 'AbortError' })
  t.equal(listBackups(backupsFolder).length, 1)
  t.strictSame(readdirSync(backupsFolder).length, 1, 'no half is left')
  let gone: Promise<void> | undefined
  const kill = () => {
    gone ??= ground.kill(source, 'SIGKILL')
  }
  const killed = makeBaseBackup(source, { ...project, onProgress: kill })
  await t.rejects(killed)
  await gone
  await ground.control.start(source)
  t.strictSame(await cleanPartialBackups(backupsFolder), [])
})

t.test('an archive that is lost, full or in disagreement is a state with a reason', async (t) => {
  await archiveUpToNow(source)
  t.match(await readArchiveStatus(source), { state: 'OK', reason: null, lastArchivedWal: /^[0-9A-F]{24}$/ })
  const away = `${source.archiveFolder}-away`
  renameSync(source.archiveFolder, away)
  await t.rejects(archiveUpToNow(source, { timeoutMs: 1500 }), {
    message: /could not be archived in time/,
    kind: 'failed',
  })
  t.match(await readArchiveStatus(source), { state: 'LOST', reason: /is gone/ })
  renameSync(away, source.archiveFolder)
  await archiveUpToNow(source)
  t.match(await readArchiveStatus(source), { state: 'OK' })

  const backup = listBackups(backupsFolder)[0]!
  const hole = archivedSegments(source.archiveFolder).find((name) => name > backup.endWal)!
  const kept = readFileSync(join(source.archiveFolder, hole))
  rmSync(join(source.archiveFolder, hole))
  t.match(await readArchiveStatus(source), { state: 'LOST', reason: new RegExp(`missing from ${hole}`) })
  await t.rejects(restore(backup, { kind: 'latest' }), { status: 422, message: /hole/ })
  writeFileSync(join(source.archiveFolder, hole), kept)

  const [{ current }] = (await run<{ current: string }>(
    source,
    'select pg_walfile_name(pg_current_wal_insert_lsn()) as current',
  )) as [{ current: string }]
  writeFileSync(join(source.archiveFolder, current), 'of somebody else')
  await run(source, 'insert into event values (6)')
  await run(source, 'select pg_switch_wal()')
  for (;;) {
    const status = await readArchiveStatus(source)
    if (status.state !== 'FAILING') continue
    t.match(status, { state: 'FAILING', reason: /could not be archived/ })
    break
  }
  t.equal(readFileSync(join(source.archiveFolder, current), 'utf8'), 'of somebody else', 'never overwritten')
  rmSync(join(source.archiveFolder, current))
  await archiveUpToNow(source)
})

t.test('a full archive disk stops nobody, leaves no half, and is told; with room again all is caught up', async (t) => {
  const node = await ground.create('full')
  await ground.control.stop(node)
  const size = (limit: string) => ['-t', 'tmpfs', '-o', `size=${limit}`, 'tmpfs', node.archiveFolder]
  try {
    execFileSync('mount', size('2500k'), { stdio: 'pipe' })
  } catch {
    t.comment('no right to mount a small disk here')
    return
  }
  t.teardown(() => execFileSync('umount', ['-l', node.archiveFolder]))
  makeArchive(node)
  await ground.control.start(node)
  await run(node, 'create table filler (t text)')
  for (let n = 0; n < 5; n++)
    await run(node, `insert into filler select repeat('x', 1000) from generate_series(1, 900)`)
  for (;;) {
    const status = await readArchiveStatus(node)
    if (status.state !== 'FAILING') continue
    t.ok(status.waitingSegments > 0 && status.failedCount > 0)
    break
  }
  t.ok(
    archivedSegments(node.archiveFolder).every((name) => statSync(join(node.archiveFolder, name)).size === 1024 * 1024),
  )
  execFileSync('mount', ['-o', 'remount,size=60m', node.archiveFolder], { stdio: 'pipe' })
  await archiveUpToNow(node)
  t.match(await readArchiveStatus(node), { state: 'OK', reason: null })
  t.strictSame(
    readdirSync(node.archiveFolder).filter((name) => name.endsWith('.tmp')),
    [],
  )
  await ground.control.stop(node)
})

t.test('retention removes expired backups and the log before the oldest one kept', async (t) => {
  const first = listBackups(backupsFolder)[0]!
  const second = await makeBaseBackup(source, { ...project, type: 'SCHEDULED' })
  await archiveUpToNow(source)
  const folders = { backupsFolder, archiveFolder: source.archiveFolder }
  t.match(await applyRetention(folders, { retentionDays: 7, now: Date.now() }), { backups: [] })
  const later = Date.now() + 8 * 86_400_000
  const pruned = await applyRetention(folders, { retentionDays: 7, now: later })
  t.strictSame(pruned.backups, [first.id], 'the newest stays, however old')
  t.ok(pruned.walFiles > 0)
  t.equal(archivedSegments(source.archiveFolder)[0], second.beginWal)
  const { into } = await restore(second, { kind: 'latest' })
  await ground.control.start(into)
  t.strictSame(await rowsOf(into), [1, 2, 3, 4, 5, 6])
})
