import { chownSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openDatabase } from '../../gateways/data/postgres-run.ts'
import { statement } from '../../gateways/data/statement.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)
const { certificate, key } = selfSignedCertificate()
const read = { readOnly: true }

const plain = await openDatabase({ connection: { connectionString: server.url }, poolSize: 1 })
const folder = (await plain.run(statement('show data_directory'), [], read)).rows[0]![0]!.toString()
const { uid, gid } = statSync(folder)
for (const [file, content] of [
  ['server.crt', certificate],
  ['server.key', key],
] as const) {
  writeFileSync(join(folder, file), content, { mode: 0o600 })
  chownSync(join(folder, file), uid, gid)
}
t.teardown(() => plain.close())

t.test('without TLS on the server, a connection that must have it is refused', async (t) => {
  const connection = { connectionString: server.url, ssl: { ca: certificate } }
  await t.rejects(openDatabase({ connection }), { code: 'data/database-unavailable', message: /SSL/ })
})

t.test('statements, large answers and cancelling work over a verified TLS connection', async (t) => {
  await plain.run(statement('alter system set ssl = on'), [], { readOnly: false })
  await plain.run(statement('select pg_reload_conf()'), [], { readOnly: false })
  const connection = { connectionString: server.url, ssl: { ca: certificate } }
  let database = await openDatabase({ connection, poolSize: 2 }).catch(() => null)
  // The server reads its settings again a moment after it was told to.
  while (!database) database = await openDatabase({ connection, poolSize: 2 }).catch(() => null)
  t.teardown(() => database.close())
  const secured = statement('select ssl from pg_stat_ssl where pid = pg_backend_pid()')
  const rows = await Promise.all(Array.from({ length: 100 }, () => database.run(secured, [], read)))
  t.ok(rows.every((result) => result.rows[0]![0]!.toString() === 't'))
  const large = await database.run(statement(`select repeat('x', 5000000)`), [], read)
  t.equal(large.rows[0]![0]!.length, 5_000_000)
  const gone = new AbortController()
  const sleeping = database.run(statement('select pg_sleep(60)'), [], { ...read, weight: 'heavy', signal: gone.signal })
  const active = statement(
    `select count(*) from pg_stat_activity where query like '%pg_sleep(60)%' and state = 'active' and pid <> pg_backend_pid()`,
  )
  const count = async () => Number((await plain.run(active, [], read)).rows[0]![0]!.toString())
  while ((await count()) === 0);
  gone.abort(new Error('gone'))
  await t.rejects(sleeping, { message: 'gone' })
  while ((await count()) > 0);
  t.pass('the sleep was ended in the database')
})

t.test('a certificate nobody vouches for is refused', async (t) => {
  const connection = { connectionString: server.url, ssl: true }
  await t.rejects(openDatabase({ connection }), { code: 'data/database-unavailable', message: /self.signed/ })
})
