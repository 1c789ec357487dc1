import dns from 'node:dns/promises'
import { createServer } from 'node:net'
import { type Document, Long, ObjectId } from 'mongodb'
import t from 'tap'
import { dnsName, testDns } from '../support/dns-wire.ts'
import { type MongoWire, testMongoWire } from '../support/mongo-wire.ts'
import { callPlugin, failure, openSockets } from './call-plugin.ts'

// At the level of the protocol: Debian has no MongoDB.

let answer: (command: Document) => Document | null = () => ({ ok: 1 })
const server = await testMongoWire(t, { answer: (command) => answer(command) })

const call = (properties: Record<string, unknown>, options = {}, to: MongoWire = server) => {
  to.commands.length = 0
  return callPlugin('db.mongodb', { url: to.url, collection: 'orders', ...properties }, options)
}

const cursor = (ns: string, firstBatch: Document[], id = 0) => ({
  cursor: { firstBatch, id: Long.fromNumber(id), ns },
  ok: 1,
})

/** What is asked, the answer, the command that the manual asks for, and what the task gives. */
const cases: readonly (readonly [string, Record<string, unknown>, Document, Document, Document])[] = [
  [
    'find',
    {
      filter: { _id: { $oid: '65a1b2c3d4e5f60718293a4b' }, at: { $gt: { $date: '2027-01-01T00:00:00Z' } } },
      projection: { total: 1 },
      sort: { total: -1, item: 1 },
      skip: 2,
      limit: 10,
    },
    cursor('shop.orders', [
      { total: Long.fromString('9007199254740993'), at: new Date(0), _id: new ObjectId('65a1b2c3d4e5f60718293a4b') },
    ]),
    {
      find: 'orders',
      filter: { _id: new ObjectId('65a1b2c3d4e5f60718293a4b'), at: { $gt: new Date('2027-01-01T00:00:00Z') } },
      projection: { total: 1 },
      skip: 2,
      limit: 10,
      maxTimeMS: 60_000,
      $db: 'shop',
    },
    {
      documents: [{ total: '9007199254740993', at: '1970-01-01T00:00:00.000Z', _id: '65a1b2c3d4e5f60718293a4b' }],
      count: 1,
    },
  ],
  [
    'count',
    { filter: { open: true }, database: 'other' },
    cursor('other.orders', [{ n: 7 }]),
    {
      aggregate: 'orders',
      pipeline: [{ $match: { open: true } }, { $group: { _id: 1, n: { $sum: 1 } } }],
      $db: 'other',
    },
    { count: 7 },
  ],
  [
    'aggregate',
    { pipeline: [{ $group: { _id: '$status', n: { $sum: 1 } } }] },
    cursor('shop.orders', [{ _id: 'open', n: 3 }]),
    { aggregate: 'orders', pipeline: [{ $group: { _id: '$status', n: { $sum: 1 } } }], maxTimeMS: 60_000 },
    { documents: [{ _id: 'open', n: 3 }], count: 1 },
  ],
  [
    'insert',
    {
      documents: [
        { _id: 1, at: { $date: '2027-01-01T00:00:00Z' } },
        { _id: 2, big: { $numberDecimal: '1.10' } },
      ],
    },
    { n: 2, ok: 1 },
    { insert: 'orders', ordered: false, documents: [{ _id: 1, at: new Date('2027-01-01T00:00:00Z') }, { _id: 2 }] },
    { count: 2, result: { insertedIds: [1, 2] } },
  ],
  [
    'update',
    { filter: { a: 1 }, update: { $set: { b: 2 } }, many: true },
    { n: 3, nModified: 2, ok: 1 },
    { update: 'orders', updates: [{ q: { a: 1 }, u: { $set: { b: 2 } }, multi: true, upsert: false }] },
    { count: 2, result: { matchedCount: 3, modifiedCount: 2, upsertedId: null } },
  ],
  [
    'replace',
    { filter: { a: 1 }, replacement: { b: 2 }, upsert: true },
    { n: 1, nModified: 0, upserted: [{ index: 0, _id: new ObjectId('65a1b2c3d4e5f60718293a4b') }], ok: 1 },
    { update: 'orders', updates: [{ q: { a: 1 }, u: { b: 2 }, upsert: true }] },
    { count: 1, result: { upsertedId: '65a1b2c3d4e5f60718293a4b' } },
  ],
  [
    'delete',
    { filter: { a: 1 } },
    { n: 1, ok: 1 },
    { delete: 'orders', deletes: [{ q: { a: 1 }, limit: 1 }] },
    { count: 1, result: { deletedCount: 1 } },
  ],
]

for (const [operation, properties, reply, command, given] of cases) {
  t.test(`${operation} sends the command of the manual, and gives what the server says`, async (t) => {
    answer = () => reply
    const outputs = await call({ operation, ...properties })
    t.match(server.commands[0], command)
    t.equal(typeof server.commands[0]!.lsid.id, 'object', 'in a session, by which it can be ended')
    t.match(outputs, given)
  })
}

t.test('a cursor is read to its end, and closed when it is too long', async (t) => {
  const next = { cursor: { nextBatch: [{ a: 2 }], id: Long.ZERO, ns: 'shop.orders' }, ok: 1 }
  answer = ({ find }) => (find === undefined ? next : cursor('shop.orders', [{ a: 1 }], 77))
  t.same((await call({ operation: 'find' })).documents, [{ a: 1 }, { a: 2 }])
  t.match(server.commands[1], { getMore: 77, collection: 'orders' })
  await t.rejects(call({ operation: 'find', maxDocuments: 0 }), failure('refused', /more than 0 rows/))
  t.match(server.commands[1], { killCursors: 'orders', cursors: [77] })
  await t.rejects(call({ operation: 'find', maxBytes: 3 }), { message: /more than 3 bytes/ })
})

t.test('a document without an id gets the same one in every attempt, and is inserted once', async (t) => {
  answer = () => ({ n: 1, ok: 1 })
  const documents = [{ a: 1 }, { a: 2 }]
  const first = await call({ operation: 'insert', documents })
  answer = () => ({
    n: 0,
    writeErrors: [0, 1].map((index) => ({ index, code: 11_000, errmsg: 'duplicate key' })),
    ok: 1,
  })
  t.same(await call({ operation: 'insert', documents }), first)
  const { insertedIds } = (await call({ operation: 'insert', documents }, { key: 'e2/call' })).result as {
    insertedIds: string[]
  }
  t.notMatch(insertedIds, (first.result as { insertedIds: string[] }).insertedIds)
  await t.rejects(call({ operation: 'insert', documents: [{ _id: 1 }, { a: 1 }] }), failure('refused', /11000/))
})

t.test('refusals are final, and what can pass is not', async (t) => {
  for (const [code, kind] of [
    [13, 'refused'],
    [9, 'refused'],
    [50, 'timeout'],
    [189, 'unavailable'],
    [11_600, 'unavailable'],
  ] as const) {
    answer = () => ({ ok: 0, code, errmsg: 'no' })
    await t.rejects(call({ operation: 'delete' }), failure(kind, `MongoDB refused it (${code}): no`))
  }
  await t.rejects(call({ operation: 'insert' }), { message: 'properties.documents is needed for the operation insert' })
  await t.rejects(call({ operation: 'find', filter: { _id: { $oid: 'x' } } }), { message: /no Extended JSON/ })
  await t.rejects(call({ operation: 'drop' }), { message: /properties\.operation/ })
})

t.test('the password opens it, and a wrong one does not', async (t) => {
  const account = { user: 'app', password: 'p@ss/word' }
  const closed = await testMongoWire(t, { account, answer: () => cursor('shop.orders', [{ n: 1 }]) })
  const url = `mongodb://app@127.0.0.1:${closed.port}/shop`
  t.match(await call({ url, password: account.password, operation: 'count' }, {}, closed), { count: 1 })
  const refused = await call({ url, password: 'secret-wrong', operation: 'count' }, {}, closed).catch((error) => error)
  t.match(refused, { kind: 'refused', message: /AuthenticationFailed/ })
  t.notMatch(refused.message, /secret-wrong/)
  t.equal(closed.commands.length, 0)
})

t.test('the primary is found by way of any member', async (t) => {
  const set = { setName: 'rs', isWritablePrimary: false, secondary: true }
  const primary = await testMongoWire(t, { answer: () => ({ n: 1, ok: 1 }) })
  const at = `127.0.0.1:${primary.port}`
  const secondary = await testMongoWire(t, {
    answer: () => cursor('shop.orders', []),
    hello: () => ({ ...set, primary: at, hosts: [at] }),
  })
  t.match(await call({ operation: 'delete' }, {}, { ...secondary, commands: primary.commands }), { count: 1 })
  t.equal(primary.commands.length, 1)
  const stale = { ...secondary, url: `${secondary.url}?readPreference=secondaryPreferred` }
  t.match(await call({ operation: 'find' }, {}, stale), { count: 0 })
  t.equal(secondary.commands.length, 1)
})

t.test('no server leads where tasks may not go', async (t) => {
  const hello = () => ({
    setName: 'rs',
    isWritablePrimary: false,
    secondary: true,
    primary: '169.254.169.254:80',
    hosts: ['10.0.0.1:27017'],
  })
  const bad = await testMongoWire(t, { answer: () => ({ ok: 1 }), hello })
  await t.rejects(
    call({ operation: 'find' }, {}, bad),
    failure('refused', '"169.254.169.254" may not be connected to from here'),
  )
  await t.rejects(call({ operation: 'find' }, { allow: [] }), {
    message: '"127.0.0.1" may not be connected to from here',
  })
  for (const option of ['tlsCAFile=/etc/passwd', 'proxyHost=10.0.0.1', 'authMechanism=MONGODB-AWS'])
    await t.rejects(call({ url: `${server.url}?${option}`, operation: 'find' }), failure('refused'))
})

t.test('members that are looked up have to be of the same domain', async (t) => {
  const before = dns.getServers()
  const service = (host: string) => Buffer.concat([Buffer.from([0, 0, 0, 0, 27017 >> 8, 27017 & 255]), dnsName(host)])
  const settings = Buffer.from('authSource=accounts&replicaSet=rs')
  const asked: string[] = []
  const server = await testDns(t, (name, type) => {
    asked.push(`${name} ${type}`)
    if (type === 16) return name.startsWith('shop') ? [Buffer.concat([Buffer.from([settings.length]), settings])] : 3
    if (type !== 33) return 3
    return name.includes('shop') ? [service('a.db.example')] : [service('a.other.example')]
  })
  dns.setServers([server])
  t.teardown(() => dns.setServers(before))
  const find = { operation: 'find', database: 'shop' }
  await t.rejects(
    call({ url: 'mongodb+srv://app@shop.db.example/', ...find }),
    failure('unavailable', /"a\.db\.example" cannot be found/),
  )
  t.ok(asked.includes('_mongodb._tcp.shop.db.example 33') && asked.includes('shop.db.example 16'))
  await t.rejects(
    call({ url: 'mongodb+srv://app@evil.db.example/', ...find }),
    failure('refused', /no servers of its own domain/),
  )
})

t.test('a cancelled task ends its operation on the server and leaves no connection', async (t) => {
  const controller = new AbortController()
  answer = (command) => {
    if (command.find === undefined) return { ok: 1 }
    controller.abort(new Error('cancelled'))
    return null
  }
  await t.rejects(call({ operation: 'find' }, { signal: controller.signal }), { message: 'cancelled' })
  const [find, kill] = server.commands
  t.same(kill!.killSessions, [{ id: find!.lsid.id }])
  while (server.open() > 0) await new Promise((resolve) => setTimeout(resolve, 5))
})

t.test('a server that does not even greet is a time-out, and cancelling leaves no connection', async (t) => {
  const silent = createServer((socket) => socket.on('error', () => undefined).on('data', () => undefined))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  t.teardown(() => silent.close())
  const url = `mongodb://127.0.0.1:${(silent.address() as { port: number }).port}/shop`
  const before = openSockets()
  await t.rejects(call({ url, operation: 'find', timeoutMs: 50 }), failure('timeout'))
  const controller = new AbortController()
  silent.once('connection', () => controller.abort(new Error('cancelled')))
  await t.rejects(call({ url, operation: 'find' }, { signal: controller.signal }), { message: 'cancelled' })
  while (openSockets() > before) await new Promise((resolve) => setTimeout(resolve, 5))
})

t.test('a server that is silent is a time-out, one that is away can be tried again', async (t) => {
  answer = () => null
  await t.rejects(call({ operation: 'find', timeoutMs: 100 }), failure('timeout'))
  await t.rejects(
    call({ url: 'mongodb://127.0.0.1:1/shop', operation: 'find' }),
    failure('unavailable', /ECONNREFUSED/),
  )
  while (server.open() > 0) await new Promise((resolve) => setTimeout(resolve, 5))
})
