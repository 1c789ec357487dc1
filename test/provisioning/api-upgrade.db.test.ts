import t from 'tap'
import { findAllPostgres } from '../../ops/local/postgres-versions.ts'
import { platform, query } from './platform.ts'

t.setTimeout(240_000)

const all = findAllPostgres('/usr/bin:/bin', undefined)
const older = all.filter(({ tools }) => tools).sort((left, right) => left.major - right.major)[0]
const newer = all.find(({ major }) => major > (older?.major ?? Number.POSITIVE_INFINITY))
const able = older !== undefined && newer !== undefined

t.test('another major version brings everything along', { skip: able ? false : 'there are no two' }, async (t) => {
  const { call } = await platform(t)
  const wanted = {
    projectName: 'shop',
    orgId: 'acme',
    databaseType: 'POSTGRESQL',
    tier: 'STANDARD',
    postgresVersion: String(older!.major),
    parameters: { work_mem: '9MB' },
    backup: { enabled: true },
  }
  const made = await call('POST', '/api/provision?wait=120', wanted)
  t.equal(made.body.version?.major, String(older!.major), JSON.stringify(made.body))
  const { connectionUrl } = (await call('GET', '/api/provision/shop/credentials')).body
  await query(connectionUrl, 'create table kept as select generate_series(1, 1000) as id')
  t.equal((await call('POST', '/api/provision/shop/upgrade', { version: '1' })).status, 400, 'never to an older one')
  t.equal((await call('POST', '/api/provision/shop/upgrade', { version: '999' })).status, 424)
  const upgraded = await call('POST', '/api/provision/shop/upgrade?wait=200', { version: String(newer!.major) })
  t.equal(upgraded.body.version?.major, String(newer!.major), JSON.stringify(upgraded.body))
  t.equal(upgraded.body.port, made.body.port, 'at the same port, with the same password')
  t.same(await query(connectionUrl, "select count(*)::int as n, current_setting('work_mem') as mem from kept"), [
    { n: 1000, mem: '9MB' },
  ])
  const { readOnlyConnectionUrl } = (await call('GET', '/api/provision/shop/credentials')).body
  t.same(await query(readOnlyConnectionUrl, 'select pg_is_in_recovery() as standby'), [{ standby: true }])
  t.equal((await call('GET', '/api/provision/shop/backup/list')).body.backups.length, 1, 'with a backup of its own')
  t.equal((await call('DELETE', '/api/provision/shop?wait=60')).status, 200)
})
