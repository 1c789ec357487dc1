import { parseArgs } from 'node:util'
import { SignJWT } from 'jose'
import { freePort } from '../local/child.ts'
import type { PostgresServer } from '../local/postgres-server.ts'
import { type BenchCase, createDataset, jwtSecret, restCases, webRole } from './dataset.ts'
import { loader, type Measured, measure, medians, round, versionOf } from './measure.ts'
import { Bench, machine, roleConfig, type Started } from './processes.ts'
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

async function main(): Promise<void> {
  const before = machine()
  await using bench = new Bench()
  const postgres = await bench.postgres()
  await createDataset(postgres.url)
  const floor = () => bench.module('floor.ts', [postgres.url, values.pool])
  const sides: Record<'floor' | 'gateway', Side> = {
    floor: { ...(await floor()), requestsOf: floorRequests },
    gateway: values.noise
      ? { ...(await floor()), requestsOf: floorRequests }
      : { ...(await gateway(bench, postgres)), requestsOf: gatewayRequests(await benchToken()) },
  }
  const load = loader(bench)
  const cases: Record<string, unknown> = {}
  for (const chosen of restCases.filter(({ name }) => values.case === undefined || name === values.case)) {
    const measured = { floor: [] as Measured[], gateway: [] as Measured[] }
    for (let each = 0; each < rounds; each++) {
      for (const name of ['floor', 'gateway'] as const) {
        const side = sides[name]
        const asked = { ...chosen, requests: side.requestsOf(chosen), connections, seconds }
        measured[name].push(await measure(load, side, asked, postgres.process.pid!))
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

function benchToken(): Promise<string> {
  const jwt = new SignJWT({ sub: 'bench', role: webRole }).setProtectedHeader({ alg: 'HS256' })
  return jwt.setExpirationTime('1d').sign(new TextEncoder().encode(jwtSecret))
}

function compare(floor: Measured, gateway: Measured) {
  const ratio = {
    throughput: round(gateway.requestsPerSecond / floor.requestsPerSecond),
    p99: round(gateway.p99Ms / floor.p99Ms),
  }
  return { floor, gateway, ratio }
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

await main()
