import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { freePort } from '../local/child.ts'
import { hostile } from './functions-attacks.ts'
import { Bench, machine, rssMb, type Started } from './processes.ts'
import { keepResult } from './results.ts'

/**
 * Many functions for a while, some of which attack the process they run in: how many calls of the others fail, and how long they take. The
 * whole way through gateway, JetStream and one worker. Prints one JSON line and keeps it; fails when a neighbour lost a call.
 *
 *     node ops/bench/functions-soak.ts [--minutes=10] [--functions=50] [--callers=16] [--no-keep]
 */
const { values } = parseArgs({
  allowNegative: true,
  options: {
    minutes: { type: 'string', default: '10' },
    functions: { type: 'string', default: '50' },
    callers: { type: 'string', default: '16' },
    keep: { type: 'boolean', default: true },
  },
})

const peaceful = [
  '(data) => data',
  'async (data) => { await null; return { ...data, done: true } }',
  'async ({ n }) => { await new Promise((resolve) => setTimeout(resolve, 5)); return { n } }',
  '({ n }) => ({ n, items: Array.from({ length: 200 }, (_, at) => ({ at, name: "item " + at })) })',
  'async ({ n }, { kv }) => { await kv.put("n", n); return { n: n, kept: typeof (await kv.get("n")) } }',
]

async function main(): Promise<void> {
  const before = machine()
  await using bench = new Bench()
  const nats = await bench.nats()
  const config = { 'app.nats.enabled': true, 'app.nats.url': nats.url, 'log.level': 'error' }
  const worker = await bench.role('worker:functions', { ...config, 'app.functions.timeout': 5_000 })
  const gateway = await bench.role('gateway:functions', { ...config, 'server.port': await freePort() })
  const good = Array.from({ length: Number(values.functions) - Object.keys(hostile).length }, (_, n) => `good-${n}`)
  for (const [index, id] of good.entries()) await deploy(gateway, id, peaceful[index % peaceful.length]!)
  for (const [id, handler] of Object.entries(hostile)) await deploy(gateway, id, handler)
  const stopping = AbortSignal.timeout(Number(values.minutes) * 60_000)
  const attacks: Record<string, Record<string, number>> = {}
  const wrong: string[] = []
  const latencies: number[] = []
  const callers = Array.from({ length: Number(values.callers) }, (_, caller) =>
    callAll(gateway, good, caller, stopping, wrong, latencies),
  )
  for (const id of Object.keys(hostile)) attacks[id] = {}
  const attackers = Object.entries(attacks).map(([id, outcomes]) => attack(gateway, id, stopping, outcomes))
  await Promise.all([...callers, ...attackers])
  const inputs = {
    minutes: Number(values.minutes),
    functions: Number(values.functions),
    callers: Number(values.callers),
  }
  latencies.sort((one, other) => one - other)
  const at = (part: number) => Math.round(latencies[Math.floor((latencies.length - 1) * part)] ?? 0)
  const neighbours = { calls: latencies.length, wrong: wrong.length, first: wrong.slice(0, 5) }
  const latencyMs = { p50: at(0.5), p99: at(0.99), max: at(1) }
  const workerMb = rssMb(worker.pid)
  const result = { inputs, machine: before, neighbours: { ...neighbours, latencyMs }, attacks, workerMb }
  keepResult({ benchmark: 'functions-soak', at: new Date().toISOString(), ...result }, values.keep)
  if (wrong.length > 0) process.exitCode = 1
}

async function callAll(
  gateway: Started,
  ids: readonly string[],
  caller: number,
  stopping: AbortSignal,
  wrong: string[],
  latencies: number[],
): Promise<void> {
  for (let n = caller; !stopping.aborted; n++) {
    const id = ids[(n * 7 + caller) % ids.length]!
    const at = performance.now()
    const text = await invoke(gateway, id, { n })
    latencies.push(performance.now() - at)
    if (!text.startsWith('200 ') || !text.includes(`"n":${n}`)) wrong.push(`${id}: ${text.slice(0, 200)}`)
    await delay(5)
  }
}

async function attack(
  gateway: Started,
  id: string,
  stopping: AbortSignal,
  outcomes: Record<string, number>,
): Promise<void> {
  while (!stopping.aborted) {
    const [status = ''] = (await invoke(gateway, id, {})).split(' ')
    outcomes[status] = (outcomes[status] ?? 0) + 1
    await delay(500)
  }
}

async function invoke(gateway: Started, id: string, body: unknown): Promise<string> {
  try {
    const headers = { 'content-type': 'application/json' }
    const url = new URL(`/invoke/${id}`, gateway.url)
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
    return `${response.status} ${await response.text()}`
  } catch (error) {
    return `error ${error}`
  }
}

async function deploy(gateway: Started, id: string, handler: string): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ id, code: `export const handler = ${handler}` })
  const response = await fetch(new URL('/deploy', gateway.url), { method: 'POST', headers, body })
  if (response.status !== 201) throw new Error(`${id} was not deployed: ${await response.text()}`)
}

await main()
