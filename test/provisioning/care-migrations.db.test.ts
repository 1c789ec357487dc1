import { readFileSync } from 'node:fs'
import t from 'tap'
import { rotatePassword } from '../../workers/provisioning/local/credentials/rotate.ts'
import { applyMigration, listMigrations } from '../../workers/provisioning/local/migrations/postgres-migrations.ts'
import { openSession, withSession } from '../../workers/provisioning/local/postgres-session.ts'
import { careGround } from './care-node.ts'

t.setTimeout(240_000)
const ground = careGround(t)
const node = await ground.create('shop')
const user = { user: 'app', password: 'first-secret' }
await withSession(node, async (client) => {
  await client.query(`create role app login createrole password 'first-secret'`)
  await client.query('alter database app owner to app')
  await client.query("alter system set log_statement = 'all'")
  await client.query('select pg_reload_conf()')
})
const ask = <T>(sql: string) => withSession(node, async (client) => (await client.query(sql)).rows as T[], { user })
const apply = (version: string, sql: string, more: object = {}) =>
  applyMigration(node, user, { projectId: 'shop', version, name: `v${version}`, sql, ...more })

t.test('a migration is applied once, with its checksum, and only as what it was', async (t) => {
  t.strictSame(await listMigrations(node, user), [])
  const sql = 'create table item (id int primary key); insert into item values (1), (2);'
  const first = await apply('1', sql, { description: 'the items' })
  t.match(first, {
    id: /^mig-\d{8}-\d{6}$/,
    status: 'APPLIED',
    errorMessage: null,
    output: 'CREATE\nINSERT 2',
    description: 'the items',
  })
  t.equal((await apply('1', sql)).id, first.id, 'once more is the first record')
  t.strictSame(await ask('select count(*)::int as n from item'), [{ n: 2 }])
  await t.rejects(apply('1', 'select 1'), { status: 409, message: new RegExp(first.checksum) })
})

t.test('a failure is rolled back whole and recorded with its reason', async (t) => {
  const failed = await apply('2', 'create table other (id int); insert into item values (1)')
  t.match(failed, {
    status: 'FAILED',
    errorCode: '23505',
    errorMessage: /^statement 2 of 2: duplicate key .* already exists\.$/,
  })
  t.strictSame(await ask("select to_regclass('other') as gone"), [{ gone: null }])
  t.match(await apply('2', 'create table other (id int)'), { status: 'APPLIED' }, 'a failed version may be tried again')
  t.strictSame(
    (await listMigrations(node, user)).map(({ version, status }) => `${version} ${status}`),
    ['1 APPLIED', '2 FAILED', '2 APPLIED'],
  )
  t.match(await apply('3', 'create table x (a int); nonsense'), { status: 'FAILED', errorCode: '42601' })
  t.match(await apply('4', 'create role twin; grant twin to app; set role twin; select 1'), { status: 'APPLIED' })
  t.match(await apply('5', 'set local search_path = nowhere; create temp table platform (a int)'), {
    status: 'APPLIED',
  })
})

t.test('what a transaction cannot hold is told, and runs without one when asked', async (t) => {
  const sql = 'create index concurrently item_id on item (id)'
  t.match(await apply('6', sql), {
    status: 'FAILED',
    errorMessage: /cannot run inside a transaction block\. Begin the SQL with the line "-- no-transaction"/,
  })
  t.match(await apply('6', `-- no-transaction\n${sql};\nselect 1`), { status: 'APPLIED' })
  t.match(await apply('7', '-- no-transaction\ncreate table kept (a int); select 1/0'), {
    status: 'FAILED',
    errorMessage: /The 1 before it are applied/,
  })
  for (const control of [
    'commit',
    'rollback',
    'begin; select 1',
    '/* x */ start transaction',
    "prepare transaction 'x'",
    'end',
  ]) {
    await t.rejects(apply('8', `create table leak (a int); ${control}`), {
      status: 400,
      field: 'sql',
      message: /one transaction already/,
    })
  }
  t.match(await apply('9', 'savepoint s; select 1; rollback to s'), { status: 'APPLIED' })
  t.match(await apply('10', 'create procedure p() language plpgsql as $$ begin commit; end $$; call p()'), {
    status: 'FAILED',
    errorCode: '2D000',
  })
})

t.test('a migration has a time limit, one runs at a time, and rights are the user’s own', async (t) => {
  const slow = apply('11', 'set statement_timeout = 0; select pg_sleep(60)', { timeoutMs: 700 })
  await new Promise((begun) => setTimeout(begun, 250))
  await t.rejects(apply('12', 'select 1'), { status: 409, message: /Another migration/ })
  t.match(await slow, { status: 'FAILED', errorCode: '57014', errorMessage: /time limit is 700 ms/ })
  t.match(await apply('13', 'reset session authorization; alter role platform createdb'), {
    status: 'FAILED',
    errorCode: '42501',
  })
})

t.test('rotation: the new password opens, the old one does not, and neither is in the log', async (t) => {
  const old = await openSession(node, { user })
  t.strictSame(await rotatePassword(node, { user: 'app', password: 'second-secret' }), { endedSessions: 0 })
  t.match((await old.query('select 1 as up')).rows, [{ up: 1 }], 'old sessions live on unless asked')
  await t.rejects(openSession(node, { user }), { kind: 'unavailable', message: /does not accept the kept password/ })
  const renewed = { user: 'app', password: 'second-secret' }
  await (await openSession(node, { user: renewed })).end()
  const { endedSessions } = await rotatePassword(node, { user: 'app', password: 'third-secret', oldSessions: 'end' })
  t.ok(endedSessions >= 1)
  await t.rejects(old.query('select 1'))
  await t.rejects(rotatePassword(node, { user: 'nobody', password: 'x' }), { status: 404, message: /no user/ })
  const log = readFileSync(node.logFile, 'utf8')
  t.match(log, /alter role "app" password/)
  t.notMatch(log, /second-secret|third-secret/)
})
