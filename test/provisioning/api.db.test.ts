import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { access } from '../../schemas/provisioning/access.ts'
import { alerts, decideAlerts } from '../../schemas/provisioning/alerts.ts'
import { watchedCall } from './described.ts'
import { eventually, platform, query } from './platform.ts'

t.setTimeout(240_000)

const shop = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'FREE' }

/** What a body says must be there, and what it says it is. */
function has(t: Test, found: object, pattern: object, title: string): void {
  t.match(found, pattern, title)
}

async function fireAlert(bus: Bus): Promise<void> {
  const alert = {
    id: 'cpu-shop-1',
    projectId: 'shop',
    rule: 'cpu',
    severity: 'WARNING',
    message: 'CPU usage at 95.0%',
    metric: 'cpuUsagePercent',
    value: 95,
    threshold: 90,
    timestamp: '2026-01-01T00:00:00.000Z',
    resolved: false,
    resolvedAt: null,
  } as const
  const place = { stream: 'EVT_PROVISIONING', subject: 'evt.provisioning.alerts.shop', actor: 'test' }
  await decide(bus, { ...place, aggregate: alerts, decide: (state) => decideAlerts(state, [alert]) })
}

t.test('a database lives: made, used, changed, backed up, restored, copied, deleted', async (t) => {
  const { call: plain, bus, url: address } = await platform(t)
  const { call, problems } = watchedCall(plain)
  const url = async (project: string) => (await call('GET', `/api/provision/${project}/credentials`)).body.connectionUrl

  const key = { 'Idempotency-Key': 'first' }
  const wanted = {
    ...shop,
    backup: { enabled: true, retention: 3 },
    tags: { team: 'a' },
    databaseName: 'orders',
    masterUsername: 'boss',
    parameters: { work_mem: '8MB' },
  }
  const made = await call('POST', '/api/provision?wait=60', wanted, key)
  t.equal(made.status, 201, JSON.stringify(made.body))
  has(
    t,
    made.body,
    { status: 'ACTIVE', currentStage: 'COMPLETED', namespace: 'acme-shop', health: 'HEALTHY' },
    'is ready',
  )
  has(t, made.body, { databaseName: 'orders', masterUsername: 'boss', tags: { team: 'a' } }, 'is what was asked for')
  const fresh = (await call('GET', '/api/provision/shop?fresh=true')).body
  has(t, fresh, { members: [{ ready: true }], instances: { ready: 1 }, backup: { archiving: 'OK' } }, 'asked anew')
  t.ok(fresh.storage.usedGB > 0 && Date.parse(fresh.backup.lastSuccessful) > 0)
  t.notMatch(JSON.stringify(made.body), /password|ciphertext/i, 'no secret is in the record')
  const again = await call('POST', '/api/provision', wanted, key)
  t.equal(again.status, 201, 'the same request under the same key gets the same instance')
  t.equal(again.body.id, made.body.id)
  const other = await call('POST', '/api/provision', { ...wanted, tags: {} }, key)
  t.equal(other.body.code, 'provisioning/idempotency-mismatch', 'another one does not pass for it')
  t.equal((await call('POST', '/api/provision', shop)).status, 409, 'a name is taken once')

  await t.test('credentials open the database, and nothing more', async (t) => {
    const credentials = (await call('GET', '/api/provision/shop/credentials')).body
    const rows = await query(
      credentials.connectionUrl,
      "select current_user::text as me, current_setting('work_mem') as mem, (select rolsuper from pg_roles where rolname = current_user) as super",
    )
    t.same(rows, [{ me: 'boss', mem: '8MB', super: false }])
    const place = { stream: 'EVT_PROVISIONING', subject: 'evt.provisioning.access.shop' }
    const { state } = await load(bus, access, place)
    has(t, state, { last: { uid: made.body.id, version: 1, by: 'anonymous' } }, 'who was shown them is written down')
    await t.rejects(query(credentials.connectionUrl.replace(credentials.password, 'wrong'), 'select 1'), {
      code: '28P01',
    })
  })

  await t.test('a new password takes the place of the old one', async (t) => {
    const before = await url('shop')
    const { status, body } = await call('POST', '/api/provision/shop/credentials/rotate')
    t.equal(status, 200)
    t.not(body.connectionUrl, before)
    t.same(await query(body.connectionUrl, 'select 1 as one'), [{ one: 1 }])
    await t.rejects(query(before, 'select 1'), { code: '28P01' })
  })

  await t.test('parameters are checked, and count after a restart where one is needed', async (t) => {
    const { status, body } = await call('PATCH', '/api/provision/shop/parameters?wait=60', {
      max_connections: '60',
      log_min_duration_statement: '5s',
    })
    t.equal(status, 200, JSON.stringify(body))
    has(t, body, { parameters: { max_connections: '60', work_mem: '8MB' }, pendingRestart: false }, 'are recorded')
    t.same(await query(await url('shop'), "select current_setting('max_connections') as n"), [{ n: '60' }])
    for (const parameters of [{ no_such: '1' }, { port: '1' }, { work_mem: 'much' }, { archive_command: 'true' }]) {
      const refused = await call('PATCH', '/api/provision/shop/parameters', parameters)
      t.ok(refused.status >= 400 && refused.status < 500, `${JSON.stringify(parameters)}: ${refused.status}`)
    }
  })

  await t.test('migrations are applied once', async (t) => {
    const migration = { version: '1', name: 'orders', sql: 'create table orders (id int primary key, note text)' }
    const { status, body } = await call('POST', '/api/provision/shop/migrations', migration)
    t.equal(status, 200)
    has(t, body, { status: 'APPLIED', version: '1', projectId: 'shop' }, 'is applied')
    t.equal((await call('POST', '/api/provision/shop/migrations', migration)).body.id, body.id)
    t.equal((await call('POST', '/api/provision/shop/migrations', { ...migration, sql: 'select 1' })).status, 409)
    has(
      t,
      (await call('POST', '/api/provision/shop/migrations', { version: '2', name: 'x', sql: 'select nonsense' })).body,
      { status: 'FAILED' },
      'a failure is told',
    )
    for (let index = 0; index < 9; index++) {
      const long = { version: `long-${index}`, name: 'long', sql: `select 1 -- ${'x'.repeat(1_000_000)}` }
      t.equal((await call('POST', '/api/provision/shop/migrations', long)).body.status, 'APPLIED')
    }
    const all = (await call('GET', '/api/provision/shop/migrations')).body
    t.equal(all.length, 11, 'also when they are more than a message can carry')
  })

  await t.test('snapshots are downloaded whole and in parts', async (t) => {
    const { status, body } = await call('POST', '/api/provision/shop/snapshot/export', {
      format: 'plain',
      schemaOnly: true,
    })
    t.equal(status, 200, JSON.stringify(body))
    const path = `/api/provision/shop/snapshot/${body.id}`
    t.same(
      (await call('GET', '/api/provision/shop/snapshot')).body.map(({ id }: { id: string }) => id),
      [body.id],
    )
    const whole = await call('GET', `${path}/download`)
    t.match(whole.body, /CREATE TABLE/i)
    t.equal(createHash('sha256').update(whole.body).digest('hex'), body.sha256)
    const part = await call('GET', `${path}/download`, undefined, { Range: 'bytes=2-5' })
    t.equal(part.status, 206)
    t.equal(part.body, whole.body.slice(2, 6))
    const beyond = await call('GET', `${path}/download`, undefined, { Range: `bytes=${body.size}-` })
    t.match(beyond, { status: 416, body: { code: 'provisioning/range-not-satisfiable', details: { field: 'Range' } } })
    t.equal(beyond.headers.get('Content-Range'), `bytes */${body.size}`)
    t.equal((await call('DELETE', path)).status, 200)
    t.equal((await call('GET', `${path}/download`)).status, 404)
    const nothing = await call('POST', '/api/provision/shop/snapshot/export', { tables: ['nothing'] })
    has(
      t,
      nothing,
      { status: 400, body: { details: { field: 'tables' } } },
      'what an operation refuses names the field',
    )
  })

  await t.test('the state of a time comes back in a new instance', async (t) => {
    const source = await url('shop')
    await query(source, "insert into orders values (1, 'kept')")
    await sleep(50)
    const [row] = await query(source, 'select clock_timestamp() as at')
    const targetTime = (row!.at as Date).toISOString()
    await sleep(50)
    await query(source, "insert into orders values (2, 'too late')")
    const restored = await call('POST', '/api/provision/shop/backup/restore?wait=90', {
      newProjectId: 'past',
      targetTime,
    })
    t.equal(restored.status, 201, JSON.stringify(restored.body))
    has(t, restored.body, { status: 'ACTIVE', source: { projectId: 'shop', type: 'RESTORE' } }, 'is ready')
    t.same(await query(await url('past'), 'select id from orders'), [{ id: 1 }])
    for (const [body, status] of [
      [{ newProjectId: 'p2', targetTime: '2001-01-01T00:00:00Z' }, 422],
      [{ newProjectId: 'p2', targetTime: '2101-01-01T00:00:00Z' }, 422],
      [{ newProjectId: 'p2', targetTime: 'yesterday' }, 400],
      [{ newProjectId: 'p2', backupId: 'none' }, 404],
      [{ newProjectId: 'past' }, 409],
      [{}, 400],
    ] as const) {
      t.equal((await call('POST', '/api/provision/shop/backup/restore', body)).status, status, JSON.stringify(body))
    }
    t.equal((await call('DELETE', '/api/provision/past?wait=60')).status, 200)
  })

  await t.test('backups are made, listed and tested', async (t) => {
    const { status, body } = await call('POST', '/api/provision/shop/backup/trigger?wait=60')
    t.equal(status, 200, JSON.stringify(body))
    has(t, body, { status: 'COMPLETED', type: 'MANUAL' }, 'is made')
    const list = (await call('GET', '/api/provision/shop/backup/list')).body
    has(t, list, { backupEnabled: true, retentionDays: 3, archiving: 'OK' }, 'the list says how it stands')
    t.same(
      list.backups.map(({ type }: { type: string }) => type),
      ['SCHEDULED', 'MANUAL'],
    )
  })

  await t.test('a clone has the data and a password of its own', async (t) => {
    const clone = await call('POST', '/api/provision/shop/clone?wait=90', { newProjectName: 'twin' })
    t.equal(clone.status, 201, JSON.stringify(clone.body))
    const taken = await call('POST', '/api/provision/shop/clone', { newProjectName: 'twin' })
    has(t, taken, { status: 409, body: { details: { field: 'newProjectName' } } }, 'a name is taken once')
    t.same(await query(await url('twin'), 'select count(*)::int as n from orders'), [{ n: 2 }])
    t.not(await url('twin'), await url('shop'))
    t.equal((await call('DELETE', '/api/provision/twin?wait=60')).status, 200)
  })

  await t.test('storage grows and never shrinks; logs are told', async (t) => {
    const grown = await call('POST', '/api/provision/shop/resize?wait=30', { newSize: '8Gi' })
    has(t, grown.body, { storage: { size: '8Gi' } }, 'grows')
    const key = { 'Idempotency-Key': 'grow' }
    t.equal((await call('POST', '/api/provision/shop/resize?wait=30', { newSize: '9Gi' }, key)).status, 200)
    const twice = await call('POST', '/api/provision/shop/resize?wait=30', { newSize: '10Gi' }, key)
    has(t, twice.body, { code: 'provisioning/idempotency-mismatch', details: { field: 'Idempotency-Key' } }, 'says so')
    t.equal((await call('POST', '/api/provision/shop/resize', { newSize: '1Gi' })).status, 422)
    t.equal((await call('POST', '/api/provision/shop/resize', { newSize: 'big' })).status, 400)
    const logs = (await call('GET', '/api/provision/shop/logs?lines=5')).body
    t.equal(logs.lines.length, 5)
    t.type(logs.logs, 'string')
  })

  await t.test('numbers are told: now, lately and as they come', async (t) => {
    const path = '/api/provision/shop/metrics'
    const current = (await call('GET', `${path}/current`)).body
    has(t, current, { projectId: 'shop', metricsAvailable: true, healthStatus: 'HEALTHY', maxConnections: 57 }, 'now')
    t.ok(current.memoryUsageMB > 0 && current.diskUsageGB > 0, 'what the system says of it is there')
    const history = (await call('GET', `${path}/history?limit=2`)).body
    t.ok(history.metrics.length >= 1 && history.totalPoints <= 2)
    const abort = new AbortController()
    const response = await fetch(`${address}${path}/stream`, { signal: abort.signal })
    t.match(response.headers.get('content-type'), 'text/event-stream')
    let text = ''
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      text += Buffer.from(chunk).toString('utf8')
      if ((text.match(/event: metrics/g) ?? []).length >= 2) break
    }
    abort.abort()
    t.match(text, /id: 2\nevent: metrics\ndata: \{"projectId":"shop"/)
    t.equal((await call('GET', '/api/provision/none/metrics/stream')).status, 404)
  })

  await t.test('statements are counted and written down once somebody asks for it', async (t) => {
    t.equal((await call('GET', '/api/provision/shop/performance/summary')).body.available, false)
    has(t, (await call('POST', '/api/provision/shop/performance/enable')).body, { status: 'enabled' }, 'is enabled')
    await query(await url('shop'), 'select 41 + 1 as answer')
    const top = (await call('GET', '/api/provision/shop/performance/top-queries?limit=50')).body
    t.ok(
      top.some((each: { query: string }) => /as answer/.test(each.query)),
      'a statement is among them',
    )
    t.equal((await call('GET', '/api/provision/shop/performance/summary')).body.available, true)
    t.type((await call('GET', '/api/provision/shop/performance/wait-events')).body, Array)
    has(t, (await call('POST', '/api/provision/shop/audit/enable')).body, { status: 'enabled' }, 'is audited')
    await query(await url('shop'), 'create table audited (id int)')
    t.equal((await call('GET', '/api/provision/shop/audit/config')).body.enabled, true)
    t.match((await call('GET', '/api/provision/shop/audit/logs?lines=50')).body.logs, /create table audited/i)
  })

  await t.test('parameter groups, alerts, set-up, prices', async (t) => {
    const group = { name: 'fast', description: 'd', parameters: { work_mem: '16MB' } }
    for (const [path, body] of [
      ['/api/provision', { ...shop, projectName: 'bad', parameters: { nonsense: '1' } }],
      ['/api/parameter-groups', { ...group, parameters: { nonsense: '1' } }],
    ] as const) {
      const refused = await call('POST', path, body)
      has(t, refused, { status: 422, body: { details: { field: 'parameters.nonsense' } } }, 'is refused at once')
    }
    t.equal((await call('GET', '/api/provision/bad')).status, 404)
    const once = { 'Idempotency-Key': 'group' }
    for (const _ of ['once', 'again']) t.equal((await call('POST', '/api/parameter-groups', group, once)).status, 201)
    const other = await call('POST', '/api/parameter-groups', { ...group, description: 'e' }, once)
    t.equal(other.body.code, 'provisioning/idempotency-mismatch')
    t.equal((await call('POST', '/api/parameter-groups', group)).status, 409)
    t.equal((await call('GET', '/api/parameter-groups')).body.length, 1)
    has(
      t,
      (await call('PUT', '/api/parameter-groups/fast', { parameters: { work_mem: '32MB' } })).body,
      { version: 2, parameters: { work_mem: '32MB' } },
      'is replaced',
    )
    t.equal((await call('DELETE', '/api/parameter-groups/fast')).status, 200)
    t.equal((await call('GET', '/api/parameter-groups/fast')).status, 404)
    t.type((await call('GET', '/api/alerts')).body, Array)
    t.type((await call('GET', '/api/alerts/history?limit=5')).body, Array)
    t.type((await call('GET', '/api/alerts/project/shop')).body, Array)
    has(t, (await call('GET', '/api/setup/status')).body, { postgresql: true, driver: 'local' }, 'says what there is')
    has(
      t,
      (await call('POST', '/api/setup/install/POSTGRESQL')).body,
      { status: 'installed', type: 'POSTGRESQL' },
      'is there',
    )
    has(
      t,
      (await call('POST', '/api/provision/estimate', { tier: 'STANDARD' })).body,
      { monthlyCostUsd: 49.99, breakdown: { compute: 29.99 } },
      'costs',
    )
    t.equal((await call('POST', '/api/provision/estimate', { tier: 'GOLD' })).status, 400)
    const window = { window: '0 3 * * 0', durationMinutes: 60, autoMinorVersionUpgrade: true }
    has(t, (await call('PUT', '/api/provision/shop/maintenance-window', window)).body, { status: 'updated' }, 'is set')
    has(t, (await call('GET', '/api/provision/shop/maintenance-window')).body, window, 'is told')
  })

  await t.test('what is protected stays', async (t) => {
    t.equal(
      (await call('PATCH', '/api/provision/shop/deletion-protection', { enabled: true })).body.deletionProtection,
      true,
    )
    const refused = await call('DELETE', '/api/provision/shop?wait=30')
    t.equal(refused.status, 409)
    t.equal(refused.body.code, 'provisioning/deletion-protected')
    t.same(await query(await url('shop'), 'select 1 as one'), [{ one: 1 }])
    await call('PATCH', '/api/provision/shop/deletion-protection', { enabled: false })
    await fireAlert(bus)
    t.equal((await call('GET', '/api/alerts')).body.at(-1)?.id, 'cpu-shop-1')
    t.equal((await call('DELETE', '/api/provision/shop?wait=60')).status, 200)
    await eventually(async () => {
      const found = (await call('GET', '/api/alerts/history')).body.find(
        ({ id }: { id: string }) => id === 'cpu-shop-1',
      )
      if (found?.resolved !== true) throw new Error('Something is wrong with what is no more')
    })
    t.equal((await call('GET', '/api/provision/shop')).status, 404)
    t.same((await call('GET', '/api/provision')).body, [])
  })
  t.ok(bus.connected)
  t.strictSame([...problems], [], 'answers have what the description of the API says')
})
