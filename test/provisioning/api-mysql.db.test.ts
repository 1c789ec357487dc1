import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import t from 'tap'
import { decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { keyRing } from '../../bus/sealed.ts'
import { type Instance, instance } from '../../schemas/provisioning/instance.ts'
import { facts } from '../../schemas/provisioning/instance-facts.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { processesIn } from '../../workers/provisioning/supervisor/processes.ts'
import { mariadbHere } from './care-mysql-node.ts'
import { watchedCall } from './described.ts'
import { eventually, platform } from './platform.ts'

t.setTimeout(240_000)

const here = mariadbHere() !== undefined

async function query(url: string, sql: string): Promise<unknown> {
  const connection = await createConnection({ uri: url })
  try {
    return (await connection.query(sql))[0]
  } finally {
    await connection.end()
  }
}

t.test('a MySQL database lives as a PostgreSQL one does', { skip: here ? false : 'there is no MariaDB' }, async (t) => {
  const { call: plain, bus, home, natsFolder, secretKeys } = await platform(t)
  const { call, problems } = watchedCall(plain)
  const url = async (project: string) => (await call('GET', `/api/provision/${project}/credentials`)).body.connectionUrl
  const wanted = { projectName: 'shop', orgId: 'acme', databaseType: 'MYSQL', tier: 'FREE', backup: { enabled: true } }
  const made = await call('POST', '/api/provision?wait=120', wanted)
  t.equal(made.status, 201, JSON.stringify(made.body))
  await query(await url('shop'), 'create table kept (id int primary key)')
  await query(await url('shop'), 'insert into kept values (1)')
  const before = await url('shop')
  t.equal((await call('POST', '/api/provision/shop/credentials/rotate')).status, 200)
  t.not(await url('shop'), before)
  await t.rejects(query(before, 'select 1'))
  const set = await call('PATCH', '/api/provision/shop/parameters?wait=60', { max_connections: '77' })
  t.equal(set.status, 200, JSON.stringify(set.body))
  t.same(await query(await url('shop'), 'select @@max_connections as n'), [{ n: 77 }])
  for (const [name, value] of [
    ['nonsense', '1'],
    ['port', '1'],
    ['max_connections', 'many'],
  ] as const) {
    // biome-ignore format: a table
    const { status, body } = await call('PATCH', '/api/provision/shop/parameters', { [name]: value })
    t.equal(status, 422, `${name} is refused before anything is begun`)
    t.equal(body.details.field, `parameters.${name}`)
  }
  t.match(
    (
      await call('POST', '/api/provision/shop/migrations', {
        version: '1',
        name: 'm',
        sql: 'create table more (id int)',
      })
    ).body,
    { status: 'APPLIED' },
  )
  const snapshot = await call('POST', '/api/provision/shop/snapshot/export', { format: 'plain' })
  t.equal(snapshot.status, 200, JSON.stringify(snapshot.body))
  t.match((await call('GET', `/api/provision/shop/snapshot/${snapshot.body.id}/download`)).body, /CREATE TABLE/)
  t.match((await call('GET', '/api/provision/shop/metrics/current')).body, {
    metricsAvailable: true,
  })
  t.equal((await call('GET', '/api/provision/shop/backup/list')).body.backups.length, 1)
  await sleep(2_100)
  const targetTime = new Date().toISOString()
  await sleep(2_100)
  await query(await url('shop'), 'insert into kept values (2)')
  const restored = await call('POST', '/api/provision/shop/backup/restore?wait=120', {
    newProjectId: 'past',
    targetTime,
  })
  t.equal(restored.status, 201, JSON.stringify(restored.body))
  t.same(await query(await url('past'), 'select id from kept'), [{ id: 1 }])
  t.equal((await call('DELETE', '/api/provision/past?wait=60')).status, 200)
  const clone = await call('POST', '/api/provision/shop/clone?wait=120', { newProjectName: 'twin' })
  t.equal(clone.status, 201, JSON.stringify(clone.body))
  t.same(await query(await url('twin'), 'select count(*) as n from kept'), [{ n: 2 }])
  t.equal((await call('DELETE', '/api/provision/twin?wait=60')).status, 200)
  t.match((await call('POST', '/api/provision/shop/performance/enable')).body, { status: 'enabled' })
  await query(await url('shop'), 'select 41 + 1 as answer')
  const top = (await call('GET', '/api/provision/shop/performance/top-queries?limit=100')).body
  t.match(JSON.stringify(top), /AS `answer`/i, 'statements are counted')
  const refused = await call('POST', '/api/provision/shop/upgrade?wait=30', { version: '11' })
  t.ok([422, 424].includes(refused.status), `${refused.status}`)
  await decide(bus, {
    ...instancePlace('shop'),
    aggregate: instance,
    actor: 'test',
    decide: () => [facts.settings.of({ storageBytes: 1024 ** 2, by: 'test', at: Date.now() })],
  })
  const untilStatus = (status: string) =>
    eventually(async () => {
      const { body } = await call('GET', '/api/provision/shop')
      if (body.status !== status) throw new Error(`${body.status}: ${body.statusReason}`)
    })
  await untilStatus('STORAGE_FULL')
  await t.rejects(query(await url('shop'), 'insert into kept values (3)'), { code: 'ER_OPTION_PREVENTS_STATEMENT' })
  t.equal((await call('POST', '/api/provision/shop/resize?wait=30', { newSize: '6Gi' })).status, 200)
  await untilStatus('ACTIVE')
  await query(await url('shop'), 'delete from kept where id = 3')
  const scaled = await call('PATCH', '/api/provision/shop/scale?wait=120', { tier: 'STANDARD' })
  t.equal(scaled.status, 200, JSON.stringify(scaled.body))
  t.equal(scaled.body.members.length, 2)
  const { readOnlyConnectionUrl, password } = (await call('GET', '/api/provision/shop/credentials')).body
  t.same(await query(readOnlyConnectionUrl, 'select count(*) as n from kept'), [{ n: 2 }])
  t.equal((await call('PATCH', '/api/provision/shop/parameters?wait=60', { back_log: '99' })).status, 200)
  t.same(
    await query(readOnlyConnectionUrl, 'select @@max_connections as n, @@back_log as b, @@read_only as r, @@performance_schema as p'), // biome-ignore format: one row
    [{ n: 77, b: 99, r: 1, p: 1 }],
    'a replica has the parameters, those from before it too, and takes no writes after its restart',
  )
  await query(await url('shop'), 'insert into kept values (4)')
  await eventually(async () => {
    const [row] = (await query(readOnlyConnectionUrl, 'select count(*) as n from kept')) as { n: number }[]
    if (row?.n !== 3) throw new Error(`${row?.n} rows`)
  })

  const replica = join(home, 'instances', scaled.body.id, 'members/m2/data')
  const [server] = processesIn(replica)
  process.kill(server!, 'SIGKILL')
  await query(await url('shop'), 'insert into kept values (5)')
  await eventually(async () => {
    const [row] = (await query(readOnlyConnectionUrl, 'select count(*) as n from kept')) as { n: number }[]
    if (row?.n !== 4) throw new Error(`${row?.n} rows`)
  })
  t.not(processesIn(replica)[0], server, 'a replica that was killed starts again and follows')
  t.same(await query(readOnlyConnectionUrl, 'select @@read_only as r'), [{ r: 1 }], 'and takes no writes')

  const { state } = await load(bus, instance, instancePlace('shop'))
  const { uid, credentials } = state as Instance
  const superuser = keyRing(secretKeys)!.open(credentials!.superuser, `provisioning/${uid}/superuser/`)
  for (const secret of [password, superuser]) {
    t.equal(spawnSync('grep', ['-rqF', secret, home, natsFolder]).status, 1, 'passwords are in nobody’s files')
  }
  t.equal((await call('PATCH', '/api/provision/shop/scale?wait=60', { tier: 'FREE' })).body.members?.length, 1)
  const { port } = (await call('GET', '/api/provision/shop')).body
  const admin = `mysql://busbar_admin:${encodeURIComponent(superuser)}@127.0.0.1:${port}`
  const users = await query(admin, "select count(*) as n from mysql.user where user like 'busbar_replica%'")
  t.same(users, [{ n: 0 }], 'who replicated has no user any more')
  t.equal((await call('DELETE', '/api/provision/shop?wait=60')).status, 200)
  t.strictSame([...problems], [], 'answers have what the description of the API says')
})

t.test('what no server is there for is refused with what to do', async (t) => {
  const { call } = await platform(t)
  const refused = await call('POST', '/api/provision', {
    projectName: 'docs',
    orgId: 'acme',
    databaseType: 'MONGODB',
    tier: 'FREE',
  })
  t.equal(refused.status, 424)
  t.match(refused.body.hint, /Use databaseType POSTGRESQL or MYSQL/, 'the text says how')
  t.equal((await call('POST', '/api/setup/install/MONGODB')).status, 424)
  t.equal((await call('POST', '/api/setup/install/ORACLE')).status, 400)
})
