import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { type AlertState, evaluateAlerts } from '../../workers/provisioning/local/metrics/alerts.ts'
import { readLogTail, withoutSecrets } from '../../workers/provisioning/local/metrics/log-tail.ts'
import {
  type Look,
  type Metrics,
  type MetricsContext,
  metricsOf,
  type ServerSample,
} from '../../workers/provisioning/local/metrics/metrics.ts'
import { InstanceSampler } from '../../workers/provisioning/local/metrics/sampler.ts'

const gib = 1024 ** 3
const context: MetricsContext = {
  projectId: 'shop', status: 'ACTIVE', instanceCount: 1, cpuLimitCores: 0.5, memoryLimitBytes: gib, storageLimitBytes: 5 * gib,
  lastBackupTime: null, nextBackupTime: null,
} // biome-ignore format: a record
const sample = (at: number, rest: Partial<ServerSample> = {}): ServerSample => ({
  at, activeConnections: 2, idleConnections: 3, maxConnections: 50, databaseBytes: gib / 2, queries: { calls: 100, totalMs: 50, slow: 1 },
  archiveProblem: null, longestTransactionSeconds: null, ...rest,
}) // biome-ignore format: a record
const look = (at: number, rest: Partial<Look> = {}): Look => ({
  at, sample: sample(at), unavailableReason: null, diskBytes: gib,
  members: [{ name: 'shop-1', role: 'primary', cpuSeconds: at / 10_000, memoryBytes: gib / 4 }], ...rest,
}) // biome-ignore format: a record

t.test('metrics are rates against the look before, in the units of their names', async (t) => {
  const second = look(10_000, { sample: sample(10_000, { queries: { calls: 150, totalMs: 100, slow: 2 } }) })
  const metrics = metricsOf(second, look(5000), context)
  t.match(metrics, {
    healthStatus: 'HEALTHY', metricsAvailable: true, cpuUsageCores: 0.1, cpuUsagePercent: 20, memoryUsageMB: 256, memoryUsagePercent: 25,
    diskUsageGB: 1, diskUsagePercent: 20, activeConnections: 2, idleConnections: 3, maxConnections: 50, queriesPerSecond: 10,
    averageQueryLatencyMs: 1, slowQueryCount: 2, databaseSizeGB: 0.5, storageLimit: '5Gi', memoryLimitMB: 1024,
    pods: [{ name: 'shop-1', role: 'primary', cpuCores: 0.1, memoryMB: 256 }],
  }) // biome-ignore format: a record
  t.match(metricsOf(look(0), undefined, context), {
    queriesPerSecond: null,
    averageQueryLatencyMs: null,
    cpuUsageCores: null,
    cpuUsagePercent: null,
    memoryUsageMB: 256,
  })
  const reset = look(10_000, { sample: sample(10_000, { queries: { calls: 5, totalMs: 1, slow: 0 } }) })
  t.match(
    metricsOf(reset, look(5000), context),
    { queriesPerSecond: null, averageQueryLatencyMs: null },
    'counters that began anew',
  )
  const quiet = metricsOf(look(10_000), look(5000), context)
  t.match(quiet, { queriesPerSecond: 0, averageQueryLatencyMs: null })
  t.match(metricsOf(look(1, { sample: sample(1, { queries: null }) }), look(0), context), {
    queriesPerSecond: null,
    slowQueryCount: null,
  })
})

t.test('a server that does not answer, and one that misses a part', async (t) => {
  const down = look(1, { sample: null, unavailableReason: 'gone', members: [], diskBytes: null })
  t.match(metricsOf(down, look(0), context), {
    healthStatus: 'DOWN', metricsAvailable: false, unavailableReason: 'gone', activeConnections: null, diskUsageGB: null, pods: [],
    cpuUsagePercent: null, databaseSizeGB: null, cpuLimitCores: 0.5,
  }) // biome-ignore format: a record
  t.equal(metricsOf(look(1), look(0), { ...context, instanceCount: 2 }).healthStatus, 'DEGRADED')
  t.equal(
    metricsOf(look(1, { sample: sample(1, { archiveProblem: 'full' }) }), look(0), context).healthStatus,
    'DEGRADED',
  )
})

t.test('alerts begin and end once, after their time, with a gap between the limits', async (t) => {
  let state: AlertState = {}
  const seen: string[] = []
  const feed = (second: number, rest: Partial<Metrics>) => {
    const base = metricsOf(look(second * 1000), look(0), context)
    const result = evaluateAlerts(state, { ...base, timestamp: new Date(second * 1000).toISOString(), ...rest })
    state = result.state
    for (const { rule, resolved } of result.changes) seen.push(`${second} ${rule} ${resolved ? 'ends' : 'begins'}`)
    return result.changes
  }
  feed(0, { cpuUsagePercent: 95 })
  feed(10, { cpuUsagePercent: 50 })
  feed(20, { cpuUsagePercent: 95 })
  feed(40, { cpuUsagePercent: null })
  const [begun] = feed(50, { cpuUsagePercent: 93.1 })
  t.match(begun, {
    id: 'cpu-shop-50',
    severity: 'WARNING',
    message: 'CPU usage at 93.1%',
    metric: 'cpuUsagePercent',
    value: 93.1,
    threshold: 90,
    resolved: false,
    resolvedAt: null,
  })
  feed(60, { cpuUsagePercent: 85 })
  feed(100, { cpuUsagePercent: 95 })
  feed(110, { cpuUsagePercent: 70 })
  feed(120, { cpuUsagePercent: 85 })
  feed(130, { cpuUsagePercent: 70 })
  const [ended] = feed(160, { cpuUsagePercent: 10 })
  t.match(ended, { id: 'cpu-shop-50', resolved: true, resolvedAt: '1970-01-01T00:02:40.000Z' })
  feed(200, { diskUsagePercent: 96 })
  feed(201, { diskUsagePercent: 86 })
  feed(202, { diskUsagePercent: 84 })
  feed(203, { diskUsagePercent: 71 })
  feed(210, { metricsAvailable: false, archiveProblem: 'lost' })
  feed(225, { metricsAvailable: false })
  feed(230, {})
  feed(245, {})
  feed(300, { activeConnections: 40, idleConnections: 5, maxConnections: 50 })
  feed(315, { activeConnections: 40, idleConnections: 5, maxConnections: 50 })
  feed(400, { archiveProblem: 'lost' })
  t.match(feed(430, { archiveProblem: 'lost' }), [
    { rule: 'connections', resolved: true },
    { rule: 'archive', severity: 'CRITICAL', message: 'lost' },
  ])
  t.strictSame(seen, [
    '50 cpu begins', '160 cpu ends', '200 disk begins', '200 disk-full begins', '202 disk-full ends', '203 disk ends',
    '225 down begins', '245 down ends', '315 connections begins', '430 connections ends', '430 archive begins',
  ]) // biome-ignore format: a list
})

t.test('one sampler looks once for however many listeners, and knows the newest point', async (t) => {
  let looks = 0
  let together = 0
  let most = 0
  const faults: unknown[] = []
  // The sampler alone keeps no process alive.
  const alive = setInterval(() => undefined, 1000)
  t.teardown(() => clearInterval(alive))
  const sampler = new InstanceSampler({
    everyMs: 1,
    onError: (error) => faults.push(error),
    async look() {
      most = Math.max(most, ++together)
      await new Promise((again) => setImmediate(again))
      together--
      if (++looks === 3) throw new Error('a fault')
      return { projectId: String(looks) } as Metrics
    },
  })
  const first = await Promise.all([sampler.current(), sampler.current()])
  t.equal(first[0], first[1])
  const counts: [number, number] = [0, 0]
  const leave = sampler.listen(() => counts[0]++)
  await new Promise<void>((enough) => {
    sampler.listen(() => ++counts[1] === 150 && enough())
  })
  t.strictSame([counts[0], most, faults.length], [150, 1, 1])
  t.equal(sampler.listeners, 2)
  leave()
  t.equal(sampler.listeners, 1)
  await sampler[Symbol.asyncDispose]()
  t.equal((await sampler.current())?.projectId, String(looks))
  const end = looks
  await new Promise((later) => setTimeout(later, 20))
  t.equal(looks, end)
})

t.test('the end of a log is bounded and without secrets', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'care-log-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'log')
  t.strictSame(await readLogTail(file), { lines: [], truncated: false })
  writeFileSync(file, Array.from({ length: 6000 }, (_, n) => `line ${n}\n`).join(''))
  t.strictSame(await readLogTail(file, { lines: 2 }), { lines: ['line 5998', 'line 5999'], truncated: true })
  t.equal((await readLogTail(file)).lines.length, 100)
  t.equal((await readLogTail(file, { lines: 99_999 })).lines.length, 5000)
  t.strictSame((await readLogTail(file, { lines: 3, only: (line) => line.endsWith('77') })).lines, [
    'line 5777',
    'line 5877',
    'line 5977',
  ])
  writeFileSync(file, `${'x'.repeat(1024 * 1024)}\nlast`)
  t.strictSame(await readLogTail(file), { lines: ['last'], truncated: true })
  const cases = [
    ["alter role a password 'o''dd' valid", "alter role a password '***' valid"],
    ["PASSWORD = 'x', b", "PASSWORD = '***', b"],
    ["identified by 'x'", "identified by '***'"],
    ['SCRAM-SHA-256$4096:aGk=$aGk=:aGk=', '***'],
    [`md5${'a'.repeat(32)}`, '***'],
    ['postgresql://u:p@h/d', 'postgresql://u:***@h/d'],
    ['no password here', 'no password here'],
  ] as const
  for (const [line, clean] of cases) t.equal(withoutSecrets(line), clean)
})
