import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { startGraphqlGateway } from '../../gateways/graphql/server.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)
const sql = new pg.Client({ connectionString: server.url })
await sql.connect()
t.teardown(() => sql.end())
await sql.query(readFileSync(resolve(import.meta.dirname, '../support/fixture.sql'), 'utf8'))
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
  emitCommands: true,
  onObservation: (observation) =>
    observation.type === 'request-fault' && t.fail((observation.error as Error).stack ?? String(observation.error)),
})
t.teardown(() => gateway.stop())

async function ask(query: string, variables?: object, headers: Record<string, string> = {}) {
  const response = await fetch(`${gateway.url}/graphql`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify({ query, variables }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is what the tests are about
  return { status: response.status, ...((await response.json()) as any) }
}

const cases: readonly (readonly [string, string, object | undefined, unknown])[] = [
  [
    'columns under aliases, in the order asked for',
    '{ publicTag(limit: 2) { n: name id __typename } }',
    undefined,
    {
      publicTag: [
        { n: 'tag 1', id: 1, __typename: 'PublicTag' },
        { n: 'tag 2', id: 2, __typename: 'PublicTag' },
      ],
    },
  ],
  ['eq', '{ publicTag(where: { id: { eq: 3 } }) { id } }', undefined, { publicTag: [{ id: 3 }] }],
  [
    'in and notIn by variables',
    'query($a: [Int!]) { publicTag(where: { id: { in: $a, notIn: [2] } }) { id } }',
    { a: [1, 2, 3] },
    { publicTag: [{ id: 1 }, { id: 3 }] },
  ],
  [
    'a whole where by a variable',
    'query($w: PublicTagFilter) { publicTag(where: $w) { id } }',
    { w: { or: [{ id: { lt: 2 } }, { not: { id: { lte: 23 } } }] } },
    { publicTag: [{ id: 1 }, { id: 24 }] },
  ],
  [
    'startsWith takes % as it is',
    '{ publicTag(where: { name: { startsWith: "tag%" } }) { id } }',
    undefined,
    { publicTag: [] },
  ],
  [
    'contains, endsWith, like, ilike',
    '{ publicTag(where: { name: { contains: "g 1", endsWith: "9", like: "t%", ilike: "T%" } }) { id } }',
    undefined,
    { publicTag: [{ id: 19 }] },
  ],
  [
    'eq null is is null',
    '{ publicOrders(where: { total: { eq: null } }, limit: 1) { total note } }',
    undefined,
    { publicOrders: [{ total: null, note: 'note 9 with "quotes", commas,\n a line break and ü' }] },
  ],
  [
    'orderBy several columns, as they are written',
    '{ publicKeyless(orderBy: { number: DESC_NULLS_LAST, name: ASC }, limit: 2) { number name } }',
    undefined,
    {
      publicKeyless: [
        { number: 3, name: 'k1' },
        { number: 3, name: 'k1' },
      ],
    },
  ],
  [
    'big numbers are texts',
    '{ publicCustomers(limit: 1, orderBy: { id: ASC }) { id credit } }',
    undefined,
    { publicCustomers: [{ id: '1', credit: '31.50' }] },
  ],
  [
    'forward and reverse relations, nested',
    '{ publicOrders(where: { id: { eq: 1 } }) { publicCustomers { name publicOrders(limit: 1, orderBy: { id: ASC }) { id } } publicOrder_item(limit: 1) { line } } }',
    undefined,
    {
      publicOrders: [
        { publicCustomers: { name: 'Customer 4', publicOrders: [{ id: 1 }] }, publicOrder_item: [{ line: 1 }] },
      ],
    },
  ],
  [
    'through a link table',
    '{ publicTag(where: { id: { eq: 1 } }) { publicProduct(limit: 1, where: { price: { gt: 1 } }) { tenant } } }',
    undefined,
    { publicTag: [{ publicProduct: [{ tenant: 1 }] }] },
  ],
  [
    'filters across relations',
    '{ publicCountry(where: { publicAddress: { some: { city: { eq: "Berlin" } } } }) { code } none: publicCountry(where: { publicAddress: { none: {} } }) { code } every: publicCountry(where: { publicAddress: { every: { city: { eq: "Paris" } } } }) { code } }',
    undefined,
    { publicCountry: [{ code: 'DE' }], none: [{ code: 'ZZ' }], every: [{ code: 'FR' }, { code: 'ZZ' }] },
  ],
  [
    'a forward relation in a filter',
    '{ publicOrders(where: { publicCustomers: { id: { eq: 7 } } }, limit: 1) { id } }',
    undefined,
    { publicOrders: [{ id: 2 }] },
  ],
  [
    'enums under legal names, composites by field',
    '{ publicCustomers(where: { mood: { eq: in__love_ } }, limit: 1) { mood } publicAddress(where: { id: { eq: 1 } }) { detail { street n: house_No tags } } }',
    undefined,
    {
      publicCustomers: [{ mood: 'in__love_' }],
      publicAddress: [{ detail: { street: 'Street 1', n: 1, tags: ['t1', 'x,y'] } }],
    },
  ],
  [
    'fragments and directives',
    'query($no: Boolean!) { publicTag(limit: 1) { ...f id @skip(if: $no) ... on PublicTag @include(if: false) { name } } } fragment f on PublicTag { n: name }',
    { no: true },
    { publicTag: [{ n: 'tag 1' }] },
  ],
  [
    'a connection',
    '{ publicTagConnection(first: 2, where: { id: { gt: 3 } }) { totalCount edges { node { id } } pageInfo { hasNextPage hasPreviousPage } } }',
    undefined,
    {
      publicTagConnection: {
        totalCount: 21,
        edges: [{ node: { id: 4 } }, { node: { id: 5 } }],
        pageInfo: { hasNextPage: true, hasPreviousPage: false },
      },
    },
  ],
  [
    'aggregates',
    '{ publicOrdersAggregate(where: { status: { neq: "open" } }) { count sum { total } min { id status } groupBy(columns: [status], limit: 5) { key { status id } n: count max { id } } } }',
    undefined,
    {
      publicOrdersAggregate: {
        count: 40,
        sum: { total: '3000.00' },
        min: { id: 1, status: 'paid' },
        groupBy: [
          { key: { status: 'paid', id: null }, n: 20, max: { id: 58 } },
          { key: { status: 'shipped', id: null }, n: 20, max: { id: 59 } },
        ],
      },
    },
  ],
  [
    'the other schema',
    '{ otherWarehouse(limit: 1) { level publicAddress { city } } }',
    undefined,
    { otherWarehouse: [{ level: 'low', publicAddress: { city: 'Paris' } }] },
  ],
  [
    'introspection',
    '{ __typename __type(name: "PublicTag") { name } }',
    undefined,
    { __typename: 'Query', __type: { name: 'PublicTag' } },
  ],
]

t.test('queries', async (t) => {
  for (const [title, query, variables, data] of cases) {
    const { status, data: found, errors } = await ask(query, variables)
    t.same([status, errors, found], [200, undefined, data], title)
  }
})

t.test('cursors lead through all rows, both ways', async (t) => {
  const page =
    'query($after: String, $before: String, $first: Int, $last: Int) { c: publicCustomersConnection(first: $first, after: $after, last: $last, before: $before, orderBy: { mood: DESC_NULLS_LAST, joined: ASC }) { edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }'
  const forward: string[] = []
  let after: string | null = null
  do {
    const { data } = await ask(page, { first: 7, after })
    forward.push(...data.c.edges.map((edge: { node: { id: string } }) => edge.node.id))
    after = data.c.pageInfo.hasNextPage ? data.c.pageInfo.endCursor : null
  } while (after !== null)
  t.equal(new Set(forward).size, 40)
  const backward: string[] = []
  let before: string | null = null
  do {
    const { data } = await ask(page, { last: 7, before })
    backward.unshift(...data.c.edges.map((edge: { node: { id: string } }) => edge.node.id))
    before = data.c.pageInfo.hasPreviousPage ? data.c.pageInfo.startCursor : null
  } while (before !== null)
  t.same(backward, forward)
})

t.test('mutations', async (t) => {
  const created = await ask('mutation { createPublicTag(input: { id: 100, name: "new" }) { id name } }')
  t.same(created.data, { createPublicTag: { id: 100, name: 'new' } })
  const many = await ask('mutation($i: [PublicTagInput!]!) { createManyPublicTag(inputs: $i) { id } }', {
    i: [
      { id: 101, name: 'a' },
      { id: 102, name: 'b' },
    ],
  })
  t.same(many.data, { createManyPublicTag: [{ id: 101 }, { id: 102 }] })
  const failed = await ask(
    'mutation { createManyPublicTag(inputs: [{ id: 103, name: "c" }, { id: 101, name: "d" }]) { id } }',
  )
  t.match(failed, {
    data: { createManyPublicTag: null },
    errors: [{ path: ['createManyPublicTag'], extensions: { code: 'data/conflict', sqlstate: '23505' } }],
  })
  t.equal((await sql.query('select from tag where id = 103')).rowCount, 0, 'all or none')
  const updated = await ask('mutation { updatePublicTag(input: { id: 100, name: "changed" }) { id name } }')
  t.same(updated.data, { updatePublicTag: { id: 100, name: 'changed' } })
  const composite = await ask(
    'mutation { updatePublicProduct(input: { tenant: 2, sku: "sku-1", price: "12345678901234567890.1234567891", data: {a: [1, 12345678901234567890]}, labels: ["x,y", null] }) { price data labels publicTag(limit: 1) { id } } }',
  )
  t.same(composite.errors, undefined)
  t.match(composite.data.updatePublicProduct, { price: '12345678901234567890.1234567891', labels: ['x,y', null] })
  t.equal(
    (await sql.query(`select data::text from product where tenant = 2 and sku = 'sku-1'`)).rows[0].data,
    '{"a": [1, 12345678901234567890]}',
  )
  const gone = await ask(
    'mutation { a: deletePublicTag(input: { id: 100 }) { name } b: deletePublicTag(input: { id: 100 }) { name } c: deletePublicTag(input: { id: 101 }) { name } }',
  )
  t.match(gone, {
    data: { a: { name: 'changed' }, b: null, c: { name: 'a' } },
    errors: [{ path: ['b'], extensions: { code: 'data/row-not-found' } }],
  })
})

t.test('what cannot be answered says why and leaks nothing', async (t) => {
  const refusals: readonly (readonly [string, RegExp, string])[] = [
    ['{ publicTags { id } }', /publicTag"/, 'GRAPHQL_VALIDATION_FAILED'],
    ['{ publicTag { id ', /Syntax Error/, 'GRAPHQL_PARSE_FAILED'],
    ['{ publicTag(limit: -1) { id } }', /limit/, 'data/invalid-page'],
    ['{ publicTag(where: { id: { gt: null } }) { id } }', /null is no operand/, 'data/invalid-filter'],
    ['{ publicTagConnection(after: "x") { totalCount } }', /cursor/, 'data/invalid-cursor'],
    ['mutation { createPublicTag(input: { id: 1, name: "x" }) { id } }', /duplicate key/, 'data/conflict'],
    [
      `{ publicTag { id ${'a: id '.repeat(101).replaceAll('a:', () => `a${Math.random().toString(36).slice(2)}:`)} } }`,
      /aliases/,
      'data/too-complex',
    ],
  ]
  for (const [query, message, code] of refusals) {
    const { errors } = await ask(query)
    t.match(errors?.[0], { message, extensions: { code } }, query.slice(0, 60))
    t.notMatch(JSON.stringify(errors), /select |node_modules|\.ts:/)
  }
  const modern = await ask('{ nothing }', {}, { Accept: 'application/graphql-response+json' })
  t.equal(modern.status, 400)
})

t.test('the schema follows a DDL change', async (t) => {
  await sql.query('create table fresh (id int primary key, word text)')
  await sql.query(`insert into fresh values (1, 'w')`)
  for (;;) {
    const { data } = await ask('{ publicFresh { id word } }')
    if (data) {
      t.same(data, { publicFresh: [{ id: 1, word: 'w' }] })
      break
    }
  }
  await sql.query('alter table fresh add column more int default 7')
  for (;;) {
    const { data } = await ask('{ publicFresh { id more } }')
    if (data) break
  }
  await sql.query('alter table fresh rename column word to term')
  t.same((await ask('{ publicFresh { id } }')).data, { publicFresh: [{ id: 1 }] }, 'no request for other columns fails')
})
