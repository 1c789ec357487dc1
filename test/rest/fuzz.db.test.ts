import { connect } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { operators } from '../../gateways/data/operators.ts'
import { testGateway } from './gateway.ts'
import { seed } from './seed.ts'

t.comment(`seed ${seed}`)

const { call, url } = await testGateway(t)
const port = Number(new URL(url).port)

/** Of the run as a whole; each request has a watchdog of its own. */
const budgetMs = 18_000

// What requests are made of ---------------------------------------------------------------------------------------------------

const evil = fc.constantFrom(
  '',
  ' ',
  '\0',
  '\n',
  '\r\n',
  '\t',
  '%',
  '%%',
  '%zz',
  '%00',
  '%ff',
  '%C0%80',
  '%ED%A0%80',
  '%u0041',
  '\u{1F600}',
  '\u202e',
  '\ufeff',
  '"',
  '\\',
  "'",
  '`',
  '(',
  ')',
  '[',
  ']',
  '{',
  '}',
  ',',
  '.',
  ':',
  ';',
  '!',
  '*',
  '&',
  '=',
  '+',
  '#',
  '?',
  '/',
  '//',
  '..',
  '--',
  '/*',
  '$1',
  '$0',
  '$$',
  '::text',
  '::regclass',
  "' or 1=1 --",
  '"; drop table tag; --',
  '\\x',
  '\\u0000',
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  'null',
  'undefined',
  'NaN',
  'Infinity',
  '-0',
  '1e999',
  '9'.repeat(400),
  '-1',
  '0x10',
  '2147483648',
  '9223372036854775808',
  'not.',
  'or',
  'and',
  'eq.',
  'is.',
  'in.()',
  'in.(',
  '()',
  '(()',
  '((()))',
  '{}',
  '[,]',
  '[1,2',
  '('.repeat(3000),
  '"'.repeat(999),
  'not.'.repeat(3000),
  'or('.repeat(500),
  'a'.repeat(20_000),
  '\\'.repeat(5000),
  ','.repeat(3000),
  '{'.repeat(5000),
  '[1,'.repeat(2000),
  '{"a":'.repeat(3000),
)
const everything =
  'id,a_integer,a_bigint,a_numeric,a_double,a_money,a_boolean,a_text,a_one_char,a_bytea,a_date,a_time,a_interval,a_json,a_jsonb,a_xml,a_inet,' +
  'a_bit,a_point,a_tsvector,a_tsquery,a_int4range,a_tstzrange,a_int4multirange,a_mood,a_email,a_postal,integers,matrix,postals,jsonbs'
/** Path and columns. */
const tables: Readonly<Record<string, string>> = {
  everything,
  orders: 'id,customer_id,status,total,placed_at,note',
  customers: 'id,name,email,mood,credit,joined,billing_address_id',
  product: 'tenant,sku,title,price,labels,data,search',
  employee: 'id,name,manager_id',
  category: 'id,name,parent',
  keyless: 'name,number',
  order_item: 'order_id,line,quantity',
  measurement: 'sensor,at,value',
  sales: 'status,orders,total',
  empty_table: 'none',
  'Odd%20Table': 'Id,select,limit,or,with.dot,quo"te,comma,(paren),a:b,%percent',
}
const operator = fc.constantFrom(
  ...Object.keys(operators),
  'not.eq',
  'not.not.in',
  'fts(english)',
  'plfts(nosuch)',
  'eq(x)',
  'eqq',
  'not',
)
const value = fc.oneof(
  fc.constantFrom(
    '1',
    '0',
    'a',
    'null',
    'true',
    'open',
    '(1,2)',
    '("a","b")',
    '{a,b}',
    '{1,NULL}',
    '{"a":1}',
    '[1,2)',
    '2024-01-01',
    '1 day',
    '%a%',
    '^a',
    '(a+)+$',
    '((((a*)*)*)*)*',
    'a{255}{255}',
    '[[:alpha:]]',
    '\\1',
    'a & b',
    'a <-> !b',
    '192.168.0.0/16',
    '("Main, St",5,)',
    'P1Y',
    'infinity',
    '<a/>',
    '$5',
    '(1,2)',
  ),
  evil,
  fc.string({ unit: 'binary', maxLength: 30 }),
)
const joined = (separator: string, part: fc.Arbitrary<string>, maxLength = 4) =>
  fc.array(part, { minLength: 1, maxLength }).map((parts) => parts.join(separator))

const relation = fc.constantFrom(
  'customers',
  'orders',
  'order_item',
  'product',
  'tag',
  'manager',
  'employee',
  'category',
  'category_by_parent',
  'address',
  'billing_address',
  'nothing',
)
const cursor = fc.oneof(
  evil,
  fc
    .tuple(fc.oneof(fc.constantFrom<unknown>(1, 2, null), fc.jsonValue()), fc.jsonValue(), fc.jsonValue())
    .map((content) => Buffer.from(JSON.stringify(content)).toString('base64url')),
)
/** A parameter of a list whose table has the columns; now and then a column is another table's. */
function parameterOf(columns: readonly string[]): fc.Arbitrary<readonly [string, string]> {
  const column = fc.oneof(
    { weight: 15, arbitrary: fc.constantFrom(...columns) },
    { weight: 1, arbitrary: fc.constantFrom('nothing', 'id', 'name') },
  )
  const { member } = fc.letrec<{ member: string }>((tie) => ({
    member: fc.oneof(
      { depthSize: 'small', maxDepth: 4 },
      fc.tuple(column, operator, value).map((parts) => parts.join('.')),
      fc
        .tuple(fc.constantFrom('or', 'and', 'not.or', 'not.and'), joined(',', tie('member')))
        .map(([kind, inner]) => `${kind}(${inner})`),
    ),
  }))
  const group = joined(',', member).map((inner) => `(${inner})`)
  const selected = fc.oneof(
    column,
    fc.constantFrom('*', 'count()', 'n:count()', 'sum()'),
    fc
      .tuple(column, fc.constantFrom('sum', 'avg', 'min', 'max', 'count', 'median'))
      .map(([name, call]) => `${name}.${call}()`),
  )
  const { expansion } = fc.letrec<{ expansion: string }>((tie) => ({
    expansion: fc.oneof(
      { depthSize: 'small', maxDepth: 4 },
      relation,
      fc.tuple(relation, relation).map((parts) => parts.join('.')),
      fc
        .tuple(
          relation,
          joined(
            ',',
            fc.oneof(
              fc.constantFrom(
                'limit:2',
                'limit:-1',
                'offset:1',
                'select:id',
                'select:(id,name)',
                'order:id.desc',
                'orderBy:id',
                'orderDirection:up',
              ),
              tie('expansion').map((inner) => `expand:${inner}`),
              member,
              fc.tuple(column, operator, value).map(([name, op, operand]) => `${name}:${op}.${operand}`),
            ),
          ),
        )
        .map(([name, inner]) => `${name}(${inner})`),
    ),
  }))
  return fc.oneof(
    fc.tuple(
      column,
      fc.tuple(operator, value).map((parts) => parts.join('.')),
    ),
    fc.tuple(column, value),
    fc.tuple(fc.constantFrom('or', 'and', 'not.or', 'not.and', 'having'), group),
    fc.tuple(fc.constant('select'), joined(',', selected)),
    fc.tuple(fc.constant('expand'), joined(',', expansion)),
    fc.tuple(fc.constant('orderBy'), joined(',', column)),
    fc.tuple(
      fc.constant('order'),
      joined(
        ',',
        fc.tuple(column, fc.constantFrom('', '.desc', '.asc.nullsfirst', '.up')).map((parts) => parts.join('')),
      ),
    ),
    fc.tuple(fc.constant('orderDirection'), fc.constantFrom('asc', 'DESC', 'asc,desc', 'up')),
    fc.tuple(
      fc.constantFrom('limit', 'offset', 'first', 'last'),
      fc.oneof(fc.constantFrom('0', '1', '5', '99999'), value),
    ),
    fc.tuple(fc.constantFrom('after', 'before'), cursor),
    fc.tuple(fc.oneof(evil, fc.string({ unit: 'binary', maxLength: 10 })), value),
  )
}

/** Percent-encoded as a browser does, hardly, or not at all. */
const encode = (text: string, how: number): string => {
  if (how === 0) return encodeURIComponent(text.toWellFormed())
  if (how === 1) return encodeURI(text.toWellFormed()).replace(/[&#]/g, encodeURIComponent)
  return text.replace(/[^\x21-\x7e]/g, (character) => encodeURIComponent(character.toWellFormed()))
}
const queryOf = (columns: readonly string[]) =>
  fc
    .array(fc.tuple(parameterOf(columns), fc.nat(2)), { maxLength: 4 })
    .map((parts) => parts.map(([[name, text], how]) => `${encode(name, how)}=${encode(text, how)}`).join('&'))

/** Damage done to a well-formed text: a piece cut out, doubled, or replaced by something evil. */
const damage = fc.record({
  kind: fc.nat(3),
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.nat(8),
  piece: evil,
})
function damaged(
  text: string,
  damages: readonly { kind: number; at: number; length: number; piece: string }[],
): string {
  let result = text
  for (const { kind, at, length, piece } of damages) {
    const from = Math.floor(at * result.length)
    const [before, middle, after] = [
      result.slice(0, from),
      result.slice(from, from + length),
      result.slice(from + length),
    ]
    result = before + ['', middle + middle, encode(piece, 2), piece.replace(/[^\x21-\x7e]/g, '')][kind]! + after
  }
  return result
}
const key = fc.oneof(
  fc.constantFrom('', '/1', '/1,1', '/1,sku-3', '/a,b,c', '/schema', '/changes', '/1/2'),
  value.map((text) => `/${encodeURIComponent(text.toWellFormed())}`),
)
const damages = fc.oneof(
  { weight: 2, arbitrary: fc.constant([]) },
  { weight: 1, arbitrary: fc.array(damage, { maxLength: 3 }) },
)
const rarely = <T>(arbitrary: fc.Arbitrary<T>, otherwise: T) =>
  fc.oneof({ weight: 7, arbitrary: fc.constant(otherwise) }, { weight: 1, arbitrary })
const path = fc.oneof(
  ...Object.entries(tables).map(([table, columns]) =>
    fc
      .tuple(rarely(key, ''), queryOf(columns.split(',')), damages, rarely(damages, []))
      .map(([row, query, inQuery, anywhere]) => damaged(`/${table}${row}?${damaged(query, inQuery)}`, anywhere)),
  ),
)

const header = fc.oneof(
  fc.constantFrom(
    'application/json',
    'text/csv',
    '*/*',
    'application/vnd.pgrst.object+json',
    'count=exact',
    'count=',
    'return=minimal;count=exact',
    '"x"',
    '*',
    'W/"x", ,',
    'Bearer x',
    'Bearer ..',
    'Basic Og==',
    ';q=',
    'text/csv;q=NaN',
    '__proto__=1',
    'constructor=1',
  ),
  fc.string({ maxLength: 50 }).map((text) => text.replace(/[^\x20-\x7e]/g, '')),
  fc.constant('a,'.repeat(2000)),
)
const headers = rarely(
  fc.dictionary(
    fc.constantFrom(
      'Accept',
      'Prefer',
      'If-None-Match',
      'If-Match',
      'Authorization',
      'Origin',
      'Content-Type',
      'Range',
      'X-Request-Id',
      'traceparent',
      'Accept-Encoding',
    ),
    header,
    { maxKeys: 3 },
  ),
  {},
)
const method = fc.oneof(
  { weight: 8, arbitrary: fc.constant('GET') },
  { weight: 1, arbitrary: fc.constantFrom('HEAD', 'OPTIONS') },
)

// What must hold ----------------------------------------------------------------------------------------------------------------

let requests = 0
const statuses = new Map<number, number>()

async function answers(path: string, options: { method: string; headers: Record<string, string> }): Promise<void> {
  const { status, text, headers } = await call(path, options)
  requests += 1
  statuses.set(status, (statuses.get(status) ?? 0) + 1)
  // This gateway runs without a bus, which its streams have to say.
  const streamsOff = status === 503 && JSON.parse(text).code === 'data/changes-unavailable'
  if (status < 200 || (status >= 500 && !streamsOff))
    throw new Error(`${status} for ${path} ${JSON.stringify(options)}: ${text}`)
  if (status >= 400 && options.method === 'GET') {
    const body = JSON.parse(text)
    if (typeof body.error !== 'string' || typeof body.code !== 'string') throw new Error(`${path}: ${text}`)
    if (/\.ts:\d+|node_modules/.test(text)) throw new Error(`${path} shows a stack: ${text}`)
  }
  if (status === 200 && /json/.test(String(headers['content-type'])) && options.method === 'GET') JSON.parse(text)
}

t.test('any query string, path and headers are answered with 2xx, 3xx or 4xx', async (t) => {
  await fc.assert(
    fc.asyncProperty(path, method, headers, async (path, method, headers) => answers(path, { method, headers })),
    {
      seed,
      numRuns: 100_000,
      interruptAfterTimeLimit: budgetMs,
      markInterruptAsFailure: false,
      ignoreEqualValues: true,
    },
  )
  t.comment(`${requests} requests: ${JSON.stringify(Object.fromEntries(statuses))}`)
  t.ok((statuses.get(200) ?? 0) > 50, 'some of them were well-formed')
  t.ok((statuses.get(400) ?? 0) > 50, 'most were not')
  t.equal((await call('/tag/1')).text, '{"id":1,"name":"tag 1"}', 'and it still works')
})

t.test('bytes that are not HTTP are answered or hung up on', async (t) => {
  const send = (bytes: Buffer) =>
    new Promise<string>((resolve) => {
      const socket = connect(port, '127.0.0.1')
      let answer = ''
      socket.on('data', (data) => {
        answer += data.toString('latin1')
      })
      socket.on('error', () => resolve(answer))
      socket.on('close', () => resolve(answer))
      socket.end(bytes)
    })
  const raw = fc.oneof(
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    fc
      .uint8Array({ maxLength: 60 })
      .map((bytes) =>
        Buffer.concat([
          Buffer.from('GET /api/v1/tag?name=eq.'),
          bytes,
          Buffer.from(' HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'),
        ]),
      ),
    fc
      .uint8Array({ maxLength: 60 })
      .map((bytes) =>
        Buffer.concat([
          Buffer.from('GET /api/v1/tag HTTP/1.1\r\nHost: x\r\nConnection: close\r\nPrefer: '),
          bytes,
          Buffer.from('\r\n\r\n'),
        ]),
      ),
  )
  await fc.assert(
    fc.asyncProperty(raw, async (bytes) => {
      const answer = await send(bytes)
      if (/HTTP\/1\.1 5/.test(answer)) throw new Error(`${bytes.toString('hex')}: ${answer}`)
    }),
    { seed, numRuns: 200 },
  )
  t.equal((await call('/tag/1')).status, 200, 'and it still works')
})
