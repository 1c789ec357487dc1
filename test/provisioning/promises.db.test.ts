import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { decide } from '../../bus/decide.ts'
import { findAllPostgres } from '../../ops/local/postgres-versions.ts'
import { unprivilegedAccount } from '../../ops/local/unprivileged.ts'
import { decideOperation, instance } from '../../schemas/provisioning/instance.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { shutDownSupervisor } from '../../workers/provisioning/supervisor/client.ts'
import { eventually, platform, query, urlOf } from './platform.ts'

t.setTimeout(240_000)

const shop = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'FREE' }

t.test('requests that meet have one order; a group reaches its instances; a point is measured once', async (t) => {
  const { call, bus, url: address, home, natsFolder } = await platform(t)
  const url = () => urlOf({ call }, 'shop')
  const codes = (answers: readonly { status: number; body: { code?: string } }[]) =>
    answers.map(({ status, body }) => body.code ?? status).sort()

  const group = { name: 'fast', parameters: { work_mem: '16MB', max_connections: '55' } }
  t.equal((await call('POST', '/api/parameter-groups', group)).status, 201)

  await t.test('a name is given once, one operation runs', async (t) => {
    const wanted = { ...shop, parameterGroupName: 'fast', parameters: { max_connections: '66' } }
    const made = await Promise.all([1, 2, 3, 4].map(() => call('POST', '/api/provision?wait=60', wanted)))
    t.strictSame(codes(made), [201, 'provisioning/exists', 'provisioning/exists', 'provisioning/exists'])
    const key = { 'Idempotency-Key': 'one' }
    const twins = await Promise.all([1, 2, 3].map(() => call('POST', '/api/provision', { ...shop, projectName: 'twin' }, key))) // biome-ignore format: one request
    t.strictSame(
      [...new Set(twins.map(({ status, body }) => `${status} ${body.id}`))].length,
      1,
      'nor is one request two',
    )
    const begun = await Promise.all([
      call('POST', '/api/provision/shop/backup/trigger', undefined, key),
      call('POST', '/api/provision/shop/resize', { newSize: '9Gi' }),
      call('PATCH', '/api/provision/shop/parameters', { work_mem: '9MB' }),
    ])
    t.equal(begun.filter(({ status }) => status === 202).length, 1, JSON.stringify(codes(begun)))
    t.equal(begun.filter(({ body }) => body.code === 'provisioning/operation-in-progress').length, 2)
    await eventually(async () => {
      const again = await call('POST', '/api/provision/shop/backup/trigger?wait=30', undefined, key)
      if (again.status !== 200) throw new Error(JSON.stringify(again.body))
    })
    const [first, second] = await Promise.all([1, 2].map(() => call('POST', '/api/provision/shop/backup/trigger?wait=30', undefined, key))) // biome-ignore format: a pair
    t.equal(first!.body.operation.id, second!.body.operation.id, 'a key stands for one operation')
    t.equal((await call('GET', '/api/provision/shop/backup/list')).body.backups.length, 1)
  })

  await t.test('what is there no more can be made again', async (t) => {
    await eventually(async () => {
      const { status, body } = await call('DELETE', '/api/provision/twin?wait=60')
      if (status !== 200) throw new Error(JSON.stringify(body))
    })
    t.equal((await call('POST', '/api/provision?wait=60', { ...shop, projectName: 'twin' })).status, 201)
    t.equal((await call('DELETE', '/api/provision/twin?wait=60')).status, 200)
  })

  await t.test('a backup is restored as a test when its time has come', async (t) => {
    const backups = async () => (await call('GET', '/api/provision/shop/backup/list')).body.backups
    const [{ id: backupId, verified }] = await backups()
    t.equal(verified, null)
    const due = { id: 'due', type: 'VERIFY_BACKUP', request: { backupId }, by: 'busbar', at: Date.now() } as const
    const place = { ...instancePlace('shop'), aggregate: instance, actor: 'busbar' }
    await decide(bus, { ...place, decide: (state) => decideOperation(state, 'shop', due) })
    await eventually(async () => {
      const [found] = await backups()
      if (found.verified?.result !== 'OK' || !found.verified.restored) throw new Error(JSON.stringify(found.verified))
    })
  })

  await t.test('what a group says counts, unless the instance says otherwise', async (t) => {
    const settings = "select current_setting('work_mem') as mem, current_setting('max_connections') as n"
    const [found] = await query(await url(), settings)
    t.equal(found!.n, '66')
    t.equal((await call('GET', '/api/parameter-groups/fast')).body.attachedTo[0], 'shop')
    const begun = await call('POST', '/api/provision/shop/backup/trigger')
    t.equal(begun.status, 202, 'it is busy')
    const changed = await call('PUT', '/api/parameter-groups/fast', { parameters: { work_mem: '24MB' } })
    t.match(changed.body, { version: 2, pendingFor: ['shop'] })
    await eventually(async () => {
      const { pendingFor } = (await call('GET', '/api/parameter-groups/fast')).body
      if (pendingFor.length > 0) throw new Error(JSON.stringify(pendingFor))
    })
    t.same(await query(await url(), settings), [{ mem: '24MB', n: '66' }], 'it follows once it is idle')
    t.equal((await call('PUT', '/api/parameter-groups/fast', { databaseType: 'MYSQL' })).status, 400)
    const { backups } = (await call('GET', '/api/provision/shop/backup/list')).body
    t.equal(backups.at(-1).id, begun.body.id, 'and has the backup it was told of')
    const refused = await call('DELETE', '/api/parameter-groups/fast')
    t.equal(refused.body.code, 'provisioning/parameter-group-in-use')
  })

  await t.test('however many listen, there is one measurement', async (t) => {
    const points: string[] = []
    const subscription = bus.connection.subscribe('metric.instance.shop', {
      callback: (_error, message) => void points.push((message.json() as { timestamp: string }).timestamp),
    })
    // The bus knows of it before anybody listens.
    await bus.connection.flush()
    const heard = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const abort = new AbortController()
        const response = await fetch(`${address}/api/provision/shop/metrics/stream`, { signal: abort.signal })
        let text = ''
        for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
          text += Buffer.from(chunk).toString('utf8')
          if ((text.match(/^event: metrics$/gm) ?? []).length >= 4) break
        }
        abort.abort()
        return [...text.matchAll(/"timestamp":"([^"]+)"/g)].map(([, timestamp]) => timestamp!)
      }),
    )
    await bus.connection.flush()
    subscription.unsubscribe()
    // The first is what was measured last before.
    const all = new Set(heard.flatMap((timestamps) => timestamps.slice(1)))
    t.ok([...all].every((timestamp) => points.includes(timestamp)))
    t.equal(new Set(points).size, points.length)
    t.ok(points.length <= 8, `${points.length} measurements for six listeners with three each`)
  })

  await t.test('servers are nobody’s but their own account’s', async (t) => {
    const { id } = (await call('GET', '/api/provision/shop')).body
    const data = join(home, 'instances', id, 'members/m1/data')
    t.equal(statSync(data).mode & 0o777, 0o700)
    t.equal(statSync(join(home, 'instances', id)).mode & 0o777, 0o700)
    const pid = readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]
    t.not(statSync(`/proc/${pid}`).uid, 0)
    t.same(await query(await url(), "select current_setting('listen_addresses') as at"), [{ at: '127.0.0.1' }])
  })

  await t.test('passwords are in nobody’s files', async (t) => {
    const { password } = (await call('GET', '/api/provision/shop/credentials')).body
    const rotated = (await call('POST', '/api/provision/shop/credentials/rotate')).body.password
    for (const secret of [password, rotated]) {
      t.equal(spawnSync('grep', ['-rqF', secret, home, natsFolder]).status, 1)
    }
    t.equal(spawnSync('grep', ['-rqF', 'acme', natsFolder]).status, 0, 'where the rest is')
  })

  await t.test('a folder that carries another uid is left alone', async (t) => {
    const { id } = (await call('GET', '/api/provision/shop')).body
    const mark = join(home, 'instances', id, 'instance.json')
    const own = readFileSync(mark, 'utf8')
    writeFileSync(mark, JSON.stringify({ uid: randomUUID() }))
    t.equal((await call('DELETE', '/api/provision/shop?wait=60')).status, 500)
    t.same(await query(await url(), 'select 1 as one'), [{ one: 1 }], 'with all that runs in it')
    writeFileSync(mark, own)
  })

  await t.test('protection and deletion that meet have one winner', async (t) => {
    const [set, gone] = await Promise.all([
      call('PATCH', '/api/provision/shop/deletion-protection', { enabled: true }),
      call('DELETE', '/api/provision/shop?wait=60'),
    ])
    const protectedFirst = set!.status === 200
    t.equal(gone!.status, protectedFirst ? 409 : 200)
    t.equal((await call('GET', '/api/provision/shop')).status, protectedFirst ? 200 : 404)
    if (!protectedFirst) return
    await call('PATCH', '/api/provision/shop/deletion-protection', { enabled: false })
    t.equal((await call('DELETE', '/api/provision/shop?wait=60')).status, 200)
  })
})

t.test('servers outlive their worker, and come back in order after the machine did', async (t) => {
  const p = await platform(t, { worker: false })
  const worker = await p.startWorker()
  const made = await p.call('POST', '/api/provision?wait=120', { ...shop, tier: 'ENTERPRISE' })
  t.equal(made.status, 201, JSON.stringify(made.body))
  const { connectionUrl: url, readOnlyConnectionUrl } = (await p.call('GET', '/api/provision/shop/credentials')).body
  await query(url, 'create table kept (id int primary key)')
  t.match(await query(url, 'show synchronous_standby_names'), [{ synchronous_standby_names: /^ANY 1 \(m2, m3\)$/ }])
  const startedAt = async (at: string) => (await query(at, 'select pg_postmaster_start_time() as at'))[0]!.at as Date
  const before = await startedAt(url)
  await worker.stop()
  await query(url, 'insert into kept values (1)')
  const next = await p.startWorker()
  await eventually(async () => {
    const { status, body } = await p.call('POST', '/api/provision/shop/resize?wait=30', { newSize: '900Gi' })
    if (status !== 200) throw new Error(JSON.stringify(body))
  })
  t.same(await startedAt(url), before, 'the next worker has the same servers')

  await next.stop()
  await shutDownSupervisor(p.home)
  await t.rejects(query(url, 'select 1'))
  await p.startWorker()
  const primaryAt = await eventually(() => startedAt(url))
  t.ok(primaryAt > before)
  await eventually(async () => {
    const { status, statusReason } = (await p.call('GET', '/api/provision/shop')).body
    if (status !== 'ACTIVE') throw new Error(`${status}: ${statusReason}`)
  })
  t.ok((await eventually(() => startedAt(readOnlyConnectionUrl))) >= primaryAt, 'the primary first')
  await query(url, 'insert into kept values (2)')
  const scaled = await p.call('PATCH', '/api/provision/shop/scale?wait=60', { tier: 'FREE' })
  t.equal(scaled.body.members?.length, 1, JSON.stringify(scaled.body))
  t.same(await query(url, 'select id from kept order by id'), [{ id: 1 }, { id: 2 }])
  t.match(await query(url, 'show synchronous_standby_names'), [{ synchronous_standby_names: '' }])
  t.equal((await p.call('DELETE', '/api/provision/shop?wait=60')).status, 200)
})

t.test(
  'a maintenance window brings the newer minor version; one that does not start is taken back, as is a major one',
  async (t) => {
    const account = unprivilegedAccount(tmpdir())
    const all = findAllPostgres('/usr/bin:/bin', account)
    const newest = all.find(({ tools }) => tools) ?? all[0]
    // The same program under other versions: what is tried is the way from one to the other.
    const installations = [newest!]
    const { call, home } = await platform(t, { postgres: async () => installations })
    const made = await call('POST', '/api/provision?wait=60', shop)
    t.equal(made.status, 201, JSON.stringify(made.body))
    const { connectionUrl: url } = (await call('GET', '/api/provision/shop/credentials')).body
    await query(url, 'create table kept as select 1 as id')
    const { version } = made.body
    const [newer, broken] = [`${version.major}.998`, `${version.major}.999`]
    installations.push({ ...newest!, version: newer! })
    const window = { window: '* * * * *', durationMinutes: 60, autoMinorVersionUpgrade: true }
    t.equal((await call('PUT', '/api/provision/shop/maintenance-window', window)).status, 200)
    await eventually(async () => {
      const { body } = await call('GET', '/api/provision/shop')
      if (body.version.running !== newer || body.status !== 'ACTIVE') throw new Error(JSON.stringify(body.operation))
    })
    await call('PUT', '/api/provision/shop/maintenance-window', { ...window, autoMinorVersionUpgrade: false })
    t.same(await query(url, 'select id from kept'), [{ id: 1 }])

    const folder = mkdtempSync(join(tmpdir(), 'busbar-broken-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    writeFileSync(join(folder, 'postgres'), '#!/bin/sh\nexit 1\n')
    writeFileSync(join(folder, 'initdb'), `#!/bin/sh\nexec '${newest!.binFolder}/initdb' "$@"\n`)
    for (const path of [folder, join(folder, 'postgres'), join(folder, 'initdb')]) chmodSync(path, 0o755)
    const next = newest!.major + 1
    installations.push(
      { ...newest!, version: broken!, binFolder: folder },
      { version: `${next}.1`, major: next, tools: false, binFolder: folder },
    )
    for (const wanted of [broken!, `${next}`]) {
      const failed = await call('POST', '/api/provision/shop/upgrade?wait=120', { version: wanted })
      t.ok(failed.status >= 400, JSON.stringify(failed.body))
      const after = (await call('GET', '/api/provision/shop')).body
      t.match(after, { version: { running: newer }, operation: { type: 'UPGRADE', state: 'FAILED' } })
      t.same(await eventually(() => query(url, 'select id from kept')), [{ id: 1 }], 'the old one runs again')
      const members = readdirSync(join(home, 'instances', made.body.id, 'members'))
      t.strictSame(members, ['m1'], 'and nothing of the new one is left')
    }
    t.equal((await call('DELETE', '/api/provision/shop?wait=60')).status, 200)
  },
)
