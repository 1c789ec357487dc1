import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { backupData } from '../../workers/provisioning/local/backup/backup-record.ts'
import { makeBaseBackup } from '../../workers/provisioning/local/backup/base-backup.ts'
import { verifyBackup } from '../../workers/provisioning/local/backup/verify.ts'
import type { PostgresNode } from '../../workers/provisioning/local/postgres-node.ts'
import { withSession } from '../../workers/provisioning/local/postgres-session.ts'
import { exportSnapshot, loadSnapshot } from '../../workers/provisioning/local/snapshots/postgres-snapshot.ts'
import {
  cleanSnapshots,
  deleteSnapshot,
  listSnapshots,
  readSnapshot,
  snapshotFile,
} from '../../workers/provisioning/local/snapshots/snapshot-record.ts'
import { careGround } from './care-node.ts'
import { debianPostgres } from './debian-postgres.ts'

t.setTimeout(240_000)
const ground = careGround(t, await debianPostgres())
const node = await ground.create('shop')
const snapshotsFolder = join(ground.folder, 'snapshots')
const project = { projectId: 'shop', snapshotsFolder }
const run = <T>(on: PostgresNode, sql: string) =>
  withSession(on, async (client) => (await client.query(sql)).rows as T[], { user: node.superuser })

await run(
  node,
  `create table item (id int primary key, name text); insert into item select g, 'item ' || g from generate_series(1, 500) g;
  create table audit (id int); insert into audit values (1); create view cheap as select * from item where id < 10`,
)

for (const format of ['custom', 'plain', 'directory', 'tar']) {
  t.test(`a ${format} snapshot is whole, checksummed, and loads into another database`, async (t) => {
    // As one that was killed leaves it.
    for (const name of [`.partial-shop-${format}`, `.partial-shop-${format}.d`]) {
      mkdirSync(join(snapshotsFolder, name), { recursive: true })
      writeFileSync(join(snapshotsFolder, name, 'toc.dat'), 'half')
    }
    const snapshot = await exportSnapshot(node, { ...project, format, id: `shop-${format}` })
    t.match(snapshot, { format, schemaOnly: false })
    const bytes = readFileSync(snapshotFile(snapshotsFolder, snapshot))
    t.match(snapshot, { size: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') })
    t.ok(snapshot.fileName.endsWith(format === 'plain' ? '.sql' : '.dump'))

    const database = `copy_${format}`
    await run(node, `create database ${database}`)
    const copy = { ...node, database }
    await loadSnapshot(copy, { snapshotsFolder, id: snapshot.id })
    t.match(await run(copy, 'select count(*)::int, max(name) from item'), [{ count: 500, max: 'item 99' }])
    t.match(await run(copy, 'select count(*)::int from cheap'), [{ count: 9 }])
    await t.rejects(loadSnapshot(copy, { snapshotsFolder, id: snapshot.id }), {
      kind: 'failed',
      message: /already exists/,
    })
    t.match(await run(copy, 'select count(*)::int from item'), [{ count: 500 }], 'all or nothing')
  })
}

t.test('schema only, some tables, and all but some', async (t) => {
  const sqlOf = async (request: object) =>
    readFileSync(
      snapshotFile(snapshotsFolder, await exportSnapshot(node, { ...project, format: 'plain', ...request })),
      'utf8',
    )
  const schema = await sqlOf({ schemaOnly: true })
  t.match(schema, /CREATE TABLE public.item/)
  t.notMatch(schema, /item 99/)
  const one = await sqlOf({ tables: ['public.item'] })
  t.match(one, /item 99/)
  t.notMatch(one, /CREATE TABLE public.audit/)
  t.notMatch(await sqlOf({ excludeTables: ['item', 'cheap'] }), /item 99/)
  await t.rejects(sqlOf({ tables: ['nowhere'] }), { message: /does not exist/, status: 400, field: 'tables' })
})

t.test('what is refused', async (t) => {
  const export_ = (request: object) => exportSnapshot(node, { ...project, ...request })
  await t.rejects(export_({ format: 'zip' }), {
    status: 400,
    field: 'format',
    message: /custom, plain, directory, tar/,
  })
  await t.rejects(export_({ tables: ['a*'] }), { status: 400, field: 'tables', message: /not a table/ })
  await t.rejects(export_({ excludeTables: ['a"; drop'] }), {
    status: 400,
    field: 'excludeTables',
    message: /not a table/,
  })
  await t.rejects(export_({ tables: Array(101).fill('a') }), { status: 400, field: 'tables', message: /more than 100/ })
  t.throws(() => readSnapshot(snapshotsFolder, 'x'), { status: 404, message: 'snapshot not found: x' })
})

t.test('a cut-off or failed export leaves nothing, a changed file is told, a deleted one is gone', async (t) => {
  const stop = AbortSignal.timeout(1)
  await t.rejects(exportSnapshot(node, { ...project, signal: stop }))
  const before = listSnapshots(snapshotsFolder)
  t.equal(readdirSync(snapshotsFolder).length, before.length * 2)
  writeFileSync(join(snapshotsFolder, '.partial-x'), 'half')
  await cleanSnapshots(snapshotsFolder)
  t.equal(readdirSync(snapshotsFolder).length, before.length * 2)

  const [first] = before
  writeFileSync(snapshotFile(snapshotsFolder, first!), 'other')
  await t.rejects(loadSnapshot(node, { snapshotsFolder, id: first!.id }), { message: /was changed/ })
  await deleteSnapshot(snapshotsFolder, first!.id)
  t.notOk(listSnapshots(snapshotsFolder).some(({ id }) => id === first!.id))
  await t.rejects(deleteSnapshot(snapshotsFolder, first!.id), { status: 404, message: /not found/ })
})

t.test('where pg_verifybackup is installed, the log of a backup is looked at too', async (t) => {
  const backupsFolder = join(ground.folder, 'backups')
  const { id } = await makeBaseBackup(node, { projectId: 'shop', type: 'MANUAL', backupsFolder })
  const scratch = await ground.describe('scratch')
  const check = { backupsFolder, backupId: id, scratch, control: ground.control }
  t.match(await verifyBackup(check), { result: 'OK', restored: true, problem: null })
  const log = join(backupData(backupsFolder, id), 'pg_wal')
  const segment = join(log, readdirSync(log).find((name) => /^[0-9A-F]{24}$/.test(name))!)
  writeFileSync(
    segment,
    readFileSync(segment).map((byte) => byte ^ 0xff),
  )
  const verified = await verifyBackup(check)
  t.match(verified, { result: 'FAILED', restored: false, problem: /WAL/i })
  t.notMatch(verified.problem, /\/tmp|\/usr/)
})
