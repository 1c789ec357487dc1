import { jetstreamManager } from '@nats-io/jetstream'
import t, { type Test } from 'tap'
import { changeHeader } from '../../schemas/data/change.ts'
import { isRealMysql } from '../support/mysql.ts'
import { bodies, connectMysql, mysqlScene, mysqlStage } from './mysql-scene.ts'
import { until } from './support.ts'

t.setTimeout(120_000)

const stage = await mysqlStage(t)
const { server, bus } = stage
const scene = (t: Test, source: string) => mysqlScene(t, stage, source)

t.test('rows as they are written, in the order of their commits, and nothing of what was taken back', async (t) => {
  const { database, running, changes } = await scene(t, 'orders')
  await running()
  await database.query('create table item (a int, b int, name text, primary key (b, a))')
  await database.query("insert into item values (1, 2, 'x'), (2, 2, null)")
  await database.query("update item set name = 'y' where a = 1")
  await database.query('begin; delete from item where a = 2; rollback')
  await database.query("start transaction; insert into item values (3, 3, 'z'); delete from item where a = 1; commit")
  await database.query('truncate table `item`')
  await database.query(
    'create database elsewhere; create table elsewhere.t (a int); insert into elsewhere.t values (1)',
  )
  const messages = await changes()
  t.same(bodies(messages), [
    '{"type":"INSERT","schema":"orders","table":"item","data":{"a":1,"b":2,"name":"x"}}',
    '{"type":"INSERT","schema":"orders","table":"item","data":{"a":2,"b":2,"name":null}}',
    '{"type":"UPDATE","schema":"orders","table":"item","data":{"old":{"a":1,"b":2,"name":"x"},"new":{"a":1,"b":2,"name":"y"}}}',
    '{"type":"INSERT","schema":"orders","table":"item","data":{"a":3,"b":3,"name":"z"}}',
    '{"type":"DELETE","schema":"orders","table":"item","data":{"a":1,"b":2,"name":"y"}}',
    '{"type":"TRUNCATE","schema":"orders","table":"item","data":{}}',
  ])
  t.same(
    messages.map(({ subject }) => subject),
    ['insert', 'insert', 'update', 'insert', 'delete', 'truncate'].map((word) => `cdc.orders.orders.item.${word}`),
  )
})

t.test('tables change while they are read', async (t) => {
  const { database, running, changes } = await scene(t, 'ddl')
  await running()
  await database.query(`create table item (id int primary key, a int); insert into item values (1, 2);
    alter table item add column b varchar(9) default 'new', change a c bigint; update item set c = 3;
    rename table item to thing; insert into thing values (2, 4, 'x'); alter table thing drop column c;
    insert into thing values (3, 'y'); drop table thing`)
  t.same(bodies(await changes()), [
    '{"type":"INSERT","schema":"ddl","table":"item","data":{"id":1,"a":2}}',
    '{"type":"UPDATE","schema":"ddl","table":"item","data":{"old":{"id":1,"c":2,"b":"new"},"new":{"id":1,"c":3,"b":"new"}}}',
    '{"type":"INSERT","schema":"ddl","table":"thing","data":{"id":2,"c":4,"b":"x"}}',
    '{"type":"INSERT","schema":"ddl","table":"thing","data":{"id":3,"b":"y"}}',
  ])
})

t.test('a reader that goes and comes goes on where the stream ends, in the middle of a transaction too', async (t) => {
  const { database, running, changes, seen } = await scene(t, 'resume')
  const first = await running()
  await database.query('create table item (id int primary key, filler varchar(200))')
  await changes()
  const rows = 30_000
  const numbers = isRealMysql
    ? `(with recursive s (seq) as (select 1 union all select seq + 1 from s where seq < ${rows}) select seq from s) s`
    : `seq_1_to_${rows}`
  if (isRealMysql) await database.query(`set cte_max_recursion_depth = ${rows}`)
  const writing = database.query(
    `insert into item select seq, repeat('x', 200) from ${numbers}; insert into item values (0, 'last')`,
  )
  const { streams } = await jetstreamManager(bus)
  const before = (await streams.info('resume')).state.messages
  await until(async () => (await streams.info('resume')).state.messages > before + 1_000)
  await first.stop()
  await writing
  const stopped = (await streams.info('resume')).state.messages
  t.ok(stopped < before + rows, `it stopped inside of the transaction, at ${stopped - before} of ${rows}`)
  await database.query('update item set filler = 1 where id = 7')
  for (let each = 0; each < 3; each++) {
    const capture = await running()
    if (each < 2) await capture.stop()
  }
  const messages = await changes()
  const ids = messages.map(({ body }) => Number(/"id":(\d+)/.exec(body)?.[1]))
  t.same(ids, [...Array.from({ length: rows }, (_, index) => index + 1), 0, 7])
  t.notOk(
    seen.some(
      ({ type, reason }: { type: string; reason?: string }) => type === 'capture-gap' && reason !== 'capture-started',
    ),
  )
})

t.test('a killed server comes back, and what was committed is told once', async (t) => {
  const { source, running, changes, database } = await scene(t, 'killed')
  const capture = await running()
  await database.query('create table item (id int primary key); insert into item values (1), (2)')
  const before = await changes()
  await server.kill()
  await until(() => capture.status().state === 'failing')
  await server.restart()
  const again = await connectMysql(t, stage, source)
  await again.query('insert into item values (3)')
  await until(() => capture.status().state === 'running')
  const ids = [...before, ...(await changes(again))].map(({ body }) => Number(/"id":(\d+)/.exec(body)?.[1]))
  t.same(ids, [1, 2, 3])
})

t.test('one reader at a time; the next one takes over', async (t) => {
  const { database, running, start, changes } = await scene(t, 'standby')
  const first = await running()
  const second = start()
  await until(() => second.status().state === 'standby')
  t.match(second.status().reason, /Another capture reads/)
  await first.stop()
  await until(() => second.status().state === 'running')
  await database.query('create table item (id int); insert into item values (1)')
  t.equal((await changes()).length, 1)
})

t.test('whose statement it was is told before the rows it changed', async (t) => {
  const { database, running, changes } = await scene(t, 'commands')
  await running()
  await database.query('create table item (id int primary key)')
  if (isRealMysql) await database.query('set binlog_rows_query_log_events = on')
  const command = { commandId: 'c-1', actor: 'ada', operation: 'graphql.createItem' }
  const comment = `/*busbar.command:${Buffer.from(JSON.stringify(command)).toString('base64url')}*/`
  await database.query(`insert ${comment} into item values (1), (2)`)
  await database.execute(`insert ${comment} into item values (?)`, [3])
  await database.query('insert into item values (4)')
  await database.query('insert /*busbar.command:bm9uc2Vuc2U*/ into item values (5)')
  const messages = await changes()
  t.same(
    messages.map(({ subject, header }) => [subject, header(changeHeader.command) || null]),
    [
      ['cdc.commands.command', 'c-1'],
      ['cdc.commands.commands.item.insert', 'c-1'],
      ['cdc.commands.commands.item.insert', 'c-1'],
      ['cdc.commands.command', 'c-1'],
      ['cdc.commands.commands.item.insert', 'c-1'],
      ['cdc.commands.commands.item.insert', null],
      ['cdc.commands.commands.item.insert', null],
    ],
  )
  t.same(JSON.parse(messages[0]!.body), command)
})

t.test(
  'a server that cannot be read says what is wrong and what mends it, and is read once it is mended',
  async (t) => {
    const { start, database } = await scene(t, 'refused')
    const least = isRealMysql ? 'MINIMAL' : 'NO_LOG'
    await database.query(`set global binlog_row_metadata = '${least}'; set global binlog_format = 'MIXED'`)
    const capture = start()
    await until(() => capture.status().state === 'refused')
    t.match(capture.status().reason, /binlog_format is MIXED, not ROW .*; binlog_row_metadata is \w+, not FULL/)
    const { statements } = capture.status()
    t.same(
      statements.map((statement) => statement.split(' --')[0]),
      ['SET GLOBAL binlog_format = ROW;', 'SET GLOBAL binlog_row_metadata = FULL;'],
    )
    for (const statement of statements) await database.query(statement.split(' --')[0]!)
    await until(() => capture.status().state === 'running')
    await capture.stop()
    await database.query(
      "drop user if exists poor@'127.0.0.1'; create user poor@'127.0.0.1' identified by 'x'; grant select on *.* to poor@'127.0.0.1'",
    )
    const { hostname, port } = new URL(server.url)
    const poor = start({ connection: { host: hostname, port: Number(port), user: 'poor', password: 'x' } })
    await until(() => poor.status().state === 'refused')
    const rights = `REPLICATION SLAVE, ${isRealMysql ? 'REPLICATION CLIENT' : 'BINLOG MONITOR'}`
    t.same(poor.status().statements, [`GRANT ${rights} ON *.* TO 'poor'@'127.0.0.1';`])
  },
)

t.test('a log that was thrown away is told as a gap', async (t) => {
  const { database, running, changes, seen } = await scene(t, 'purged')
  const first = await running()
  await database.query('create table item (id int primary key); insert into item values (1)')
  await changes()
  await first.stop()
  await database.query('insert into item values (2); flush binary logs; flush binary logs')
  const [files] = await database.query('show binary logs')
  const newest = (files as { Log_name: string }[]).at(-1)!.Log_name
  await until(async () => {
    await database.query(`purge binary logs to '${newest}'`)
    const [left] = await database.query('show binary logs')
    return (left as unknown[]).length === 1
  })
  await running()
  await until(() => seen.some((each) => each.type === 'capture-gap' && each.reason === 'log-purged'))
  await until(async () => {
    await database.query('insert into item values (3) on duplicate key update id = 3')
    return true
  })
  const ids = (await changes()).map(({ body }) => /"id":(\d+)/.exec(body)?.[1])
  t.ok(
    ids.every((id) => id === '3'),
    'it goes on with what comes after',
  )
})
