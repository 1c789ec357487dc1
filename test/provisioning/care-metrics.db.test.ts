import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { folderBytes } from '../../workers/provisioning/local/metrics/folder-size.ts'
import { readPostgresSample } from '../../workers/provisioning/local/metrics/postgres-sample.ts'
import { readProcessUsage } from '../../workers/provisioning/local/metrics/process-usage.ts'
import { enableAudit, readAuditConfig, readAuditLog } from '../../workers/provisioning/local/performance/audit.ts'
import {
  readPerformanceSummary,
  readTopQueries,
  readWaitEvents,
  topQueryLimit,
} from '../../workers/provisioning/local/performance/postgres-performance.ts'
import { createExtension, hasLibrary, preloadLibrary } from '../../workers/provisioning/local/performance/preload.ts'
import { openSession, withSession } from '../../workers/provisioning/local/postgres-session.ts'
import { careGround } from './care-node.ts'

t.setTimeout(240_000)
const ground = careGround(t)
const node = await ground.create('shop')
await withSession(node, (client) =>
  client.query("create role app login password 'secret'; grant create on schema public to app"),
)
const user = { user: 'app', password: 'secret' }

t.test('without query statistics the rest is known and they are null', async (t) => {
  t.match(await readPostgresSample(node), { queries: null, archiveProblem: null, maxConnections: 27 })
  t.match(await readPerformanceSummary(node), {
    available: false, unavailableReason: 'pg_stat_statements extension is not enabled', slowQueryCount: null, avgQueryTimeMs: null, databaseSize: /\d+ [kM]B/,
  }) // biome-ignore format: a record
  t.strictSame(await readTopQueries(node), [])
})

t.test(
  'query statistics: a library, a restart, an extension; then the queries of the users by their time',
  async (t) => {
    await preloadLibrary(ground.control, node, 'pg_stat_statements')
    const pid = await ground.control.pid(node)
    await preloadLibrary(ground.control, node, 'pg_stat_statements')
    t.equal(await ground.control.pid(node), pid, 'the second time nothing is restarted')
    await createExtension(node, 'pg_stat_statements')
    await createExtension(node, 'pg_stat_statements')
    await withSession(
      node,
      async (client) => {
        for (let n = 0; n < 3; n++) await client.query('select count(*) from generate_series(1, 20000)')
        await client.query('select 42 as answer')
      },
      { user },
    )
    const sample = await readPostgresSample(node)
    t.ok(sample.queries !== null && sample.queries.calls >= 4)
    const top = await readTopQueries(node, 50)
    const series = top.find(({ query }) => query.includes('generate_series'))
    t.match(series, { calls: 3, rows: 3 })
    t.ok(series!.totalExecTimeMs >= series!.maxExecTimeMs && series!.maxExecTimeMs >= series!.minExecTimeMs)
    t.ok(top.every(({ totalExecTimeMs }, index) => index === 0 || totalExecTimeMs <= top[index - 1]!.totalExecTimeMs))
    t.notOk(
      top.some(({ query }) => /pg_stat_archiver/.test(query)),
      'not our own',
    )
    t.equal((await readTopQueries(node, 1)).length, 1)
    t.match(await readPerformanceSummary(node), { available: true, unavailableReason: null, slowQueryCount: 0 })
    t.strictSame(
      [0, 1, 500, Number.NaN, undefined].map((limit) => topQueryLimit(limit)),
      [10, 1, 100, 10, 10],
    )
  },
)

t.test('connections, open transactions and waits are seen', async (t) => {
  const holder = await openSession(node, { user })
  const waiter = await openSession(node, { user })
  await holder.query('create table held (id int)')
  await holder.query('begin; lock table held')
  const blocked = waiter.query('select * from held')
  for (;;) {
    const events = await readWaitEvents(node)
    const lock = events.find(({ waitEventType }) => waitEventType === 'Lock')
    if (lock === undefined) continue
    t.match(lock, { waitEvent: 'relation', count: 1 })
    break
  }
  const sample = await readPostgresSample(node)
  t.ok(sample.activeConnections >= 2 && sample.longestTransactionSeconds !== null)
  await holder.end()
  await blocked
  await waiter.end()
})

t.test('what the processes and folders use', async (t) => {
  const folder = join(ground.folder, 'sized')
  mkdirSync(join(folder, 'deep'), { recursive: true })
  writeFileSync(join(folder, 'deep', 'a'), Buffer.alloc(100_000, 1))
  const bytes = await folderBytes(folder)
  t.ok(bytes >= 100_000 && bytes < 200_000)
  t.equal(await folderBytes(join(ground.folder, 'none')), 0)
  if (process.platform !== 'linux') return
  const usage = await readProcessUsage((await ground.control.pid(node))!)
  t.ok(usage !== null && usage.cpuSeconds > 0 && usage.memoryBytes! > 5_000_000)
  t.equal(await readProcessUsage(2 ** 22 + 1), null)
})

t.test('auditing needs its library, and says so', async (t) => {
  t.match(await readAuditConfig(node), { enabled: false, settings: {} })
  await t.rejects(enableAudit(ground.control, node, ['everything']), { status: 400, field: 'classes', message: /ddl/ })
  if (!(await hasLibrary(node, 'pgaudit'))) {
    await t.rejects(enableAudit(ground.control, node), { status: 424, message: /has no pgaudit: install/ })
    return
  }
  await enableAudit(ground.control, node)
  t.match(await readAuditConfig(node), { enabled: true, logLevel: 'ddl, role, write' })
  await withSession(node, (client) => client.query('create table audited (id int)'), { user })
  t.match(await readAuditLog(node, 10), [/AUDIT: SESSION.*create table audited/i])
})
