import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import t, { type Test } from 'tap'
import { load } from '../../bus/load.ts'
import { keyRing } from '../../bus/sealed.ts'
import { type Instance, instance } from '../../schemas/provisioning/instance.ts'
import { standbyPassword } from '../../workers/provisioning/local/standby-access.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { shutDownSupervisor } from '../../workers/provisioning/supervisor/client.ts'
import { eventually, majorsHere, type ProvisioningPlatform, platform, query, urlOf } from './platform.ts'

t.setTimeout(240_000)

/** From 16 on nobody drops a role that another made. */
const postgresVersion = String(majorsHere().newer)
const shop = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'ENTERPRISE', postgresVersion }
const admin = 'busbar_admin'
const role = 'busbar_standby'

async function superuserOf({ bus, secretKeys }: ProvisioningPlatform, project: string): Promise<string> {
  const { state } = await load(bus, instance, instancePlace(project))
  const { uid, credentials } = state as Instance
  return keyRing(secretKeys)!.open(credentials!.superuser, `provisioning/${uid}/superuser/`)
}

/** One replication command, as a standby would say it; the code it is refused with. */
async function replicate(login: { user: string; password: string; port: number; database?: string }) {
  const config: pg.ClientConfig & { replication: string } = { host: '127.0.0.1', ...login, replication: login.database === undefined ? 'true' : 'database' } // biome-ignore format: one line
  const client = new pg.Client(config)
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query('IDENTIFY_SYSTEM')
    return 'let in'
  } catch (error) {
    return (error as { code?: string }).code
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** The names of those that get what is written, and whom they do it as, once they all do. */
async function untilFollowed(url: string, names: readonly string[], since?: Date) {
  await eventually(async () => {
    const rows = await query(
      url,
      'select application_name as name, usename as user, state, backend_start as at from pg_stat_replication order by 1',
    )
    const wanted = names.map((name) => ({ name, user: role, state: 'streaming' }))
    const found = rows.map(({ at: _at, ...row }) => row)
    const fresh = since === undefined || rows.every(({ at }) => (at as Date) > since)
    if (JSON.stringify(found) !== JSON.stringify(wanted) || !fresh) throw new Error(JSON.stringify(rows))
  })
}

t.test('standbys follow as somebody who may do nothing else, and no file has a password', async (t) => {
  const p = await platform(t, { worker: false })
  let worker = await p.startWorker()
  const made = await p.call('POST', '/api/provision?wait=120', shop)
  t.equal(made.status, 201, JSON.stringify(made.body))
  const { id, port } = made.body
  const root = join(p.home, 'instances', id)
  const url = await urlOf(p, 'shop')
  const superuser = await superuserOf(p, 'shop')
  const own = standbyPassword({ superuser: { user: admin, password: superuser } })
  const asAdmin = (text: string) => query(`postgresql://${admin}:${superuser}@127.0.0.1:${port}/postgres`, text)
  await query(url, 'create table kept (id int primary key)')
  await untilFollowed(url, ['m2', 'm3'])

  const noPasswords = async (t: Test, more: readonly string[] = []) => {
    const { password } = (await p.call('GET', '/api/provision/shop/credentials')).body
    for (const secret of [password, superuser, own, ...more]) {
      t.equal(spawnSync('grep', ['-rqF', secret, p.home, p.natsFolder]).status, 1)
    }
    t.equal(spawnSync('grep', ['-rqF', role, root]).status, 0, 'where the name is')
    for (const pid of spawnSync('pgrep', ['-f', root], { encoding: 'utf8' }).stdout.split('\n').filter(Boolean)) {
      const started = existsSync(`/proc/${pid}/environ`) ? readFileSync(`/proc/${pid}/environ`, 'latin1') : ''
      t.notOk(started.includes(superuser) || started.includes(password))
    }
  }

  await t.test('which opens nothing but replication of this one', async (t) => {
    await noPasswords(t)
    const login = { user: role, password: own, port }
    t.equal(await replicate(login), 'let in')
    t.equal(await replicate({ ...login, database: 'postgres' }), '28000', 'no database, by way of replication either')
    await t.rejects(query(`postgresql://${role}:${own}@127.0.0.1:${port}/postgres`, 'select 1'), { code: '28000' })
    const attempts = [`alter role ${role} password 'x'`, `set role ${role}`]
    for (const attempt of Number(postgresVersion) < 16 ? attempts : [...attempts, `drop role ${role}`]) {
      await t.rejects(query(url, attempt), { code: '42501' }, attempt)
    }
    const name = 'copy'
    const copied = await p.call('POST', '/api/provision/shop/clone?wait=120', { newProjectName: name })
    t.equal(copied.status, 201, JSON.stringify(copied.body))
    const there = { user: role, port: copied.body.port }
    t.equal(await replicate({ ...there, password: own }), '28P01', 'not of its copy')
    const copies = await superuserOf(p, name)
    const password = standbyPassword({ superuser: { user: admin, password: copies } })
    t.equal(await replicate({ ...there, password }), 'let in')
    const scaled = await p.call('PATCH', `/api/provision/${name}/scale?wait=60`, { tier: 'STANDARD' })
    t.equal(scaled.status, 200, JSON.stringify(scaled.body))
    await untilFollowed(await urlOf(p, name), ['m2'])
    const { readOnlyConnectionUrl } = (await p.call('GET', `/api/provision/${name}/credentials`)).body
    for (const [max_connections, max_locks_per_transaction] of [
      ['60', '64'],
      ['50', '80'],
      ['70', '70'],
    ]) {
      // biome-ignore format: pairs
      const limits = { max_connections, max_locks_per_transaction }
      const set = await p.call('PATCH', `/api/provision/${name}/parameters?wait=60`, limits)
      t.equal(set.status, 200, JSON.stringify(set.body))
      const now = "select current_setting('max_connections') as max_connections, current_setting('max_locks_per_transaction') as max_locks_per_transaction" // biome-ignore format: one row
      t.same(await query(readOnlyConnectionUrl, now), [limits], 'limits up, down and both')
    }
    t.equal((await p.call('DELETE', `/api/provision/${name}?wait=60`)).status, 200)
  })

  await t.test('whatever becomes of them: rotation, failover, repair', async (t) => {
    const before = (await p.call('POST', '/api/provision/shop/credentials/rotate')).body.password
    const pid = Number(readFileSync(join(root, 'members/m1/data/postmaster.pid'), 'utf8').split('\n')[0])
    process.kill(pid, 'SIGKILL')
    const at = await urlOf(p, 'shop')
    await eventually(() => query(at, 'insert into kept values (1)'))
    const { primary } = (await p.call('GET', '/api/provision/shop')).body
    t.not(primary, 'm1')
    const names = ['m1', 'm2', 'm3'].filter((name) => name !== primary)
    await untilFollowed(at, names)
    await eventually(async () => {
      const { status } = (await p.call('GET', '/api/provision/shop')).body
      if (status !== 'ACTIVE') throw new Error(status)
    })
    await noPasswords(t, [before])
  })

  /** As an earlier version kept it: the superuser's password beside the data, no role, and no rules for one. */
  const asBefore = async (members: readonly string[]) => {
    writeFileSync(
      join(root, 'hba.conf'),
      `host replication ${admin} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n`,
    )
    await asAdmin('select pg_reload_conf()')
    await asAdmin("set synchronous_commit = 'local'; drop role busbar_standby")
    for (const name of members) {
      writeFileSync(join(root, 'members', name, 'replication.pass'), `127.0.0.1:${port}:*:${admin}:${superuser}\n`)
    }
  }

  for (const servers of ['run', 'have ended'] as const) {
    await t.test(`also of an instance that an earlier version made, whose servers ${servers}`, async (t) => {
      const { primary } = (await p.call('GET', '/api/provision/shop')).body
      const names = ['m1', 'm2', 'm3'].filter((name) => name !== primary)
      const at = await urlOf(p, 'shop')
      await worker.stop()
      await asBefore(names)
      // Whoever could make the role before us has it no more.
      if (servers === 'run')
        await query(at, `set synchronous_commit = 'local'; create role ${role} login password 'mine'`)
      else await shutDownSupervisor(p.home)
      const since = new Date()
      worker = await p.startWorker()
      await eventually(async () => {
        for (const name of names) if (existsSync(join(root, 'members', name, 'replication.pass'))) throw new Error(name)
      })
      await untilFollowed(at, names, since)
      await t.rejects(query(at, `alter role ${role} password 'mine'`), { code: '42501' })
      t.equal(await replicate({ user: role, password: 'mine', port }), '28P01')
      await query(at, `insert into kept values (${servers === 'run' ? 2 : 3})`)
      await noPasswords(t)
      t.equal((await p.call('GET', '/api/provision/shop')).body.primary, primary)
    })
  }
  t.equal((await p.call('DELETE', '/api/provision/shop?wait=60')).status, 200)
})
