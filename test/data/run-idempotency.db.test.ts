import t from 'tap'
import { requestFingerprint, type StoredReply, withIdempotency } from '../../gateways/data/idempotency.ts'
import { openDatabase } from '../../gateways/data/postgres-run.ts'
import { type CallContext, type Run, statement } from '../../gateways/data/statement.ts'
import { Rejected } from '../../schemas/failure.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)
const connection = { connectionString: server.url }
const database = await openDatabase({ connection, poolSize: 4 })
t.teardown(() => database.close())
const write: CallContext = { readOnly: false }
await database.run(statement('create table payment (id int generated always as identity, note text unique)'), [], write)
await database.run(statement('create role payer'), [], write)
await database.run(statement('grant insert, select on payment to payer'), [], write)

const insert = statement('insert into payment (note) values ($1) returning row_to_json(payment)')
const payer: CallContext = { readOnly: false, role: 'payer', claims: '{"sub":"ann"}' }
const pay =
  (note: string, count: { calls: number } = { calls: 0 }) =>
  async (run: Run): Promise<StoredReply> => {
    count.calls += 1
    const result = await run(insert, [note], payer)
    return { status: 201, headers: { Location: '/payment/1', ETag: '"é"' }, body: Buffer.from(result.rows[0]![0]!) }
  }
const request = (key: string, body = '{}', actor = 'ann') => ({
  key,
  actor,
  fingerprint: requestFingerprint('POST', '/api/v1/payment', body),
})
const scalar = async (text: string, ...parameters: string[]) =>
  (await database.run(statement(text), parameters, { readOnly: true })).rows[0]![0]!.toString()

t.test('the first use makes the table; a repetition gets the first answer and writes nothing', async (t) => {
  const count = { calls: 0 }
  const first = await withIdempotency(database, request('k1'), pay('one', count))
  const again = await withIdempotency(database, request('k1'), pay('one', count))
  t.equal(count.calls, 1)
  t.equal(again.status, 201)
  t.ok(again.body.equals(first.body))
  t.same(first.headers, { Location: '/payment/1', ETag: '"é"' })
  t.same(again.headers, { ...first.headers, 'Idempotency-Replayed': 'true' })
  t.equal(await scalar(`select count(*) from payment where note = 'one'`), '1')
})

t.test('bodies come back byte by byte', async (t) => {
  const body = Buffer.from(Array.from({ length: 256 }, (_, index) => index))
  const work = async () => ({ status: 200, headers: {}, body })
  await withIdempotency(database, request('bytes'), work)
  t.ok((await withIdempotency(database, request('bytes'), work)).body.equals(body))
  const empty = async () => ({ status: 204, headers: {}, body: Buffer.alloc(0) })
  await withIdempotency(database, request('empty'), empty)
  t.match(await withIdempotency(database, request('empty'), empty), { status: 204, body: Buffer.alloc(0) })
})

t.test('the same key with another request is refused; another actor’s same key is another key', async (t) => {
  await withIdempotency(database, request('k2', '{"a":1}'), pay('two'))
  await t.rejects(withIdempotency(database, request('k2', '{"a":2}'), pay('two b')), {
    code: 'data/idempotency-mismatch',
    status: 422,
  })
  await withIdempotency(database, request('k2', '{"a":2}', 'bob'), pay('two b'))
  t.equal(await scalar(`select count(*) from payment where note like 'two%'`), '2')
})

t.test('a write that fails leaves no key, so that it can be sent again', async (t) => {
  await t.rejects(withIdempotency(database, request('k3'), pay('one')), { code: 'data/conflict' })
  await t.rejects(
    withIdempotency(database, request('k3'), async () => {
      throw new Rejected('data/precondition-failed', 'no')
    }),
    { code: 'data/precondition-failed' },
  )
  t.equal(await scalar(`select count(*) from busbar.idempotency where key = 'k3'`), '0')
  t.equal((await withIdempotency(database, request('k3'), pay('three'))).status, 201)
})

t.test('20 duplicates at once, over two gateways, write one row and all get its answer', async (t) => {
  const other = await openDatabase({ connection, poolSize: 4 })
  t.teardown(() => other.close())
  const count = { calls: 0 }
  const replies = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      withIdempotency(index % 2 ? database : other, request('many'), pay('many', count)),
    ),
  )
  t.equal(count.calls, 1)
  t.equal(await scalar(`select count(*) from payment where note = 'many'`), '1')
  t.equal(new Set(replies.map((reply) => reply.body.toString())).size, 1)
  t.equal(replies.filter((reply) => reply.headers['Idempotency-Replayed'] === 'true').length, 19)
})

t.test('a duplicate goes on when the first one fails', async (t) => {
  const outcomes = await Promise.allSettled([
    withIdempotency(database, request('retry'), async () => {
      throw new Error('first fails')
    }),
    withIdempotency(database, request('retry'), pay('retry')),
  ])
  t.same(
    outcomes.map((outcome) => outcome.status),
    ['rejected', 'fulfilled'],
  )
})

t.test('keys end after a day and are cleaned up by later writes', async (t) => {
  await withIdempotency(database, request('old'), pay('old'))
  await database.run(
    statement(`update busbar.idempotency set created_at = now() - interval '25 hours' where key <> 'bytes'`),
    [],
    write,
  )
  const count = { calls: 0 }
  const fresh = await openDatabase({ connection, poolSize: 1 })
  t.teardown(() => fresh.close())
  const reply = await withIdempotency(fresh, request('old', 'another body'), pay('new', count))
  t.equal(count.calls, 1)
  t.notOk(reply.headers['Idempotency-Replayed'])
  t.equal(await scalar('select count(*) from busbar.idempotency'), '2')
})

t.test('unusable keys are refused', async (t) => {
  for (const key of ['', 'x'.repeat(256), 'two words', 'ünï', 'a\nb']) {
    await t.rejects(withIdempotency(database, request(key), pay('never')), { code: 'http/bad-request', status: 400 })
  }
})

t.test('a login role that may not make the table is told what an owner runs, and that mends it', async (t) => {
  await database.run(statement('drop schema busbar cascade'), [], write)
  await database.run(statement(`create role limited login password 'limited'`), [], write)
  await database.run(statement('grant payer to limited'), [], write)
  const url = new URL(server.url)
  url.username = 'limited'
  url.password = 'limited'
  const limited = await openDatabase({ connection: { connectionString: url.href }, poolSize: 2 })
  t.teardown(() => limited.close())
  const failure = await withIdempotency(limited, request('k9'), pay('nine')).catch((error) => error)
  t.match(failure, { name: 'Unavailable', code: 'http/unavailable', hint: /create table/ })
  for (const text of failure.details.statements as string[]) {
    await database.run(statement(text.replace('<the login role of this service>', 'limited')), [], write)
  }
  const first = await withIdempotency(limited, request('k9'), pay('nine'))
  t.equal(first.status, 201)
  t.match((await withIdempotency(limited, request('k9'), pay('nine'))).headers, { 'Idempotency-Replayed': 'true' })
})

t.test('the caller’s own role never reaches the keys', async (t) => {
  const steal = statement('select * from busbar.idempotency')
  await t.rejects(database.run(steal, [], { readOnly: true, role: 'payer' }), { code: 'data/forbidden' })
})
