import { request as httpRequest } from 'node:http'
import fc from 'fast-check'
import t from 'tap'
import { seed } from '../rest/seed.ts'
import { testGateway } from './gateway.ts'

t.comment(`seed ${seed}`)

const { ask, url, sql } = await testGateway(t, { schemas: ['public', 'other'], statementTimeoutMs: 5000 })

/** Of each test; each request has a watchdog of its own. */
const budgetMs = 10_000
const patienceMs = 20_000

interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer
}

/** As it stands: fetch would mend what the tests want to be broken. */
function send({ method, path, headers, body }: Sent): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const options = { method, headers, signal: AbortSignal.timeout(patienceMs) }
    const request = httpRequest(`${url}${path}`, options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }))
    })
    request.on('error', reject)
    request.end(body)
  })
}

const counts = new Map<number, number>()

/** A stack, a statement of ours, a place on the disk. */
const leak =
  /\.ts:\d+|node_modules|node:internal|\bat [\w.]+ \(|row_to_json|json_agg|cross join lateral|t0\.|\$\d+::|\/gateways\//

async function survives(sent: Sent): Promise<void> {
  const { status, text } = await send(sent)
  counts.set(status, (counts.get(status) ?? 0) + 1)
  const shown = `${sent.method} ${sent.path} ${JSON.stringify(sent.headers)} ${String(sent.body).slice(0, 2000)}\n${status} ${text.slice(0, 2000)}`
  if (status < 200 || status >= 500) throw new Error(shown)
  // What was sent may come back in an error, which is no leak.
  const own = JSON.stringify(String(sent.body))
  const found = leak.exec(text)
  if (found !== null && !own.includes(found[0]) && status >= 400) throw new Error(`leak ${found[0]}: ${shown}`)
  if (status === 200 && text.startsWith('{')) {
    const { errors = [] } = JSON.parse(text) as { errors?: { extensions?: { status?: number } }[] }
    for (const { extensions } of errors) {
      if ((extensions?.status ?? 400) >= 500) throw new Error(shown)
      if (found !== null && !own.includes(found[0])) throw new Error(`leak ${found[0]}: ${shown}`)
    }
  }
}

const post = (content: unknown): Sent => ({
  method: 'POST',
  path: '/graphql',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify(content),
})
const raw = (body: string | Buffer, headers: Sent['headers'] = { 'Content-Type': 'application/json' }): Sent => ({
  method: 'POST',
  path: '/graphql',
  headers,
  body,
})

const nested = (open: string, inner: string, close: string, times: number): string =>
  `${open.repeat(times)}${inner}${close.repeat(times)}`
const deepJson = (key: string, times: number): string => nested(`{"${key}":`, '{}', '}', times)
const withVariable = (type: string, variable: string, query: string): Sent =>
  raw(`{"query":${JSON.stringify(`query($v: ${type}) { ${query} }`)},"variables":{"v":${variable}}}`)

const hostile: Readonly<Record<string, Sent>> = {
  'ten thousand levels of fields': post({ query: nested('{ publicOrders ', '{ id }', ' }', 10_000) }),
  'twenty-one levels': post({
    query: `{ publicOrders ${nested('{ publicCustomers { publicOrders ', '{ id }', ' } }', 21)} }`,
  }),
  'brackets without end': post({ query: '{'.repeat(40_000) }),
  'lists without end': post({ query: `{ publicTag(where: { id: { in: ${'['.repeat(4000)} } }) { id } }` }),
  'types without end': post({ query: `query($v: ${nested('[', 'Int', ']', 1000)}) { publicTag { id } }` }),
  'lists in lists': post({ query: `{ publicTag(where: { id: { in: ${nested('[', '1', ']', 1000)} } }) { id } }` }),
  'objects in objects': post({ query: `{ publicTag(where: ${nested('{ not: ', '{}', ' }', 1000)}) { id } }` }),
  'a thousand aliases': post({
    query: `{ publicTag(limit: 1) { ${Array.from({ length: 1000 }, (_, index) => `a${index}: id`).join(' ')} } }`,
  }),
  'a thousand fields of the root': post({
    query: `{ ${Array.from({ length: 1000 }, (_, index) => `a${index}: publicTag { id }`).join(' ')} }`,
  }),
  'the same field ten thousand times': post({ query: `{ publicTag(limit: 1) { ${'id '.repeat(4500)} } }` }),
  'a fragment in itself': post({ query: '{ publicTag { ...a } } fragment a on PublicTag { ...a id }' }),
  'fragments in a circle': post({
    query:
      '{ publicTag { ...a } } fragment a on PublicTag { ...b } fragment b on PublicTag { ...c } fragment c on PublicTag { ...a }',
  }),
  'fragments that double': post({
    query: `{ publicTag { ...f0 } } ${Array.from({ length: 30 }, (_, index) => `fragment f${index} on PublicTag { ...f${index + 1} ...f${index + 1} }`).join(' ')} fragment f30 on PublicTag { id }`,
  }),
  'relations that go round': post({
    query: `{ publicOrders ${nested('{ publicCustomers { publicOrders ', '{ id }', ' } }', 9)} }`,
  }),
  'a wide tree': post({
    query: `{ publicCustomers { ${Array.from({ length: 90 }, (_, index) => `a${index}: publicOrders { id }`).join(' ')} } }`,
  }),
  'a variable of a hundred thousand levels': withVariable(
    'PublicTagFilter',
    deepJson('not', 100_000),
    'publicTag(where: $v) { id }',
  ),
  'a variable of five thousand levels': withVariable(
    'PublicTagFilter',
    deepJson('not', 5000),
    'publicTag(where: $v) { id }',
  ),
  'a JSON value of a hundred thousand levels': withVariable(
    'JSON',
    deepJson('a', 100_000),
    'publicProduct(where: { data: { eq: $v } }) { sku }',
  ),
  'a JSON list of a hundred thousand levels': withVariable(
    'JSON',
    nested('[', '1', ']', 100_000),
    'publicProduct(where: { data: { contains: $v } }) { sku }',
  ),
  'an unknown member of a hundred thousand levels': raw(
    `{"query":"{ __typename }","variables":{"w":${deepJson('a', 100_000)}}}`,
  ),
  'extensions of a hundred thousand levels': raw(`{"query":"{ __typename }","extensions":${deepJson('a', 100_000)}}`),
  'ten thousand values': withVariable(
    '[Int!]',
    `[${'1,'.repeat(10_000)}1]`,
    'publicTag(where: { id: { in: $v } }) { id }',
  ),
  'ten thousand conditions': withVariable(
    '[PublicTagFilter!]',
    `[${'{"id":{"eq":1}},'.repeat(10_000)}{}]`,
    'publicTag(where: { or: $v }) { id }',
  ),
  'ten thousand orders': withVariable(
    '[PublicTagOrderBy!]',
    `[${'{"id":"ASC"},'.repeat(10_000)}{}]`,
    'publicTag(orderBy: $v) { id }',
  ),
  'ten thousand errors': withVariable(
    '[Int!]',
    `[${'"x",'.repeat(10_000)}1]`,
    'publicTag(where: { id: { in: $v } }) { id }',
  ),
  'numbers out of range': post({ query: '{ publicTag(limit: 99999999999, offset: -1) { id } }' }),
  'an offset that PostgreSQL cannot count': post({ query: '{ publicTag(offset: 2147483647) { id } }' }),
  'a smallint out of range': post({ query: '{ publicOrder_item(where: { line: { eq: 99999 } }) { line } }' }),
  'a bigint out of range': post({ query: `{ publicCustomers(where: { id: { eq: "${'9'.repeat(39)}" } }) { id } }` }),
  'a numeric out of range': post({ query: '{ publicProduct(where: { price: { gt: "1e99999" } }) { sku } }' }),
  'a numeric of too many digits': post({
    query: 'mutation { createPublicProduct(input: { tenant: 9, sku: "x", title: "x", price: "1e100" }) { sku } }',
  }),
  'U+0000 in a value': post({ query: '{ publicTag(where: { name: { eq: "a\\u0000b" } }) { id } }' }),
  'U+0000 in a list': post({ query: '{ publicTag(where: { name: { in: ["\\u0000"] } }) { id } }' }),
  'U+0000 in JSON': post({
    query:
      'mutation { createPublicProduct(input: { tenant: 9, sku: "x", title: "x", data: { a: "\\u0000" } }) { sku } }',
  }),
  'U+0000 in a column': post({ query: 'mutation { createPublicTag(input: { id: 999, name: "\\u0000" }) { id } }' }),
  'U+0000 in an array': post({
    query: 'mutation { createPublicProduct(input: { tenant: 9, sku: "x", title: "x", labels: ["\\u0000"] }) { sku } }',
  }),
  'U+0000 in a key': post({ query: 'mutation { deletePublicProduct(input: { tenant: 1, sku: "\\u0000" }) { sku } }' }),
  'U+0000 in the document': raw('{"query":"{ publicTag\\u0000 { id } }"}'),
  'half a surrogate': raw('{"query":"{ publicTag(where: { name: { eq: \\"\\ud800\\" } }) { id } }"}'),
  'half a surrogate in a variable': withVariable(
    'String',
    '"\\ud800"',
    'publicTag(where: { name: { like: $v } }) { id }',
  ),
  'half a surrogate in JSON': withVariable('JSON', '"\\ud800"', 'publicProduct(where: { data: { eq: $v } }) { sku }'),
  'a pattern that ends in a backslash': post({ query: '{ publicTag(where: { name: { like: "a\\\\" } }) { id } }' }),
  'dates that are none': post({ query: '{ publicCustomers(where: { joined: { gt: "yesterday or so" } }) { id } }' }),
  'a range that is none': post({ query: '{ publicEverything(where: { a_int4range: { eq: "[5,1)" } }) { id } }' }),
  'an address that is none': post({ query: '{ publicEverything(where: { a_inet: { eq: "1.2.3" } }) { id } }' }),
  'arrays that do not fit': post({
    query: '{ publicEverything(where: { matrix: { eq: [1, 2] }, integers: { contains: [null] } }) { id } }',
  }),
  'SQL in a value': post({ query: `{ publicTag(where: { name: { eq: "'; drop table tag; --" } }) { id } }` }),
  'SQL in an alias': post({ query: '{ publicTag { "; drop table tag; --": id } }' }),
  'names of prototypes': raw(
    '{"query":"{ __proto__ { constructor } publicTag(where: { __proto__: {} }) { toString } }","variables":{"__proto__":{"a":1},"constructor":1}}',
  ),
  'prototypes in a filter': withVariable(
    'PublicTagFilter',
    '{"__proto__":{"id":{"eq":1}},"constructor":{},"toString":1}',
    'publicTag(where: $v) { id }',
  ),
  'prototypes in JSON': withVariable(
    'JSON',
    '{"__proto__":{"json":"x"},"json":"} or 1"}',
    'publicProduct(where: { data: { contains: $v } }) { sku }',
  ),
  'a JSON value that looks like ours': withVariable(
    'JSON',
    '{"json":"not json"}',
    'publicProduct(where: { data: { eq: { a: $v } } }) { sku }',
  ),
  'a cursor that is none': post({ query: '{ publicTagConnection(after: "Wzk5OV0") { totalCount } }' }),
  'both directions': post({ query: '{ publicTagConnection(first: 1, last: 1) { totalCount } }' }),
  'no operation': post({ query: 'fragment a on PublicTag { id }' }),
  'an operation that is not there': post({ query: '{ __typename }', operationName: 'x\u0000' }),
  'a subscription': post({ query: 'subscription { publicTagChanges { table } }' }),
  'types where an operation should be': post({ query: 'type A { b: Int }' }),
  'no body': raw(''),
  'a byte': raw('x'),
  'half a body': raw('{"query":"{ __typename }"'),
  'a list': raw('[]'),
  'a list of everything': raw('[1,null,"x",{},[],{"query":1},{"query":"{ __typename }"}]'),
  'a list that is too long': raw(`[${'{"query":"{ __typename }"},'.repeat(99)}{"query":"{ __typename }"}]`),
  null: raw('null'),
  'a number': raw('1'),
  'members of wrong types': raw('{"query":{},"variables":[],"operationName":1,"extensions":"x"}'),
  'variables as text': raw('{"query":"{ __typename }","variables":"{}"}'),
  'bytes that are no UTF-8': raw(Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0xc0, 0x80, 0x22, 0x7d])),
  'a byte order mark': raw('\ufeff{"query":"{ __typename }"}'),
  'two megabytes': raw(`{"query":"${'x'.repeat(2_000_000)}"}`),
  'a long comment': post({ query: `#${'x'.repeat(60_000)}\n{ __typename }` }),
  XML: raw('<query/>', { 'Content-Type': 'text/xml' }),
  'no media type': raw('{"query":"{ __typename }"}', {}),
  'a form': raw('query={__typename}', { 'Content-Type': 'application/x-www-form-urlencoded' }),
  'several parts': raw('--x\r\n\r\n--x--', { 'Content-Type': 'multipart/form-data; boundary=x' }),
  'a charset that is none': raw('{"query":"{ __typename }"}', { 'Content-Type': 'application/json; charset=klingon' }),
  'nothing acceptable': raw('{"query":"{ __typename }"}', { 'Content-Type': 'application/json', Accept: 'image/png' }),
  'a token that is none': raw('{"query":"{ __typename }"}', {
    'Content-Type': 'application/json',
    Authorization: 'Bearer x.y.z',
  }),
  'GET without a query': { method: 'GET', path: '/graphql', headers: { Accept: 'application/json' }, body: '' },
  'GET with broken escapes': {
    method: 'GET',
    path: '/graphql?query=%zz%ff',
    headers: { Accept: 'application/json' },
    body: '',
  },
  'GET with broken variables': {
    method: 'GET',
    path: '/graphql?query={__typename}&variables={',
    headers: { Accept: 'application/json' },
    body: '',
  },
  'another method': { method: 'PUT', path: '/graphql', headers: { 'Content-Type': 'application/json' }, body: '{}' },
}

const alive = async (): Promise<unknown> => (await ask('{ publicTag(where: { id: { eq: 2 } }) { name } }')).data

t.test('what is meant to break it is answered with an error, and the next request works', async (t) => {
  for (const [title, sent] of Object.entries(hostile)) {
    const failure = await survives(sent).then(
      () => null,
      (error: unknown) => (error as Error).message,
    )
    t.equal(failure, null, title)
    t.same(await alive(), { publicTag: [{ name: 'tag 2' }] }, `${title}: and it still works`)
  }
  t.equal((await sql.query('select from tag where id = 999')).rowCount, 0)
})

// Random ones -----------------------------------------------------------------------------------------------------------------------

const tokens = (
  '{ } { } ( ) [ ] : : ! $ @ ... = | & # " """ , publicTag publicOrders publicProduct publicTagConnection publicTagAggregate publicEverything id name where orderBy ' +
  'limit first after last before eq neq in isNull contains like and or not some none every ASC DESC true false null 1 -1 0 1.5 1e999 99999999999 "a" "" "\\u0000" "%" ' +
  'query mutation subscription fragment on f a b $v __typename __schema __type types fields @skip @include if count sum groupBy columns key edges node cursor pageInfo totalCount ' +
  'createPublicTag createManyPublicTag updatePublicTag deletePublicTag input inputs data labels price publicCustomers total \u{1F600} \u202e \\ / <'
).split(' ')
const soup = fc.array(fc.constantFrom(...tokens), { maxLength: 60 }).map((parts) => parts.join(' '))
const wellFormed = [
  'query($v: PublicTagFilter, $n: Int, $s: String, $j: JSON, $l: [PublicTagOrderBy!]) { publicTag(where: $v, limit: $n, orderBy: $l) { id name publicProduct(where: { data: { contains: $j }, title: { like: $s } }) { sku data } } }',
  'query($n: Int, $s: String) { publicTagConnection(first: $n, after: $s, where: { or: [{ id: { gt: 3 } }, { not: { name: { contains: "x" } } }] }) { totalCount edges { cursor node { ...f } } } } fragment f on PublicTag { id @skip(if: false) publicProduct(limit: 2) { title } }',
  'query($n: Int) { publicOrdersAggregate(where: { total: { gt: "1" } }) { count sum { total } groupBy(columns: [status, customer_id], limit: $n) { key { status } max { id } } } }',
  'mutation($n: Int, $s: String) { createPublicTag(input: { id: $n, name: $s }) { id name } deletePublicTag(input: { id: 4000 }) { id } }',
  'query($s: String, $j: JSON) { publicEverything(where: { a_text: { ilike: $s }, a_jsonb: { eq: $j }, a_interval: { gt: "P1D" } }) { id a_numeric postals { street } } }',
]
const cuts = fc.array(
  fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    length: fc.nat(12),
    piece: fc.oneof(fc.constantFrom(...tokens), fc.constant('')),
  }),
  { maxLength: 3 },
)
const damaged = fc.tuple(fc.constantFrom(...wellFormed), cuts).map(([text, all]) =>
  all.reduce((whole, { at, length, piece }) => {
    const from = Math.floor(at * whole.length)
    return `${whole.slice(0, from)}${piece}${whole.slice(from + length)}`
  }, text),
)
const value = fc.oneof(
  fc.jsonValue({ maxDepth: 4 }),
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom<unknown>(
    1,
    0,
    -1,
    2 ** 53,
    Number.MAX_VALUE,
    'ASC',
    [{ id: 'ASC' }, { name: 'DESC_NULLS_FIRST' }],
    { id: { eq: 1 } },
    { or: [{ id: { in: [1, null] } }] },
    { name: { like: '%\\' } },
  ),
)
const operation = fc.record(
  {
    query: fc.oneof(damaged, damaged, soup, value),
    variables: fc.oneof(fc.dictionary(fc.constantFrom('v', 'n', 's', 'j', 'l'), value), value),
    operationName: fc.oneof(fc.constant(null), value),
  },
  { requiredKeys: ['query'] },
)
const header = fc.dictionary(
  fc.constantFrom(
    'Accept',
    'Content-Type',
    'Authorization',
    'Idempotency-Key',
    'X-Request-Id',
    'traceparent',
    'Origin',
  ),
  fc.oneof(
    fc.constantFrom(
      'application/json',
      'application/graphql-response+json',
      'text/event-stream',
      '*/*',
      'multipart/mixed',
      'text/html',
      'application/json;charset=utf-8',
      'Bearer x',
      ';q=',
      'a,'.repeat(500),
    ),
    fc.string({ maxLength: 30 }).map((text) => text.replace(/[^\x20-\x7e]/g, '')),
  ),
  { maxKeys: 3 },
)

t.test('random documents, variables and headers are answered with 2xx or 4xx', async (t) => {
  counts.clear()
  const property = fc.asyncProperty(
    operation,
    fc.option(header, { freq: 3 }),
    fc.nat(19),
    async (content, headers, how) => {
      const body =
        how === 0
          ? JSON.stringify(content).slice(0, -3)
          : how === 1
            ? JSON.stringify([content, content])
            : JSON.stringify(content)
      await survives(raw(body, { 'Content-Type': 'application/json', ...headers }))
    },
  )
  const options = { seed, numRuns: 100_000, interruptAfterTimeLimit: budgetMs, markInterruptAsFailure: false }
  const { failed, errorInstance } = await fc.check(property, options)
  t.notOk(failed, `seed ${seed}: ${(errorInstance as Error | null)?.message ?? ''}`)
  t.comment(JSON.stringify(Object.fromEntries(counts)))
  t.ok((counts.get(200) ?? 0) > 50 && (counts.get(400) ?? 0) > 5, 'some were well-formed, some were not')
  t.same(await alive(), { publicTag: [{ name: 'tag 2' }] }, 'and it still works')
})

t.test('every media type carries every digit, and bodies that are framed as clients expect', async (t) => {
  await sql.query(`update product set data = '{"big": 12345678901234567890}' where tenant = 2 and sku = 'sku-1'`)
  const query = '{ publicProduct(where: { sku: { eq: "sku-1" } }) { data } }'
  const json = '{"data":{"publicProduct":[{"data":{"big": 12345678901234567890}}]}}'
  const get = {
    method: 'GET',
    path: `/graphql?query=${encodeURIComponent(query)}`,
    headers: { Accept: 'application/json' },
    body: '',
  }
  t.same(
    [(await send(post({ query }))).text, (await send(get)).text, (await send(post([{ query }]))).text],
    [json, json, `[${json}]`],
  )
  for (const type of ['text/event-stream', 'multipart/mixed']) {
    const headers = { 'Content-Type': 'application/json', Accept: type }
    const { status, text } = await send(raw(JSON.stringify({ query }), headers))
    t.same([status, text.includes(json)], [200, true], type)
    const wrong = { query: 'query($n: Int!) { publicTag(limit: $n) { id } }' }
    const { text: refusal, ...refused } = await send(raw(JSON.stringify(wrong), headers))
    t.same(
      [refused.status < 500, refusal.includes('"locations"'), refusal.includes('"spec"')],
      [true, true, false],
      refusal,
    )
  }
})
