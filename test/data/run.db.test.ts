import { setTimeout as delay, setImmediate as setImmediately } from 'node:timers/promises'
import pg from 'pg'
import t from 'tap'
import { type DatabaseOptions, openDatabase, type PostgresDatabase } from '../../gateways/data/postgres-run.ts'
import { type CallContext, type RawResult, statement } from '../../gateways/data/statement.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t, { settings: { max_connections: 60 } })
const read: CallContext = { readOnly: true }
const write: CallContext = { readOnly: false }

const admin = await openDatabase({
  connection: { connectionString: server.url },
  poolSize: 2,
  applicationName: 'admin',
})
t.teardown(() => admin.close())
for (const text of [
  'create role web_user',
  'create role other_user',
  'grant usage on schema public to web_user, other_user',
  'create table secret (id int primary key, owner text not null)',
  `insert into secret values (1, 'ann'), (2, 'bob'), (3, 'ann')`,
  'alter table secret enable row level security',
  `create policy own on secret using (owner = current_setting('request.jwt.claims', true)::json ->> 'sub')`,
  'grant select on secret to web_user',
  'create table note (id int generated always as identity primary key, body text)',
  'grant select, insert on note to web_user',
]) {
  await admin.run(statement(text), [], write)
}

async function open(
  owner: { teardown(fn: () => Promise<void>): void },
  options: Partial<DatabaseOptions> = {},
): Promise<PostgresDatabase> {
  const database = await openDatabase({ connection: { connectionString: server.url }, ...options })
  owner.teardown(() => database.close())
  return database
}

const texts = (result: RawResult) => result.rows.map((row) => row.map((column) => column?.toString('utf8') ?? null))

/** How many backends of an application match a condition. */
async function backends(applicationName: string, condition = 'true'): Promise<number> {
  const sql = `select count(*) from pg_stat_activity where application_name = $1 and ${condition}`
  return Number(texts(await admin.run(statement(sql), [applicationName], read))[0]![0])
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await delay(10)
}

t.test('bytes are those of the wire protocol, for every type', async (t) => {
  const database = await open(t)
  const sql = `select 9223372036854775807::int8, 1.10::numeric(30,10), 'NaN'::float8, 0.1::float8, true,
    '2024-02-29 12:00:00.123456+02'::timestamptz, interval '1 year 2 mons 3 days 04:05:06.7', '\\x00ff'::bytea,
    '{"a": [1, null, "é"]}'::jsonb, array['a,b', null, '"q"'], '[1,5)'::int4range, row(1, 'x, y'), ''::text, null::text,
    'łódź 😀'::text, $1::text, $2::int[]`
  const parameters = ['it\'s "quoted" \\ 😀', '{1,NULL,3}']
  const client = new pg.Client({
    connectionString: server.url,
    types: { getTypeParser: () => (text: string) => text } as never,
  })
  await client.connect()
  t.teardown(() => client.end())
  await client.query(`set timezone = 'UTC'; set intervalstyle = 'iso_8601'`)
  const expected = (await client.query({ text: sql, values: parameters, rowMode: 'array' })).rows[0]
  t.same(texts(await database.run(statement(sql), parameters, read))[0], expected)
})

t.test('rows of all sizes survive the borders of network chunks', async (t) => {
  const database = await open(t)
  const sql = statement(
    `select n, repeat(chr(65 + n % 26), (n * 7919) % 70001), md5(repeat(chr(65 + n % 26), (n * 7919) % 70001))
     from generate_series(1, $1::int) n`,
  )
  const { rows, rowCount } = await database.run(sql, ['600'], read)
  t.equal(rowCount, 600)
  const { createHash } = await import('node:crypto')
  for (const [, body, digest] of rows) {
    if (createHash('md5').update(body!).digest('hex') !== digest!.toString()) t.fail('a row is damaged')
  }
  const large = await database.run(statement(`select repeat('x', 20000000)`), [], read)
  t.equal(large.rows[0]![0]!.length, 20_000_000)
  const sent = 'é'.repeat(3_000_000)
  const back = await database.run(statement('select length($1), $1::text'), [sent], read)
  t.equal(back.rows[0]![0]!.toString(), '3000000')
  t.ok(back.rows[0]![1]!.equals(Buffer.from(sent)))
})

t.test('500 concurrent calls of mixed roles over 4 connections see only their own context', async (t) => {
  const database = await open(t, { poolSize: 4 })
  const look = statement(
    `select current_user, current_setting('request.jwt.claims', true), current_setting('transaction_read_only'),
       (select string_agg(id::text, ',' order by id) from secret)`,
  )
  const kinds: { context: CallContext; expected: (string | null)[] }[] = [
    {
      context: { readOnly: true, role: 'web_user', claims: '{"sub":"ann"}' },
      expected: ['web_user', '{"sub":"ann"}', 'on', '1,3'],
    },
    {
      context: { readOnly: true, role: 'web_user', claims: '{"sub":"bob"}' },
      expected: ['web_user', '{"sub":"bob"}', 'on', '2'],
    },
    {
      context: { readOnly: false, role: 'web_user', claims: '{"sub":"bob"}' },
      expected: ['web_user', '{"sub":"bob"}', 'off', '2'],
    },
    { context: read, expected: ['postgres', '', 'on', '1,2,3'] },
    { context: write, expected: ['postgres', '', 'off', '1,2,3'] },
  ]
  const failing = statement('select 1 / 0')
  let wrong = 0
  await Promise.all(
    Array.from({ length: 500 }, async (_, index) => {
      if (index % 7 === 0)
        await t.rejects(database.run(failing, [], kinds[index % 5]!.context), { code: 'data/invalid-value' })
      const { context, expected } = kinds[index % kinds.length]!
      const row = texts(await database.run(look, [], context))[0]!
      // A setting nobody has made yet on a connection reads as null, afterwards as empty.
      row[1] = row[1] ?? ''
      if (JSON.stringify(row) !== JSON.stringify(expected)) wrong += 1
    }),
  )
  t.equal(wrong, 0)
  t.ok(database.load.connections <= 4)
})

t.test('a statement parsed for one role does not lend its rights to another', async (t) => {
  const database = await open(t, { poolSize: 1 })
  const secret = statement('select count(*) from secret')
  t.same(texts(await database.run(secret, [], { ...read, role: 'web_user', claims: '{"sub":"ann"}' })), [['2']])
  const other: CallContext = { ...read, role: 'other_user', claims: '{}' }
  await t.rejects(database.run(secret, [], other), { code: 'data/forbidden', status: 403 })
  await t.rejects(database.run(secret, [], { ...other, anonymous: true }), { code: 'http/unauthorized', status: 401 })
  await admin.run(statement('create schema closed'), [], write)
  await admin.run(statement('create table closed.t as select 1 as a'), [], write)
  await admin.run(statement('grant select on closed.t to web_user, other_user'), [], write)
  await admin.run(statement('grant usage on schema closed to web_user'), [], write)
  const closed = statement('select a from closed.t')
  t.same(texts(await database.run(closed, [], { ...read, role: 'web_user' })), [['1']])
  await t.rejects(database.run(closed, [], { ...read, role: 'other_user' }), { code: 'data/forbidden' })
})

t.test('roles that cannot be taken on are refused, `none` among them', async (t) => {
  const login = await open(t)
  await login.run(statement(`create role narrow login password 'narrow'`), [], write)
  const url = new URL(server.url)
  url.username = 'narrow'
  url.password = 'narrow'
  const database = await open(t, { connection: { connectionString: url.href } })
  for (const role of ['none', '', 'missing', 'postgres', 'web_user', 'a"b; drop table secret']) {
    await t.rejects(database.run(statement('select 1'), [], { ...read, role }), { code: 'data/forbidden' }, role)
  }
  t.same(texts(await database.run(statement('select current_user'), [], read)), [['narrow']])
})

t.test('read-only holds for functions that write, and ends with the call', async (t) => {
  const database = await open(t, { poolSize: 1 })
  await database.run(
    statement(
      `create function sneak() returns int language sql as $$ insert into note (body) values ('x') returning id $$`,
    ),
    [],
    write,
  )
  const sneak = statement('select sneak()')
  await t.rejects(database.run(sneak, [], read), {
    code: 'data/read-only',
    status: 405,
    details: { sqlstate: '25006' },
  })
  t.equal((await database.run(sneak, [], write)).rowCount, 1)
})

t.test('a failed statement rolls its own bundle back and leaves its neighbours alone', async (t) => {
  const database = await open(t, { poolSize: 1 })
  await database.run(statement('create table once (id int primary key)'), [], write)
  const insert = statement('insert into once select unnest($1::int[]) returning id')
  const outcomes = await Promise.allSettled([
    database.run(insert, ['{1,2}'], write),
    database.run(insert, ['{3,2}'], write),
    database.run(statement('select broken from once'), [], read),
    database.run(statement('select 7'), [], read),
    database.run(insert, ['{4}'], write),
  ])
  t.same(
    outcomes.map((outcome) => outcome.status),
    ['fulfilled', 'rejected', 'rejected', 'fulfilled', 'fulfilled'],
  )
  t.same(texts(await database.run(statement('select id from once order by 1'), [], read)), [['1'], ['2'], ['4']])
})

t.test('constraints checked at commit fail the call', async (t) => {
  const database = await open(t)
  await database.run(statement('create table late (id int unique deferrable initially deferred)'), [], write)
  const insert = statement('insert into late values ($1::int), ($1::int)')
  await t.rejects(database.run(insert, ['1'], write), { code: 'data/conflict', details: { sqlstate: '23505' } })
  t.same(texts(await database.run(statement('select count(*) from late'), [], read)), [['0']])
})

t.test('the command lies in the WAL before its rows, and only when they are written', async (t) => {
  const database = await open(t)
  const slot = await database.run(
    statement(`select pg_create_logical_replication_slot('seen', 'test_decoding')`),
    [],
    write,
  )
  t.equal(slot.rowCount, 1)
  t.teardown(() => admin.run(statement(`select pg_drop_replication_slot('seen')`), [], write))
  const insert = statement('insert into note (body) values ($1)')
  const context: CallContext = { readOnly: false, role: 'web_user', command: '{"commandId":"c1"}' }
  await database.run(insert, ['logged'], context)
  await t.rejects(
    database.run(statement('insert into note (id) values (1)'), [], { ...context, command: 'lost' }),
    Rejected,
  )
  const changes = texts(
    await database.run(statement(`select data from pg_logical_slot_get_changes('seen', null, null)`), [], write),
  )
  const seen = changes
    .map(([line]) => line!.replace(/id\[integer]:\d+/, 'id'))
    .filter((line) => !/^(BEGIN|COMMIT)/.test(line))
  t.same(seen, [
    'message: transactional: 1 prefix: busbar.command, sz: 18 content:{"commandId":"c1"}',
    `table public.note: INSERT: id body[text]:'logged'`,
  ])
})

t.test('a statement over the time limit is stopped, and its connection goes on', async (t) => {
  const database = await open(t, { poolSize: 1, statementTimeoutMs: 100 })
  await t.rejects(database.run(statement('select pg_sleep(30)'), [], read), {
    name: 'Unavailable',
    code: 'data/statement-timeout',
    status: 503,
  })
  t.same(texts(await database.run(statement('select 1'), [], read)), [['1']])
})

t.test('an answer over the limit is refused without being kept, and neighbours get theirs', async (t) => {
  const database = await open(t, { poolSize: 1, maxResultBytes: 100_000 })
  const rows = statement(`select repeat('x', 1000) from generate_series(1, $1::int)`)
  const outcomes = await Promise.allSettled([
    database.run(rows, ['50'], read),
    database.run(rows, ['5000000'], read),
    ...Array.from({ length: 20 }, () => database.run(rows, ['2'], read)),
    database.run(statement(`select repeat('y', 300000)`), [], read),
    database.run(rows, ['3'], read),
  ])
  const codes = outcomes.map((outcome) =>
    outcome.status === 'fulfilled' ? outcome.value.rowCount : outcome.reason.code,
  )
  t.same(codes, [50, 'data/too-complex', ...Array.from({ length: 20 }, () => 2), 'data/too-complex', 3])
  const insert = statement(
    `insert into note (body) select repeat('z', 1000) from generate_series(1, 20000) returning body`,
  )
  const failure = await database.run(insert, [], write).catch((error: Error) => error)
  t.ok(failure instanceof Rejected)
  const count = Number(
    texts(await database.run(statement(`select count(*) from note where body like 'zz%'`), [], read))[0]![0],
  )
  t.match((failure as Error).message, count === 0 ? /nothing was written/ : /the write itself was done/)
})

t.test('too many parameters are refused before they are sent', async (t) => {
  const database = await open(t)
  const many = Array.from({ length: 65_536 }, () => '1')
  await t.rejects(database.run(statement('select 1'), many, read), { code: 'data/too-complex' })
  await t.rejects(database.run(statement('select $1::text'), ['a\0b'], read), { code: 'data/invalid-value' })
})

t.test('a DDL change of a result in use fails no request', async (t) => {
  const database = await open(t, { poolSize: 4 })
  await database.run(statement('create table shape (a int)'), [], write)
  await database.run(statement('insert into shape values (1)'), [], write)
  const star = statement('select * from shape')
  await Promise.all(Array.from({ length: 40 }, () => database.run(star, [], read)))
  let running = true
  const readers = Array.from({ length: 8 }, async () => {
    while (running) await database.run(star, [], read)
  })
  for (const text of ['add b text', 'alter a type text', 'drop b']) {
    await admin.run(statement(`alter table shape ${text}`), [], write)
    await delay(30)
  }
  running = false
  await Promise.all(readers)
  t.same(texts(await database.run(star, [], read)), [['1']])
})

t.test('prepared statements stay within their limit, and survive being thrown away', async (t) => {
  const database = await open(t, { poolSize: 1, maxStatements: 4 })
  const numbered = Array.from({ length: 12 }, (_, index) => statement(`select ${index}`))
  for (let round = 0; round < 3; round++) {
    const results = await Promise.all(numbered.map((of) => database.run(of, [], read)))
    t.same(
      results.map((result) => texts(result)[0]![0]),
      numbered.map((_, index) => String(index)),
    )
  }
  const held = texts(await database.run(statement('select count(*) from pg_prepared_statements'), [], read))[0]![0]
  t.ok(Number(held) <= 4, `${held} statements held`)
  await database.run(statement(`do $$ begin execute 'deallocate all'; end $$`), [], write)
  const results = await Promise.all(numbered.map((of) => database.run(of, [], read)))
  t.equal(results.length, 12)
})

t.test('heavy calls never keep cheap ones waiting', async (t) => {
  // However slow the machine is: what is shown here is the order.
  const database = await open(t, { poolSize: 3, maxWaitMs: 120_000 })
  await admin.transaction(async (run) => {
    await run(statement('select pg_advisory_xact_lock(1)'), [], write)
    const waiting = Array.from({ length: 6 }, () =>
      database.run(statement('select pg_advisory_xact_lock_shared(1)'), [], { ...read, weight: 'heavy' }),
    )
    const writes = Array.from({ length: 6 }, () =>
      database.run(statement('select pg_advisory_xact_lock_shared(1) as w'), [], write),
    )
    // Each another one: what was once measured to be slow, on a busy machine, counts as heavy itself.
    for (let index = 0; index < 50; index++) await database.run(statement(`select ${index}`), [], read)
    t.equal(database.load.waiting, 10, 'two of three connections are taken by heavy calls')
    // Released when this transaction ends; all of them then finish.
    setImmediate(() => void Promise.all([...waiting, ...writes]).then(() => t.pass('all finished')))
    return Promise.resolve()
  })
  await until(async () => database.load.flying + database.load.waiting === 0)
})

t.test('more waiting calls than allowed are refused at once, and long waits end', async (t) => {
  const database = await open(t, { poolSize: 1, maxWaiting: 3, maxWaitMs: 300 })
  await admin.transaction(async (run) => {
    await run(statement('select pg_advisory_xact_lock(2)'), [], write)
    const blocked = database.run(statement('select pg_advisory_xact_lock(2)'), [], write)
    const waiting = Array.from({ length: 3 }, () =>
      database.run(statement('select 1'), [], read).catch((error: Error) => error),
    )
    await t.rejects(database.run(statement('select 1'), [], read), {
      name: 'Unavailable',
      message: /too many requests/,
    })
    for (const outcome of await Promise.all(waiting)) {
      t.match(outcome, { code: 'data/database-unavailable', message: /became free in time/ })
    }
    void blocked.then(() => t.pass('the call under way was not touched'))
  })
  await until(async () => database.load.flying === 0)
})

t.test('a caller that goes away ends its wait, and its heavy read in the database', async (t) => {
  const database = await open(t, { poolSize: 2, applicationName: 'aborting' })
  const gone = new AbortController()
  const sleep = statement('select pg_sleep(60)')
  const heavy = database.run(sleep, [], { ...read, weight: 'heavy', signal: gone.signal })
  const queued = database.run(sleep, [], { ...read, weight: 'heavy', signal: gone.signal })
  await until(async () => (await backends('aborting', `query like '%pg_sleep%' and state = 'active'`)) > 0)
  gone.abort(new Error('client closed'))
  await t.rejects(heavy, { message: 'client closed' })
  await t.rejects(queued, { message: 'client closed' })
  await until(async () => (await backends('aborting', `state = 'active'`)) === 0)
  await t.rejects(database.run(sleep, [], { ...read, signal: gone.signal }), { message: 'client closed' })
  t.same(texts(await database.run(statement('select 1'), [], { ...read, weight: 'heavy' })), [['1']])
})

t.test('backends killed under load cost no read, and no write is done unseen', async (t) => {
  const database = await open(t, { poolSize: 4, applicationName: 'killed' })
  await database.run(statement('create table tally (id int primary key)'), [], write)
  const kill = statement(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'killed'`)
  const failures: unknown[] = []
  const written: number[] = []
  const unknown: number[] = []
  let running = true
  let next = 0
  let reads = 0
  const readers = Array.from({ length: 8 }, async () => {
    while (running) {
      await database.run(statement('select count(*) from secret'), [], read).then(
        () => reads++,
        (error) => failures.push(error),
      )
      // What is refused at once must not keep the connections from coming back.
      await setImmediately()
    }
  })
  const writers = Array.from({ length: 4 }, async () => {
    while (running) {
      const id = ++next
      try {
        await database.run(statement('insert into tally values ($1)'), [String(id)], write)
        written.push(id)
      } catch (error) {
        if (!(error instanceof Unavailable)) failures.push(error)
        unknown.push(id)
        await setImmediately()
      }
    }
  })
  for (let round = 0; round < 3; round++) {
    await delay(100)
    await admin.run(kill, [], write)
    // A read that lost its connection is tried again, but not for ever.
    const before = reads
    await until(async () => reads >= before + 32)
  }
  await delay(100)
  running = false
  await Promise.all([...readers, ...writers])
  t.same(failures, [])
  const stored = new Set(
    texts(await database.run(statement('select id from tally'), [], read)).map(([id]) => Number(id)),
  )
  t.ok(
    written.every((id) => stored.has(id)),
    'what was acknowledged is there',
  )
  t.ok(
    [...stored].every((id) => written.includes(id) || unknown.includes(id)),
    'nothing was written twice or by nobody',
  )
})

t.test('explicit transactions commit, roll back, and keep their role to themselves', async (t) => {
  const database = await open(t, { poolSize: 2 })
  await database.run(statement('create table ledger (id int primary key, by text default current_user)'), [], write)
  await database.run(statement('grant select, insert on ledger to web_user'), [], write)
  const insert = statement('insert into ledger (id) values ($1)')
  const count = await database.transaction(async (run) => {
    await run(insert, ['1'], write)
    await run(insert, ['2'], { readOnly: false, role: 'web_user' })
    await run(insert, ['3'], write)
    return texts(await run(statement('select count(*) from ledger'), [], write))[0]![0]
  })
  t.equal(count, '3')
  await t.rejects(
    database.transaction(async (run) => {
      await run(insert, ['4'], write)
      await run(insert, ['1'], write)
    }),
    { code: 'data/conflict' },
  )
  await t.rejects(
    database.transaction(async (run) => {
      await run(insert, ['5'], write)
      await run(insert, ['1'], write).catch(() => undefined)
    }),
    /cannot be committed/,
    'a swallowed failure does not turn into a silent rollback',
  )
  await t.rejects(
    database.transaction(async (run) => {
      await run(insert, ['6'], write)
      throw new Error('changed my mind')
    }),
    /changed my mind/,
  )
  const rows = texts(await database.run(statement('select id, by from ledger order by id'), [], read))
  t.same(rows, [
    ['1', 'postgres'],
    ['2', 'web_user'],
    ['3', 'web_user'],
  ])
  t.same(texts(await database.run(statement('select current_user'), [], write)), [['postgres']])
})

t.test('a transaction whose connection dies fails, and nothing of it stays', async (t) => {
  const database = await open(t, { poolSize: 1 })
  await database.run(statement('create table half (id int)'), [], write)
  const insert = statement('insert into half values (1)')
  await t.rejects(
    database.transaction(async (run) => {
      await run(insert, [], write)
      const [row] = texts(await run(statement('select pg_backend_pid()'), [], write))
      await admin.run(statement('select pg_terminate_backend($1::int, 5000)'), [row![0]!], write)
      await delay(50)
      await run(insert, [], write)
    }),
    { name: 'Unavailable', code: 'data/database-unavailable' },
  )
  t.same(texts(await database.run(statement('select count(*) from half'), [], read)), [['0']])
})

t.test('opening says why it cannot, without the password', async (t) => {
  const url = new URL(server.url)
  url.password = 'not-the-password'
  const failure = await openDatabase({ connection: { connectionString: url.href } }).catch((error: Error) => error)
  t.ok(failure instanceof Unavailable)
  t.match(failure, { message: /password authentication failed/ })
  t.notMatch(failure, { message: /not-the-password/ })
  url.port = '1'
  await t.rejects(openDatabase({ connection: { connectionString: url.href } }), { message: /ECONNREFUSED/ })
})

t.test('a database that is away answers at once, and is used again when it is back', async (t) => {
  const observed: string[] = []
  const database = await open(t, { poolSize: 3, onObservation: ({ type }) => observed.push(type) })
  const one = statement('select 1')
  await database.run(one, [], read)
  await server.kill('SIGKILL')
  // Backends outlive their killed postmaster by a moment.
  await until(() =>
    database.run(one, [], read).then(
      () => false,
      () => true,
    ),
  )
  const codes = await Promise.all(
    Array.from({ length: 20 }, () =>
      database.run(one, [], read).then(
        () => 'done',
        (error) => error.code,
      ),
    ),
  )
  t.same([...new Set(codes)], ['data/database-unavailable'])
  await t.rejects(database.run(one, [], write), { retryAfterSeconds: Number, message: /cannot be reached now/ })
  await server.restart()
  await until(async () =>
    database.run(one, [], read).then(
      () => true,
      () => false,
    ),
  )
  t.same(texts(await database.run(one, [], read)), [['1']])
  t.ok(observed.includes('database-connect-failed'))
  await until(async () =>
    admin.ping().then(
      () => true,
      () => false,
    ),
  )
})

t.test('closing lets calls under way finish and takes no more', async (t) => {
  const database = await openDatabase({ connection: { connectionString: server.url }, applicationName: 'closing' })
  const last = database.run(statement('select pg_sleep(0.2), 5'), [], read)
  const closing = database.close()
  await t.rejects(database.run(statement('select 1'), [], read), { name: 'Unavailable' })
  t.equal(texts(await last)[0]![1], '5')
  await closing
  await until(async () => (await backends('closing')) === 0)
})
