import t from 'tap'
import { changeHeader } from '../../schemas/data/change.ts'
import { startMysqlCapture } from '../../workers/capture/mysql-capture.ts'
import { connectBus, makeStream, readStream, streamName, until } from '../capture/support.ts'
import { type Result, Socket, type Subscriber, subscribeSse } from '../graphql/subscription-clients.ts'
import { testNats } from '../support/servers.ts'
import { openMysqlGateway, testMysqlServer } from './gateway.ts'

t.setTimeout(120_000)

const nats = await testNats(t)
const { address, sql } = await testMysqlServer(
  t,
  `create table book (id bigint unsigned primary key, title varchar(50), price decimal(30, 10), sold tinyint(1), mood enum('very good', 'bad'),
     tags set('x', 'y'), cover blob, info json, place point, published timestamp(6) null, note text);
   create table marker (id int primary key auto_increment);
   create table item (id int primary key auto_increment, name varchar(20))`,
)
await sql.query("set time_zone = '+00:00'")
const bus = await connectBus(t, nats.url)
await makeStream(bus)
const stopping = new AbortController()
const capture = startMysqlCapture({
  connection: address,
  source: 'shop',
  schemas: ['public'],
  bus,
  streamName,
  signal: stopping.signal,
})
t.teardown(() => capture.stop())
await until(() => capture.status().state === 'running')
const gateway = await openMysqlGateway(t, address, {
  emitCommands: true,
  changes: { bus, streamName, source: 'shop', recheckMs: 500 },
})

const count = (wanted: number) => (results: readonly Result[]) => results.length >= wanted
const heard = ({ results }: Subscriber, field: string) => results.map(({ data }) => data[field])

/** Everything written so far has passed the gateway. */
async function settle(): Promise<void> {
  const listener = await subscribeSse(gateway.url, 'subscription { publicMarkerChanges { data { id } } }')
  const [{ insertId }] = (await sql.query('insert into marker values ()')) as unknown as [{ insertId: number }]
  await listener.until((results) => results.some(({ data }) => data.publicMarkerChanges.data.id === insertId))
  listener.close()
}

/** A socket has no word for a subscription that has begun: rows are written until it hears one. */
async function overSocket(query: string): Promise<Subscriber> {
  const subscriber = (await new Socket(gateway.url).init()).start(query)
  let begun = false
  const first = subscriber.until(count(1)).then(() => {
    begun = true
  })
  for (let id = 1; !begun; id++) {
    await sql.query('insert into book (id, title) values (?, ?)', [id, 'A first'])
    await Promise.race([first, new Promise((resolve) => setTimeout(resolve, 50))])
  }
  await sql.query('truncate book')
  await subscriber.until((results) => results.at(-1)?.data.publicBookChanges.operation === 'TRUNCATE')
  subscriber.results.length = 0
  return subscriber
}

const columns = 'id title cost: price sold mood tags cover info place published'
const query = `subscription { publicBookChanges(where: {title: {startsWith: "A"}}) {
  table schema operation sequence timestamp data { ${columns} old { title note } new { title cost: price note } } } }`

for (const [name, open] of [
  ['server-sent events', () => subscribeSse(gateway.url, query)],
  ['WebSocket', () => overSocket(query)],
] as const) {
  t.test(`a row that another client writes arrives whole, with all digits: ${name}`, async (t) => {
    await sql.query('truncate book')
    await settle()
    const subscriber = await open()
    await sql.query(`insert into book values (18446744073709551615, 'A book', 12345678901234567890.1234567890, true, 'very good', 'x,y',
      x'00ff', '{"n": 12345678901234567890}', st_geomfromtext('POINT(1 2.5)'), '2024-02-29 12:00:00.123456', 'n'), (2, 'Other', 1, null, null, null, null, null, null, null, null)`)
    await sql.query("update book set title = 'A new title', price = 1.5 where id > 2")
    await sql.query('delete from book')
    await subscriber.until(count(3))
    const [inserted, updated, deleted] = heard(subscriber, 'publicBookChanges')
    const row = {
      id: '18446744073709551615',
      cost: '12345678901234567890.1234567890',
      sold: true,
      mood: 'very_good',
      tags: 'x,y',
      cover: '\\x00ff',
      place: { type: 'Point', coordinates: [1, 2.5] },
      published: '2024-02-29T12:00:00.123456Z',
    }
    t.match(inserted, {
      ...{ table: 'book', schema: 'public', operation: 'INSERT', timestamp: /^\d{4}-.*Z$/, sequence: /^\d+$/ },
      data: { ...row, title: 'A book', old: null, new: null },
    })
    t.match(subscriber.texts.at(-3), /"info":\{"n": 12345678901234567890\}/, 'JSON keeps the digits of its numbers')
    t.match(updated, {
      operation: 'UPDATE',
      data: {
        title: 'A new title',
        cost: '1.5000000000',
        old: { title: 'A book', note: 'n' },
        new: { title: 'A new title', cost: '1.5000000000', note: 'n' },
      },
    })
    t.match(deleted, { operation: 'DELETE', data: { ...row, cost: '1.5000000000', title: 'A new title' } })
    t.equal(subscriber.results.length, 3, 'and nothing of the row that does not match')
    subscriber.close()
  })
}

t.test('where and operations choose what comes', async (t) => {
  await sql.query('truncate book')
  const cases: readonly (readonly [string, readonly string[]])[] = [
    ['where: {price: {gt: "5"}}', ['INSERT 2', 'UPDATE 1', 'DELETE 1', 'TRUNCATE']],
    ['where: {price: {eq: "10"}}', ['UPDATE 1', 'DELETE 1', 'TRUNCATE']],
    ['where: {id: {in: ["2", "3"]}}, operations: [INSERT, UPDATE]', ['INSERT 2', 'INSERT 3']],
    ['where: {sold: {eq: true}}, operations: [INSERT]', ['INSERT 1']],
    ['where: {mood: {eq: very_good}}, operations: [INSERT]', ['INSERT 2']],
    ['where: {published: {eq: "2024-02-29T13:00:00+01:00"}}, operations: [INSERT]', ['INSERT 3']],
    ['where: {cover: {eq: "\\\\x00FF"}}, operations: [INSERT]', ['INSERT 3']],
    ['where: {or: [{title: {isNull: true}}, {not: {price: {lt: "100"}}}]}, operations: [INSERT]', ['INSERT 3']],
    ['operations: [DELETE]', ['DELETE 1']],
    ['operations: []', []],
  ]
  const open = (given: string) =>
    subscribeSse(gateway.url, `subscription { it: publicBookChanges(${given}) { operation data { id } } }`)
  const all = await open('where: {}')
  const subscribers = await Promise.all(cases.map(([given]) => open(given)))
  await sql.query(`insert into book (id, title, price, sold, mood, cover, published) values (1, 'a', 1, true, null, null, null),
    (2, 'b', 20, false, 'very good', null, null), (3, null, null, null, 'bad', x'00ff', '2024-02-29 12:00:00')`)
  await sql.query('update book set price = 10 where id = 1')
  await sql.query('delete from book where id = 1')
  await sql.query('truncate book')
  await all.until(count(6))
  // Each has a connection of its own, which may be behind the others.
  await Promise.all(subscribers.map((each, index) => each.until(count(cases[index]![1].length))))
  await settle()
  for (const [index, [given, expected]] of cases.entries()) {
    const came = heard(subscribers[index]!, 'it').map(({ operation, data }) => `${operation} ${data?.id ?? ''}`.trim())
    t.strictSame(came, expected, given)
  }
  for (const subscriber of [all, ...subscribers]) subscriber.close()
})

t.test('a mutation is known by its request in the events of its rows, and what others write is nobody’s', async (t) => {
  const subscriber = await subscribeSse(gateway.url, 'subscription { publicItemChanges { operation data { name } } }')
  const mutation = `mutation { a: createPublicItem(input: {name: "one"}) { id }
    b: createManyPublicItem(inputs: [{name: "two"}, {name: "three"}]) { id } c: updatePublicItem(input: {id: 1, name: "four"}) { id }
    d: deletePublicItem(input: {id: 1}) { id } }`
  const { errors } = await gateway.ask(mutation, {}, { 'X-Request-Id': 'request-7' })
  t.equal(errors, undefined)
  await sql.query("insert into item (name) values ('five')")
  await subscriber.until(count(6))
  t.strictSame(
    heard(subscriber, 'publicItemChanges').map(({ operation, data }) => `${operation} ${data.name}`),
    ['INSERT one', 'INSERT two', 'INSERT three', 'UPDATE four', 'DELETE four', 'INSERT five'],
  )
  subscriber.close()
  const stored = await readStream(bus, ({ body }) => body.includes('"name":"five"'))
  const ofItems = stored.filter(({ subject }) => subject.includes('.item.'))
  const commands = stored.filter(({ subject }) => subject === 'cdc.shop.command').map(({ body }) => JSON.parse(body))
  const ids = ofItems.map(({ header }) => header(changeHeader.command))
  t.equal(ids.length, 6)
  t.ok(ids[0] !== '' && ids.slice(0, 5).every((id) => id === ids[0]), ids.join(' '))
  t.equal(ids[5], '')
  t.strictSame(
    commands.map(({ operation }) => operation),
    ['insert', 'insert', 'update', 'delete'].map((word) => `graphql.${word} public.item`),
  )
  t.ok(commands.every(({ commandId }) => commandId === ids[0]))
})

t.test('a reader of the log that was away tells what it missed', async (t) => {
  const subscriber = await subscribeSse(gateway.url, 'subscription { publicItemChanges { data { name } } }')
  const [threads] = await sql.query("select id from information_schema.processlist where command like 'Binlog Dump%'")
  for (const { id, ID } of threads as { id?: number; ID?: number }[]) await sql.query(`kill ${id ?? ID}`)
  await sql.query("insert into item (name) values ('meanwhile')")
  await subscriber.until(count(1))
  t.strictSame(heard(subscriber, 'publicItemChanges'), [{ data: { name: 'meanwhile' } }])
  subscriber.close()
})
