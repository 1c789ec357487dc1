import { jetstreamManager } from '@nats-io/jetstream'
import { createClient } from 'graphql-ws'
import { SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { type GraphqlGateway, type GraphqlGatewayOptions, startGraphqlGateway } from '../../gateways/graphql/server.ts'
import { capture, connectBus, connectDatabase, makeStream, streamName, until } from '../capture/support.ts'
import { testNats, testPostgres } from '../support/servers.ts'
import { ask, type Result, Socket, type Subscriber, subscribeSse } from './subscription-clients.ts'

t.setTimeout(240_000)

const [postgres, nats] = await Promise.all([testPostgres(t), testNats(t)])
const bus = await connectBus(t, nats.url)
await makeStream(bus)
// As psql would: a connection that knows nothing of the gateway.
let sql = await connectDatabase(t, postgres.url)
await sql.query(`
  create type mood as enum ('very good', 'bad');
  create type spot as (x bigint, label text);
  create table author (id int primary key, name text);
  create table book (
    id bigint primary key, author_id int references author, title text, price numeric, weight float8, mood mood, moods mood[],
    spot spot, big bigint[], document json, published timestamptz, span interval, note text);
  alter table book replica identity full;
  create table marker (id int generated always as identity primary key);
  create table flood (id int primary key, body text);
  create table doomed (id int primary key, kept text, extra text);
  create table keyless (a int);
  create table restarted (id int primary key, name text);
  create table large (id int primary key, n int, body text);
  alter table large alter body set storage external;
  create table crowd (id int primary key, grade int);
  create table secret (id int primary key, owner text, body text);
  alter table secret enable row level security;
  create policy own on secret using (owner = current_setting('request.jwt.claims', true)::json ->> 'sub');
  create role reader;
  grant select on all tables in schema public to reader;
  create role nobody;
`)
const capturing = capture(t, postgres.url, bus)
await until(() => capturing.status().state === 'running')

const secret = 'a secret of at least thirty-two bytes'

async function token(claims: Readonly<Record<string, unknown>>, expiresInMs = 600_000): Promise<string> {
  const expiresAt = Math.ceil((Date.now() + expiresInMs) / 1000)
  const signed = new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).setExpirationTime(expiresAt)
  return `Bearer ${await signed.sign(new TextEncoder().encode(secret))}`
}

async function start(
  t: Pick<Test, 'teardown' | 'fail'>,
  {
    changes = {},
    ...options
  }: Partial<Omit<GraphqlGatewayOptions, 'changes'>> & { readonly changes?: object | null } = {},
): Promise<GraphqlGateway> {
  const gateway = await startGraphqlGateway({
    host: '127.0.0.1',
    port: 0,
    connection: { connectionString: postgres.url },
    schemas: ['public'],
    naming: 'spec',
    defaultPageSize: 100,
    maxPageSize: 1000,
    maxBodyBytes: 100_000,
    corsOrigins: ['https://allowed.example'],
    jwt: {},
    emitCommands: true,
    ...(changes === null ? {} : { changes: { bus, streamName, source: 'main', recheckMs: 500, ...changes } }),
    onObservation: (observation) =>
      observation.type === 'request-fault' && t.fail((observation.error as Error).stack ?? String(observation.error)),
    ...options,
  })
  t.teardown(() => gateway.stop())
  return gateway
}

const data = ({ results }: Pick<Subscriber, 'results'>, field: string) => results.map((result) => result.data[field])
const count = (wanted: number) => (results: readonly Result[]) => results.length >= wanted

/** WebSocket has no word for a subscription that has begun: rows are written until it hears one. */
async function live(subscriber: Subscriber, write: () => Promise<unknown>): Promise<void> {
  let heard = false
  const first = subscriber.until(count(1)).then(() => {
    heard = true
  })
  while (!heard) {
    await write()
    await Promise.race([first, new Promise((resolve) => setTimeout(resolve, 50))])
  }
}

/** Everything written so far has passed the gateway. */
async function settle({ url }: GraphqlGateway): Promise<void> {
  const listener = await subscribeSse(url, 'subscription { publicMarkerChanges { data { id } } }')
  const { rows } = await sql.query<{ id: number }>('insert into marker default values returning id')
  await listener.until((results) => results.some((result) => result.data.publicMarkerChanges.data.id === rows[0]!.id))
  listener.close()
}

const main = await start(t)

const bookFields = `
  fragment Columns on PublicBookChangeData { id cost: price weight mood moods spot { x __typename } big document published span }
  fragment Whole on PublicBookChangeEvent {
    __typename table schema operation timestamp sequence
    data { __typename ...Columns title old { title price note } new { ...Columns } }
  }
  subscription Books { changes: publicBookChanges(where: {title: {startsWith: "Digits"}}) { ...Whole } }`

for (const [name, open] of [
  ['server-sent events by POST', async () => await subscribeSse(main.url, bookFields)],
  ['server-sent events by GET', async () => await subscribeSse(main.url, bookFields, {}, 'GET')],
  [
    'WebSocket',
    async () => {
      const subscriber = (await new Socket(main.url).init()).start(bookFields)
      await live(subscriber, () =>
        sql.query("insert into book (id, title) values ((random() * 1e15)::bigint, 'Digits, first')"),
      )
      await sql.query('truncate book')
      await subscriber.until((results) => results.at(-1)?.data.changes.operation === 'TRUNCATE')
      subscriber.results.length = 0
      return subscriber
    },
  ],
] as const) {
  t.test(`a row that psql writes arrives whole, with all digits: ${name}`, async (t) => {
    await sql.query('truncate book')
    await settle(main)
    const subscriber = await open()
    await sql.query(`insert into book values (9223372036854775807, null, 'Digits, some', 12345678901234567890.12345678901234567890,
      1e-300, 'very good', '{"very good",bad}', '(9007199254740993,"a,b")', '{9007199254740993,null}',
      '{"n": 12345678901234567890}', '2024-02-29 12:00:00.123456+00', '1 day 2 hours', 'n')`)
    await sql.query("update book set title = 'Digits, more', price = 1.50")
    await sql.query('delete from book')
    await subscriber.until(count(3))
    const [inserted, updated, deleted] = data(subscriber, 'changes')
    const row = {
      id: '9223372036854775807',
      cost: '12345678901234567890.12345678901234567890',
      weight: 1e-300,
      mood: 'very_good',
      moods: ['very_good', 'bad'],
      spot: { x: '9007199254740993', __typename: 'PublicSpot' },
      big: ['9007199254740993', null],
      published: '2024-02-29T12:00:00.123456+00:00',
      span: 'P1DT2H',
    }
    t.match(inserted, {
      __typename: 'PublicBookChangeEvent',
      ...{ table: 'book', schema: 'public', operation: 'INSERT', timestamp: /^\d{4}-.*Z$/, sequence: /^\d+$/ },
      data: { __typename: 'PublicBookChangeData', ...row, title: 'Digits, some', old: null, new: null },
    })
    t.match(subscriber.texts.at(-3), /"document":\{"n": 12345678901234567890\}/, 'JSON keeps the digits of its numbers')
    t.match(updated, {
      operation: 'UPDATE',
      data: {
        title: 'Digits, more',
        cost: '1.50',
        old: { title: 'Digits, some', note: 'n' },
        new: { ...row, cost: '1.50' },
      },
    })
    t.match(deleted, { operation: 'DELETE', data: { id: row.id, title: 'Digits, more', old: null, new: null } })
    const sequences = data(subscriber, 'changes').map(({ sequence }) => BigInt(sequence))
    t.ok(sequences[0]! < sequences[1]! && sequences[1]! < sequences[2]!)
    subscriber.close()
  })
}

t.test('where and operations choose what comes', async (t) => {
  const field = 'publicCrowdChanges'
  const wanted = async (given: string) =>
    await subscribeSse(main.url, `subscription { ${field}(${given}) { operation data { id } } }`)
  const cases: readonly (readonly [string, readonly string[]])[] = [
    ['where: {grade: {gt: 5}}', ['INSERT 2', 'UPDATE 1', 'TRUNCATE']],
    ['where: {or: [{id: {eq: 1}}, {not: {grade: {lt: 100}}}]}', ['INSERT 1', 'UPDATE 1', 'DELETE 1', 'TRUNCATE']],
    ['where: {id: {in: [2, 3]}}, operations: [INSERT, UPDATE]', ['INSERT 2', 'INSERT 3']],
    ['where: {grade: {isNull: true}}, operations: [INSERT]', ['INSERT 3']],
    ['operations: [DELETE]', ['DELETE 1']],
    ['operations: []', []],
  ]
  const all = await wanted('where: {}')
  const subscribers = await Promise.all(cases.map(([given]) => wanted(given)))
  await sql.query('insert into crowd values (1, 1), (2, 20), (3, null)')
  await sql.query('update crowd set grade = 10 where id = 1')
  await sql.query('delete from crowd where id = 1')
  await sql.query('truncate crowd')
  await all.until(count(6))
  await settle(main)
  for (const [index, [given, expected]] of cases.entries()) {
    const heard = data(subscribers[index]!, field).map(({ operation, data }) => `${operation} ${data?.id ?? ''}`.trim())
    // A DELETE has the key only: a condition on another column lets it pass, because it cannot be asked.
    t.strictSame(
      heard.filter((each) => expected.includes('DELETE 1') || each !== 'DELETE 1'),
      expected,
      given,
    )
  }
  for (const subscriber of [all, ...subscribers]) subscriber.close()
})

t.test('a value that the database left out is told from null', async (t) => {
  const fields = '{ operation data { id text: body new { n body new { body } } old { id body } } }'
  const subscriber = await subscribeSse(main.url, `subscription { changes: publicLargeChanges ${fields} }`)
  await sql.query("insert into large values (1, 1, repeat('x', 5000)), (2, 1, null)")
  await sql.query('update large set n = n + 1')
  await sql.query('delete from large')
  await subscriber.until(count(6))
  const unsent = [['text'], ['new', 'body']].map((path) => ['changes', 'data', ...path])
  t.strictSame(
    subscriber.results.map(({ data: { changes }, extensions }) => [changes.operation, changes.data.id, extensions]),
    [
      ['INSERT', 1, undefined],
      ['INSERT', 2, undefined],
      ['UPDATE', 1, { unsent }],
      ['UPDATE', 2, undefined],
      ['DELETE', 1, undefined],
      ['DELETE', 2, undefined],
    ],
  )
  subscriber.close()
})

t.test('a table without a replica identity has the changes it can have', async (t) => {
  const of = (given: string) => `subscription { publicKeylessChanges${given} { operation } }`
  for (const given of ['', '(operations: [INSERT, DELETE])', '(operations: [UPDATE])'])
    t.match(
      await (await subscribeSse(main.url, of(given))).ended,
      [
        {
          message: /keyless.*without a primary key only INSERT and TRUNCATE/,
          extensions: {
            code: 'data/changes-unavailable',
            details: { statements: [/^ALTER TABLE "public"\."keyless" REPLICA IDENTITY FULL;/] },
          },
        },
      ],
      given,
    )
  const subscriber = await subscribeSse(main.url, of('(operations: [INSERT, TRUNCATE])'))
  await sql.query('insert into keyless values (1)')
  await sql.query('truncate keyless')
  await subscriber.until(count(2))
  t.strictSame(
    data(subscriber, 'publicKeylessChanges').map(({ operation }) => operation),
    ['INSERT', 'TRUNCATE'],
  )
  subscriber.close()
})

t.test('a column that may not be read is refused, not null', async (t) => {
  await sql.query('create role half; grant select (id, name) on author to half')
  const gateway = await start(t, { jwt: { secret } })
  const headers = { Authorization: await token({ role: 'half' }) }
  const open = async (given: string) =>
    await subscribeSse(gateway.url, `subscription { it: publicAuthorChanges${given} }`, headers)
  const all = await open(' { data { id called: name } }')
  await sql.query("insert into author values (77, 'Half')")
  t.strictSame(await all.until(count(1)), [{ data: { it: { data: { id: 77, called: 'Half' } } } }])
  await sql.query('revoke select (name) on author from half')
  const forbidden = (path: string) => [
    { message: `${path}: name may not be read`, extensions: { code: 'data/forbidden', details: { field: path } } },
  ]
  t.match(await all.ended, forbidden('it.data.called'), 'also when the right goes while it runs')
  t.match(await (await open(' { data { id new { name } } }')).ended, forbidden('it.data.new.name'))
  t.match(await (await open('(where: {not: {name: {eq: "x"}}}) { table }')).ended, forbidden('it(where)'))
})

t.test('queries and mutations run over WebSocket, several at a time', async (t) => {
  const socket = await new Socket(main.url).init()
  const created = socket.start('mutation { createPublicAuthor(input: {id: 1, name: "Ada"}) { name } }')
  t.equal(await created.ended, null)
  t.strictSame(created.results, [{ data: { createPublicAuthor: { name: 'Ada' } } }])
  const query = 'query Of($id: Int!) { publicAuthor(where: {id: {eq: $id}}) { name } }'
  const read = socket.start(query, { variables: { id: 1 }, operationName: 'Of' })
  const wrong = socket.start('{ publicNowhere { id } }')
  t.strictSame(await read.until(count(1)), [{ data: { publicAuthor: [{ name: 'Ada' }] } }])
  t.match(await wrong.ended, [{ message: /publicNowhere/, extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } }])
  socket.socket.terminate()
})

t.test('queries come as one event where events are asked for', async (t) => {
  const { results, ended } = await subscribeSse(main.url, '{ publicKeyless { a } }')
  t.equal(await ended, null)
  t.strictSame(results, [{ data: { publicKeyless: [] } }])
  const mutation = await subscribeSse(main.url, 'mutation { createPublicKeyless(input: {a: 1}) { a } }', {}, 'GET')
  t.match(await mutation.ended, [{ extensions: { code: 'http/method-not-allowed' } }])
})

t.test('a subscription that cannot be is refused, and the argument is named', async (t) => {
  const socket = await new Socket(main.url).init()
  const cases: readonly (readonly [string, object])[] = [
    ['{ publicCrowdChanges { table } publicBookChanges { table } }', { message: /only one top level field/ }],
    ['{ publicCrowdChanges(where: {nothing: 1}) { table } }', { message: /nothing/ }],
    [
      '{ publicBookChanges(where: {publicAuthor: {name: {eq: "x"}}}) { table } }',
      { message: /publicBookChanges\(where\).*related rows/, extensions: { code: 'data/invalid-filter' } },
    ],
    ['{ publicBookChanges(where: {document: {isNotNull: true, eq: 1}}) { table } }', { message: /document/ }],
    ['{ __typename }', { message: /introspection/, extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } }],
    ['{ publicCrowdChanges @skip(if: true) { table } }', { message: /exactly one field/ }],
    [
      '($no: Boolean = false) { publicCrowdChanges @skip(if: $no) { table } }',
      { extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } },
    ],
  ]
  for (const [selection, error] of cases) {
    const stream = await subscribeSse(main.url, `subscription ${selection}`)
    t.match(await stream.ended, [error], `over SSE: ${selection}`)
    t.match(await socket.start(`subscription ${selection}`).ended, [error], `over WebSocket: ${selection}`)
  }
  const json = await fetch(`${main.url}/graphql`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ query: 'subscription { publicCrowdChanges { table } }' }),
  })
  t.match(await json.json(), { errors: [{ message: /text\/event-stream/, extensions: { code: 'http/bad-request' } }] })
  const bad = await ask(main.url, '')
  t.equal(bad.statusCode, 200)
  socket.socket.terminate()
})

t.test('a socket keeps to the protocol and its limits', async (t) => {
  const gateway = await start(t, {
    changes: { maxSockets: 2, maxOperations: 2, initTimeoutMs: 300, heartbeatMs: 100 },
  })
  await t.test('silence instead of connection_init', async (t) => {
    t.match(await new Socket(gateway.url).closed, { code: 4408 })
  })
  await t.test('messages before the acknowledgement, of no known kind, too large', async (t) => {
    for (const [message, code] of [
      ['{"type":"subscribe","id":"1","payload":{"query":"{ __typename }"}}', 4401],
      ['{"type":"next","id":"1","payload":{}}', 4400],
      ['no JSON', 4400],
      [JSON.stringify({ type: 'connection_init', payload: { text: 'x'.repeat(100_000) } }), 1009],
    ] as const) {
      const socket = new Socket(gateway.url)
      socket.socket.on('open', () => socket.send(message))
      t.match(await socket.closed, { code }, message.slice(0, 40))
    }
  })
  await t.test('another subprotocol', async (t) => {
    const socket = new Socket(gateway.url, {}, 'graphql-ws')
    await t.rejects(socket.init())
  })
  await t.test('a page from elsewhere', async (t) => {
    await t.rejects(new Socket(gateway.url, { Origin: 'https://evil.example' }).init(), { message: /403/ })
    const allowed = await new Socket(gateway.url, { Origin: 'https://allowed.example' }).init()
    allowed.socket.terminate()
    await allowed.closed
  })
  await t.test('operations of a socket, sockets of a gateway', async (t) => {
    const socket = await new Socket(gateway.url).init()
    const running = [1, 2].map(() => socket.start('subscription { publicMarkerChanges { table } }'))
    const over = socket.start('subscription { publicMarkerChanges { table } }')
    t.match(await over.ended, [{ extensions: { code: 'http/too-many-requests' } }])
    const other = await new Socket(gateway.url).init()
    await t.rejects(new Socket(gateway.url).init(), { message: /429/ })
    running[0]!.close()
    const after = socket.start('{ __typename }')
    t.match(await after.until(count(1)), [{ data: { __typename: 'Query' } }])
    await until(() => socket.pings > 1)
    socket.socket.terminate()
    other.socket.terminate()
  })
})

t.test('row level security decides over each row, and a token ends what it allowed', async (t) => {
  const gateway = await start(t, { jwt: { secret, clockToleranceSeconds: 0 }, poolSize: 4 })
  const query = 'subscription { publicSecretChanges { operation data { id body } } }'
  const of = async (sub: string, ms?: number) => await token({ role: 'reader', sub }, ms)
  const ada = await subscribeSse(gateway.url, query, { Authorization: await of('ada') })
  const socket = await new Socket(gateway.url).init({ authorization: await of('bob') })
  const bob = socket.start(query)
  const viaHeader = await new Socket(gateway.url, { Authorization: await of('bob') }).init()
  const alsoBob = viaHeader.start(query)
  let id = 1000
  const write = () => sql.query('insert into secret values ($1, $2, $3)', [id++, 'bob', 'first'])
  await live(bob, write)
  await live(alsoBob, write)
  await sql.query("insert into secret values (1, 'ada', 'hers'), (2, 'bob', 'his'), (3, 'eve', 'of none')")
  const isOwn = (result: Result) => result.data.publicSecretChanges.data.id < 10
  await Promise.all([ada, bob, alsoBob].map((each) => each.until((results) => results.some(isOwn))))
  await settleAs(gateway, await of('x'))
  const own = ({ results }: Subscriber) => results.filter(isOwn).map((result) => result.data.publicSecretChanges.data)
  t.strictSame(own(ada), [{ id: 1, body: 'hers' }])
  t.strictSame(own(bob), [{ id: 2, body: 'his' }])
  t.strictSame(own(alsoBob), [{ id: 2, body: 'his' }])

  const forbidden = await subscribeSse(gateway.url, query, { Authorization: await token({ role: 'nobody' }) })
  t.match(await forbidden.ended, [{ extensions: { code: 'data/forbidden' } }])
  t.equal((await ask(gateway.url, query, { Authorization: 'Bearer wrong' })).statusCode, 401)
  t.match(await closeOf(new Socket(gateway.url), { authorization: 'Bearer wrong' }), { code: 4401 })

  const expired = [{ message: 'The token has expired', extensions: { code: 'http/unauthorized' } }]
  const short = await of('ada', 2_000)
  const brief = await new Socket(gateway.url).init({ headers: { Authorization: short } })
  const [overSse, overSocket] = [await subscribeSse(gateway.url, query, { Authorization: short }), brief.start(query)]
  t.match(await overSse.ended, expired)
  t.match(await overSocket.ended, expired)
  t.match(await brief.start('{ __typename }').ended, expired, 'nor does the connection serve anything else')
  ada.close()
  for (const each of [socket, viaHeader, brief]) each.socket.terminate()
})

async function closeOf(socket: Socket, payload: object) {
  await socket.init(payload).catch(() => undefined)
  return await socket.closed
}

async function settleAs({ url }: GraphqlGateway, authorization: string): Promise<void> {
  const query = 'subscription { publicMarkerChanges { data { id } } }'
  const listener = await subscribeSse(url, query, { Authorization: authorization })
  await sql.query('insert into marker default values')
  await listener.until(count(1))
  listener.close()
}

t.test('subscriptions outlive changes of the schema, unless what they select went', async (t) => {
  const fields = ['kept', 'extra']
  const [kept, extra] = await Promise.all(
    fields.map((name) =>
      subscribeSse(main.url, `subscription { publicDoomedChanges(where: {id: {gt: 0}}) { data { id ${name} } } }`),
    ),
  )
  const socket = await new Socket(main.url).init()
  const other = socket.start('subscription { publicDoomedChanges { data { kept } } }')
  let id = 1
  const write = () => sql.query("insert into doomed (id, kept) values ($1, 'x')", [id++])
  await live(other, write)
  await sql.query('create table elsewhere (id int primary key); alter table doomed add column more int')
  await write()
  await sql.query('alter table doomed drop column extra')
  t.match(await extra!.ended, [{ message: /extra/, extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } }])
  await sql.query('alter table doomed alter column id type bigint')
  const last = id
  await write()
  await kept!.until((results) => results.some(({ data }) => String(data.publicDoomedChanges.data.id) === String(last)))
  const ids = data(kept!, 'publicDoomedChanges').map((event) => Number(event.data.id))
  t.strictSame(
    ids,
    Array.from({ length: last }, (_, index) => index + 1),
    'nothing is missing and nothing came twice',
  )
  await sql.query('drop table doomed')
  for (const each of [kept!, other])
    t.match(await each.ended, [{ message: /doomed is gone/, extensions: { code: 'data/unknown-table' } }])
  socket.socket.terminate()
})

t.test('3,000 subscriptions that begin at once live on one consumer of the bus', async (t) => {
  const manager = await jetstreamManager(bus)
  const consumers = async () => (await manager.streams.info(streamName)).state.consumer_count
  const before = await consumers()
  let cut = 0
  const gateway = await start(t, {
    onObservation: ({ type }) => {
      if (type === 'changes-cut-off') cut += 1
    },
  })
  const sockets = await Promise.all(Array.from({ length: 200 }, () => new Socket(gateway.url).init()))
  // More at once than may wait for the database, at the beginning and again after the change of the schema.
  const subscribers = sockets.flatMap((socket) =>
    Array.from({ length: 15 }, (_, index) =>
      socket.start(`subscription { publicCrowdChanges(where: {grade: {gte: ${index % 5}}}) { data { id grade } } }`),
    ),
  )
  let id = 1
  // The last ones to begin decide from when on all hear everything.
  await Promise.all(
    subscribers
      .map((each) => each.until(count(1)))
      .concat(
        (async () => {
          while (subscribers.some(({ results }) => results.length === 0)) {
            await sql.query('insert into crowd values ($1, 100)', [id++])
            await new Promise((resolve) => setTimeout(resolve, 100))
          }
          return []
        })(),
      ),
  )
  t.equal(await consumers(), before + 1)
  const first = id + 1
  await sql.query('insert into crowd select $1::int + n, n from generate_series(0, 4) n', [first])
  const seen = ({ results }: Subscriber) =>
    results.map(({ data }) => data.publicCrowdChanges.data.id).filter((each) => each >= first)
  await Promise.all(subscribers.map((each) => each.until(() => seen(each).at(-1) === first + 4)))
  for (const [index, each] of subscribers.entries()) {
    const grade = (index % 15) % 5
    const expected = Array.from({ length: 5 - grade }, (_, at) => first + grade + at)
    if (JSON.stringify(seen(each)) !== JSON.stringify(expected))
      t.strictSame(seen(each), expected, `subscriber ${index}`)
  }
  await sql.query('alter table crowd add column more int')
  // Until the gateway has seen it, what comes is as it was; what comes later is as well, and from all.
  await sql.query('insert into crowd values ($1, 100, 1)', [first + 5])
  await Promise.all(subscribers.map((each) => each.until(() => seen(each).at(-1) === first + 5)))
  await until(() => cut === subscribers.length)
  await sql.query('insert into crowd values ($1, 100, 1)', [first + 6])
  await Promise.all(subscribers.map((each) => each.until(() => seen(each).at(-1) === first + 6)))
  t.ok(
    subscribers.every((each) => seen(each).filter((id) => id > first + 4).length === 2),
    'each goes on where it was',
  )
  t.equal(await consumers(), before + 1)
  for (const { socket } of sockets) socket.terminate()
})

t.test('a role that sees a part of the schema subscribes to what it sees', async (t) => {
  await sql.query(`
    create table partly (id int primary key, shown text, hidden text);
    create role limited; grant select (id, shown) on partly to limited; grant select on marker to limited`)
  const cut: string[] = []
  const gateway = await start(t, {
    jwt: { secret, clockToleranceSeconds: 0 },
    roleSchemas: true,
    changes: { recheckMs: 1 },
    onObservation: (observation) => observation.type === 'changes-cut-off' && cut.push(observation.reason),
  })
  const of = async (ms: number) => ({ Authorization: await token({ role: 'limited' }, ms) })
  const selecting = (fields: string) => `subscription { publicPartlyChanges { data { ${fields} } } }`
  const refused = await subscribeSse(gateway.url, selecting('hidden'), await of(60_000))
  t.match(await refused.ended, [{ message: /hidden/, extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } }])
  const subscriber = await subscribeSse(gateway.url, selecting('id shown'), await of(60_000))
  const brief = await subscribeSse(gateway.url, selecting('id'), await of(2_000))
  t.match(await brief.ended, [{ extensions: { code: 'http/unauthorized' } }])
  t.strictSame(cut, ['token-expired'], 'the rights have been looked at again meanwhile, and are the same')
  await sql.query("insert into partly values (1, 'a', 'b')")
  t.strictSame(data(await subscriber.until(count(1)).then(() => subscriber), 'publicPartlyChanges'), [
    { data: { id: 1, shown: 'a' } },
  ])
  await sql.query('revoke select on partly from limited; revoke select (id, shown) on partly from limited')
  t.match(await subscriber.ended, [{ extensions: { code: /^(data\/forbidden|GRAPHQL_VALIDATION_FAILED)$/ } }])
})

for (const kind of ['server-sent events', 'WebSocket']) {
  t.test(`a client that does not read is cut off and hinders nobody: ${kind}`, async (t) => {
    const cut: string[] = []
    const gateway = await start(t, {
      changes: { stallMs: 2_000, maxUnsentBytes: 100_000, ringBytes: 1_000_000 },
      onObservation: (observation) => observation.type === 'changes-cut-off' && cut.push(observation.reason),
    })
    await sql.query('truncate flood')
    await settle(gateway)
    const query = 'subscription { publicFloodChanges(operations: [INSERT]) { data { id body } } }'
    const reader = await subscribeSse(gateway.url, query)
    let deaf: Subscriber
    if (kind === 'WebSocket') {
      deaf = (await new Socket(gateway.url).init()).start(query)
      let id = -1
      await live(deaf, () => sql.query("insert into flood values ($1, '')", [id--]))
    } else deaf = await subscribeSse(gateway.url, query)
    deaf.pause()
    // More than the kernel's buffers take.
    for (let part = 0; part < 15; part++)
      await sql.query("insert into flood select $1 * 100 + n, repeat('x', 20000) from generate_series(1, 100) n", [
        part,
      ])
    const all = (results: readonly Result[]) => results.at(-1)?.data.publicFloodChanges.data.id === 1_500
    await reader.until(all)
    await until(() => cut.length > 0)
    t.strictSame(cut, ['slow-reader'])
    deaf.resume()
    await deaf.ended
    t.ok(deaf.results.length < 1_500)
    reader.close()
  })
}

t.test('a client that leaves makes room for another', async (t) => {
  const gateway = await start(t, { changes: { maxClients: 1 } })
  const query = 'subscription { publicMarkerChanges { table } }'
  const tooMany = [{ extensions: { code: 'http/too-many-requests' } }]
  const socket = await new Socket(gateway.url).init()
  const first = await subscribeSse(gateway.url, query)
  t.match(await socket.start(query).ended, tooMany)
  first.close()
  /** Tries until it is let in. */
  const enter = async (): Promise<Subscriber> => {
    for (;;) {
      const subscriber = socket.start(query)
      let refused = false
      void subscriber.ended.then(() => {
        refused = true
      })
      while (!refused && subscriber.results.length === 0) {
        await sql.query('insert into marker default values')
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      if (!refused) return subscriber
    }
  }
  const second = await enter()
  t.match(await (await subscribeSse(gateway.url, query)).ended, tooMany)
  second.close()
  await enter()
  socket.socket.terminate()
  await socket.closed
})

t.test('the client of graphql-ws is served', async (t) => {
  const gateway = await start(t, { jwt: { secret, required: true } })
  const client = createClient({
    url: `${gateway.url.replace('http', 'ws')}/graphql`,
    webSocketImpl: WebSocket,
    connectionParams: { Authorization: await token({}) },
    retryAttempts: 0,
  })
  const results = client.iterate({ query: 'query Name { __typename }', operationName: 'Name' })
  t.strictSame(await results.next(), { done: false, value: { data: { __typename: 'Query' } } })
  t.strictSame(await results.next(), { done: true, value: undefined })
  const changes = client.iterate({ query: 'subscription { publicMarkerChanges { operation } }' })
  const first = changes.next()
  let heard = false
  void first.then(() => {
    heard = true
  })
  while (!heard) {
    await sql.query('insert into marker default values')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  t.match(await first, { value: { data: { publicMarkerChanges: { operation: 'INSERT' } } } })
  await changes.return?.()
  await client.dispose()
})

t.test('changes that are off are an error with what mends it', async (t) => {
  const off = await start(t, { changes: null })
  const query = 'subscription { publicCrowdChanges { table } }'
  const away = [{ extensions: { code: 'data/changes-unavailable', hint: /app\.nats\.enabled/ } }]
  t.match(await (await subscribeSse(off.url, query)).ended, away)
  t.match(await (await new Socket(off.url).init()).start(query).ended, away)
  const other = await start(t, { changes: { source: 'elsewhere' } })
  t.match(await (await subscribeSse(other.url, query)).ended, [
    { extensions: { code: 'data/changes-unavailable', hint: /worker:capture/ } },
  ])
})

t.test('a table that is not published is an error with the statement to run', async (t) => {
  await sql.query(`
    create role publisher login replication password 'secret';
    create table lonely (id int primary key); grant select on lonely to publisher;
    create publication others for table crowd`)
  const url = postgres.url.replace(/\/\/[^@]*@/, '//publisher:secret@')
  const own = { source: 'own', slotName: 'own', publicationName: 'others' }
  const partial = capture(t, url, bus, own)
  await until(() => partial.status().unpublished.length > 0)
  const gateway = await start(t, { changes: { source: 'own' } })
  const refused = await subscribeSse(gateway.url, 'subscription { publicLonelyChanges { table } }')
  t.match(await refused.ended, [
    {
      message: /Changes of lonely are not published/,
      extensions: {
        code: 'data/changes-unavailable',
        details: { statements: ['ALTER PUBLICATION "others" ADD TABLE "public"."lonely";'] },
      },
    },
  ])
  const served = await subscribeSse(gateway.url, 'subscription { publicCrowdChanges { operation } }')
  await sql.query('truncate crowd')
  await served.until(count(1))
  served.close()
})

const whole = t

/** A subscription that goes on: a capture that has just been told of new tables can be away for a moment, and new ones are refused then. */
async function accepted(url: string, query: string): Promise<Subscriber> {
  for (;;) {
    const subscriber = await subscribeSse(url, query)
    const refusal = await Promise.race([
      subscriber.ended,
      new Promise<null>((resolve) => setTimeout(resolve, 300, null)),
    ])
    if (refusal === null) return subscriber
    if (refusal[0]?.extensions?.code !== 'data/changes-unavailable') throw new Error(JSON.stringify(refusal))
    subscriber.close()
  }
}

t.test('subscriptions outlive a restart of the database that comes back with another schema', async (t) => {
  let cut = 0
  const gateway = await start(t, {
    onObservation: (observation) => {
      if (observation.type === 'changes-cut-off') cut += 1
    },
  })
  const subscriber = await accepted(gateway.url, 'subscription { publicRestartedChanges { data { id name } } }')
  sql.end().catch(() => undefined)
  await postgres.restart()
  sql = await connectDatabase(whole, postgres.url)
  await sql.query('alter table restarted add column more int')
  await sql.query("insert into restarted values (1, 'first')")
  await until(() => cut > 0)
  await sql.query("insert into restarted values (2, 'second')")
  await subscriber.until(count(2))
  t.strictSame(
    data(subscriber, 'publicRestartedChanges').map((event) => event.data),
    [
      { id: 1, name: 'first' },
      { id: 2, name: 'second' },
    ],
  )
  subscriber.close()
})

t.test('while the bus is away subscriptions wait for it, and new ones are refused', async (t) => {
  const query = 'subscription { publicCrowdChanges(operations: [INSERT]) { data { id } } }'
  await sql.query('truncate crowd')
  const waiting = await subscribeSse(main.url, query)
  const socket = await new Socket(main.url).init()
  await nats.kill()
  const refusal = async () => {
    const refused = await subscribeSse(main.url, query)
    const errors = await Promise.race([refused.ended, new Promise<null>((resolve) => setTimeout(resolve, 50, null))])
    refused.close()
    return errors
  }
  let errors: Result[] | null = null
  while (errors === null) errors = await refusal()
  t.match(errors, [{ message: /away/, extensions: { code: 'data/changes-unavailable' } }])
  t.match(await socket.start(query).ended, [{ extensions: { code: 'data/changes-unavailable' } }])
  await sql.query('insert into crowd values (1, 1)')
  await nats.restart()
  await sql.query('insert into crowd values (2, 2)')
  await waiting.until(count(2))
  t.strictSame(
    data(waiting, 'publicCrowdChanges').map((event) => event.data.id),
    [1, 2],
    'what was written meanwhile comes too',
  )
  waiting.close()
  socket.socket.terminate()
})

t.test('a gateway that stops says so', async (t) => {
  const gateway = await start(t)
  const sse = await subscribeSse(gateway.url, 'subscription { publicCrowdChanges { table } }')
  const socket = await new Socket(gateway.url).init()
  const over = socket.start('subscription { publicMarkerChanges { table } }')
  await live(over, () => sql.query('insert into marker default values'))
  const stopped = gateway.stop()
  const stopping = [{ extensions: { code: 'data/changes-unavailable', reason: 'stopping' } }]
  t.match(await sse.ended, stopping)
  t.match(await over.ended, stopping)
  t.match(await socket.closed, { code: 1001 })
  await stopped
})
