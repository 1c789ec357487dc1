import pg from 'pg'
import t from 'tap'
import { freePort } from '../../ops/local/child.ts'
import { startBusbar } from '../support/command.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)
const sql = new pg.Client({ connectionString: server.url })
await sql.connect()
t.teardown(() => sql.end())
await sql.query(`
  create table ledger (id int generated always as identity primary key, note text);
  create function hold() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(4711); return new; end $$;
  create trigger hold before insert on ledger for each row when (new.note = 'b') execute function hold()
`)
const { hostname, port: databasePort, username, password, pathname } = new URL(server.url)
const query =
  'mutation { a: createPublicLedger(input: { note: "a" }) { note } b: createPublicLedger(input: { note: "b" }) { note } c: createPublicLedger(input: { note: "c" }) { note } }'

async function gateway() {
  const port = await freePort()
  const running = startBusbar(['run', 'gateway:graphql'], {
    SPRING_DATASOURCE_URL: `jdbc:postgresql://${hostname}:${databasePort}${pathname}`,
    SPRING_DATASOURCE_USERNAME: decodeURIComponent(username),
    SPRING_DATASOURCE_PASSWORD: decodeURIComponent(password),
    GATEWAY_GRAPHQL_PORT: String(port),
  })
  const url = `http://127.0.0.1:${port}`
  while (
    !(await fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    ))
  )
    await new Promise((resolve) => setTimeout(resolve, 50))
  const send = () =>
    fetch(`${url}/graphql`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': 'crash' },
      body: JSON.stringify({ query }),
    }).then((response) => response.json())
  return { running, send }
}

const notes = async () => (await sql.query('select note from ledger order by id')).rows.map(({ note }) => note)

t.test('a gateway killed between two mutations of a request loses and duplicates nothing', async (t) => {
  const first = await gateway()
  await sql.query('select pg_advisory_lock(4711)')
  const broken = first.send().then(
    () => 'answered',
    () => 'broken off',
  )
  const isHeld = `select from pg_locks where locktype = 'advisory' and not granted and objid = 4711`
  while ((await sql.query(isHeld)).rowCount === 0);
  first.running.process.kill('SIGKILL')
  t.equal(await broken, 'broken off')
  await sql.query('select pg_advisory_unlock(4711)')
  const second = await gateway()
  const data = { a: { note: 'a' }, b: { note: 'b' }, c: { note: 'c' } }
  t.same(await second.send(), { data })
  t.same(await notes(), ['a', 'b', 'c'])
  t.same(await second.send(), { data }, 'and once more')
  t.same(await notes(), ['a', 'b', 'c'])
  second.running.process.kill()
  await second.running.finished
})
