import t from 'tap'
import type { Answer } from '../graphql/gateway.ts'
import { openMysqlGateway, testMysqlServer } from './gateway.ts'

t.setTimeout(60_000)

const { address, sql } = await testMysqlServer(
  t,
  `create table tag (id int primary key, name varchar(50));
   create table counted (id int primary key auto_increment, note varchar(20));
   create table ledger (id int primary key auto_increment, note varchar(20));
   create trigger hold before insert on ledger for each row set new.note = if(new.note = 'b', if(get_lock('held', 30) = 1, 'b', 'x'), new.note);
   create user poor@'%' identified by 'poor'; grant all on public.* to poor@'%'`,
)
const [one, two] = [await openMysqlGateway(t, address), await openMysqlGateway(t, address)]

const rowsOf = async <Row>(text: string) => (await sql.query(text))[0] as unknown as readonly Row[]
const countOf = async (text: string) => (await rowsOf<{ n: number }>(`select count(*) as n from ${text}`))[0]!.n
const codeOf = ({ errors }: Answer) => errors?.[0]?.extensions.code

interface Reply extends Answer {
  readonly replayed: boolean
}

async function post(query: string, key: string, variables: object = {}, { url } = one): Promise<Reply> {
  const response = await fetch(`${url}/graphql`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
    body: JSON.stringify({ query, variables }),
  })
  const replayed = response.headers.get('idempotency-replayed') === 'true'
  return { status: response.status, replayed, ...((await response.json()) as object) }
}

const create =
  'mutation($id: Int!, $name: String!) { it: createPublicTag(input: { id: $id, name: $name }) { id name } }'
const tag = (id: number) => ({ id, name: `once é ${id}` })

t.test('a mutation with a key is done once, and answered the same', async (t) => {
  const first = await post(create, 'single', tag(200))
  t.same([first.data, first.replayed], [{ it: tag(200) }, false])
  const again = await post(create, 'single', tag(200))
  t.same([again.data, again.replayed], [first.data, true])
  t.match(await post(create, 'single', tag(201)), {
    status: 422,
    errors: [{ extensions: { code: 'data/idempotency-mismatch' } }],
  })
  t.match(await post(create, 'a b', tag(201)), { status: 400, errors: [{ extensions: { code: 'http/bad-request' } }] })
  t.equal(await countOf('tag where id = 201'), 0)
  t.equal(codeOf(await post(create, 'second', tag(200))), 'data/conflict')
  t.same((await post(create, 'second', tag(202))).data, { it: tag(202) }, 'a failure keeps no key')
})

t.test('requests at once on two gateways do the work once', async (t) => {
  const query =
    'mutation { a: createPublicCounted(input: { note: "a" }) { id } b: createPublicCounted(input: { note: "b" }) { id } }'
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, n) => post(query, 'both', {}, n % 2 === 0 ? one : two)),
  )
  t.equal(await countOf('counted'), 2)
  for (const { data } of answers) t.same(data, answers[0]!.data)
  const single = 'mutation { createPublicCounted(input: { note: "c" }) { id } }'
  const others = await Promise.all(
    Array.from({ length: 12 }, (_, n) => post(single, 'one', {}, n % 2 === 0 ? one : two)),
  )
  t.equal(await countOf("counted where note = 'c'"), 1)
  t.equal(others.filter(({ replayed }) => replayed).length, 11)
})

t.test('of several mutations those that failed are done when it is sent again', async (t) => {
  const query = `mutation($c: Int!) { a: createPublicTag(input: { id: 300, name: "a" }) { id }
    b: createPublicTag(input: { id: $c, name: "b" }) { id } c: createPublicTag(input: { id: 302, name: "c" }) { id } }`
  await sql.query("insert into tag values (301, 'in the way')")
  const first = await post(query, 'several', { c: 301 })
  t.match(first, {
    data: { a: { id: 300 }, b: null, c: { id: 302 } },
    errors: [{ path: ['b'], extensions: { code: 'data/conflict' } }],
  })
  t.match(await post(query, 'several', { c: 303 }), { status: 422 })
  t.match(await post(create, 'several', tag(304)), { status: 422 }, 'nor is it the key of one mutation')
  t.match(await post(query, 'single', { c: 303 }), { status: 422 }, 'nor the other way round')
  t.equal(await countOf('tag where id in (303, 304)'), 0)
  await sql.query('delete from tag where id = 301')
  const repaired = await post(query, 'several', { c: 301 })
  t.same([repaired.data, repaired.replayed], [{ a: { id: 300 }, b: { id: 301 }, c: { id: 302 } }, false])
  const replay = await post(query, 'several', { c: 301 })
  t.same([replay.data, replay.replayed], [repaired.data, true])
})

t.test('a connection that dies between two fields loses and doubles nothing', async (t) => {
  const query =
    'mutation { a: createPublicLedger(input: { note: "a" }) { note } b: createPublicLedger(input: { note: "b" }) { note } }'
  await sql.query("do get_lock('held', 10)")
  const broken = post(query, 'crash')
  for (let found: readonly { id: number }[] = []; found.length === 0; ) {
    found = await rowsOf("select id from information_schema.processlist where state = 'User lock'")
    for (const { id } of found) await sql.query(`kill ${id}`)
  }
  t.equal(codeOf(await broken), 'data/database-unavailable')
  await sql.query("do release_lock('held')")
  t.same(await rowsOf('select note from ledger'), [{ note: 'a' }])
  const { data, errors } = await post(query, 'crash')
  t.equal(errors, undefined)
  t.same(data, { a: { note: 'a' }, b: { note: 'b' } })
  t.same(await rowsOf('select note from ledger order by id'), [{ note: 'a' }, { note: 'b' }])
})

t.test('keys end after a day and are cleaned up by later writes', async (t) => {
  await post(create, 'old', tag(400))
  await sql.query('update busbar.idempotency set created_at = now() - interval 25 hour')
  const three = await openMysqlGateway(t, address)
  t.same((await post(create, 'old', tag(401), three)).data, { it: tag(401) }, 'the key is anyone’s again')
  t.equal(await countOf('busbar.idempotency'), 1)
})

t.test('an account that may not make the table is told what an owner runs, and that mends it', async (t) => {
  await sql.query('drop database busbar')
  const poor = await openMysqlGateway(t, { ...address, user: 'poor', password: 'poor' })
  const { errors } = await post(create, 'poor', tag(500), poor)
  t.match(errors, [{ extensions: { code: 'http/unavailable', hint: /create table/ } }])
  for (const text of errors[0].extensions.details.statements as string[])
    await sql.query(text.replace('<the account of this service>', "poor@'%'"))
  t.same((await post(create, 'poor', tag(500), poor)).data, { it: tag(500) })
  t.ok((await post(create, 'poor', tag(500), poor)).replayed)
})
