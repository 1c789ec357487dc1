import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { parse } from 'yaml'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { selfSignedCertificate } from '../support/certificate.ts'
import { testMariadb } from '../support/mariadb.ts'
import { testRedis } from '../support/redis.ts'
import { testPostgres } from '../support/servers.ts'
import { callPlugin, failure, files, openSockets } from './call-plugin.ts'

t.setTimeout(120_000)
const tls = selfSignedCertificate()
const folder = mkdtempSync(join(tmpdir(), 'busbar-tls-'))
t.teardown(() => rmSync(folder, { recursive: true }))
chmodSync(folder, 0o755)
writeFileSync(join(folder, 'server.crt'), tls.certificate)
writeFileSync(join(folder, 'server.key'), tls.key)
const silent = createServer((socket) => socket.on('error', () => undefined).on('data', () => undefined))
await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
t.teardown(() => silent.close())
const { port: silentPort } = silent.address() as { port: number }
const [postgres, mariadb, redis, secureRedis] = await Promise.all([
  testPostgres(t),
  testMariadb(t, { settings: { ssl_cert: join(folder, 'server.crt'), ssl_key: join(folder, 'server.key') } }),
  testRedis(t, { password: 'secret' }),
  testRedis(t, { password: 'secret', tls }),
])
await callPlugin('db.mysql', { url: mariadb.url, sql: 'create database shop' })

const servers = {
  'db.postgres': { url: postgres.url, ask: { sql: 'select 1' } },
  'db.mysql': { url: `${mariadb.url}/shop`, ask: { sql: 'select 1' } },
  'db.redis': { url: redis.url.replace('//', '//:secret@'), ask: { operation: 'get', key: 'k' } },
} as const
type Id = keyof typeof servers

const call = (id: Id, properties: Record<string, unknown>, options = {}) =>
  callPlugin(id, { url: servers[id].url, ...properties }, options)

/** A slow statement, those of it that run, and how they are asked for. */
const slow: Readonly<Record<Id, { readonly ask: Record<string, unknown>; readonly running: () => Promise<unknown> }>> =
  {
    'db.postgres': {
      ask: { sql: 'select pg_sleep(60)' },
      running: async () => {
        const sql =
          "select count(*)::int as n from pg_stat_activity where state = 'active' and query = 'select pg_sleep(60)'"
        return (await call('db.postgres', { sql })).rows
      },
    },
    'db.mysql': {
      ask: { sql: 'select sleep(60)' },
      running: async () => {
        const sql =
          "select cast(count(*) as int) as n from information_schema.processlist where info = 'select sleep(60)'"
        const [{ n }] = (await call('db.mysql', { sql })).rows as [{ n: unknown }]
        return [{ n: Number(n) }]
      },
    },
    'db.redis': {
      ask: { operation: 'command', command: ['BLPOP', 'nothing', 0] },
      running: async () => {
        const { value } = await call('db.redis', { operation: 'command', command: ['INFO', 'clients'] })
        return [{ n: Number(/blocked_clients:(\d+)/.exec(String(value))![1]) }]
      },
    },
  }

for (const id of Object.keys(servers) as Id[]) {
  t.test(id, async (t) => {
    t.test('what runs when the task is cancelled is ended on the server, and no connection stays', async (t) => {
      const { ask, running } = slow[id]
      const before = openSockets()
      const controller = new AbortController()
      const cancelled = call(id, ask, { signal: controller.signal }).catch((error: Error) => error)
      while (JSON.stringify(await running()) !== '[{"n":1}]') await delay(5)
      controller.abort(new Error('cancelled'))
      t.match(await cancelled, { message: 'cancelled' })
      while (JSON.stringify(await running()) !== '[{"n":0}]') await delay(5)
      while (openSockets() > before) await delay(5)
    })
    t.test('too long is a time-out', async (t) => {
      await t.rejects(call(id, { ...slow[id].ask, timeoutMs: 100 }), failure('timeout'))
      while (JSON.stringify(await slow[id].running()) !== '[{"n":0}]') await delay(5)
    })
    t.test('a wrong password is refused, and not told', async (t) => {
      const refused = await call(id, { ...servers[id].ask, password: 'hidden-word' }).catch((error) => error)
      t.match(refused, { name: 'TaskFailure', kind: 'refused' })
      t.notMatch(JSON.stringify([refused.message, refused.cause?.message]), /hidden-word/)
    })
    t.test('a URL of something else is refused, and not told', async (t) => {
      const refused = await call(id, { ...servers[id].ask, url: 'ftp://a:hidden-word@b' }).catch((error) => error)
      t.match(refused, { kind: 'refused', message: /properties\.url is no address/ })
      t.notMatch(refused.message, /hidden-word/)
    })
    t.test('a server that tasks may not connect to is refused', async (t) => {
      const options = { allow: [] }
      const told = '"127.0.0.1" may not be connected to from here'
      await t.rejects(call(id, servers[id].ask, options), failure('refused', told))
      const url = servers[id].url.replace(/127\.0\.0\.1:\d+/, '169.254.169.254:80')
      await t.rejects(call(id, { ...servers[id].ask, url }), failure('refused', /169\.254\.169\.254/))
    })
    t.test('a server that says nothing is a time-out, and cancelling leaves no connection', async (t) => {
      const url = servers[id].url.replace(/:\d+/, `:${silentPort}`)
      const before = openSockets()
      await t.rejects(call(id, { ...servers[id].ask, url, timeoutMs: 50 }), failure('timeout'))
      const controller = new AbortController()
      silent.once('connection', () => controller.abort(new Error('cancelled')))
      await t.rejects(call(id, { ...servers[id].ask, url }, { signal: controller.signal }), { message: 'cancelled' })
      while (openSockets() > before) await delay(5)
    })
    t.test('a wrong property is refused', async (t) => {
      await t.rejects(call(id, { ...servers[id].ask, nonsense: 1 }), { message: /properties/ })
      await t.rejects(call(id, { ...servers[id].ask, timeoutMs: 'soon' }), { message: /properties\.timeoutMs/ })
    })
    t.test('its example runs', async (t) => {
      const { manifest } = catalogue.find((each) => each.manifest.id === id)!
      const [task] = parse(manifest.example).tasks
      const { password } = new URL(servers[id].url)
      const mine = { ...task.properties, url: servers[id].url, ...(task.properties.password && { password }) }
      t.type(await call(id, mine), 'object')
    })
  })
}

for (const id of ['db.postgres', 'db.mysql'] as const) {
  const place = id === 'db.postgres' ? '$1' : '?'
  t.test(`${id}: SQL`, async (t) => {
    await call(id, { sql: 'create table thing (id int primary key, price numeric(30, 10))' })
    const insert = `insert into thing (id, price) values (${id === 'db.postgres' ? '$1, $2' : '?, ?'})`

    t.test('a statement with parameters gives numbers with all their digits', async (t) => {
      await call(id, { sql: insert, parameters: [1, '12345678901234567890.0123456789'] })
      const sql = `select price, cast(9223372036854775807 as ${id === 'db.postgres' ? 'bigint' : 'signed'}) as big from thing where id = ${place}`
      const given = await call(id, { sql, parameters: [1] })
      t.match(given, { rows: [{ price: '12345678901234567890.0123456789', big: '9223372036854775807' }], rowCount: 1 })
    })
    t.test('what looks like SQL in a parameter is a text', async (t) => {
      const text = "x' or '1'='1\\' --"
      const { rows } = await call(id, {
        sql: id === 'db.postgres' ? 'select $1::text as t' : 'select ? as t',
        parameters: [text],
      })
      t.same(rows, [{ t: text }])
    })
    t.test('several are all or none, and so is a batch', async (t) => {
      const statements = [
        { sql: insert, parameters: [2, 1] },
        { sql: insert, parameters: [1, 1] },
      ]
      await t.rejects(call(id, { statements }), failure('refused', /23505|23000/))
      await t.rejects(call(id, { sql: insert, batch: [[3, 1], [1, 1]] }), failure('refused', /23505|23000/)) // biome-ignore format: pairs
      t.match(await call(id, { sql: 'select id from thing' }), { rowCount: 1 })
      const { results } = await call(id, { sql: insert, batch: [[4, 1], [5, null]] }) // biome-ignore format: pairs
      t.match(results, [{ rowCount: 1 }, { rowCount: 1 }])
      t.match(await call(id, { sql: 'delete from thing where id > 1' }), { rowCount: 2 })
    })
    t.test('no more rows or bytes than allowed', async (t) => {
      const sql = id === 'db.postgres' ? 'select * from generate_series(1, 100000)' : 'select seq from seq_1_to_100000'
      await t.rejects(call(id, { sql, maxRows: 10 }), failure('refused', /more than 10 rows/))
      await t.rejects(call(id, { sql, maxRows: 100_000, maxBytes: 1_000 }), failure('refused', /more than 1000 bytes/))
    })
    t.test('rows into a file', async (t) => {
      const given = await call(id, { sql: 'select id from thing', into: 'file' })
      t.match(given, { rows: [], rowCount: 1, rowsUri: /^busbar:/ })
      t.equal(Buffer.from(files.get(given.rowsUri as string)!).toString(), '{"id":1}\n')
    })
    t.test('a wrong statement is refused, none as well', async (t) => {
      await t.rejects(call(id, { sql: 'nonsense' }), failure('refused', /nonsense/))
      await t.rejects(call(id, {}), failure('refused', /properties\.sql is needed/))
    })
  })
}

t.test('db.mysql: types', async (t) => {
  const sql = `select cast('2027-01-01 10:11:12.123456' as datetime(6)) as at, x'00ff' as bytes, 1.5e0 as f, cast(? as signed) as n,
    json_value(?, '$.a[1]') as j, null as nothing`
  const { rows } = await call('db.mysql', { sql, parameters: [true, { a: [1, 'two'] }] })
  t.same(rows, [{ at: '2027-01-01 10:11:12.123456', bytes: 'AP8=', f: 1.5, n: '1', j: 'two', nothing: null }])
  await call('db.mysql', { sql: 'create table counted (id int primary key auto_increment, a int)' })
  t.match(await call('db.mysql', { sql: 'insert into counted (a) values (1), (1)' }), { results: [{ insertId: '1' }] })
  t.match(await call('db.mysql', { sql: 'update counted set a = 1' }), { rowCount: 0 }, 'rows that have changed')
  t.match(await call('db.mysql', { sql: 'select id from counted limit ?', parameters: [1] }), { rowCount: 1 })
})

t.test('TLS', async (t) => {
  t.test('db.postgres', async (t) => {
    await t.rejects(call('db.postgres', { sql: 'select 1', tls: {} }), failure('refused', /does not support SSL/))
    const [{ folder: data }] = (
      await call('db.postgres', { sql: 'select current_setting($1) as folder', parameters: ['data_directory'] })
    ).rows as [{ folder: string }]
    const { uid, gid } = statSync(data)
    for (const [name, text] of [
      ['server.crt', tls.certificate],
      ['server.key', tls.key],
    ] as const) {
      // biome-ignore format: pairs
      writeFileSync(join(data, name), text, { mode: 0o600 })
      chownSync(join(data, name), uid, gid)
    }
    await call('db.postgres', { sql: 'alter system set ssl = on' })
    await call('db.postgres', { sql: 'select pg_reload_conf()' })
    const asked = { sql: 'select ssl from pg_stat_ssl where pid = pg_backend_pid()', tls: { ca: tls.certificate } }
    // The server reads its settings again a moment after it was told to.
    while (await call('db.postgres', asked).then(() => false, () => true)) await delay(5) // biome-ignore format: one line
    t.match(await call('db.postgres', asked), { rows: [{ ssl: true }] })
    await t.rejects(call('db.postgres', { ...asked, tls: {} }), failure('refused', /self.signed/i))
    await t.rejects(
      call('db.postgres', { ...asked, tls: { ca: tls.certificate, serverName: 'other' } }),
      failure('refused', /altnames/),
    )
    const url = `${servers['db.postgres'].url}?sslmode=require`
    t.match(await call('db.postgres', { sql: asked.sql, url }), { rows: [{ ssl: true }] })
  })
  t.test('db.mysql', async (t) => {
    const asked = {
      sql: "select variable_value <> '' as secure from information_schema.session_status where variable_name = 'Ssl_cipher'",
    }
    t.match(await call('db.mysql', { ...asked, tls: { ca: tls.certificate, verify: false } }), {
      rows: [{ secure: 1 }],
    })
    t.match(await call('db.mysql', asked), { rows: [{ secure: 0 }] })
    await t.rejects(call('db.mysql', { ...asked, tls: {} }), failure('refused', /TLS is not possible/))
    await t.rejects(
      call('db.mysql', { ...asked, tls: { ca: tls.certificate, serverName: 'other' } }),
      failure('refused', /altnames/),
    )
  })
  t.test('db.redis', async (t) => {
    const asked = { operation: 'get', key: 'k', url: secureRedis.url.replace('//', '//:secret@') }
    t.match(await call('db.redis', { ...asked, tls: { ca: tls.certificate } }), { value: null })
    await t.rejects(call('db.redis', asked), failure('refused', /TLS is not possible/))
    await t.rejects(
      call('db.redis', { ...asked, tls: { ca: tls.certificate, serverName: 'other' } }),
      failure('refused', /TLS/),
    )
  })
})

t.test('a server that goes away while it is asked, or is away, can be tried again', async (t) => {
  const server = { 'db.postgres': postgres, 'db.mysql': mariadb, 'db.redis': redis }
  for (const id of Object.keys(servers) as Id[]) {
    const asked = call(id, slow[id].ask).catch((error: Error) => error)
    while (JSON.stringify(await slow[id].running()) !== '[{"n":1}]') await delay(5)
    await server[id].kill('SIGKILL')
    t.match(await asked, { kind: 'unavailable' }, `${id} goes away`)
    await t.rejects(call(id, servers[id].ask), failure('unavailable', /ECONNREFUSED/), `${id} is away`)
  }
})
