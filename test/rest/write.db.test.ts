import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { SignJWT } from 'jose'
import pg from 'pg'
import t from 'tap'
import { startRestGateway } from '../../gateways/rest/server.ts'
import { testPostgres } from '../support/servers.ts'

const secret = 'a secret of at least thirty-two bytes'
const server = await testPostgres(t)
const sql = new pg.Client({ connectionString: server.url })
await sql.connect()
t.teardown(() => sql.end())
await sql.query(readFileSync(resolve(import.meta.dirname, '../support/fixture.sql'), 'utf8'))
const gateway = await startRestGateway({
  host: '127.0.0.1',
  port: 0,
  connection: { connectionString: server.url },
  schema: 'public',
  defaultPageSize: 100,
  maxPageSize: 1000,
  maxExpandDepth: 5,
  maxBodyBytes: 1_048_576,
  corsOrigins: ['*'],
  jwt: { secret },
  onObservation: (observation) => observation.type === 'request-fault' && t.fail(String(observation.error)),
})
t.teardown(() => gateway.stop())

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is what the tests are about
  readonly json: () => any
}

async function call(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const content = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
  const type = body === undefined ? {} : { 'Content-Type': 'application/json' }
  const response = await fetch(`${gateway.url}/api/v1${path}`, { method, headers: { ...type, ...headers }, ...content })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, json: () => JSON.parse(text) }
}

const value = async (text: string, ...parameters: unknown[]): Promise<unknown> =>
  (await sql.query({ text, values: parameters, rowMode: 'array' })).rows[0]?.[0]

t.test('POST', async (t) => {
  t.test('creates a row, answers it bare with 201, where it is, and its tag', async (t) => {
    const created = await call('POST', '/tag', { id: 100, name: 'hundred' })
    t.equal(created.status, 201)
    t.equal(created.text, '{"id":100,"name":"hundred"}')
    t.equal(created.headers.get('location'), '/api/v1/tag/100')
    const read = await call('GET', '/tag/100')
    t.equal(read.headers.get('etag'), created.headers.get('etag'))
    t.equal(read.text, created.text)
  })
  t.test('escapes the parts of a composite key in the Location', async (t) => {
    const created = await call('POST', '/product', { tenant: 7, sku: 'a,b/c ü', title: 'x' })
    t.equal(created.status, 201)
    const location = created.headers.get('location') ?? ''
    t.equal(location, '/api/v1/product/7,a%2Cb%2Fc%20%C3%BC')
    t.equal((await call('GET', location.slice('/api/v1'.length))).json().sku, 'a,b/c ü')
  })
  t.test('keeps every digit of numbers', async (t) => {
    const text = '{"id":9007199254740993,"name":"digits","credit":1234567890.10}'
    const created = await call('POST', '/customers', text)
    t.equal(created.status, 201)
    t.match(created.text, /"id":9007199254740993,/)
    t.match(created.text, /"credit":1234567890\.10,/)
  })
  t.test('takes an array, all or none, and answers the rows and their number', async (t) => {
    const created = await call('POST', '/tag', [
      { id: 101, name: 'a' },
      { name: 'b', id: 102 },
    ])
    t.equal(created.status, 201)
    t.same(created.json(), {
      data: [
        { id: 101, name: 'a' },
        { id: 102, name: 'b' },
      ],
      count: 2,
    })
    const refused = await call('POST', '/tag', [
      { id: 103, name: 'c' },
      { id: 101, name: 'again' },
    ])
    t.equal(refused.status, 409)
    t.match(refused.json(), { code: 'data/conflict', details: { sqlstate: '23505' } })
    t.equal(await value('select count(*)::int from tag where id = 103'), 0)
  })
  t.test('gives a row of an array the defaults of the columns that it leaves out', async (t) => {
    const created = await call('POST', '/product?select=sku,labels', [
      { tenant: 8, sku: 's1', title: 'x' },
      { tenant: 8, sku: 's2', title: 'x', labels: ['a'] },
      { tenant: 8, sku: 's3', title: 'x', labels: null },
    ])
    t.equal(created.status, 201, created.text)
    const labels = Object.fromEntries(
      created.json().data.map((row: { sku: string; labels: unknown }) => [row.sku, row.labels]),
    )
    t.same(labels, { s1: [], s2: ['a'], s3: null }, 'left out: the default; null: NULL')
  })
  t.test('answers as much as Prefer: return asks for', async (t) => {
    const minimal = await call('POST', '/tag', { id: 110, name: 'minimal' }, { Prefer: 'return=minimal' })
    t.same([minimal.status, minimal.text, minimal.headers.get('location')], [201, '', '/api/v1/tag/110'])
    t.equal(minimal.headers.get('preference-applied'), 'return=minimal')
    const only = await call('POST', '/tag', { id: 111, name: 'head' }, { Prefer: 'return=headers-only' })
    t.same([only.status, only.text, only.headers.get('location')], [201, '', '/api/v1/tag/111'])
    const whole = await call(
      'POST',
      '/tag?select=name',
      { id: 112, name: 'whole' },
      { Prefer: 'return=representation' },
    )
    t.equal(whole.text, '{"name":"whole"}')
    t.equal(whole.headers.get('etag'), null, 'a part of the row has no tag')
  })
  t.test('expands relations of the new row', async (t) => {
    const created = await call('POST', '/orders?select=id,status&expand=customers(select:name)', { customer_id: 1 })
    t.match(created.json(), { status: 'open', customers: { name: 'Customer 1' } })
  })
  t.test('merges duplicates by the primary key, a unique key, or the key asked for', async (t) => {
    const merge = { Prefer: 'resolution=merge-duplicates' }
    const merged = await call('POST', '/tag', { id: 100, name: 'renamed' }, merge)
    t.same([merged.status, merged.json()], [201, { id: 100, name: 'renamed' }])
    t.equal(merged.headers.get('preference-applied'), 'resolution=merge-duplicates')
    const byName = await call('POST', '/tag?on_conflict=name', { id: 999, name: 'renamed' }, merge)
    t.same(byName.json(), { id: 999, name: 'renamed' })
    t.equal(await value(`select count(*)::int from tag where name = 'renamed'`), 1)
    const many = await call(
      'POST',
      '/tag',
      [
        { id: 101, name: 'a2' },
        { id: 130, name: 'new' },
      ],
      merge,
    )
    t.equal(many.json().count, 2)
    const unique = await call('POST', '/unique_only', { code: 'c1', word: 'merged' }, merge)
    t.same(unique.json(), { code: 'c1', word: 'merged' })
  })
  t.test('passes over duplicates', async (t) => {
    const ignore = { Prefer: 'resolution=ignore-duplicates' }
    const one = await call('POST', '/tag', { id: 101, name: 'ignored' }, ignore)
    t.same([one.status, one.text], [204, ''])
    const many = await call(
      'POST',
      '/tag',
      [
        { id: 101, name: 'ignored' },
        { id: 131, name: 'fresh' },
      ],
      ignore,
    )
    t.same(many.json(), { data: [{ id: 131, name: 'fresh' }], count: 1 })
    const none = await call('POST', '/tag', [{ id: 101, name: 'ignored' }], ignore)
    t.same([none.status, none.json()], [200, { data: [], count: 0 }])
    t.equal(await value('select name from tag where id = 101'), 'a2')
  })
  t.test('writes views that can be written, and columns of every type', async (t) => {
    const created = await call('POST', '/noted', { note: 'through the view' })
    t.equal(created.status, 201, created.text)
    t.equal((await call('POST', '/customer_totals', { name: 'x' })).status, 405)
  })
})

t.test('PUT replaces the row: what is left out goes back to its default or NULL', async (t) => {
  await sql.query(
    `insert into product (tenant, sku, title, price, labels, data) values (50, 'put', 'old', 1, '{a}', '{"a":1}')`,
  )
  const replaced = await call('PUT', '/product/50,put', { title: 'new' })
  t.equal(replaced.status, 200, replaced.text)
  t.match(replaced.json(), { tenant: 50, sku: 'put', title: 'new', price: 9.99, labels: [], data: {} })
  t.match((await call('PUT', '/product/50,put', { tenant: 51, title: 'x' })).json(), {
    code: 'data/invalid-body',
    details: { field: 'tenant' },
  })
  t.equal((await call('PUT', '/product/50,none', { title: 'x' })).status, 404)
  t.equal((await call('PUT', '/product/50,put', {})).status, 400, 'title may not be NULL')
  t.equal((await call('PUT', '/product', { title: 'x' })).status, 405)
})

t.test('PATCH changes only the given columns', async (t) => {
  const before = (await call('GET', '/orders/1')).json()
  const changed = await call('PATCH', '/orders/1', '{"total": 12345678.90}')
  t.equal(changed.status, 200)
  t.same(changed.json(), { ...before, total: 12345678.9 })
  t.match(changed.text, /12345678\.90/)
  const minimal = await call('PATCH', '/orders/1', { note: null }, { Prefer: 'return=minimal' })
  t.same([minimal.status, minimal.text], [204, ''])
  t.equal(
    (await call('PATCH', '/orders/1?expand=customers', { status: 'paid' })).json().customers.id,
    before.customer_id,
  )
  t.equal((await call('PATCH', '/orders/99999', { note: 'x' })).status, 404)
  t.match((await call('PATCH', '/orders/1', {})).json(), { code: 'data/invalid-body' })
})

t.test('DELETE removes the row', async (t) => {
  await sql.query(`insert into tag values (140, 'one'), (141, 'two')`)
  const gone = await call('DELETE', '/tag/140')
  t.same([gone.status, gone.text], [204, ''])
  t.equal((await call('DELETE', '/tag/140')).status, 404)
  const told = await call('DELETE', '/tag/141', undefined, { Prefer: 'return=representation' })
  t.same([told.status, told.json()], [200, { id: 141, name: 'two' }])
  await sql.query('insert into orders (id, customer_id) values (9001, 2)')
  await sql.query(
    `insert into order_item (order_id, line, tenant, sku) select 9001, 1, tenant, sku from product limit 1`,
  )
  t.equal((await call('DELETE', '/orders/9001')).status, 204, 'the database cascades')
  t.equal(await value('select count(*)::int from order_item where order_id = 9001'), 0)
  t.match((await call('DELETE', '/tag/1')).json(), { code: 'data/conflict', details: { sqlstate: '23503' } })
})

t.test('many rows change only with a filter', async (t) => {
  await sql.query(`insert into tag select n, 'bulk ' || n from generate_series(200, 209) n`)
  const patched = await call('PATCH', '/keyless?name=eq.k1&number=not.is.null', { number: 77 })
  t.equal(patched.status, 200)
  t.equal(patched.json().count, Number(await value('select count(*) from keyless where number = 77')))
  const minimal = await call('PATCH', '/keyless?number=eq.77', { number: 78 }, { Prefer: 'return=minimal' })
  t.same([minimal.status, minimal.headers.get('content-range')], [204, `*/${patched.json().count}`])
  const gone = await call('DELETE', '/tag?or=(id.eq.200,and(id.gte.208,id.lt.220))')
  t.same([gone.status, gone.headers.get('content-range')], [204, '*/3'])
  const told = await call('DELETE', '/tag?id=in.(201,202)&select=id', undefined, { Prefer: 'return=representation' })
  t.same(told.json(), { data: [{ id: 201 }, { id: 202 }], count: 2 })
  for (const method of ['PATCH', 'DELETE']) {
    const all = await call(method, '/tag', method === 'PATCH' ? { name: 'x' } : undefined)
    t.match([all.status, all.json()], [400, { code: 'data/filter-required', hint: /status=eq/ }])
  }
  t.equal(await value('select count(*)::int from tag where id between 200 and 209'), 5)
})

t.test('If-Match', async (t) => {
  await sql.query(`insert into tag values (300, 'tagged')`)
  const etag = (await call('GET', '/tag/300')).headers.get('etag') ?? ''
  t.equal((await call('PATCH', '/tag/300', { name: 'x' }, { 'If-Match': '"0123"' })).status, 412)
  const done = await call('PATCH', '/tag/300', { name: 'x' }, { 'If-Match': `"other", ${etag}` })
  t.equal(done.status, 200)
  t.not(done.headers.get('etag'), etag)
  const stale = await call('PUT', '/tag/300', { name: 'y' }, { 'If-Match': etag })
  t.match([stale.status, stale.json()], [412, { code: 'data/precondition-failed', details: { header: 'If-Match' } }])
  t.equal((await call('DELETE', '/tag/300', undefined, { 'If-Match': etag })).status, 412)
  t.equal((await call('DELETE', '/tag/301', undefined, { 'If-Match': etag })).status, 404)
  t.equal((await call('PATCH', '/tag/300', { name: 'z' }, { 'If-Match': '*' })).status, 200)
  const tag = (await call('GET', '/tag/300')).headers.get('etag') ?? ''
  t.equal((await call('DELETE', '/tag/300', undefined, { 'If-Match': tag })).status, 204)
})

t.test('of two writers that read the same row only one gets through', async (t) => {
  await sql.query(`insert into tag values (310, 'raced')`)
  const etag = (await call('GET', '/tag/310')).headers.get('etag') ?? ''
  const names = Array.from({ length: 12 }, (_, n) => `writer ${n}`)
  const answers = await Promise.all(names.map((name) => call('PATCH', '/tag/310', { name }, { 'If-Match': etag })))
  t.equal(answers.filter(({ status }) => status === 200).length, 1)
  t.equal(answers.filter(({ status }) => status === 412).length, 11)
})

t.test('Idempotency-Key', async (t) => {
  const headers = { 'Idempotency-Key': 'order-1' }
  const first = await call('POST', '/orders', { customer_id: 2, note: 'once' }, headers)
  t.equal(first.status, 201)
  const again = await call('POST', '/orders', { customer_id: 2, note: 'once' }, headers)
  t.same([again.status, again.text], [first.status, first.text])
  t.equal(again.headers.get('location'), first.headers.get('location'))
  t.equal(again.headers.get('idempotency-replayed'), 'true')
  const other = await call('POST', '/orders', { customer_id: 2, note: 'twice' }, headers)
  t.match([other.status, other.json()], [422, { code: 'data/idempotency-mismatch' }])
  t.equal(await value(`select count(*)::int from orders where note in ('once', 'twice')`), 1)
  const at = { 'Idempotency-Key': 'at-once' }
  const crowd = await Promise.all(
    Array.from({ length: 10 }, () => call('POST', '/orders', { customer_id: 3, note: 'crowd' }, at)),
  )
  t.equal(new Set(crowd.map(({ text }) => text)).size, 1)
  t.equal(await value(`select count(*)::int from orders where note = 'crowd'`), 1)
  const failing = { 'Idempotency-Key': 'failing' }
  t.equal((await call('POST', '/tag', { id: 1, name: 'taken' }, failing)).status, 409)
  t.equal((await call('POST', '/tag', { id: 400, name: 'free' }, failing)).status, 201, 'a failure keeps no key')
})

t.test('bad writes name the field and the reason, and leave nothing', async (t) => {
  const cases: readonly (readonly [string, string, unknown, number, object])[] = [
    ['POST', '/tag', '{"id":', 400, { code: 'data/invalid-body', error: /not JSON/ }],
    ['POST', '/tag', '', 400, { code: 'data/invalid-body' }],
    ['POST', '/tag', '"text"', 400, { code: 'data/invalid-body', error: /object, or an array/ }],
    ['POST', '/tag', '[]', 400, { code: 'data/invalid-body', error: /no rows/ }],
    ['POST', '/tag', [{ id: 500, name: 'a' }, 7], 400, { error: /\[1\]/ }],
    [
      'POST',
      '/tag',
      { id: 500, nam: 'x' },
      400,
      { code: 'data/unknown-column', hint: /name/, details: { field: 'nam' } },
    ],
    ['POST', '/tag', { id: 'abc', name: 'x' }, 400, { code: 'data/invalid-value', details: { field: 'id' } }],
    ['POST', '/tag', { id: 99999999999, name: 'x' }, 400, { code: 'data/invalid-value', details: { field: 'id' } }],
    ['POST', '/tag', { id: 500, name: null }, 400, { code: 'data/constraint-violated', details: { column: 'name' } }],
    ['POST', '/orders', { customer_id: 999999 }, 409, { code: 'data/conflict', details: { sqlstate: '23503' } }],
    ['POST', '/orders', { customer_id: 2, status: 'odd' }, 400, { code: 'data/constraint-violated' }],
    ['POST', '/address', { id: 1, city: 'x' }, 400, { details: { field: 'id' }, hint: 'leave it out' }],
    ['POST', '/product', { tenant: 1, sku: 'x', title: 'x', search: 'x' }, 400, { details: { field: 'search' } }],
    ['POST', '/tag?on_conflict=name', { id: 500, name: 'x' }, 400, { details: { field: 'on_conflict' } }],
    ['POST', '/tag?id=eq.5', { id: 500, name: 'x' }, 400, { error: /id/ }],
    ['POST', '/tags', { id: 500 }, 404, { code: 'data/unknown-table', hint: /tag/ }],
    ['PATCH', '/keyless/1', { name: 'x' }, 400, { code: 'data/no-primary-key' }],
    ['DELETE', '/tag/abc', undefined, 400, { code: 'data/invalid-key', details: { field: 'key' } }],
    ['POST', '/tag/1', { id: 1 }, 405, { code: 'http/method-not-allowed', details: { allow: /PATCH/ } }],
  ]
  for (const [method, path, body, status, shape] of cases) {
    const answer = await call(method, path, body)
    const name = `${method} ${path} ${JSON.stringify(body)?.slice(0, 60)}`
    t.equal(answer.status, status, `${name}: ${answer.text}`)
    t.match(answer.json(), { ...shape, requestId: String }, name)
    t.notMatch(answer.text, /insert into|json_to_record|node_modules|\.ts:/, 'nothing leaks')
  }
  const type = await fetch(`${gateway.url}/api/v1/tag`, {
    method: 'POST',
    body: 'a=1',
    headers: { 'Content-Type': 'text/plain' },
  })
  t.equal(type.status, 415)
  const bytes = await fetch(`${gateway.url}/api/v1/tag`, {
    method: 'POST',
    body: Buffer.from('{"id":500,"name":"\xff"}', 'latin1'),
    headers: { 'Content-Type': 'application/json' },
  })
  t.match([bytes.status, await bytes.json()], [400, { code: 'data/invalid-body', error: /UTF-8/ }])
  t.equal((await call('POST', '/tag', `{"name":"${'x'.repeat(1_100_000)}"}`)).status, 413)
  t.equal((await call('POST', '/tag', { id: 501, name: 'x' }, { Accept: 'text/csv' })).status, 406)
  t.equal((await call('POST', '/tag', { id: 501, name: 'x' }, { Prefer: 'return=all' })).status, 400)
  t.equal(await value('select count(*)::int from tag where id in (500, 501)'), 0)
  t.equal((await call('POST', '/tag', { id: 500, name: 'x' })).status, 201, 'the next request works')
})

t.test('the role and claims of a token decide what may be written', async (t) => {
  const token = (sub: string, role = 'web_user') =>
    new SignJWT({ sub, role })
      .setProtectedHeader({ alg: 'HS256' })
      .setExpirationTime('1h')
      .sign(new TextEncoder().encode(secret))
  const alice = { Authorization: `Bearer ${await token('alice')}` }
  const bob = { Authorization: `Bearer ${await token('bob')}` }
  const mine = await call('POST', '/note', { body: 'mine' }, alice)
  t.match([mine.status, mine.json()], [201, { owner: 'alice', body: 'mine' }])
  const { id } = mine.json()
  t.equal((await call('PATCH', `/note/${id}`, { body: 'stolen' }, bob)).status, 404)
  t.equal((await call('POST', '/note', { owner: 'alice', body: 'forged' }, bob)).status, 403)
  t.equal((await call('DELETE', '/note?id=gt.0', undefined, bob)).status, 204)
  t.equal(await value('select body from note where id = $1', id), 'mine')
  t.equal((await call('POST', '/secret', { id: 2 }, alice)).status, 403)
  const keyed = { ...alice, 'Idempotency-Key': 'as-alice' }
  t.equal(
    (await call('POST', '/note', { body: 'keyed' }, keyed)).status,
    201,
    'the role need not know the table of keys',
  )
  t.equal((await call('POST', '/note', { body: 'keyed' }, keyed)).headers.get('idempotency-replayed'), 'true')
})

t.test('/rpc calls functions of the database', async (t) => {
  const cases: readonly (readonly [string, string, unknown, number, unknown])[] = [
    ['GET', '/rpc/add?a=1&b=2', undefined, 200, 3],
    ['GET', '/rpc/add?a=1', undefined, 200, 11],
    ['POST', '/rpc/add', { a: 5, b: 6 }, 200, 11],
    ['GET', '/rpc/series?upto=5&limit=2&offset=1', undefined, 200, [2, 3]],
    ['GET', '/rpc/split_name?full_name=Ada%20Lovelace', undefined, 200, { first: 'Ada', last: 'Lovelace' }],
    ['GET', '/rpc/overloaded?a=1&b=2', undefined, 200, 'two 1 2'],
    ['GET', '/rpc/joined?separator=-&words=a&words=b', undefined, 200, 'a-b'],
    ['POST', '/rpc/joined', { separator: '+', words: ['a', 'b'] }, 200, 'a+b'],
    ['POST', '/rpc/moods_of', {}, 200, ['ok']],
    ['GET', '/rpc/Odd%20Function?the%20arg=x', undefined, 200, 'x1'],
  ]
  for (const [method, path, body, status, result] of cases) {
    const answer = await call(method, path, body)
    t.same([answer.status, answer.json()], [status, result], `${method} ${path}`)
  }
  const rows = await call('GET', '/rpc/customers_in?city_name=Berlin&limit=2')
  t.equal(rows.json().length, 2)
  t.equal(rows.headers.get('content-range'), '0-1/*')
  t.match((await call('GET', '/rpc/order_report', undefined, { Accept: 'text/csv' })).text, /^status,orders,total\r\n/)
  const bumped = await call('POST', '/rpc/bump', '{"order_number":2,"amount":0.10}')
  t.equal(bumped.json().id, 2)
  t.equal((await call('POST', '/rpc/forget', { order_number: 3 })).status, 204)
  t.match((await call('GET', '/rpc/bump?order_number=2')).json(), { code: 'http/method-not-allowed' })
  t.match((await call('GET', '/rpc/ad')).json(), { code: 'data/unknown-function', hint: /add/ })
  t.match((await call('POST', '/rpc/add', { x: 1 })).json(), {
    code: 'data/unknown-function',
    details: { signatures: Array },
  })
  t.match((await call('POST', '/rpc/fails', {})).json(), {
    error: 'it failed',
    hint: 'the hint',
    details: { sqlstate: 'P0001' },
  })
  t.equal((await call('PATCH', '/rpc/add', {})).status, 405)
  const once = { 'Idempotency-Key': 'bump' }
  const before = Number(await value('select total from orders where id = 4'))
  await call('POST', '/rpc/bump', { order_number: 4 }, once)
  t.equal((await call('POST', '/rpc/bump', { order_number: 4 }, once)).headers.get('idempotency-replayed'), 'true')
  t.equal(Number(await value('select total from orders where id = 4')), before + 1)
})

t.test('tables and types describe themselves', async (t) => {
  const table = (await call('GET', '/product/schema')).json()
  t.match(table, { table: 'product', kind: 'table', primaryKey: ['tenant', 'sku'], insertable: true })
  t.match(table.columns[0], { name: 'tenant', type: 'integer', nullable: false })
  t.same((await call('GET', '/types/mood')).json().values, ['sad', 'ok', 'happy', 'in "love"', 'so, so'])
  t.match((await call('GET', '/types/postal')).json().fields[1], { name: 'house No', type: 'int4' })
  t.match((await call('GET', '/types/mod')).json(), { code: 'http/not-found', hint: /mood/ })
})
