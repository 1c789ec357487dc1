import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { SignJWT } from 'jose'
import pg from 'pg'
import t from 'tap'
import { type GraphqlGatewayOptions, startGraphqlGateway } from '../../gateways/graphql/server.ts'
import { startBusbar } from '../support/command.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)
const sql = new pg.Client({ connectionString: server.url })
await sql.connect()
t.teardown(() => sql.end())
await sql.query(readFileSync(resolve(import.meta.dirname, '../support/fixture.sql'), 'utf8'))

async function gatewayWith(options: Partial<GraphqlGatewayOptions>) {
  const gateway = await startGraphqlGateway({
    host: '127.0.0.1',
    port: 0,
    connection: { connectionString: server.url },
    schemas: ['public', 'other'],
    naming: 'spec',
    defaultPageSize: 100,
    maxPageSize: 1000,
    maxBodyBytes: 1_048_576,
    corsOrigins: ['*'],
    jwt: {},
    emitCommands: false,
    onObservation: (observation) =>
      observation.type === 'request-fault' && t.fail((observation.error as Error).stack ?? String(observation.error)),
    ...options,
  })
  t.teardown(() => gateway.stop())
  return `${gateway.url}/graphql`
}

interface Answer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is what the tests are about
  readonly body: any
}

async function post(url: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

async function get(url: string, parameters: Record<string, string>): Promise<Answer> {
  const response = await fetch(`${url}?${new URLSearchParams(parameters)}`)
  return { status: response.status, headers: response.headers, body: await response.json() }
}

const digest = (text: string) => hash('sha256', text, 'hex')
const byHash = (text: string, sha256Hash = digest(text)) => ({
  extensions: { persistedQuery: { version: 1, sha256Hash } },
})
const codeOf = ({ body }: Answer) => body.errors?.[0]?.extensions?.code
const url = await gatewayWith({})

t.test('automatic persisted queries', async (t) => {
  const query = '{ publicTag(limit: 1) { id } }'
  const data = { publicTag: [{ id: 1 }] }
  const unknown = await post(url, byHash(query))
  t.match(unknown.body, {
    errors: [{ message: 'PersistedQueryNotFound', extensions: { code: 'PERSISTED_QUERY_NOT_FOUND' } }],
  })
  t.equal(unknown.status, 200)
  const modern = await post(url, byHash(query), { Accept: 'application/graphql-response+json' })
  t.equal(modern.status, 400)
  const extensions = JSON.stringify(byHash(query).extensions)
  t.equal(codeOf(await get(url, { extensions })), 'PERSISTED_QUERY_NOT_FOUND', 'by GET')
  t.same((await post(url, { query, ...byHash(query) })).body, { data }, 'registers')
  t.same((await post(url, byHash(query))).body, { data }, 'is found')
  t.same((await post(url, byHash(query, digest(query).toUpperCase()))).body, { data })
  t.same((await get(url, { extensions })).body, { data }, 'is found by GET')
  t.same((await post(url, { documentId: `sha256:${digest(query)}` })).body, { data }, 'is found as a document')
  const batch = await post(url, [byHash(query), byHash('{ __typename }'), { query: '{ __typename }' }])
  t.match(batch.body, [
    { data },
    { errors: [{ extensions: { code: 'PERSISTED_QUERY_NOT_FOUND' } }] },
    { data: { __typename: 'Query' } },
  ])
  await get(url, { query: '{ __typename }', extensions: JSON.stringify(byHash('{ __typename }').extensions) })
  t.same((await post(url, byHash('{ __typename }'))).body, { data: { __typename: 'Query' } }, 'registered by GET')
})

t.test('a persisted query that cannot be used is refused and not remembered', async (t) => {
  const query = '{ publicTag(limit: 2) { id } }'
  const refusals: readonly (readonly [object, RegExp])[] = [
    [{ query, ...byHash('{ other }') }, /sha256Hash is not the hash/],
    [{ extensions: { persistedQuery: { version: 2, sha256Hash: digest(query) } } }, /version must be 1/],
    [{ extensions: { persistedQuery: { version: 1, sha256Hash: 'abc' } } }, /64 hexadecimal/],
    [{ extensions: { persistedQuery: 'x' } }, /version must be 1/],
    [{ documentId: 7 }, /documentId must be a string/],
    [{ documentId: 'x'.repeat(256) }, /more than 255/],
    [{ documentId: 'x', query }, /cannot be combined/],
    [{}, /query is missing/],
  ]
  for (const [body, message] of refusals) {
    const { status, body: answer } = await post(url, body)
    t.match([status, answer.errors[0]], [400, { message, extensions: { code: 'http/bad-request' } }])
    const [inBatch] = (await post(url, [body])).body
    t.match(inBatch.errors[0], { message, extensions: { code: 'http/bad-request' } }, 'the same in a batch')
  }
  t.equal(codeOf(await post(url, byHash('{ other }'))), 'PERSISTED_QUERY_NOT_FOUND')
  const invalid = '{ publicNothing }'
  t.equal(codeOf(await post(url, { query: invalid, ...byHash(invalid) })), 'GRAPHQL_VALIDATION_FAILED')
  t.equal(codeOf(await post(url, byHash(invalid))), 'PERSISTED_QUERY_NOT_FOUND')
  const off = await gatewayWith({ persisted: { automatic: false } })
  t.equal(codeOf(await post(off, byHash(query))), 'PERSISTED_QUERY_NOT_SUPPORTED')
  t.equal(codeOf(await post(off, { query, ...byHash(query) })), 'PERSISTED_QUERY_NOT_SUPPORTED')
})

t.test('only persisted documents', async (t) => {
  const text = 'query One($id: Int!) { publicTag(where: { id: { eq: $id } }) { id } }'
  const documents = new Map([
    ['one', text],
    [digest(text), text],
  ])
  const only = await gatewayWith({ persisted: { documents, only: true } })
  const variables = { id: 3 }
  const data = { publicTag: [{ id: 3 }] }
  t.same((await post(only, { documentId: 'one', variables })).body, { data })
  t.same((await post(only, { documentId: `sha256:${digest(text)}`, variables })).body, { data })
  t.same((await post(only, { ...byHash(text), variables })).body, { data })
  t.same((await get(only, { documentId: 'one', variables: JSON.stringify(variables) })).body, { data })
  t.same((await post(only, [{ documentId: 'one', variables }])).body, [{ data }])
  t.equal(codeOf(await post(only, { documentId: 'two' })), 'PERSISTED_QUERY_NOT_FOUND')
  t.equal(codeOf(await post(only, byHash('{ __typename }'))), 'PERSISTED_QUERY_NOT_FOUND')
  const others = [
    { query: '{ __typename }' },
    { query: '{ __typename }', ...byHash('{ __typename }') },
    { query: text, variables },
  ]
  for (const body of others) {
    t.equal(codeOf(await post(only, body)), 'PERSISTED_QUERY_ONLY')
    t.equal((await post(only, [body])).body[0].errors[0].extensions.code, 'PERSISTED_QUERY_ONLY')
  }
  t.equal(codeOf(await get(only, { query: '{ __typename }' })), 'PERSISTED_QUERY_ONLY')
})

const costs: readonly (readonly [string, object | undefined, number])[] = [
  ['{ __typename __schema { types { name } } }', undefined, 0],
  ['{ publicTag { id } }', undefined, 100],
  ['{ publicTag(limit: 7) { id } b: publicTag(limit: 5000) { id } }', undefined, 1007],
  ['query($n: Int) { publicTag(limit: $n) { id } }', { n: 12 }, 12],
  ['query($n: Int) { publicTag(limit: $n) { id } }', undefined, 100],
  ['query($n: Int = 4) { publicTag(limit: $n) { id } }', undefined, 4],
  ['{ publicCustomers(limit: 10) { publicOrders(limit: 5) { publicOrder_item(limit: 2) { line } } } }', undefined, 160],
  ['{ publicOrders(limit: 10) { publicCustomers { name } } }', undefined, 20],
  [
    '{ publicTagConnection(first: 9) { totalCount edges { node { publicProduct(limit: 3) { sku } } } } }',
    undefined,
    37,
  ],
  ['query($l: Int) { publicTagConnection(last: $l) { pageInfo { hasNextPage } } }', { l: 6 }, 6],
  ['{ publicOrdersAggregate { count groupBy(columns: [status], limit: 5) { n: count } } }', undefined, 6],
  [
    'query($no: Boolean!) { publicTag(limit: 8) @skip(if: $no) { id } publicCountry(limit: 2) { ...f ...f } } fragment f on PublicCountry { publicAddress(limit: 3) { id } }',
    { no: true },
    8,
  ],
]

t.test('the estimate of an operation, when it is asked for', async (t) => {
  for (const [query, variables, estimated] of costs) {
    const { body } = await post(url, { query, variables }, { 'Busbar-Cost': '1' })
    t.same([body.errors, body.extensions], [undefined, { cost: { estimated, max: 0 } }], query)
  }
  const [query] = costs[1]!
  t.same((await post(url, { query })).body.extensions, undefined, 'not unless asked')
  const [one] = (await post(url, [{ query }], { 'Busbar-Cost': '1' })).body
  t.same(one.extensions, { cost: { estimated: 100, max: 0 } }, 'in a batch')
})

t.test('an operation that costs too much is refused before it runs', async (t) => {
  const limited = await gatewayWith({ maxCost: 150 })
  const query = 'query($n: Int) { publicTag(limit: $n) { id publicProduct(limit: 1) { sku } } }'
  for (const n of [76, 1000, undefined]) {
    const { body, status } = await post(limited, { query, variables: { n } })
    const estimated = Math.min(n ?? 100, 1000) * 2
    t.match(body.errors[0], { extensions: { code: 'data/too-complex', cost: { estimated, max: 150 } } })
    t.equal(status, 200)
    t.notOk('data' in body)
  }
  const modern = await post(limited, { query }, { Accept: 'application/graphql-response+json' })
  t.equal(modern.status, 400)
  t.equal(codeOf(await get(limited, { query })), 'data/too-complex')
  t.equal((await post(limited, { query, variables: { n: 75 } })).body.errors, undefined)
  const many = 'mutation($i: [PublicTagInput!]!) { createManyPublicTag(inputs: $i) { id } }'
  const inputs = Array.from({ length: 151 }, (_, n) => ({ id: 5000 + n, name: 'x' }))
  t.equal(codeOf(await post(limited, { query: many, variables: { i: inputs } })), 'data/too-complex')
  t.equal((await sql.query('select from tag where id >= 5000')).rowCount, 0)
})

t.test('a caller who goes away takes a dear statement along', async (t) => {
  await sql.query('create view slow as select 1 as id, pg_sleep(600)::text as slept')
  const running = async () =>
    (
      await sql.query(
        "select from pg_stat_activity where query like '%slept%' and pid <> pg_backend_pid() and state = 'active'",
      )
    ).rowCount
  const query = '{ publicSlowAggregate(where: { slept: { eq: "" } }) { count } }'
  while (
    ((await post(url, { query: '{ __type(name: "PublicSlow") { name } }' })).body.data as { __type: unknown })
      .__type === null
  );
  const leaving = new AbortController()
  const gone = fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ query }),
    signal: leaving.signal,
  })
  while ((await running()) !== 1);
  leaving.abort()
  await t.rejects(gone, { name: 'AbortError' })
  while ((await running()) !== 0);
  await sql.query('drop view slow')
})

t.test('Idempotency-Key: one mutation', async (t) => {
  const query = 'mutation($id: Int!, $name: String!) { createPublicTag(input: { id: $id, name: $name }) { id name } }'
  const ofTag = (id: number) => ({ query, variables: { id, name: `once ${id}` } })
  const key = { 'Idempotency-Key': 'single-1' }
  const first = await post(url, ofTag(200), key)
  t.same(first.body, { data: { createPublicTag: { id: 200, name: 'once 200' } } })
  t.equal(first.headers.get('idempotency-replayed'), null)
  const again = await post(url, ofTag(200), key)
  t.same(again.body, first.body)
  t.equal(again.headers.get('idempotency-replayed'), 'true')
  await post(url, { ...ofTag(999), ...byHash(query) })
  const hashed = await post(url, { variables: ofTag(200).variables, ...byHash(query) }, key)
  t.same(hashed.body, first.body, 'the same document by its hash is the same request')
  const other = await post(url, ofTag(201), key)
  t.match([other.status, codeOf(other)], [422, 'data/idempotency-mismatch'])
  const bad = await post(url, ofTag(201), { 'Idempotency-Key': 'a b' })
  t.match([bad.status, codeOf(bad)], [400, 'http/bad-request'])
  const batch = await post(url, [ofTag(201)], { 'Idempotency-Key': 'batch-1' })
  t.match(batch.body, [{ errors: [{ message: /batch/ }] }])
  t.equal((await sql.query('select from tag where id = 201')).rowCount, 0)
  t.equal(codeOf(await post(url, ofTag(1), { 'Idempotency-Key': 'single-2' })), 'data/conflict')
  const afterFailure = await post(url, ofTag(202), { 'Idempotency-Key': 'single-2' })
  t.same(afterFailure.body.data, { createPublicTag: { id: 202, name: 'once 202' } }, 'a failure keeps no key')
})

t.test('Idempotency-Key: concurrent requests on two gateways do the work once', async (t) => {
  const second = await gatewayWith({})
  await sql.query('create table counted (id int generated always as identity primary key, note text)')
  const query =
    'mutation { a: createPublicCounted(input: { note: "a" }) { id } b: createPublicCounted(input: { note: "b" }) { id } }'
  while ((await post(second, { query: '{ publicCounted { id } }' })).body.errors);
  while ((await post(url, { query: '{ publicCounted { id } }' })).body.errors);
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, n) => post(n % 2 === 0 ? url : second, { query }, { 'Idempotency-Key': 'both' })),
  )
  t.equal((await sql.query('select from counted')).rowCount, 2)
  for (const { body } of answers) t.same(body, answers[0]!.body)
})

t.test('Idempotency-Key: several mutations, each its own transaction', async (t) => {
  const query =
    'mutation($c: Int!) { a: createPublicTag(input: { id: 300, name: "a" }) { id } b: createPublicTag(input: { id: $c, name: "b" }) { id } c: createPublicTag(input: { id: 302, name: "c" }) { id } }'
  const headers = { 'Idempotency-Key': 'several' }
  await sql.query(`insert into tag values (301, 'in the way')`)
  const first = await post(url, { query, variables: { c: 301 } }, headers)
  t.match(first.body, {
    data: { a: { id: 300 }, b: null, c: { id: 302 } },
    errors: [{ path: ['b'], extensions: { code: 'data/conflict' } }],
  })
  const other = await post(url, { query, variables: { c: 303 } }, headers)
  t.match([other.status, codeOf(other)], [422, 'data/idempotency-mismatch'])
  t.equal((await sql.query('select from tag where id = 303')).rowCount, 0)
  await sql.query('delete from tag where id = 301')
  const repaired = await post(url, { query, variables: { c: 301 } }, headers)
  t.same(repaired.body, { data: { a: { id: 300 }, b: { id: 301 }, c: { id: 302 } } }, 'only what had failed is done')
  t.equal(repaired.headers.get('idempotency-replayed'), null)
  const replay = await post(url, { query, variables: { c: 301 } }, headers)
  t.same([replay.body, replay.headers.get('idempotency-replayed')], [repaired.body, 'true'])
})

t.test('Idempotency-Key: a crash between two fields loses and duplicates nothing', async (t) => {
  await sql.query('create table ledger (id int generated always as identity primary key, note text)')
  await sql.query(`create function hold() returns trigger language plpgsql as $$ begin
    perform pg_advisory_xact_lock(4711); return new; end $$`)
  await sql.query(
    `create trigger hold before insert on ledger for each row when (new.note = 'b') execute function hold()`,
  )
  const query =
    'mutation { a: createPublicLedger(input: { note: "a" }) { id } b: createPublicLedger(input: { note: "b" }) { id } }'
  while ((await post(url, { query: '{ publicLedger { id } }' })).body.errors);
  await sql.query('select pg_advisory_lock(4711)')
  const headers = { 'Idempotency-Key': 'crash' }
  const broken = post(url, { query }, headers)
  for (;;) {
    const { rows } = await sql.query(
      `select pid from pg_locks where locktype = 'advisory' and not granted and pid <> pg_backend_pid()`,
    )
    if (rows.length === 0) continue
    // The second field's transaction dies with its connection, as it would with its gateway.
    await sql.query('select pg_terminate_backend($1)', [rows[0].pid])
    break
  }
  await broken
  await sql.query('select pg_advisory_unlock(4711)')
  t.same((await sql.query('select note from ledger')).rows, [{ note: 'a' }])
  const { body } = await post(url, { query }, headers)
  t.equal(body.errors, undefined)
  t.same((await sql.query('select note from ledger order by id')).rows, [{ note: 'a' }, { note: 'b' }])
})

t.test('a schema for each role', async (t) => {
  await sql.query(`
    create role reader nologin; create role writer nologin; create role nobody nologin;
    create schema shop; create table shop.item (id int primary key, name text, price int, secret text);
    create table shop.part (id int primary key, item_id int references shop.item, label text);
    create table shop.hidden (id int primary key);
    create table shop.log (id int generated always as identity primary key, line text);
    insert into shop.item values (1, 'one', 10, 's'); insert into shop.part values (1, 1, 'p');
    grant usage on schema shop to reader, writer;
    grant select (id, name) on shop.item to reader; grant select on shop.part to reader, writer;
    grant select, insert on shop.item to writer; grant update (price) on shop.item to writer;
    grant insert (line), select (id) on shop.log to writer;
  `)
  const secret = 'a secret of at least 32 characters!'
  const roles = await gatewayWith({ schemas: ['shop'], jwt: { secret }, roleSchemas: true })
  const as = async (role: string) => {
    const token = await new SignJWT({ role })
      .setProtectedHeader({ alg: 'HS256' })
      .sign(new TextEncoder().encode(secret))
    return { Authorization: `Bearer ${token}` }
  }
  const [reader, writer, nobody] = [await as('reader'), await as('writer'), await as('nobody')]
  const schemaOf = async (headers: Record<string, string>) => {
    const query =
      '{ __schema { queryType { fields { name } } mutationType { fields { name } } types { name fields { name } inputFields { name } } } }'
    const { body } = await post(roles, { query }, headers)
    const { queryType, mutationType, types } = body.data.__schema
    const names = (of: { fields: { name: string }[] } | null) => of?.fields.map(({ name }) => name)
    const members = (name: string) => {
      const type = types.find((one: { name: string }) => one.name === name)
      return (type?.fields ?? type?.inputFields)?.map((one: { name: string }) => one.name)
    }
    return { queries: names(queryType), mutations: names(mutationType), members }
  }
  const read = await schemaOf(reader)
  const three = (stem: string) => [stem, `${stem}Connection`, `${stem}Aggregate`]
  t.same(read.queries, [...three('shopItem'), ...three('shopPart')])
  t.equal(read.mutations, undefined)
  t.same(read.members('ShopItem'), ['id', 'name', 'shopPart'])
  t.same(read.members('ShopPart'), ['id', 'item_id', 'label', 'shopItem'])
  t.same(read.members('ShopItemOrderBy'), ['id', 'name'])
  const write = await schemaOf(writer)
  t.same(write.queries, [...three('shopItem'), ...three('shopLog'), ...three('shopPart')])
  t.same(write.mutations, [
    'createShopItem',
    'createManyShopItem',
    'updateShopItem',
    'createShopLog',
    'createManyShopLog',
  ])
  t.same(write.members('ShopItemInput'), ['id', 'name', 'price', 'secret'])
  t.same(write.members('ShopLogInput'), ['line'], 'a column to write and not to read')
  t.same(write.members('ShopLog'), ['id'])
  t.same((await schemaOf(nobody)).queries, ['_empty'])
  t.same((await post(roles, { query: '{ _empty }' }, nobody)).body, { data: { _empty: null } })

  const item = '{ shopItem { name shopPart { label } } }'
  const data = { shopItem: [{ name: 'one', shopPart: [{ label: 'p' }] }] }
  t.same((await post(roles, { query: item }, reader)).body, { data })
  t.same((await post(roles, [{ query: item }], reader)).body, [{ data }], 'in a batch')
  const byGet = await fetch(`${roles}?${new URLSearchParams({ query: item })}`, { headers: reader })
  t.same(await byGet.json(), { data }, 'by GET')
  const log = await post(roles, { query: 'mutation { createShopLog(input: { line: "x" }) { id } }' }, writer)
  t.same(log.body, { data: { createShopLog: { id: 1 } } })
  for (const body of [{ query: '{ shopItem { secret } }' }, [{ query: '{ shopItem { secret } }' }]]) {
    const [error] = [(await post(roles, body, reader)).body].flat()[0].errors
    t.match(error, { message: /Cannot query field "secret"/, extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } })
  }
  const [hint] = (await post(roles, [{ query: '{ shopHiddn { id } }' }], reader)).body[0].errors
  t.notMatch(hint.message, /shopHidden/, 'no name is given away')

  const unknown = await post(roles, { query: item }, await as('not_there'))
  const plain = await gatewayWith({ schemas: ['shop'], jwt: { secret } })
  const elsewhere = await post(plain, { query: item }, await as('not_there'))
  t.match(unknown.body.errors[0].extensions, { code: elsewhere.body.errors[0].extensions.code })
  t.equal(unknown.status, elsewhere.body.errors[0].extensions.status)
  t.equal((await post(roles, { query: item }, { Authorization: 'Bearer x' })).status, 401)
  t.equal((await fetch(`${roles}?query={__typename}`, { headers: { Authorization: 'Bearer x' } })).status, 401)

  await sql.query('grant select on shop.hidden to reader')
  while (!(await schemaOf(reader)).queries?.includes('shopHidden'));
  await sql.query('alter table shop.part add column more int')
  while (!(await schemaOf(reader)).members('ShopPart').includes('more'));
  t.same((await post(roles, { query: '{ shopPart { more } }' }, reader)).body, { data: { shopPart: [{ more: null }] } })
})

t.test('a node under several names', async (t) => {
  const cases: readonly (readonly [string, unknown])[] = [
    [
      '{ c: publicTagConnection(first: 1) { edges { a: node { id } b: node { name } } } }',
      { edges: [{ a: { id: 1 }, b: { name: 'tag 1' } }] },
    ],
    [
      '{ c: publicTagConnection(first: 1, where: { id: { lte: 24 } }) { x: edges { node { id } } y: edges { node { n: name __typename } cursor: __typename } p: pageInfo { hasNextPage } q: pageInfo { hasPreviousPage } t: totalCount } }',
      {
        x: [{ node: { id: 1 } }],
        y: [{ node: { n: 'tag 1', __typename: 'PublicTag' }, cursor: 'PublicTagEdge' }],
        p: { hasNextPage: true },
        q: { hasPreviousPage: false },
        t: 24,
      },
    ],
    [
      '{ c: publicTagConnection(first: 1) { edges { node { id } } edges { node { name } } } }',
      { edges: [{ node: { id: 1, name: 'tag 1' } }] },
    ],
    [
      '{ c: publicOrdersConnection(first: 1, orderBy: { id: ASC }) { edges { a: node { x: publicCustomers { id } } b: node { x: publicCustomers { name } note } } } }',
      {
        edges: [
          {
            a: { x: { id: '4' } },
            b: { x: { name: 'Customer 4' }, note: 'note 1 with "quotes", commas,\n a line break and ü' },
          },
        ],
      },
    ],
    [
      '{ c: publicTagConnection(first: 1) { x: edges { ...e } y: edges { ...e node { name } } } } fragment e on PublicTagEdge { node { id } }',
      { x: [{ node: { id: 1 } }], y: [{ node: { id: 1, name: 'tag 1' } }] },
    ],
    [
      '{ c: publicTagConnection(first: 1) { edges { a: node { __typename } b: node { id } } } }',
      { edges: [{ a: { __typename: 'PublicTag' }, b: { id: 1 } }] },
    ],
  ]
  for (const [query, c] of cases) {
    const { body } = await post(url, { query })
    t.same([body.errors, body.data?.c], [undefined, c], query)
  }
})

t.test('busbar catalog lists what is exposed, and the names that could not stay', async (t) => {
  await sql.query(`create schema odd; create table odd."sales-2024" (id int primary key, "a b" int, a_b int);
    create table odd.sales_2024 (id int primary key)`)
  const { hostname, port, username, password, pathname } = new URL(server.url)
  const env = {
    SPRING_DATASOURCE_URL: `jdbc:postgresql://${hostname}:${port}${pathname}`,
    SPRING_DATASOURCE_USERNAME: decodeURIComponent(username),
    SPRING_DATASOURCE_PASSWORD: decodeURIComponent(password),
    APP_SCHEMAS: 'odd',
  }
  const { code, stdout } = await startBusbar(['catalog', '--json'], env).finished
  t.equal(code, 0)
  const { tables, renamed } = JSON.parse(stdout)
  t.match(tables, [
    { name: 'sales-2024', type: 'OddSales_2024_2', field: 'oddSales_2024_2', columns: { 'a b': 'a_b_2', a_b: 'a_b' } },
    { name: 'sales_2024', type: 'OddSales_2024', field: 'oddSales_2024' },
  ])
  t.same(renamed, [
    { what: 'table', name: 'odd.sales-2024', as: 'OddSales_2024_2', because: 'not a GraphQL name' },
    { what: 'column', name: 'odd.sales-2024.a b', as: 'a_b_2', because: 'not a GraphQL name' },
  ])
  const shown = await startBusbar(['catalog'], env).finished
  t.match(shown.stdout, /^odd\.sales-2024 +table +OddSales_2024_2 +oddSales_2024_2$/m)
  t.match((await startBusbar(['catalog', '--help']).finished).stdout, /Usage: busbar catalog/)
  const without = await startBusbar(['catalog'], { APP_SCHEMAS: 'odd' }).finished
  t.equal(without.code, 1)
  t.match(without.stderr, /^busbar: There is no database to list: [^\n]+\n$/)

  const observed: object[] = []
  await gatewayWith({ schemas: ['odd'], onObservation: (observation) => observed.push(observation) })
  t.match(
    observed.find((one) => 'type' in one && one.type === 'graphql-names-mapped'),
    { count: 2, names: [{ what: 'table', name: 'odd.sales-2024', as: 'OddSales_2024_2' }, { as: 'a_b_2' }] },
    'the gateway tells the operator at its start',
  )
})
