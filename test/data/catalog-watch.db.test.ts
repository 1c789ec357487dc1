import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import t from 'tap'
import {
  type CatalogObservation,
  type CatalogWatch,
  type CatalogWatchOptions,
  watchCatalog,
} from '../../gateways/data/catalog-watch.ts'
import { Unavailable } from '../../schemas/failure.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)
const watcherName = 'watcher'

async function connect(name = 'admin'): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: server.url, application_name: name })
  // A test that ends the server ends this too.
  client.on('error', () => undefined)
  await client.connect()
  return client
}

/** One statement on a connection of its own, so that a restarted server is no matter. */
async function run(sql: string): Promise<pg.QueryResult> {
  const client = await connect()
  try {
    return await client.query(sql)
  } finally {
    await client.end()
  }
}

await run(readFileSync(new URL('../support/fixture.sql', import.meta.url), 'utf8'))

interface Watched {
  readonly watch: CatalogWatch
  readonly observations: CatalogObservation[]
  readonly changes: string[]
}

/** Does not look by itself unless told to. */
async function watched(
  owner: { teardown(fn: () => Promise<void>): void },
  options: Partial<CatalogWatchOptions> = {},
): Promise<Watched> {
  const observations: CatalogObservation[] = []
  const changes: string[] = []
  const watch = await watchCatalog({
    connect: () => connect(watcherName),
    schemas: ['public'],
    pollMs: 1_000_000_000,
    onChange: (catalog) => changes.push(catalog.version),
    onObservation: (observation) => observations.push(observation),
    ...options,
  })
  owner.teardown(() => watch.stop())
  return { watch, observations, changes }
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await delay(10)
}

const loads = ({ observations }: Watched) => observations.filter(({ type }) => type === 'catalog-loaded').length
const columnsOf = ({ watch }: Watched, table: string) =>
  watch
    .current()
    .tables.get(`public.${table}`)
    ?.columns.map(({ name }) => name)

t.test('every kind of DDL change makes another version', async (t) => {
  const { watch } = await watched(t)
  for (const ddl of [
    'create table fresh (id int primary key, word text, other_id int)',
    'alter table fresh rename to fresher',
    'alter table fresher rename word to words',
    'alter table fresher add number int',
    'alter table fresher alter number type bigint',
    'alter table fresher alter number set default 5',
    'alter table fresher alter number set default 6',
    'alter table fresher alter number set not null',
    'alter table fresher alter number drop not null',
    `comment on table fresher is 'a table'`,
    `comment on column fresher.words is 'some words'`,
    'alter table fresher add unique (words)',
    'create unique index on fresher (number)',
    'drop index fresher_number_idx',
    'alter table fresher add constraint fk foreign key (other_id) references tag',
    'alter table fresher rename constraint fk to fresh_fk',
    'alter table fresher drop constraint fresh_fk',
    'alter table fresher alter id add generated always as identity',
    'alter table fresher replica identity full',
    'alter table fresher enable row level security',
    'alter table fresher drop column number',
    'create view fresh_view as select id from fresher',
    'create or replace view fresh_view as select distinct id from fresher',
    'create trigger through instead of insert on fresh_view for each row execute function noted_insert()',
    'drop trigger through on fresh_view',
    'drop view fresh_view',
    'create materialized view fresh_copy as select id from fresher',
    'drop table fresher cascade',
    'create function fresh(a int) returns int language sql as $$ select a $$',
    'create or replace function fresh(a int) returns int language sql immutable as $$ select a $$',
    `comment on function fresh is 'a function'`,
    'drop function fresh',
    `alter type mood add value 'tired'`,
    `alter type mood rename value 'tired' to 'sleepy'`,
    "alter domain required_code set default 'some'",
    'alter type postal add attribute zip text',
    'create table measurement_2024_03 (like measurement including all)',
    `alter table measurement attach partition measurement_2024_03 for values from ('2024-03-01 00:00+00') to ('2024-04-01 00:00+00')`,
    'alter table keyless set schema other',
    'alter table other.keyless set schema public',
  ]) {
    const before = watch.current().version
    await run(ddl)
    const after = await watch.reload()
    t.not(after.version, before, ddl)
    t.equal(watch.current(), after)
  }
})

t.test('types of other schemas count, other tables of theirs do not', async (t) => {
  const subject = await watched(t)
  await run(`alter type other.level add value 'middle'`)
  const level = (await subject.watch.reload()).tables.get('public.stock')?.columnByName.get('level')
  t.same(level?.type.enumValues, ['low', 'high', 'middle'])
  await run('create table other.unseen (id int)')
  await subject.watch.reload()
  t.equal(loads(subject), 2)
})

t.test('what the login role may see follows grants', async (t) => {
  await run(`create role viewer login password 'viewer'; grant usage on schema public to viewer`)
  const url = new URL(server.url)
  url.username = 'viewer'
  url.password = 'viewer'
  const { watch } = await watched(t, {
    async connect() {
      const client = new pg.Client({ connectionString: url.href })
      await client.connect()
      return client
    },
  })
  const sees = async () => (await watch.reload()).tables.has('public.secret')
  t.equal(await sees(), false)
  await run('grant select on secret to viewer')
  t.equal(await sees(), true)
  await run('revoke select on secret from viewer; grant select on secret to web_anonymous')
  t.equal(await sees(), false)
  await run('grant web_anonymous to viewer')
  t.equal(await sees(), true)
  await run('revoke usage on schema public from viewer, public; revoke usage on schema public from web_anonymous')
  t.equal(await sees(), false)
  await run('grant usage on schema public to public')
})

t.test('rows, TRUNCATE, ANALYZE, VACUUM and temporary tables are no change', async (t) => {
  const subject = await watched(t)
  const before = subject.watch.current()
  for (const sql of [
    `insert into tag values (5000, 'more'); delete from tag where id = 5000`,
    'create table other.empty (id int); truncate keyless; create temp table passing (id int primary key)',
    'analyze',
    'vacuum full keyless',
    'refresh materialized view sales',
    'create index on orders (placed_at)',
  ]) {
    await run(sql)
    t.equal(await subject.watch.reload(), before, sql)
  }
  t.equal(loads(subject), 1, 'the catalog was not even read again')
  t.same(subject.changes, [])
})

t.test('a change is seen without being told, and the old catalog stays as it was', async (t) => {
  const subject = await watched(t, { pollMs: 20 })
  const before = subject.watch.current()
  await run('create table polled (id int)')
  await until(() => columnsOf(subject, 'polled') !== undefined)
  t.notOk(before.tables.has('public.polled'))
  t.same(subject.changes, [subject.watch.current().version])
  await run('alter table polled add word text')
  await until(() => columnsOf(subject, 'polled')?.length === 2)
  t.equal(subject.changes.length, 2)
})

t.test('reloads that come together share the work, and each has what was committed before it', async (t) => {
  const subject = await watched(t)
  await run('create table step_1 (id int)')
  const first = subject.watch.reload()
  await run('create table step_2 (id int)')
  const many = await Promise.all(Array.from({ length: 100 }, () => subject.watch.reload()))
  await first
  for (const catalog of many) if (!catalog.tables.has('public.step_2')) t.fail('a reload missed a change')
  t.ok(loads(subject) <= 3, `${loads(subject)} loads`)
})

t.test('a change that is being made is seen when it is committed', async (t) => {
  const { watch } = await watched(t)
  const client = await connect()
  await client.query('begin; create table unsure (id int); alter table tag add column unsure int')
  t.notOk((await watch.reload()).tables.has('public.unsure'), 'and does not hold anybody up')
  await client.query('commit')
  t.ok((await watch.reload()).tables.has('public.unsure'))
  await client.end()
})

const connections = async () =>
  Number((await run(`select count(*) from pg_stat_activity where application_name = '${watcherName}'`)).rows[0].count)

t.test('a connection that is lost is replaced', async (t) => {
  const subject = await watched(t, { pollMs: 20 })
  await run(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = '${watcherName}'`)
  await run('create table after_loss (id int)')
  await until(() => columnsOf(subject, 'after_loss') !== undefined)
  t.equal(await connections(), 1)
})

t.test('while the server is away the catalog stays, and afterwards it follows again', async (t) => {
  const subject = await watched(t, { pollMs: 20 })
  const before = subject.watch.current()
  await server.kill('SIGKILL')
  // A backend outlives its killed postmaster until it next looks.
  let refusal: unknown
  await until(async () => {
    refusal = await subject.watch.reload().then(
      () => undefined,
      (error: unknown) => error,
    )
    return refusal !== undefined
  })
  t.type(refusal, Unavailable)
  await until(() => subject.observations.some(({ type }) => type === 'catalog-unreadable'))
  t.equal(subject.watch.current(), before)
  await server.restart()
  await run('create table after_crash (id int)')
  await until(() => columnsOf(subject, 'after_crash') !== undefined)
  t.equal((await subject.watch.reload()).version, subject.watch.current().version)
})

t.test('stopping closes the connection, even in the middle of a look', async (t) => {
  const subject = await watched(t)
  const looking = subject.watch.look().catch(() => undefined)
  await subject.watch.stop()
  await looking
  await until(async () => (await connections()) === 0)
  t.equal(await subject.watch.reload(), subject.watch.current(), 'the last catalog stays')
})

t.test('a first reading that fails says why', async (t) => {
  await t.rejects(
    watchCatalog({ connect: () => Promise.reject(new Error('no such host')), schemas: ['public'] }),
    /no such host/,
  )
})
