import { parseArgs } from 'node:util'
import { SignJWT } from 'jose'
import { Client } from 'pg'
import { freePort } from '../local/child.ts'
import type { PostgresServer } from '../local/postgres-server.ts'
import { type BenchCase, createDataset, jwtSecret, restCases, webRole } from './dataset.ts'
import type { LoadAnswer, LoadResult, LoadTask } from './load.ts'
import { Bench, cpuMs, machine, roleConfig, rssMb, type Started } from './processes.ts'
import { keepResult } from './results.ts'

/**
 * The REST gateway against the floor (floor.ts) in one run: case by case, both in turn, round after round; the medians of
 * the rounds count. Prints one JSON line and keeps it in results/.
 *
 *     node ops/bench/rest.ts [--seconds=5] [--rounds=3] [--connections=32] [--pool=10] [--case=<name>] [--no-keep] [--noise]
 *
 * With --noise the floor is measured against itself, which shows how far the machine's results can be trusted.
 */
const { values } = parseArgs({
  allowNegative: true,
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    connections: { type: 'string', default: '32' },
    pool: { type: 'string', default: '10' },
    case: { type: 'string' },
    keep: { type: 'boolean', default: true },
    noise: { type: 'boolean', default: false },
  },
})
const seconds = Number(values.seconds)
const rounds = Number(values.rounds)
const connections = Number(values.connections)
const distinctRequests = 3000

interface Side extends Started {
  readonly requestsOf: (of: BenchCase) => string[]
}

interface Measured {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Processor time a request, of the server's process and of all of PostgreSQL. */
  readonly serverCpuUs: number | null
  readonly databaseCpuUs: number | null
  readonly rssMb: number | null
}

async function main(): Promise<void> {
  const before = machine()
  await using bench = new Bench()
  const postgres = await bench.postgres()
  await createDataset(postgres.url)
  const floor = () => bench.module('floor.ts', [postgres.url, values.pool])
  const sides: Record<'floor' | 'gateway', Side> = {
    floor: { ...(await floor()), requestsOf: floorRequests },
    gateway: values.noise
      ? { ...(await bench.module('.mini-gateway.ts', [postgres.url, values.pool])), requestsOf: await (async () => { const tk = await benchToken(); return (of: BenchCase) => requests(of, (n) => `/${restCases.indexOf(of)}/${n}`, `authorization: Bearer ${tk}\r\n`) })() }
      : { ...(await gateway(bench, postgres)), requestsOf: gatewayRequests(await benchToken()) },
  }
  const load = loader(bench)
  const cases: Record<string, unknown> = {}
  for (const chosen of restCases.filter(({ name }) => values.case === undefined || name === values.case)) {
    const measured = { floor: [] as Measured[], gateway: [] as Measured[] }
    for (let round = 0; round < rounds; round++) {
      for (const name of ['floor', 'gateway'] as const) {
        measured[name].push(await measure(load, sides[name], chosen, postgres.process.pid!))
      }
    }
    cases[chosen.name] = compare(medians(measured.floor), medians(measured.gateway))
  }
  const inputs = { seconds, rounds, connections, pool: Number(values.pool), noise: values.noise }
  const result = {
    benchmark: 'rest',
    at: new Date().toISOString(),
    inputs,
    machine: before,
    postgres: await versionOf(postgres.url),
    cases,
  }
  keepResult(result, values.keep)
}

async function gateway(bench: Bench, postgres: PostgresServer): Promise<Started> {
  const config = roleConfig(postgres, await bench.nats())
  return bench.role('gateway:rest', { ...config, 'server.port': await freePort(), 'app.pool-size': values.pool })
}

type Loader = (task: LoadTask) => Promise<LoadResult>

function loader(bench: Bench): Loader {
  const talk = bench.talk<LoadTask, LoadAnswer>('load.ts')
  return async (task) => {
    const answer = await talk(task)
    if (answer.kind === 'failed') throw new Error(answer.message)
    return answer.result
  }
}

function benchToken(): Promise<string> {
  const jwt = new SignJWT({ sub: 'bench', role: webRole }).setProtectedHeader({ alg: 'HS256' })
  return jwt.setExpirationTime('1d').sign(new TextEncoder().encode(jwtSecret))
}

async function measure(load: Loader, side: Side, chosen: BenchCase, postgresPid: number): Promise<Measured> {
  const { hostname, port } = new URL(side.url)
  const task = {
    host: hostname,
    port: Number(port),
    requests: side.requestsOf(chosen),
    connections,
    expectedStatus: chosen.status,
    warmUpSeconds: 0,
  }
  refuseWrong(chosen, await load({ ...task, seconds: Math.min(2, seconds) }))
  const before = [cpuMs(side.pid, false), cpuMs(postgresPid, true)] as const
  const result = await load({ ...task, seconds })
  const after = [cpuMs(side.pid, false), cpuMs(postgresPid, true)] as const
  refuseWrong(chosen, result)
  const perRequest = (index: 0 | 1) => {
    const [from, to] = [before[index], after[index]]
    return from === null || to === null ? null : round(((to - from) * 1000) / result.requests)
  }
  return {
    requestsPerSecond: Math.round(result.requests / result.seconds),
    p50Ms: round(result.p50Ms),
    p99Ms: round(result.p99Ms),
    serverCpuUs: perRequest(0),
    databaseCpuUs: perRequest(1),
    rssMb: rssMb(side.pid),
  }
}

function refuseWrong(chosen: BenchCase, { wrong, firstWrong }: LoadResult): void {
  if (wrong > 0) throw new Error(`${chosen.name}: ${wrong} answers were not ${chosen.status}; the first: ${firstWrong}`)
}

function compare(floor: Measured, gateway: Measured) {
  const ratio = {
    throughput: round(gateway.requestsPerSecond / floor.requestsPerSecond),
    p99: round(gateway.p99Ms / floor.p99Ms),
  }
  return { floor, gateway, ratio }
}

function medians(rounds: readonly Measured[]): Measured {
  const median = (pick: (one: Measured) => number | null) => {
    const sorted = rounds.map((one) => pick(one) ?? Number.NaN).sort((one, other) => one - other)
    const middle = sorted[Math.floor(sorted.length / 2)]!
    return Number.isNaN(middle) ? null : middle
  }
  return {
    requestsPerSecond: median((one) => one.requestsPerSecond) ?? 0,
    p50Ms: median((one) => one.p50Ms) ?? 0,
    p99Ms: median((one) => one.p99Ms) ?? 0,
    serverCpuUs: median((one) => one.serverCpuUs),
    databaseCpuUs: median((one) => one.databaseCpuUs),
    rssMb: median((one) => one.rssMb),
  }
}

function gatewayRequests(token: string): (of: BenchCase) => string[] {
  return (of) => requests(of, (n) => `/api/v1${of.request(n).path}`, `authorization: Bearer ${token}\r\n`)
}

function floorRequests(of: BenchCase): string[] {
  return requests(of, (n) => `/${restCases.indexOf(of)}/${n}`, '')
}

function requests(of: BenchCase, pathOf: (n: number) => string, headers: string): string[] {
  return Array.from({ length: distinctRequests }, (_, n) => {
    const { body } = of.request(n)
    const bodyHeaders =
      body === undefined ? '' : `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n`
    return `${of.method} ${pathOf(n)} HTTP/1.1\r\nhost: localhost\r\n${headers}${bodyHeaders}\r\n${body ?? ''}`
  })
}

async function versionOf(url: string): Promise<string> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query('show server_version')
  await client.end()
  return rows[0].server_version
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}

await main()
