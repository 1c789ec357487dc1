import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { changeHeader } from '../../schemas/data/change.ts'
import { testNats, testPostgres } from '../support/servers.ts'
import { capture, connectBus, connectDatabase, makeStream, readStream, type Stored, until } from './support.ts'

t.setTimeout(120_000)

const [postgres, nats] = await Promise.all([testPostgres(t), testNats(t)])
const bus = await connectBus(t, nats.url)
await makeStream(bus)
const database = await connectDatabase(t, postgres.url)
await database.query(readFileSync(join(import.meta.dirname, '../support/fixture.sql'), 'utf8'))
await database.query(
  "set timezone = 'UTC'; set intervalstyle = 'iso_8601'; set datestyle = 'ISO, YMD'; set search_path = public",
)
await database.query('create table probe (number int primary key)')
const capturing = capture(t, postgres.url, bus)
await until(() => capturing.status().state === 'running')

let probes = 0
let nextSequence = 1

/** What has come onto the stream since the last call. */
async function changes(): Promise<Stored[]> {
  probes += 1
  await database.query('insert into probe values ($1)', [probes])
  const all = await readStream(
    bus,
    ({ body }) => body.includes(`"table":"probe","data":{"number":${probes}}`),
    nextSequence,
  )
  nextSequence = all.at(-1)!.sequence + 1
  return all.slice(0, -1)
}

async function restRows(table: string, condition = 'true'): Promise<string[]> {
  const { rows } = await database.query<{ row: string }>(
    `select row_to_json("the row")::text as row from ${table} "the row" where ${condition}`,
  )
  return rows.map(({ row }) => row)
}

/** The raw text of `data`: numbers with all their digits. */
function dataOf({ body }: Stored): string {
  const start = body.indexOf('"data":') + 7
  return body.slice(start, body.lastIndexOf(',"timestamp":'))
}

t.test('an inserted row is the row that REST answers, for every type', async (t) => {
  await database.query('create table everything_else (like everything including all)')
  await until(async () => capturing.status().state === 'running')
  await database.query('insert into everything_else select * from everything')
  const inserted = await changes()
  const rows = await restRows('everything_else')
  t.equal(inserted.length, rows.length)
  for (const [index, row] of rows.entries()) t.equal(dataOf(inserted[index]!), row)
  t.equal(inserted[0]!.subject, 'cdc.main.public.everything_else.insert')
})

t.test('odd arrays and composites', async (t) => {
  await database.query(`
    create type inner_part as (a text, b int[], c timestamptz);
    create type outer_part as (x inner_part, y inner_part[], "z ""q" jsonb, e text);
    create domain outer_domain as outer_part;
    create table odd (id int primary key, o outer_domain, os outer_part[], bounds int[], boxes box[], j json[],
      t text[], v int2vector, ts timestamptz[], nested text[][][], empty int[], m money)`)
  await database.query(`insert into odd values
    (1, row(row('a "b" \\ , ( ) { }', '{1,null,3}', '2024-01-01 00:00:00+02'), array[row('', null, null), null]::inner_part[], '{"k": [1.10, "x"]}', '')::outer_part,
      array[row(null, '{}', null, 'null')::outer_part, null], '[0:1]={5,6}', '{(1,1),(0,0);(2,2),(1,1)}', array['{"a":1,  "b" : 2}', 'null']::json[],
      array['NULL', null, '', 'a,b', '{x}', 'back\\slash', E'new\\nline\\ttab', 'ü😀', '"'], '1 2 3', '{infinity,-infinity,"2024-01-01 00:00:00.5+00"}', '{{{a,b},{c,null}}}', '{}', 12.5),
    (2, null, null, null, null, null, null, null, null, null, null, null)`)
  const inserted = await changes()
  const rows = await restRows('odd')
  for (const [index, row] of rows.entries()) t.equal(dataOf(inserted[index]!), row)
})

t.test('JSON with line ends stays on one line', async (t) => {
  await database.query('create table lines (id int primary key, j json)')
  await database.query(`insert into lines values (1, E'{\\r\\n "a":\\n 1}')`)
  const [inserted] = await changes()
  t.notMatch(inserted!.body, /[\r\n]/)
  t.strictSame(JSON.parse(dataOf(inserted!)), { id: 1, j: { a: 1 } })
})

t.test('generated and identity columns', async (t) => {
  await database.query('insert into counters (base) values (21)')
  const [inserted] = await changes()
  const [row] = await restRows('counters', 'base = 21')
  t.equal(dataOf(inserted!), row)
})

t.test('a new table, a changed table and a changed type are written as they are at that moment', async (t) => {
  await database.query('create table moving (id int primary key, a text)')
  await database.query(`insert into moving values (1, 'x')`)
  await database.query('alter table moving add b int default 7, add c mood')
  await database.query(`insert into moving values (2, 'y', 8, 'ok')`)
  await database.query(
    `alter table moving rename a to "A b"; alter table moving drop b; alter table moving alter id type numeric`,
  )
  await database.query(`insert into moving values (3.50, 'z', null)`)
  t.strictSame((await changes()).map(dataOf), [
    '{"id":1,"a":"x"}',
    '{"id":2,"a":"y","b":8,"c":"ok"}',
    '{"id":3.50,"A b":"z","c":null}',
  ])
})

t.test('updates, deletes and truncates of tables with default and full identity', async (t) => {
  await database.query('create table plain (id int primary key, name text, big text)')
  await database.query(
    'create table whole (id int primary key, name text, big text); alter table whole replica identity full',
  )
  await until(() => capturing.status().unpublished.every(({ table }) => table !== 'plain' && table !== 'whole'))
  await published('plain', 'whole')
  const big = `(select string_agg(md5(n::text), '') from generate_series(1, 400) n)`
  for (const table of ['plain', 'whole']) {
    await database.query(`insert into ${table} values (1, 'a', ${big})`)
    await database.query(`update ${table} set name = 'b'`)
    await database.query(`update ${table} set id = 2, big = 'small'`)
    await database.query(`delete from ${table}`)
  }
  await database.query('truncate plain, whole')
  const all = await changes()
  t.strictSame(
    all.map(({ subject, body }) => [subject.split('.').slice(3).join('.'), JSON.parse(body).type]),
    [
      ...['plain', 'whole'].flatMap((table) => [
        [`${table}.insert`, 'INSERT'],
        [`${table}.update`, 'UPDATE'],
        [`${table}.update`, 'UPDATE'],
        [`${table}.delete`, 'DELETE'],
      ]),
      ['plain.truncate', 'TRUNCATE'],
      ['whole.truncate', 'TRUNCATE'],
    ],
  )
  const data = all.map((each) => JSON.parse(dataOf(each)))
  const text = data[0].big
  t.strictSame(data[1], { old: { id: 1 }, new: { id: 1, name: 'b' } }, 'what did not change and is TOASTed is left out')
  t.strictSame(data[2], { old: { id: 1 }, new: { id: 2, name: 'b', big: 'small' } })
  t.strictSame(data[3], { id: 2 })
  t.strictSame(data[5], { old: { id: 1, name: 'a', big: text }, new: { id: 1, name: 'b', big: text } })
  t.strictSame(data[7], { id: 2, name: 'b', big: 'small' })
  t.strictSame(data[8], {})
  for (const each of all) {
    t.strictSame(Object.keys(JSON.parse(each.body)), ['type', 'schema', 'table', 'data', 'timestamp'])
  }
})

t.test('tables without a key can still be updated by everybody, and say why only inserts are seen', async (t) => {
  await database.query(`update keyless set number = 9 where number = 1; insert into keyless values ('new', 1)`)
  const all = await changes()
  t.strictSame(all.map(dataOf), ['{"name":"new","number":1}'])
  const named = capturing.status().unpublished.find(({ table }) => table === 'keyless')
  t.match(named, { reason: /primary key/, statement: /REPLICA IDENTITY FULL/ })
  await database.query('alter table keyless replica identity full')
  await published('keyless')
  await database.query(`delete from keyless where name = 'new'`)
  t.strictSame((await changes()).map(dataOf), ['{"name":"new","number":1}'])
})

t.test('partitions are seen as their table; other schemas, unlogged tables and views are not seen', async (t) => {
  await database.query(`insert into measurement values (77, '2024-01-06 00:00:00+00', 1.5, null)`)
  await database.query(`insert into other.warehouse (id, name) values (1000, 'unseen')`)
  await database.query('create unlogged table fleeting (id int); insert into fleeting values (1)')
  await database.query(`insert into open_orders (customer_id, status) values (1, 'open')`)
  const all = await changes()
  t.strictSame(
    all.map(({ subject }) => subject),
    ['cdc.main.public.measurement.insert', 'cdc.main.public.orders.insert'],
  )
})

t.test('names that need escapes', async (t) => {
  await database.query(`insert into "table.with.dots" (id) values (999); insert into "naïve 😀" values (99)`)
  const all = await changes()
  t.strictSame(
    all.map(({ subject }) => subject),
    ['cdc.main.public.table%2Ewith%2Edots.insert', 'cdc.main.public.na%C3%AFve%20%F0%9F%98%80.insert'],
  )
  t.equal(JSON.parse(all[1]!.body).table, 'naïve 😀')
})

t.test('a command is published before its rows and named on each of them', async (t) => {
  const command = {
    commandId: 'b7f3a1c0-0000-4000-8000-000000000001',
    actor: 'ann',
    operation: 'rest.insert public.tag',
  }
  await database.query('begin')
  await database.query(`select pg_logical_emit_message(true, 'busbar.command', $1)`, [JSON.stringify(command)])
  await database.query(`insert into tag select 500 + n, 'c' || n from generate_series(1, 2) n`)
  await database.query('commit')
  await database.query(`select pg_logical_emit_message(true, 'busbar.command', 'no JSON')`)
  await database.query(`select pg_logical_emit_message(true, 'somebody.else', '{"commandId":"x"}')`)
  await database.query(`insert into tag values (600, 'alone')`)
  const all = await changes()
  t.strictSame(
    all.map(({ subject }) => subject),
    ['cdc.main.command', ...Array.from({ length: 3 }, () => 'cdc.main.public.tag.insert')],
  )
  t.strictSame(JSON.parse(all[0]!.body), command)
  t.strictSame(
    all.map(({ header }) => header(changeHeader.command)),
    [command.commandId, command.commandId, command.commandId, ''],
  )
  t.strictSame(
    all.slice(0, 3).map(({ header }) => header(changeHeader.index)),
    ['0', '1', '2'],
  )
  t.equal(new Set(all.slice(0, 3).map(({ header }) => header(changeHeader.lsn))).size, 1)
})

t.test('a change that is too large for a message comes without its bulkiest columns', async (t) => {
  await database.query('create table bulky (id int primary key, small text, large text)')
  await database.query(`insert into bulky values (1, 's', repeat('x', ${(bus.info?.max_payload ?? 0) + 1}))`)
  const [inserted] = await changes()
  t.strictSame(Object.keys(JSON.parse(dataOf(inserted!))), ['id', 'small'])
  t.equal(inserted!.header(changeHeader.omitted), '["large"]')
})

t.test('what is rolled back is not seen', async (t) => {
  await database.query('begin; insert into tag values (700, 7); rollback')
  await database.query(
    `begin; insert into tag values (701, 'a'); savepoint s; insert into tag values (702, 'b'); rollback to s; insert into tag values (703, 'c'); commit`,
  )
  t.strictSame(
    (await changes()).map((each) => JSON.parse(dataOf(each)).id),
    [701, 703],
  )
})

t.test('the slot advances while nothing of ours is written', async () => {
  const before = (await database.query('select confirmed_flush_lsn::text as lsn from pg_replication_slots')).rows[0].lsn
  await database.query('create table other.noise (t text)')
  await database.query(`insert into other.noise select repeat('x', 100) from generate_series(1, 10000)`)
  const { rows } = await database.query('select pg_current_wal_lsn()::text as lsn')
  await until(async () => {
    const sql =
      'select confirmed_flush_lsn >= $1::pg_lsn as passed, confirmed_flush_lsn > $2::pg_lsn as moved from pg_replication_slots'
    const { passed, moved } = (await database.query(sql, [rows[0].lsn, before])).rows[0]
    return passed && moved
  })
})

/** Waits until all changes of the tables are published. */
async function published(...tables: string[]): Promise<void> {
  await until(async () => {
    const { rows } = await database.query(
      `select count(*)::int as count from pg_publication_tables where pubname = 'busbar' and tablename = any($1)`,
      [tables],
    )
    return rows[0].count === tables.length
  })
}
