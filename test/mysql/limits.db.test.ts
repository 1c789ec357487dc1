import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { openMysqlGateway, testMysqlServer } from './gateway.ts'

t.setTimeout(60_000)

const { address, sql } = await testMysqlServer(
  t,
  `create table item (id int primary key auto_increment, name varchar(20));
   insert into item (name) values ('a'), ('b');
   create view slow as select sleep(600) as slept;
   create table guarded (id int primary key, name varchar(20));
   create trigger hold before insert on guarded for each row set new.name = if(get_lock('held', 600), 'got it', 'no')`,
)

/** What the server runs now for others. */
async function running(text: string): Promise<number> {
  const [rows] = await sql.query(
    `select count(*) as n from information_schema.processlist where id <> connection_id() and info like ?`,
    [`%${text}%`],
  )
  return (rows as { n: number }[])[0]!.n
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await delay(20)
}

t.test('a client that goes away takes its statement with it, and the connection serves the next one', async (t) => {
  const { url, ask } = await openMysqlGateway(t, address, { poolSize: 1 })
  for (let each = 0; each < 3; each++) {
    const leaving = new AbortController()
    const gone = fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ query: '{ publicSlow { slept } }' }),
      signal: leaving.signal,
    })
    await until(async () => (await running('slept')) === 1)
    leaving.abort()
    await t.rejects(gone, { name: 'AbortError' })
    const { data, errors } = await ask('{ publicItem { name } }')
    t.equal(errors, undefined)
    t.same(data.publicItem, [{ name: 'a' }, { name: 'b' }])
  }
  t.equal(await running('slept'), 0)
})

t.test('a statement beyond the limit is stopped and told so; a write too, and nothing of it stays', async (t) => {
  const { ask } = await openMysqlGateway(t, address, { poolSize: 1, statementTimeoutMs: 300 })
  const read = await ask('{ publicSlow { slept } }')
  t.match(read.errors, [{ extensions: { code: 'data/statement-timeout', status: 503, sqlstate: '57014' } }])
  await sql.query("do get_lock('held', 10)")
  const write = await ask('mutation { createPublicGuarded(input: {id: 1}) { id } }')
  t.match(write.errors, [{ extensions: { code: 'data/statement-timeout' } }])
  await sql.query("do release_lock('held')")
  const keyed = { 'Idempotency-Key': 'limited' }
  await sql.query("do get_lock('held', 10)")
  const key = await ask('mutation { createPublicGuarded(input: {id: 1}) { id } }', {}, keyed)
  t.match(key.errors, [{ extensions: { code: 'data/statement-timeout' } }])
  await sql.query("do release_lock('held')")
  t.same((await ask('{ publicGuarded { id } }')).data, { publicGuarded: [] })
  const again = await ask('mutation { createPublicGuarded(input: {id: 1}) { name } }', {}, keyed)
  t.same(again.data, { createPublicGuarded: { name: 'got it' } })
})
