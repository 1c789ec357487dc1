import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { jetstreamManager } from '@nats-io/jetstream'
import type { Client } from 'pg'
import t, { type Test } from 'tap'
import { startPostgres } from '../../ops/local/postgres-server.ts'
import { changeHeader } from '../../schemas/data/change.ts'
import type { Capture } from '../../workers/capture/capture-loop.ts'
import type { CaptureObservation } from '../../workers/capture/observation.ts'
import type { PostgresCaptureOptions } from '../../workers/capture/postgres-capture.ts'
import { testNats, testPostgres } from '../support/servers.ts'
import { capture, connectBus, connectDatabase, readStream, type Stored, until } from './support.ts'

t.setTimeout(120_000)

const [postgres, nats] = await Promise.all([testPostgres(t, { settings: { max_wal_size: '128MB' } }), testNats(t)])
const bus = await connectBus(t, nats.url)
const server = await connectDatabase(t, postgres.url)

interface Scene {
  readonly url: string
  readonly database: Client
  readonly source: string
  readonly seen: CaptureObservation[]
  start(options?: Partial<PostgresCaptureOptions>): Capture
  running(options?: Partial<PostgresCaptureOptions>): Promise<Capture>
  /** What has come onto the stream since the last call, up to a probe that is written now. */
  changes(): Promise<Stored[]>
}

/** A database, slot and stream of its own. */
async function scene(t: Test, source: string, on = { url: postgres.url, server }) {
  const { streams } = await jetstreamManager(bus)
  await streams.add({ name: source, subjects: [`cdc.${source}.>`], allow_direct: true })
  await on.server.query(`create database ${source}`)
  const url = on.url.replace(/\/postgres$/, `/${source}`)
  const database = await connectDatabase(t, url)
  await database.query('create table probe (number int primary key)')
  const seen: CaptureObservation[] = []
  let probes = 0
  let nextSequence = 1
  const made: Scene = {
    url,
    database,
    source,
    seen,
    start: (options) =>
      capture(t, url, bus, {
        source,
        slotName: source,
        streamName: source,
        onObservation: (observation) => seen.push(observation),
        ...options,
      }),
    async running(options) {
      const started = made.start(options)
      await until(() => started.status().state === 'running')
      return started
    },
    async changes() {
      probes += 1
      await database.query('insert into probe values ($1)', [probes])
      const isProbe = ({ body }: Stored) => body.includes(`"table":"probe","data":{"number":${probes}}`)
      const all = await readStream(bus, isProbe, nextSequence, source)
      nextSequence = all.at(-1)!.sequence + 1
      return all.slice(0, -1)
    },
  }
  return made
}

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

function liveBytes(): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** The server needs a moment to see that a reader is gone. */
async function isDropped(database: Client, slot: string): Promise<boolean> {
  return await database.query('select pg_drop_replication_slot($1)', [slot]).then(
    () => true,
    () => false,
  )
}

function parsed(stored: readonly Stored[]): unknown[] {
  return stored.map(({ body }) => {
    const { type, table, data } = JSON.parse(body)
    return [type, table, data]
  })
}

function reasons(stored: readonly Stored[]): unknown[] {
  return stored.filter(({ subject }) => subject.endsWith('.gap')).map(({ body }) => JSON.parse(body).reason)
}

t.test('changes come in the order of the commits, each transaction whole', async (t) => {
  const { database, url, changes, running } = await scene(t, 'ordered')
  await database.query('create table item (id int primary key, note text)')
  await running()
  const other = await connectDatabase(t, url)
  const before = Date.now()
  await database.query(`begin; insert into item values (1, 'early start, late end')`)
  await other.query(`begin; insert into item values (2, 'b'); update item set note = 'c'; commit`)
  await database.query('insert into item values (3, null); delete from item where id = 3; commit')
  await other.query('truncate item')
  const all = await changes()
  t.strictSame(parsed(all), [
    ['INSERT', 'item', { id: 2, note: 'b' }],
    ['UPDATE', 'item', { old: { id: 2 }, new: { id: 2, note: 'c' } }],
    ['INSERT', 'item', { id: 1, note: 'early start, late end' }],
    ['INSERT', 'item', { id: 3, note: null }],
    ['DELETE', 'item', { id: 3 }],
    ['TRUNCATE', 'item', {}],
  ])
  const lsns = all.map(({ header }) => header(changeHeader.lsn))
  t.equal(new Set(lsns).size, 3, 'one position a transaction')
  t.strictSame(
    all.map(({ header }) => header(changeHeader.index)),
    ['0', '1', '0', '1', '2', '0'],
  )
  for (const { body } of all) {
    const { timestamp } = JSON.parse(body)
    t.ok(timestamp >= before - 1 && timestamp <= Date.now() + 1, 'the time of the commit')
  }
})

t.test('several schemas are seen, others are not', async (t) => {
  const { database, changes, running } = await scene(t, 'schemas')
  await database.query('create schema sales; create schema busbar; create table busbar.inner (id int primary key)')
  await running({ schemas: ['public', 'sales', 'later'] })
  await database.query('create table sales.bill (id int primary key)')
  await database.query('insert into sales.bill values (1); insert into busbar.inner values (1)')
  t.strictSame(
    (await changes()).map(({ subject }) => subject),
    ['cdc.schemas.sales.bill.insert'],
  )
  await database.query('create schema later; create table later.one (id int primary key)')
  await until(async () => {
    const { rowCount } = await database.query(`select from pg_publication_tables where schemaname = 'later'`)
    return rowCount !== 0
  })
  await database.query('insert into later.one values (1)')
  t.strictSame(
    (await changes()).map(({ subject }) => subject),
    ['cdc.schemas.later.one.insert'],
  )
})

t.test("all schemas are seen, also those that come later, but not ours and not the system's", async (t) => {
  const { database, changes, running } = await scene(t, 'everywhere')
  await database.query('create schema sales; create schema busbar; create table busbar.inner (id int primary key)')
  await running({ schemas: 'ALL' })
  await database.query('create table sales.bill (id int primary key)')
  await database.query('insert into sales.bill values (1); insert into busbar.inner values (1)')
  await database.query('create schema later; create table later.one (id int primary key)')
  await until(async () => {
    const { rowCount } = await database.query(
      `select from pg_publication_tables where schemaname = 'later' and pubname = 'busbar'`,
    )
    return rowCount !== 0
  })
  await database.query('insert into later.one values (1); update later.one set id = 2')
  t.strictSame(
    (await changes()).map(({ subject }) => subject),
    ['cdc.everywhere.sales.bill.insert', 'cdc.everywhere.later.one.insert', 'cdc.everywhere.later.one.update'],
  )
})

t.test('a table that is dropped or renamed while its changes are unread is published as it was', async (t) => {
  const { database, changes, running } = await scene(t, 'dropped')
  await database.query(`create type colour as enum ('red'); create type pair as (a int, b text);
    create table gone (id int primary key, c colour, p pair); create table old_name (id int primary key)`)
  const first = await running()
  await first.stop()
  await database.query(`insert into gone values (1, 'red', (1, 'x')); insert into old_name values (1)`)
  await database.query('alter table old_name rename to new_name; insert into new_name values (2)')
  await database.query('drop table gone; drop type pair; drop type colour')
  await database.query('create table gone (id text primary key)')
  await running()
  await database.query(`insert into gone values ('anew')`)
  t.strictSame(parsed(await changes()), [
    ['INSERT', 'gone', { id: 1, c: 'red', p: '(1,x)' }],
    ['INSERT', 'old_name', { id: 1 }],
    ['INSERT', 'new_name', { id: 2 }],
    ['INSERT', 'gone', { id: 'anew' }],
  ])
})

t.test('nobody is refused a write because his table is published', async (t) => {
  const { database, changes, running } = await scene(t, 'writable')
  await database.query(`
    create table by_day (day date, n int) partition by range (day);
    create table by_day_1 partition of by_day for values from ('2024-01-01') to ('2025-01-01');
    alter table by_day replica identity full;
    create table deferred (id int primary key deferrable);
    create table computed (id int primary key, twice int generated always as (id * 2) virtual);
    alter table computed replica identity full`)
  const capturing = await running()
  for (const [table, insert, update] of [
    ['by_day', `('2024-05-05', 1)`, 'n = 2'],
    ['deferred', '(1)', 'id = 2'],
    ['computed', '(1)', 'id = 2'],
  ]) {
    await database.query(`insert into ${table} values ${insert}; update ${table} set ${update}; delete from ${table}`)
  }
  t.strictSame(parsed(await changes()), [
    ['INSERT', 'by_day', { day: '2024-05-05', n: 1 }],
    ['INSERT', 'deferred', { id: 1 }],
    ['INSERT', 'computed', { id: 1 }],
  ])
  t.strictSame(
    capturing.status().unpublished.map(({ table, inserts }) => ({ table, inserts })),
    ['by_day', 'computed', 'deferred'].map((table) => ({ table, inserts: true })),
  )
  for (const { statement } of capturing.status().unpublished) await database.query(statement)
  await database.query('alter table by_day_1 replica identity full')
  await until(() => capturing.status().unpublished.length === 0)
  await database.query(`insert into by_day values ('2024-05-05', 1); update by_day set n = 2`)
  await database.query('insert into computed values (1); update computed set id = 2')
  t.strictSame(parsed(await changes()), [
    ['INSERT', 'by_day', { day: '2024-05-05', n: 1 }],
    ['UPDATE', 'by_day', { old: { day: '2024-05-05', n: 1 }, new: { day: '2024-05-05', n: 2 } }],
    ['INSERT', 'computed', { id: 1 }],
    ['UPDATE', 'computed', { old: { id: 1 }, new: { id: 2 } }],
  ])
})

t.test('a locked table does not stop the changes of the others', async (t) => {
  const { database, url, changes, running } = await scene(t, 'locked')
  await running()
  const locker = await connectDatabase(t, url)
  await database.query("create type mood as enum ('ok'); create table busy (id int primary key, name text)")
  await locker.query('begin; lock table busy in access exclusive mode')
  await database.query(`create table calm (id int primary key, m mood); insert into calm values (1, 'ok')`)
  t.strictSame(parsed(await changes()), [['INSERT', 'calm', { id: 1, m: 'ok' }]])
  await locker.query('rollback')
})

t.test('20,000 rows of one transaction come complete, in order and within little memory', async (t) => {
  const { database, changes, running } = await scene(t, 'large')
  await database.query('create table item (id int primary key, filling text)')
  const capturing = await running()
  const idle = liveBytes()
  let highest = 0
  const watch = setInterval(() => {
    highest = Math.max(highest, liveBytes() - idle)
  }, 200)
  await database.query(`insert into item select n, repeat('x', 4000) from generate_series(1, 20000) n`)
  const { rows } = await database.query('select pg_current_wal_insert_lsn()::text as lsn')
  await until(async () => {
    const sql = 'select confirmed_flush_lsn >= $1::pg_lsn as done from pg_replication_slots where slot_name = $2'
    return (await database.query(sql, [rows[0].lsn, 'large'])).rows[0].done
  })
  clearInterval(watch)
  t.ok(highest > 0 && highest < 40 * 1024 ** 2, `80 MB went through, ${highest} bytes were held at a time`)
  t.equal(capturing.status().state, 'running')
  const all = await changes()
  t.equal(all.length, 20_000)
  t.ok(
    all.every(({ body, header }, index) => {
      return body.includes(`"data":{"id":${index + 1},`) && header(changeHeader.index) === String(index)
    }),
    'in order',
  )
})

t.test('after a restart nothing comes twice and nothing is missing, even from within a transaction', async (t) => {
  const { database, changes, running, source } = await scene(t, 'restarted')
  await database.query('create table item (id int primary key)')
  const { streams } = await jetstreamManager(bus)
  for (let round = 0; round < 3; round++) {
    const capturing = await running()
    const { state } = await streams.info(source)
    await database.query(
      `insert into item select n from generate_series(${round * 5_000} + 1, ${round * 5_000} + 5000) n`,
    )
    await until(async () => (await streams.info(source)).state.last_seq > state.last_seq + 100)
    await capturing.stop()
    t.equal(capturing.status().state, 'stopped')
  }
  await running()
  const ids = (await changes()).map(({ body }) => JSON.parse(body).data.id)
  t.strictSame(
    ids,
    Array.from({ length: 15_000 }, (_, index) => index + 1),
  )
})

t.test('a second capture stands by and takes over', async (t) => {
  const { database, changes, running, start } = await scene(t, 'twofold')
  await database.query('create table item (id int primary key)')
  const first = await running()
  const second = start()
  await until(() => second.status().state === 'standby')
  await database.query('insert into item values (1)')
  await first.stop()
  await until(() => second.status().state === 'running')
  await database.query('insert into item values (2)')
  t.strictSame(
    (await changes()).map(({ body }) => JSON.parse(body).data.id),
    [1, 2],
  )
})

t.test('a slot that is gone is made anew behind a gap marker', async (t) => {
  const { database, changes, running, seen } = await scene(t, 'lost')
  await database.query('create table item (id int primary key)')
  const first = await running()
  await database.query('insert into item values (1)')
  t.equal((await changes()).length, 1)
  await first.stop()
  await until(() => isDropped(database, 'lost'))
  await database.query('insert into item values (2)')
  await running()
  await database.query('insert into item values (3)')
  const all = await changes()
  t.strictSame(reasons(all), ['slot-missing'])
  t.strictSame(parsed(all.slice(1)), [['INSERT', 'item', { id: 3 }]])
  t.match(
    seen.filter(({ type }) => type === 'capture-gap'),
    [{ reason: 'slot-missing' }],
  )
})

t.test('a slot that goes while it is read is made anew behind a gap marker', async (t) => {
  const { database, changes, running } = await scene(t, 'torn')
  await database.query('create table item (id int primary key)')
  const capturing = await running()
  await database.query('insert into item values (1)')
  t.equal((await changes()).length, 1)
  await until(async () => {
    await database.query(`select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = 'torn'`)
    return await isDropped(database, 'torn')
  })
  // The probe of `changes` may still be lost, so the slot must be there first.
  await until(async () => {
    const { rowCount } = await database.query(`select from pg_replication_slots where slot_name = 'torn' and active`)
    return rowCount === 1 && capturing.status().state === 'running'
  })
  const all = await changes()
  t.strictSame(reasons(all), ['slot-missing'])
})

t.test('what was written while the publication was missing is a visible gap', async (t) => {
  const { database, changes, running } = await scene(t, 'unpublished')
  await database.query('create table item (id int primary key)')
  const first = await running()
  await database.query('insert into item values (1)')
  t.equal((await changes()).length, 1)
  await first.stop()
  await database.query('drop publication busbar')
  await database.query('insert into item values (2)')
  const second = await running()
  await database.query('insert into item values (3); update item set id = 4 where id = 3')
  const all = await changes()
  t.strictSame(reasons(all), ['slot-missing'])
  t.equal(all.length, 3)
  await database.query('drop publication busbar')
  await until(async () => {
    const { rowCount } = await database.query(`select from pg_publication where pubname = 'busbar'`)
    const { rowCount: read } = await database.query(
      `select from pg_replication_slots where slot_name = 'unpublished' and active`,
    )
    return rowCount === 1 && read === 1 && second.status().state === 'running'
  })
  t.strictSame(reasons(await changes()), ['slot-missing'], 'the same while it runs')
})

t.test('a lost connection is no gap', async (t) => {
  const { database, changes, running, seen } = await scene(t, 'cut')
  await database.query('create table item (id int primary key)')
  await running()
  for (let id = 1; id <= 10; id++) {
    await database.query('insert into item values ($1)', [id])
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = 'cut' and application_name like 'busbar-capture%'`,
    )
    await delay(id * 13)
  }
  t.strictSame(
    (await changes()).map(({ body }) => JSON.parse(body).data.id),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  )
  t.ok(seen.some(({ type }) => type === 'capture-failed'))
})

t.test('a slot that holds back too much WAL is reported, also while it cannot be read', async (t) => {
  const { database, url, running, start, seen } = await scene(t, 'retained')
  const first = await running({ retainedBytesWarning: 4 * 1024 ** 2 })
  const sleeper = await connectDatabase(t, url)
  await sleeper.query('begin; create table unfinished (id int)')
  await database.query('create table heavy (t text)')
  await database.query(`insert into heavy select repeat('x', 1000) from generate_series(1, 8000)`)
  const isWarning = ({ type }: CaptureObservation) => type === 'capture-retains-wal'
  await first.stop()
  seen.length = 0
  const { streams } = await jetstreamManager(bus)
  await streams.delete('retained')
  const second = start({ retainedBytesWarning: 4 * 1024 ** 2 })
  await until(() => seen.some(isWarning) && second.status().state === 'failing')
  t.match(seen.filter(isWarning), [{ type: 'capture-retains-wal', source: 'retained', slot: 'retained' }])
  t.ok((second.status().retainedBytes ?? 0) >= 4 * 1024 ** 2)
  await sleeper.query('rollback')
})

t.test('a stream that takes less than the server does not stop the capture', async (t) => {
  const { database, changes, running, source } = await scene(t, 'narrow')
  const { streams } = await jetstreamManager(bus)
  await streams.update(source, { max_msg_size: 64 * 1024 })
  await database.query('create table item (id int primary key, filling text)')
  await running()
  await database.query(`insert into item values (1, repeat('x', 100000))`)
  t.strictSame(parsed(await changes()), [['INSERT', 'item', { id: 1 }]])
})

t.test('other sources on the same stream keep their own order', async (t) => {
  const { database, changes, running, source } = await scene(t, 'shared')
  const { streams } = await jetstreamManager(bus)
  await streams.update(source, { subjects: ['cdc.shared.>', 'cdc.neighbour.>'] })
  await database.query('create table item (id int primary key)')
  await running()
  for (let round = 0; round < 5; round++) {
    bus.publish('cdc.neighbour.public.x.insert', '{}')
    await database.query(`insert into item select n from generate_series(${round * 100} + 1, ${round * 100} + 100) n`)
  }
  const own = (await changes()).filter(({ subject }) => subject.startsWith('cdc.shared.'))
  t.strictSame(
    own.map(({ body }) => JSON.parse(body).data.id),
    Array.from({ length: 500 }, (_, index) => index + 1),
  )
})

t.test('a user without the rights is told the statements that mend it, and no restart is needed', async (t) => {
  const { database, url, start, changes } = await scene(t, 'rights')
  await database.query(`create role plain login password 'plain'; create table owned (id int primary key);
    alter table owned owner to plain; create table foreign_one (id int primary key); alter table probe owner to plain`)
  const capturing = start({ connection: { connectionString: url.replace(/\/\/[^@]*@/, '//plain:plain@') } })
  await until(() => capturing.status().state === 'refused')
  t.strictSame(capturing.status().statements, ['ALTER ROLE plain REPLICATION; -- as a superuser'])
  for (const statement of capturing.status().statements) await database.query(statement)
  await until(() => capturing.status().statements[0]?.startsWith('GRANT') === true)
  t.strictSame(capturing.status().statements, ['GRANT CREATE ON DATABASE "rights" TO "plain"; -- as a superuser'])
  for (const statement of capturing.status().statements) await database.query(statement)
  await until(() => capturing.status().state === 'running')
  t.match(capturing.status().unpublished, [{ table: 'foreign_one', reason: /does not own/ }])
  for (const { statement } of capturing.status().unpublished) await database.query(statement)
  await until(() => capturing.status().unpublished.length === 0)
  await database.query('insert into owned values (1); insert into foreign_one values (1)')
  t.strictSame(parsed(await changes()), [
    ['INSERT', 'owned', { id: 1 }],
    ['INSERT', 'foreign_one', { id: 1 }],
  ])
})

t.test('a server without logical replication is refused, and mended by its restart alone', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'busbar-pg-'))
  let replica = await startPostgres({ dataDir, settings: { wal_level: 'replica', fsync: 'off' } })
  t.teardown(async () => {
    await replica.kill('SIGQUIT')
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  })
  const { url, port } = replica
  const { start, database } = await scene(t, 'mended', { url, server: await connectDatabase(t, url) })
  const capturing = start()
  await until(() => capturing.status().state === 'refused')
  t.equal(capturing.status().reason, 'wal_level is replica, not logical')
  for (const statement of capturing.status().statements) await database.query(statement)
  const { rows } = await database.query(`select setting from pg_file_settings where name = 'wal_level'`)
  t.strictSame(rows, [{ setting: 'logical' }])
  await replica.stop()
  replica = await startPostgres({ dataDir, port, settings: { fsync: 'off' } })
  await until(() => capturing.status().state === 'running')
  const writer = await connectDatabase(t, url.replace(/\/postgres$/, '/mended'))
  await writer.query('insert into probe values (77)')
  const [first] = await readStream(bus, () => true, 1, 'mended')
  t.match(first!.body, '"data":{"number":77}')
})
