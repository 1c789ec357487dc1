import { once } from 'node:events'
import { createServer, connect as dial, type Socket } from 'node:net'
import t from 'tap'
import { startGraphqlGateway } from '../../gateways/graphql/server.ts'
import { isRealMysql } from '../support/mysql.ts'
import { testMysqlGateway } from './gateway.ts'

t.setTimeout(180_000)

const { ask, sql, address } = await testMysqlGateway(t, {
  schemaSql: `
    create table parent (id int primary key auto_increment, name varchar(20) not null, age int check (age >= 0));
    create table child (id int primary key auto_increment, parent_id int not null, name varchar(20) unique, foreign key (parent_id) references parent (id));
    create table toy (id int primary key auto_increment, child_id int not null, label varchar(20), foreign key (child_id) references child (id));
    insert into parent (name) values ('a'), ('b'), ('c');
    insert into child (parent_id, name) select p.id, concat(p.name, n.n) from parent p join (select 1 n union select 2 union select 3) n order by p.id, n.n;
    insert into toy (child_id, label) select c.id, concat(c.name, '-', n.n) from child c join (select 1 n union select 2) n order by c.id, n.n;
    create table everything (id bigint unsigned primary key auto_increment, flag tinyint(1), b1 bit(1), b5 bit(5), big bigint, f float, d double,
      n decimal(30, 10), j json, bl blob, bin binary(3), ts timestamp(6) null, dt datetime(3), y year, tm time(6), e enum('x', 'y z'), s set('a', 'b'),
      g geometry, txt varchar(100), z int(5) zerofill, u ${isRealMysql ? 'char(36)' : 'uuid'}, day date, med mediumint unsigned, latin varchar(20) character set latin1);`,
})

const row = {
  id: '18446744073709551600',
  flag: true,
  b1: false,
  b5: '21',
  big: '-9223372036854775808',
  f: 0.5,
  d: 0.1,
  n: '12345678901234567890.1234567890',
  j: { k: [1, 2.5, 'x'], a: null },
  bl: '\\x00ff',
  bin: '\\x010203',
  ts: '2024-01-01T00:00:00.123456Z',
  dt: '2024-01-01T01:02:03.500',
  y: 2024,
  tm: '-10:11:12.000001',
  e: 'y_z',
  s: 'a,b',
  g: { type: 'Point', coordinates: [1, 2] },
  txt: 'q"\\\n\u0001😀',
  z: '42',
  u: '123e4567-e89b-12d3-a456-426614174000',
  day: '2024-02-29',
  med: 16_777_215,
  latin: 'é',
}
const columns = Object.keys(row).join(' ')

t.test('a value of every type goes in and comes out as it was, to the last digit', async (t) => {
  const query = `mutation($input: PublicEverythingInput!) { createPublicEverything(input: $input) { ${columns} } }`
  const { __type } = (await ask('{ __type(name: "Mutation") { fields { name args { type { ofType { name } } } } } }'))
    .data
  const create = __type.fields.find(({ name }: { name: string }) => name === 'createPublicEverything')
  const typed = query.replace('PublicEverythingInput', create.args[0].type.ofType.name)
  const written = await ask(typed, { input: row })
  t.same(written.errors, undefined)
  t.same(written.data.createPublicEverything, row)
  const read = await ask(`{ publicEverything { ${columns} } }`)
  t.same(read.data.publicEverything, [row])
})

const finds: readonly (readonly [title: string, where: string])[] = [
  ['boolean', 'flag: { eq: true }, b1: { eq: false }'],
  ['bits', 'b5: { eq: "21", gt: "20", in: ["21"] }'],
  ['the largest whole numbers', 'id: { eq: "18446744073709551600" }, big: { eq: "-9223372036854775808" }'],
  ['but not its neighbour', 'id: { neq: "18446744073709551601" }, big: { neq: "-9223372036854775807" }'],
  ['float and double', 'f: { eq: 0.5 }, d: { eq: 0.1, in: [0.1] }'],
  ['decimal', 'n: { eq: "12345678901234567890.1234567890", neq: "12345678901234567890.1234567891" }'],
  ['JSON', 'j: { contains: { k: [2.5] }, eq: { a: null, k: [1, 2.5, "x"] } }'],
  ['bytes', 'bl: { eq: "\\\\x00ff" }, bin: { in: ["\\\\x010203"] }'],
  ['a moment with another offset', 'ts: { eq: "2024-01-01T02:00:00.123456+02:00" }'],
  [
    'date and time',
    'dt: { gte: "2024-01-01T01:02:03.5" }, day: { lt: "2024-03-01" }, tm: { lt: "00:00:00" }, y: { eq: 2024 }',
  ],
  ['labels by their order', 'e: { gt: x, in: [y_z] }, s: { eq: "a,b" }'],
  ['geometry', 'g: { eq: { coordinates: [1, 2], type: "Point" } }'],
  [
    'texts',
    'txt: { startsWith: "q\\"", contains: "\\\\", endsWith: "😀" }, latin: { eq: "é" }, u: { startsWith: "123e" }',
  ],
  ['nothing in and not in', 'not: { id: { in: [] } }, id: { notIn: [] }'],
]
t.test('filters on each type', async (t) => {
  for (const [title, where] of finds) {
    const { data, errors } = await ask(`{ publicEverything(where: { ${where} }) { id } }`)
    t.same(errors, undefined, title)
    t.same(data.publicEverything, [{ id: row.id }], title)
  }
})

t.test('a JSON value stays of its kind, be it a text that looks like another', async (t) => {
  await sql.query('create table document (id int primary key auto_increment, j json)')
  const values = ['1', 1, 'text', '{"a":1}', { a: 1 }, 'true', true, '', [1, '1', null], '"']
  const create = 'mutation($j: JSON) { it: createPublicDocument(input: { j: $j }) { id j } }'
  while ((await ask('{ publicDocument { id } }')).errors !== undefined);
  for (const j of values) {
    const { data, errors } = await ask(create, { j })
    t.equal(errors, undefined, JSON.stringify(j))
    t.strictSame(data.it.j, j)
    const update = await ask(
      'mutation($id: Int!, $j: JSON) { it: updatePublicDocument(input: { id: $id, j: $j }) { j } }',
      { id: data.it.id, j },
    )
    t.strictSame(update.data?.it.j, j, `changed to ${JSON.stringify(j)}`)
  }
  for (const [index, j] of values.entries()) {
    const { data } = await ask('query($j: JSON) { publicDocument(where: { j: { eq: $j } }) { id } }', { j })
    t.same(data?.publicDocument, [{ id: index + 1 }], `found by ${JSON.stringify(j)}`)
  }
})

t.test('one statement a field of the root, however deep', async (t) => {
  const selects = async () => {
    const [found] = await sql.query("show global status where variable_name in ('Com_select', 'Com_stmt_execute')")
    return (found as { Value: string }[]).map(({ Value }) => Number(Value))
  }
  const deep = `{ publicParent { name publicChild(orderBy: { name: DESC }, limit: 2) { name publicToy { label publicChild { publicParent { name } } } } } }`
  await ask(deep)
  const before = await selects()
  const { data, errors } = await ask(deep)
  const after = await selects()
  t.same(errors, undefined)
  t.same(data.publicParent.length, 3)
  t.same(
    data.publicParent[0].publicChild.map(({ name }: { name: string }) => name),
    ['a3', 'a2'],
  )
  t.same(data.publicParent[0].publicChild[0].publicToy[1], {
    label: 'a3-2',
    publicChild: { publicParent: { name: 'a' } },
  })
  t.same(after[1]! - before[1]!, 1, 'prepared statements executed')
})

const refusals: readonly (readonly [title: string, mutation: string, code: string, sqlstate: string])[] = [
  ['a key that is there', 'createPublicParent(input: { id: 1, name: "x" }) { id }', 'data/conflict', '23505'],
  ['a row that is not there', 'createPublicChild(input: { parent_id: 99 }) { id }', 'data/conflict', '23503'],
  ['a row that others refer to', 'deletePublicParent(input: { id: 1 }) { id }', 'data/conflict', '23503'],
  ['a check', 'createPublicParent(input: { name: "x", age: -1 }) { id }', 'data/constraint-violated', '23514'],
  ['too long', 'createPublicParent(input: { name: "xxxxxxxxxxxxxxxxxxxxx" }) { id }', 'data/invalid-value', '22001'],
  ['no such date', 'createPublicEverything(input: { day: "2024-02-31" }) { id }', 'data/invalid-value', '22000'],
]
t.test('what the database refuses is told in the same codes', async (t) => {
  for (const [title, mutation, code, sqlstate] of refusals) {
    const { data, errors } = await ask(`mutation { it: ${mutation} }`)
    t.same(data, { it: null }, title)
    t.same(errors[0].extensions.code, code, title)
    t.same(errors[0].extensions.sqlstate, sqlstate, title)
    t.notMatch(JSON.stringify(errors), /insert into|delete from|REFERENCES/, title)
  }
})

t.test('many rows at once, in their order, all or none', async (t) => {
  const inputs = Array.from({ length: 2_000 }, (_, index) => ({
    parent_id: 1 + (index % 3),
    ...(index % 2 === 0 ? { name: `many ${index}` } : {}),
  }))
  const query = `mutation($inputs: [CreatePublicChildInput!]!) { it: createManyPublicChild(inputs: $inputs) { name parent_id } }`
  const fields = (
    await ask(
      '{ __type(name: "Mutation") { fields { name args { type { ofType { ofType { ofType { name } } } } } } } }',
    )
  ).data.__type.fields as { name: string; args: { type: { ofType: { ofType: { ofType: { name: string } } } } }[] }[]
  const input = fields.find(({ name }) => name === 'createManyPublicChild')!.args[0]!.type.ofType.ofType.ofType.name
  const typed = query.replace('CreatePublicChildInput', input)
  const { data, errors } = await ask(typed, { inputs })
  t.same(errors, undefined)
  t.same(
    data.it,
    inputs.map(({ parent_id, name = null }) => ({ name, parent_id })),
  )
  const again = await ask(typed, {
    inputs: [
      { parent_id: 1, name: 'fresh' },
      { parent_id: 1, name: 'many 0' },
    ],
  })
  t.same(again.errors[0].extensions.code, 'data/conflict')
  const { data: none } = await ask('{ publicChild(where: { name: { eq: "fresh" } }) { id } }')
  t.same(none.publicChild, [])
})

t.test('a change of the tables is seen', async (t) => {
  await sql.query('create table later (id int primary key)')
  for (;;) {
    const { data } = await ask('{ publicLater { id } }')
    if (data !== undefined) break
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  t.same((await ask('{ publicLater { id } }')).data, { publicLater: [] })
})

t.test('a lost database is 503, and back when it is back', async (t) => {
  const sockets = new Set<Socket>()
  const proxy = createServer((socket) => {
    const to = dial(address.port, address.host)
    for (const [one, other] of [
      [socket, to],
      [to, socket],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy()).on('close', () => other.destroy())
      one.pipe(other)
    }
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const { port } = proxy.address() as { port: number }
  const gateway = await startGraphqlGateway({
    host: '127.0.0.1',
    port: 0,
    mysql: { ...address, port },
    schemas: ['public'],
    naming: 'spec',
    defaultPageSize: 100,
    maxPageSize: 1000,
    maxBodyBytes: 1_048_576,
    corsOrigins: ['*'],
    jwt: {},
    emitCommands: false,
    onObservation: () => undefined,
  })
  t.teardown(async () => {
    await gateway.stop()
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  const read = async () => {
    const headers = { 'Content-Type': 'application/json' }
    const body = JSON.stringify({ query: '{ publicParent(limit: 1) { id } }' })
    return (await (await fetch(`${gateway.url}/graphql`, { method: 'POST', headers, body })).json()) as {
      data: unknown
      errors?: { extensions: { code: string; status: number } }[]
    }
  }
  t.same((await read()).data, { publicParent: [{ id: 1 }] })
  proxy.close()
  for (const socket of sockets) socket.destroy()
  const { errors } = await read()
  t.same(errors?.[0]?.extensions.code, 'data/database-unavailable')
  t.same(errors?.[0]?.extensions.status, 503)
  proxy.listen(port, '127.0.0.1')
  await once(proxy, 'listening')
  for (;;) if ((await read()).errors === undefined) break
  t.pass('it is back')
})
