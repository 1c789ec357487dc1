import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { freePort } from '../local/child.ts'
import { measureAttacks } from './functions-attacks.ts'
import { bareHosts, requireResponse } from './functions-hosts.ts'
import { bringWorkerd, startWorkerd, workerdVersion } from './functions-workerd.ts'
import type { LoadResult } from './load.ts'
import { loader, round } from './measure.ts'
import { Bench, cpuMs, machine, rssMb, type Started } from './processes.ts'
import { keepResult } from './results.ts'

/**
 * Functions against workerd with the same handlers on the same machine: throughput and latency through gateway, JetStream and worker, and
 * of the isolate hosts by themselves; the first call after a deploy; memory of many functions; a neighbour's calls under attack. Prints one
 * JSON line and keeps it.
 *
 *     node ops/bench/functions.ts [--seconds=4] [--rounds=3] [--warm-up=8] [--connections=16,64] [--cold=50] [--many=100,500] [--no-attacks] [--no-keep]
 *
 * Targets: workerd's throughput for the echo, 0.6 of it for the transform; first response 10 ms after a deploy; 2 MB a function.
 */
const { values } = parseArgs({
  allowNegative: true,
  options: {
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '3' },
    'warm-up': { type: 'string', default: '8' },
    connections: { type: 'string', default: '16,64' },
    cold: { type: 'string', default: '50' },
    many: { type: 'string', default: '100,500' },
    attacks: { type: 'boolean', default: true },
    keep: { type: 'boolean', default: true },
  },
})
const seconds = Number(values.seconds)
/** Of each side before the first round: the engines compile what is run often, and both are services that run for long. */
const warmUpSeconds = Number(values['warm-up'])
/** Each has one call under way: few for the latency, more for the throughput. */
const connections = values.connections.split(',').map(Number)

const handlers = {
  echo: '(data) => data',
  transform: `(data) => ({ count: data.items.length, total: data.items.reduce((sum, { price }) => sum + price, 0),
  items: data.items.map(({ id, name, price, tags }) => ({ id, name: name.toUpperCase(), price: price * 2, tags: tags.join(",") })) })`,
} as const
type Case = keyof typeof handlers

const bodies: Readonly<Record<Case, string>> = {
  echo: JSON.stringify({ hello: 'world', n: 12_345 }),
  transform: JSON.stringify({
    items: Array.from({ length: 110 }, (_, id) => ({
      id,
      name: `item number ${id}`,
      price: id * 3,
      tags: ['red', 'large', 'new'],
    })),
  }),
}

async function main(): Promise<void> {
  const before = machine()
  const binary = await bringWorkerd()
  const folder = mkdtempSync(join(tmpdir(), 'busbar-bench-'))
  try {
    const throughput = await measureThroughput(binary, folder)
    const bare = await measureBare()
    const memory = await measureMemory(binary, folder)
    const attacks = values.attacks ? await measureAttacks(binary, folder) : null
    const inputs = {
      seconds,
      rounds: Number(values.rounds),
      warmUpSeconds,
      connections,
      cold: Number(values.cold),
      workerd: workerdVersion,
    }
    const at = new Date().toISOString()
    keepResult(
      { benchmark: 'functions', at, inputs, machine: before, ...throughput, bare, memory, attacks },
      values.keep,
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function measureThroughput(binary: string, folder: string) {
  await using bench = new Bench()
  const nats = await bench.nats()
  const config = { 'app.nats.enabled': true, 'app.nats.url': nats.url, 'log.level': 'warn' }
  const worker = await bench.role('worker:functions', config)
  const gateway = await bench.role('gateway:functions', { ...config, 'server.port': await freePort() })
  const workerd = await startWorkerd(binary, folder, Object.values(handlers))
  try {
    for (const [name, handler] of Object.entries(handlers)) await deploy(gateway, name, handler)
    const load = loader(bench)
    const cases: Record<string, unknown> = {}
    for (const [index, name] of (Object.keys(handlers) as Case[]).entries()) {
      const sides = { busbar: new URL(`/invoke/${name}`, gateway.url), workerd: new URL(workerd.urls[index]!) }
      const probes = {
        busbar: {
          gateway: () => cpuMs(gateway.pid, false),
          worker: () => cpuMs(worker.pid, false),
          workerAndHosts: () => cpuMs(worker.pid, true),
          nats: () => cpuMs(nats.process.pid!, false),
        },
        workerd: { workerd: () => cpuMs(workerd.pid, true) },
      }
      for (const url of Object.values(sides)) {
        refuseWrong(await load({ ...taskFor(url, bodies[name], connections[0]!), seconds: warmUpSeconds }))
      }
      const measured: Record<string, unknown> = {}
      for (const count of connections) {
        const measure = (side: 'busbar' | 'workerd') =>
          measureSide(load, taskFor(sides[side], bodies[name], count), probes[side])
        measured[count] = await inTurn(measure)
      }
      cases[name] = measured
    }
    return { cases, deployToFirstResponse: await measureDeploys(gateway) }
  } finally {
    await workerd.stop()
  }
}

async function inTurn(measure: (side: 'busbar' | 'workerd') => Promise<Side>) {
  const results = { busbar: [] as Side[], workerd: [] as Side[] }
  for (let each = 0; each < Number(values.rounds); each++) {
    const turn = each % 2 === 0 ? (['busbar', 'workerd'] as const) : (['workerd', 'busbar'] as const)
    for (const side of turn) results[side].push(await measure(side))
  }
  const busbar = median(results.busbar)
  const workerd = median(results.workerd)
  return { busbar, workerd, ratio: round(busbar.requestsPerSecond / workerd.requestsPerSecond) }
}

interface Side {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Processor time a request, of each process. */
  readonly cpuUs: Readonly<Record<string, number | null>>
}

function taskFor(url: URL, body: string, connections: number) {
  const head = `POST ${url.pathname} HTTP/1.1\r\nhost: ${url.host}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}`
  return {
    host: url.hostname,
    port: Number(url.port),
    requests: [`${head}\r\n\r\n${body}`],
    connections,
    expectedStatus: 200,
    warmUpSeconds: 0,
  }
}

async function measureSide(
  load: ReturnType<typeof loader>,
  task: ReturnType<typeof taskFor>,
  probes: Readonly<Record<string, () => number | null>>,
): Promise<Side> {
  refuseWrong(await load({ ...task, seconds: Math.min(1, seconds) }))
  const before = Object.entries(probes).map(([name, probe]) => ({ name, probe, from: probe() }))
  const result = await load({ ...task, seconds })
  refuseWrong(result)
  const spent = before.map(({ name, probe, from }): [string, number | null] => {
    const to = probe()
    return [name, from === null || to === null ? null : round(((to - from) * 1000) / result.requests)]
  })
  const cpuUs = Object.fromEntries(spent)
  const requestsPerSecond = Math.round(result.requests / result.seconds)
  return { requestsPerSecond, p50Ms: round(result.p50Ms), p99Ms: round(result.p99Ms), cpuUs }
}

function refuseWrong({ wrong, firstWrong }: LoadResult): void {
  if (wrong > 0) throw new Error(`${wrong} answers were not 200; the first: ${firstWrong}`)
}

function median(sides: readonly Side[]): Side {
  return [...sides].sort((one, other) => one.requestsPerSecond - other.requestsPerSecond)[Math.floor(sides.length / 2)]!
}

async function deploy(gateway: Started, id: string, handler: string): Promise<void> {
  const answer = await post(new URL('/deploy', gateway.url), { id, code: `export const handler = ${handler}` })
  if (answer.status !== 201) throw new Error(`A deploy was answered with ${answer.status}: ${await answer.text()}`)
}

function post(url: URL, body: unknown): Promise<Response> {
  return fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
}

/** The first response after a deploy has been answered. */
async function measureDeploys(gateway: Started) {
  const deployMs: number[] = []
  const firstMs: number[] = []
  for (let n = 0; n < Number(values.cold); n++) {
    const at = performance.now()
    await deploy(gateway, `cold-${n}`, handlers.echo)
    const deployed = performance.now()
    const answer = await post(new URL(`/invoke/cold-${n}`, gateway.url), { n })
    await answer.arrayBuffer()
    if (answer.status !== 200) throw new Error(`A first call was answered with ${answer.status}`)
    deployMs.push(deployed - at)
    firstMs.push(performance.now() - deployed)
  }
  return { deploy: percentiles(deployMs), firstResponse: percentiles(firstMs) }
}

/** Without gateway and bus: what the hosts alone can do, called from this process. */
async function measureBare() {
  const bare = await bareHosts((id) => handlers[id.startsWith('transform') ? 'transform' : 'echo'])
  try {
    const rates: Record<string, number> = {}
    for (const name of Object.keys(handlers) as Case[]) {
      await spin(bare, name, 1_000)
      rates[name] = Math.round((await spin(bare, name, seconds * 1_000)) / seconds)
    }
    const coldMs: number[] = []
    for (let n = 0; n < Number(values.cold); n++) {
      const at = performance.now()
      requireResponse(await bare.call(`cold-${n}`, bodies.echo))
      coldMs.push(performance.now() - at)
    }
    return { callsPerSecond: rates, firstCall: percentiles(coldMs) }
  } finally {
    await bare.hosts.stop()
  }
}

async function spin(bare: Awaited<ReturnType<typeof bareHosts>>, name: Case, ms: number): Promise<number> {
  const end = performance.now() + ms
  let calls = 0
  const loop = async () => {
    for (; performance.now() < end; calls++) requireResponse(await bare.call(name, bodies[name]))
  }
  await Promise.all(Array.from({ length: connections[0]! }, loop))
  return calls
}

async function measureMemory(binary: string, folder: string) {
  const counts = values.many.split(',').map(Number)
  const measured: Record<string, unknown> = {}
  for (const count of counts) {
    const bare = await bareHosts(() => handlers.echo)
    const emptyMb = bare.memoryMb()
    for (let n = 0; n < count; n++) requireResponse(await bare.call(`many-${n}`, bodies.echo))
    const busbarMb = bare.memoryMb()
    await bare.hosts.stop()
    const workerd = await startWorkerd(
      binary,
      folder,
      Array.from({ length: count }, () => handlers.echo),
    )
    const firstMs: number[] = []
    const startMb = rssMb(workerd.pid)
    for (const url of workerd.urls) {
      const at = performance.now()
      await (await post(new URL(url), {})).arrayBuffer()
      firstMs.push(performance.now() - at)
    }
    const workerdMb = rssMb(workerd.pid)
    await workerd.stop()
    measured[count] = {
      busbar: { emptyMb, fullMb: busbarMb, mbEach: round((busbarMb - emptyMb) / count) },
      workerd: {
        startMb,
        fullMb: workerdMb,
        mbEach: workerdMb === null ? null : round(workerdMb / count),
        firstCall: percentiles(firstMs),
      },
    }
  }
  return measured
}

function percentiles(samples: readonly number[]) {
  const sorted = [...samples].sort((one, other) => one - other)
  const at = (part: number) => round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0)
  return { p50Ms: at(0.5), p99Ms: at(0.99) }
}

await main()
