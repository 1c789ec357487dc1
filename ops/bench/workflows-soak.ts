import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { freePort } from '../local/child.ts'
import { round } from './measure.ts'
import { Bench, machine, rssMb, type Started } from './processes.ts'
import { keepResult } from './results.ts'
import { engineServers, saveFlow } from './workflows-engine.ts'

/**
 * Executions of all kinds at a steady rate for an hour: whether each ends as it should, whether waits end in time, and whether any process
 * takes ever more memory. Prints one JSON line and keeps it; fails when an execution was lost, stuck or ended otherwise than it should.
 *
 *     node ops/bench/workflows-soak.ts [--minutes=60] [--per-second=20] [--no-keep]
 *
 * Target: no memory that grows without an end (MB an hour over the second half), p99 of waits under a second late.
 */
const { values } = parseArgs({
  allowNegative: true,
  options: {
    minutes: { type: 'string', default: '60' },
    'per-second': { type: 'string', default: '20' },
    keep: { type: 'boolean', default: true },
  },
})
const minutes = Number(values.minutes)
const perSecond = Number(values['per-second'])
const waitMs = 3_000

interface Kind {
  readonly yaml: string
  readonly ends: 'SUCCESS' | 'FAILED'
}

const kinds: Readonly<Record<string, Kind>> = {
  steps: {
    ends: 'SUCCESS',
    yaml: `name: steps
tasks:
  - { name: a, type: util.log, properties: { message: hello } }
  - { name: b, type: util.string, properties: { text: '{{ outputs.a.message }}', operation: upper } }
  - { name: c, type: core.kv, properties: { operation: put, key: soak, value: '{{ outputs.b.result }}' } }
`,
  },
  loop: {
    ends: 'SUCCESS',
    yaml: `name: loop
tasks:
  - name: each
    type: core.foreach
    properties: { items: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], concurrency: 5 }
    tasks:
      - { name: one, type: util.log, properties: { message: '{{ item }}' } }
`,
  },
  waits: {
    ends: 'SUCCESS',
    yaml: `name: waits
tasks:
  - { name: a, type: core.wait, properties: { duration: ${waitMs}ms } }
  - { name: b, type: util.log, properties: { message: awake } }
`,
  },
  retries: {
    ends: 'FAILED',
    yaml: `name: retries
tasks:
  - name: a
    type: core.fail
    properties: { message: as it should }
    retry: { maxAttempts: 3, delay: 500ms, backoff: constant, jitter: 0 }
errors:
  - { name: b, type: util.log, properties: { message: caught } }
`,
  },
}

/** Started by time alone. */
const ticking = `name: ticking
tasks:
  - { name: tick, type: util.log, properties: { message: tick } }
triggers:
  - { name: clock, type: cron, cron: '* * * * * *' }
`

interface Sample {
  readonly minute: number
  readonly ended: number
  readonly mb: Readonly<Record<string, number | null>>
}

async function main(): Promise<void> {
  const before = machine()
  await using bench = new Bench()
  const { config, nats } = await engineServers(bench, 'lazy')
  const processes = {
    nats: { pid: nats.process.pid ?? 0 },
    projection: await bench.role('projection:workflows', config),
    worker: await bench.role('worker:workflows', config),
    scheduler: await bench.role('worker:scheduler', config),
    gateway: await bench.role('gateway:workflows', { ...config, 'server.port': await freePort() }),
  }
  const { gateway } = processes
  const flows: Record<string, string> = {}
  for (const [name, { yaml }] of Object.entries(kinds)) flows[name] = await saveFlow(gateway, yaml)
  const clock = await saveFlow(gateway, ticking)
  const begun = performance.now()
  const samples: Sample[] = []
  const sampling = setInterval(async () => {
    const mb = Object.fromEntries(Object.entries(processes).map(([name, { pid }]) => [name, rssMb(pid)]))
    const ended = await count(gateway, '').catch(() => 0)
    samples.push({ minute: samples.length + 1, ended, mb })
  }, 60_000)
  const accepted = await submit(gateway, flows)
  clearInterval(sampling)
  await untilIdle(gateway)
  const outcome: Record<string, { accepted: number; ended: number }> = {}
  for (const [name, { ends }] of Object.entries(kinds)) {
    outcome[name] = {
      accepted: accepted[name] ?? 0,
      ended: await count(gateway, `&flowId=${flows[name]}&status=${ends}`),
    }
  }
  const ticks = {
    seconds: Math.round((performance.now() - begun) / 1000),
    ended: await count(gateway, `&flowId=${clock}&status=SUCCESS`),
  }
  const lateMs = await lateness(gateway, flows.waits!)
  const growth = Object.fromEntries(Object.keys(processes).map((name) => [name, mbAnHour(samples, name)]))
  const inputs = { minutes, perSecond }
  const at = new Date().toISOString()
  const memory = {
    samples: samples.filter(({ minute }) => minute % 5 === 0 || minute < 3),
    mbAnHourInSecondHalf: growth,
  }
  keepResult({ benchmark: 'workflows-soak', at, inputs, machine: before, outcome, ticks, lateMs, memory }, values.keep)
  if (Object.values(outcome).some(({ accepted, ended }) => accepted !== ended)) process.exitCode = 1
}

/** One kind after the other, whether the one before has ended or not. */
async function submit(gateway: Started, flows: Readonly<Record<string, string>>): Promise<Record<string, number>> {
  const accepted: Record<string, number> = {}
  const names = Object.keys(flows)
  const begun = performance.now()
  const open = new Set<Promise<void>>()
  for (let n = 0; performance.now() - begun < minutes * 60_000; n++) {
    const name = names[n % names.length]!
    const one = start(gateway, flows[name]!).then((taken) => {
      if (taken) accepted[name] = (accepted[name] ?? 0) + 1
    })
    open.add(one)
    void one.finally(() => open.delete(one))
    await delay(Math.max(0, begun + ((n + 1) * 1000) / perSecond - performance.now()))
  }
  await Promise.all(open)
  return accepted
}

async function start({ url }: Started, flowId: string): Promise<boolean> {
  const response = await fetch(`${url}/api/v1/flows/${flowId}/execute`, { method: 'POST' })
  await response.arrayBuffer()
  return response.ok
}

async function count({ url }: Started, filter: string): Promise<number> {
  const response = await fetch(`${url}/api/v1/executions?limit=1${filter}`)
  await response.arrayBuffer()
  return Number(response.headers.get('x-total-count'))
}

/** At most a minute: what is under way then is stuck. */
async function untilIdle(gateway: Started): Promise<void> {
  for (const end = performance.now() + 60_000; performance.now() < end; await delay(500)) {
    if ((await count(gateway, '&status=QUEUED')) + (await count(gateway, '&status=RUNNING')) === 0) return
  }
}

/** How much longer the last thousand executions with a wait took than it. */
async function lateness({ url }: Started, flowId: string) {
  const response = await fetch(`${url}/api/v1/executions?flowId=${flowId}&status=SUCCESS&limit=1000`)
  const executions = (await response.json()) as readonly { readonly durationMs: number }[]
  const late = executions.map(({ durationMs }) => durationMs - waitMs).sort((one, other) => one - other)
  const at = (part: number) => late[Math.floor((late.length - 1) * part)] ?? null
  return { of: late.length, p50: at(0.5), p99: at(0.99), max: at(1) }
}

/** The slope of the line through the samples of the second half. */
function mbAnHour(samples: readonly Sample[], name: string): number | null {
  const points = samples.slice(Math.floor(samples.length / 2)).map(({ minute, mb }) => [minute, mb[name] ?? 0] as const)
  const mean = (index: 0 | 1) => points.reduce((sum, point) => sum + point[index], 0) / points.length
  const [x, y] = [mean(0), mean(1)]
  const spread = points.reduce((sum, [minute]) => sum + (minute - x) ** 2, 0)
  if (spread === 0) return null
  return round((points.reduce((sum, [minute, mb]) => sum + (minute - x) * (mb - y), 0) / spread) * 60)
}

await main()
