import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { applyMysqlMigration, listMysqlMigrations } from '../../workers/provisioning/local/mysql/mysql-migrations.ts'
import {
  applyMysqlParameters,
  listMysqlParameters,
  readMysqlParameters,
  restartMysqlWithParameters,
} from '../../workers/provisioning/local/mysql/mysql-parameters.ts'
import {
  enableMysqlStatistics,
  readMysqlSample,
  readMysqlSummary,
  readMysqlTopQueries,
  readMysqlWaitEvents,
} from '../../workers/provisioning/local/mysql/mysql-performance.ts'
import { openMysql, rowsOf, withMysql } from '../../workers/provisioning/local/mysql/mysql-session.ts'
import { exportMysqlSnapshot, loadMysqlSnapshot } from '../../workers/provisioning/local/mysql/mysql-snapshot.ts'
import { requireSnapshotRoom, snapshotFile } from '../../workers/provisioning/local/snapshots/snapshot-record.ts'
import { mariadbHere, mysqlGround } from './care-mysql-node.ts'

const binaries = mariadbHere()
if (binaries === undefined) t.plan(0, 'no MariaDB on this machine')
else {
  t.setTimeout(240_000)
  const ground = mysqlGround(t, binaries)
  const node = await ground.create('shop')
  const user = { user: 'app', password: 'first-secret' }
  const ask = <T>(sql: string) => withMysql(node, (connection) => rowsOf<T>(connection, sql), { user })
  const apply = (version: string, sql: string, more: object = {}) =>
    applyMysqlMigration(node, user, { projectId: 'shop', version, name: `v${version}`, sql, ...more })

  t.test('a migration is applied once; a failure says what stays', async (t) => {
    t.strictSame(await listMysqlMigrations(node, user), [])
    const sql = 'create table item (id int primary key, name varchar(40)); insert into item values (1, "a"), (2, "b");'
    const first = await apply('1', sql)
    t.match(first, { id: /^mig-\d{8}-\d{6}$/, status: 'APPLIED', output: 'CREATE 0\nINSERT 2', errorMessage: null })
    t.equal((await apply('1', sql)).id, first.id)
    await t.rejects(apply('1', 'select 1'), { status: 409, message: new RegExp(first.checksum) })

    const rows = await apply('2', 'insert into item values (3, "c"); insert into item values (1, "twice")')
    t.match(rows, { status: 'FAILED', errorCode: '23000', errorMessage: /^statement 2 of 2: Duplicate entry/ })
    t.notMatch(rows.errorMessage, /stay/)
    t.match(await ask('select count(*) as n from item'), [{ n: 2 }], 'changes of rows are undone')
    const half = await apply('2', 'create table other (id int); nonsense')
    t.match(half, { status: 'FAILED', errorMessage: /The first 1 stay/ })
    t.match(await apply('2', 'drop table other'), { status: 'APPLIED' })
    const body = 'DELIMITER //\ncreate procedure p() begin select 1; select 2; end//\nDELIMITER ;\ncall p();'
    t.match(await apply('3', body), { status: 'APPLIED' })
    t.strictSame(
      (await listMysqlMigrations(node, user)).map(({ version, status }) => `${version} ${status}`),
      ['1 APPLIED', '2 FAILED', '2 FAILED', '2 APPLIED', '3 APPLIED'],
    )
    for (const control of ['commit', 'start transaction', '/* x */ begin', 'rollback']) {
      await t.rejects(apply('4', `insert into item values (9, "x"); ${control}`), {
        status: 400,
        field: 'sql',
        message: /one transaction already/,
      })
    }
    const slow = apply('5', 'select sleep(60) from item; select 1', { timeoutMs: 700 })
    await new Promise((begun) => setTimeout(begun, 200))
    await t.rejects(apply('6', 'select 1'), { status: 409, message: /Another migration/ })
    t.match(await slow, { status: 'FAILED', errorMessage: /time limit is 700 ms/ })
  })

  t.test('a snapshot is whole, checksummed, and loads into an empty database', async (t) => {
    const snapshotsFolder = join(ground.folder, 'snapshots')
    mkdirSync(snapshotsFolder)
    writeFileSync(join(snapshotsFolder, '.partial-shop-first'), 'of one that was killed')
    const request = { projectId: 'shop', snapshotsFolder }
    const snapshot = await exportMysqlSnapshot(node, { ...request, id: 'shop-first' })
    const bytes = readFileSync(snapshotFile(snapshotsFolder, snapshot))
    t.match(snapshot, {
      id: 'shop-first',
      format: 'plain',
      size: bytes.length,
      sha256: createHash('sha256').update(bytes).digest('hex'),
    })
    await withMysql(node, (connection) => connection.query('create database copy'))
    const copy = { ...node, database: 'copy' }
    await loadMysqlSnapshot(copy, { snapshotsFolder, id: snapshot.id })
    t.match(await withMysql(copy, (connection) => rowsOf(connection, 'select count(*) as n from item')), [{ n: 2 }])
    await t.rejects(loadMysqlSnapshot(copy, { snapshotsFolder, id: snapshot.id }), {
      status: 409,
      message: /tables already/,
    })
    const schema = await exportMysqlSnapshot(node, {
      ...request,
      schemaOnly: true,
      tables: ['item'],
      id: 'shop-schema',
    })
    const text = readFileSync(snapshotFile(snapshotsFolder, schema), 'utf8')
    t.match(text, /CREATE TABLE `item`/)
    t.notMatch(text, /INSERT INTO|platform_migrations/)
    await t.rejects(exportMysqlSnapshot(node, { ...request, format: 'custom' }), {
      status: 422,
      field: 'format',
      message: /plain only/,
    })
    await t.rejects(exportMysqlSnapshot(node, { ...request, tables: ['--all'] }), {
      status: 400,
      field: 'tables',
      message: /does not exist/,
    })
    await t.rejects(exportMysqlSnapshot(node, { ...request, id: 'shop-schema' }), { status: 409, message: /exists/ })
    writeFileSync(snapshotFile(snapshotsFolder, schema), 'other')
    await t.rejects(loadMysqlSnapshot(node, { snapshotsFolder, id: 'shop-schema' }), { message: /was changed/ })
    t.equal(readdirSync(snapshotsFolder).length, 4)
    requireSnapshotRoom(snapshotsFolder)
    for (let index = 0; index < 100; index++) {
      writeFileSync(join(snapshotsFolder, `s-${index}.json`), JSON.stringify({ id: `s-${index}`, createdAt: '2026' }))
    }
    t.throws(() => requireSnapshotRoom(snapshotsFolder), { code: 'provisioning/quota', status: 429 })
  })

  t.test('parameters: at once, after a restart, refused, and back from a failed start', async (t) => {
    const value = async (name: string) => (await ask<{ v: unknown }>(`select @@global.${name} as v`))[0]!.v
    t.strictSame(await applyMysqlParameters(node, { max_connections: '77', 'innodb-autoinc-lock-mode': '2' }), {
      reload: ['max_connections'],
      pendingRestart: ['innodb_autoinc_lock_mode'],
    })
    t.equal(await value('max_connections'), 77)
    t.match(await listMysqlParameters(node), [
      { name: 'max_connections', pending: null, effect: 'reload' },
      { name: 'innodb_autoinc_lock_mode', value: '1', pending: '2', effect: 'restart' },
    ])
    t.strictSame(await restartMysqlWithParameters(ground.control, node), { applied: true, reason: null })
    t.strictSame([await value('max_connections'), await value('innodb_autoinc_lock_mode')], [77, 2])
    const bad: [string, string, RegExp][] = [
      ['max_connections', 'many', /must be a number/], ['max_connections', '1', /between 10 and/], ['log_bin', 'OFF', /managed by the platform/], ['nothing', '1', /no parameter nothing/],
      ['tx_isolation', 'SOMETIMES', /must be one of READ-UNCOMMITTED/], ['wait_timeout', '0', /between 1/], ['version', 'x', /cannot be set/], ['sql_mode', 'NO_SUCH_MODE', /can't be set/],
    ] // biome-ignore format: a table
    for (const [name, given, message] of bad) {
      await t.rejects(
        applyMysqlParameters(node, { [name]: given }),
        { status: 400, field: `parameters.${name}`, message },
        `${name} = ${given}`,
      )
    }
    await applyMysqlParameters(node, { max_connections: null })
    t.strictSame(await readMysqlParameters(node), { innodb_autoinc_lock_mode: '2' })
    await applyMysqlParameters(node, {
      innodb_buffer_pool_chunk_size: '1M',
      innodb_temp_data_file_path: 'not-a-specification',
    })
    t.match(await restartMysqlWithParameters(ground.control, node), { applied: false, reason: /.{10,}/ })
    t.strictSame(await readMysqlParameters(node), { innodb_autoinc_lock_mode: '2' })
    t.notOk(existsSync(`${node.parametersFile}.good`))
  })

  t.test('metrics, top queries and waits', async (t) => {
    t.match(await readMysqlSample(node), { queries: null, maxConnections: Number })
    t.match(await readMysqlSummary(node), { available: false, unavailableReason: 'performance_schema is not enabled' })
    t.strictSame(await readMysqlTopQueries(node), [])
    await enableMysqlStatistics(ground.control, node)
    await enableMysqlStatistics(ground.control, node)
    for (let n = 0; n < 3; n++) await ask('select count(*) as n from item')
    for (;;) {
      const counted = (await readMysqlTopQueries(node, 20)).find(({ query }) => /COUNT.*item/i.test(query))
      // The server counts a statement when its answer is out.
      if ((counted?.calls ?? 0) < 3) continue
      t.match(counted, { calls: 3, rows: 3 })
      break
    }
    const sample = await readMysqlSample(node)
    t.ok(sample.queries !== null && sample.queries.calls >= 3 && sample.databaseBytes > 0)
    t.match(await readMysqlSummary(node), { available: true, unavailableReason: null })
    const holder = await openMysql(node, { user })
    const waiter = await openMysql(node, { user })
    await holder.query('lock tables item write')
    const blocked = waiter.query('select * from item')
    for (;;) {
      const lock = (await readMysqlWaitEvents(node)).find(({ waitEventType }) => waitEventType === 'Lock')
      if (lock === undefined) continue
      t.match(lock, { waitEvent: /Waiting for table metadata lock/, count: 1 })
      break
    }
    await holder.query('unlock tables')
    await blocked
    await Promise.all([holder.end(), waiter.end()])
  })
}
