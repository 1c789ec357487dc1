import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Client } from 'pg'
import { freePort } from '../local/child.ts'
import type { LoadTask } from './load.ts'
import { type Loader, loader, round, versionOf } from './measure.ts'
import { Bench, machine, rssMb, type Started } from './processes.ts'
import { keepResult } from './results.ts'
import { type Durability, endedAtLeast, engineServers, saveFlow, startEngine } from './workflows-engine.ts'
import { bringPeers, peerPackages, startRestate } from './workflows-peers.ts'

/**
 * Workflows of three trivial steps, each started by an HTTP request that is answered at its end, against DBOS on PostgreSQL and against
 * Restate, in turn on one machine. `flushed` is with every append on the disk before it is acknowledged (fsync of nats-server and of
 * PostgreSQL; Restate as it comes), `lazy` without. Ours includes YAML, templates, logs and the read model, in which every execution must
 * be found before the clock stops. Then a backlog of executions that were accepted while no worker ran, and the history of a long loop.
 * Prints one JSON line and keeps it.
 *
 *     node ops/bench/workflows.ts [--seconds=5] [--rounds=3] [--inflight=1,16,64] [--backlog=100000] [--loop=10000] [--no-keep]
 *
 * Targets: 1.5 times DBOS's throughput at 64 in flight, flushed; p50 under 10 ms at one in flight; a backlog drains at a steady rate.
 */
const { values } = parseArgs({
  allowNegative: true,
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    inflight: { type: 'string', default: '1,16,64' },
    backlog: { type: 'string', default: '100000' },
    loop: { type: 'string', default: '10000' },
    keep: { type: 'boolean', default: true },
  },
})
const seconds = Number(values.seconds)
const inFlight = values.inflight.split(',').map(Number)

const flow = `name: three
inputs:
  who: { type: string, default: you }
tasks:
  - name: first
    type: util.log
    properties: { message: 'Hello {{ inputs.who }}' }
  - name: second
    type: util.log
    properties: { message: 'I said {{ outputs.first.message }}' }
  - name: third
    type: util.log
    properties: { message: 'So {{ outputs.second.message }}' }
`
const loopFlow = (count: number) => `name: loop
tasks:
  - name: each
    type: core.foreach
    properties: { items: '{{ inputs.items }}', concurrency: 50 }
    tasks:
      - name: one
        type: util.log
        properties: { message: 'item {{ item }}' }
inputs:
  items: { type: array, default: [${Array.from({ length: count }, (_, n) => n).join(',')}] }
`

interface Side extends Started {
  /** The request that starts one workflow and is answered at its end. */
  readonly request: string
}

interface Figures {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}

async function main(): Promise<void> {
  const before = machine()
  const peers = await bringPeers()
  const flushed = await compare(peers, 'flushed')
  const lazy = await compare(peers, 'lazy')
  const backlog = Number(values.backlog) > 0 ? await drain(Number(values.backlog)) : null
  const loop = Number(values.loop) > 0 ? await longLoop(Number(values.loop)) : null
  const inputs = { seconds, rounds: Number(values.rounds), inFlight, peers: peerPackages }
  const at = new Date().toISOString()
  keepResult({ benchmark: 'workflows', at, inputs, machine: before, flushed, lazy, backlog, loop }, values.keep)
}

async function compare(peers: string, durability: Durability) {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-bench-'))
  await using bench = new Bench()
  const { sides, postgresUrl } = await startSides(bench, peers, durability)
  const service = durability === 'flushed' ? await bench.module('workflows-restate.ts', [peers]) : null
  const restate = service === null ? null : await startRestate(peers, folder, service.url)
  try {
    if (restate !== null) {
      sides.restate = { pid: restate.pid, url: restate.url, request: post('/three/run', JSON.stringify('you')) }
    }
    const load = loader(bench)
    const measured = await inTurn(load, sides)
    return { postgres: await versionOf(postgresUrl), ...summary(measured) }
  } finally {
    await restate?.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function startSides(bench: Bench, peers: string, durability: Durability) {
  const lazily = durability === 'lazy'
  const postgres = await bench.postgres(lazily ? { synchronous_commit: 'off' } : {})
  const engine = await startEngine(bench, durability)
  const flowId = await saveFlow(engine, flow)
  const database = new URL(postgres.url)
  database.pathname = '/dbos'
  const client = new Client({ connectionString: postgres.url })
  await client.connect()
  await client.query('create database dbos')
  await client.end()
  const dbos = await bench.module('workflows-dbos.ts', [peers, database.href])
  const sides: Record<string, Side> = {
    busbar: { ...engine, request: post(`/api/v1/flows/${flowId}/execute?wait=30`, '{}') },
    dbos: { ...dbos, request: post('/', '{}') },
  }
  return { sides, postgresUrl: postgres.url }
}

function post(path: string, body: string): string {
  const headers = `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}`
  return `POST ${path} HTTP/1.1\r\nhost: localhost\r\n${headers}\r\n\r\n${body}`
}

/** Each number of connections, round after round; another side goes first each time. */
async function inTurn(load: Loader, sides: Readonly<Record<string, Side>>) {
  const names = Object.keys(sides)
  const measured: Record<string, Record<number, Figures[]>> = Object.fromEntries(names.map((name) => [name, {}]))
  for (const connections of inFlight) {
    for (let each = 0; each < Number(values.rounds); each++) {
      for (let index = 0; index < names.length; index++) {
        const name = names[(index + each) % names.length]!
        const figures = await measureSide(load, sides[name]!, connections, name === 'busbar')
        const rounds = measured[name]![connections] ?? []
        rounds.push(figures)
        measured[name]![connections] = rounds
      }
    }
  }
  return measured
}

async function measureSide(load: Loader, side: Side, connections: number, readModel: boolean): Promise<Figures> {
  const { hostname, port } = new URL(side.url)
  const task: LoadTask = {
    host: hostname,
    port: Number(port),
    requests: [side.request],
    connections,
    seconds,
    warmUpSeconds: 1,
    expectedStatus: 200,
  }
  const begun = performance.now()
  const result = await load(task)
  if (result.wrong > 0) throw new Error(`${result.wrong} were answered wrongly; the first: ${result.firstWrong}`)
  // What the read model has not shown yet is not done.
  const behind = readModel ? await untilShown(side) : 0
  const spent = result.seconds + behind
  if (performance.now() - begun > 120_000) throw new Error('The read model does not keep up')
  return { perSecond: result.requests / spent, p50Ms: result.p50Ms, p99Ms: result.p99Ms }
}

/** Seconds until no execution is shown as under way. */
async function untilShown({ url }: Started): Promise<number> {
  const begun = performance.now()
  const count = async (status: string) => {
    const response = await fetch(`${url}/api/v1/executions?status=${status}&limit=1`)
    await response.arrayBuffer()
    return Number(response.headers.get('x-total-count'))
  }
  while ((await count('QUEUED')) + (await count('RUNNING')) > 0) await new Promise((again) => setTimeout(again, 10))
  return (performance.now() - begun) / 1000
}

function summary(measured: Readonly<Record<string, Readonly<Record<number, readonly Figures[]>>>>) {
  const sides = Object.fromEntries(
    Object.entries(measured).map(([name, by]) => [
      name,
      Object.fromEntries(Object.entries(by).map(([connections, rounds]) => [connections, median(rounds)])),
    ]),
  )
  const ratio = (peer: string) =>
    Object.fromEntries(
      inFlight.map((connections) => {
        const ours = sides.busbar![connections]!
        const theirs = sides[peer]?.[connections]
        return [connections, theirs === undefined ? null : round(ours.perSecond / theirs.perSecond)]
      }),
    )
  return { ...sides, toDbos: ratio('dbos'), ...(sides.restate !== undefined && { toRestate: ratio('restate') }) }
}

function median(rounds: readonly Figures[]): Figures {
  const middle = (pick: (one: Figures) => number) => {
    const sorted = rounds.map(pick).sort((one, other) => one - other)
    return round(sorted[Math.floor(sorted.length / 2)]!)
  }
  return {
    perSecond: middle((one) => one.perSecond),
    p50Ms: middle((one) => one.p50Ms),
    p99Ms: middle((one) => one.p99Ms),
  }
}

/** Executions that were accepted while no worker ran: how many a second end, tenth by tenth, and what memory the worker takes. */
async function drain(count: number) {
  await using bench = new Bench()
  const { config } = await engineServers(bench, 'lazy')
  await bench.role('projection:workflows', config)
  const gateway = await bench.role('gateway:workflows', { ...config, 'server.port': await freePort() })
  // A worker tells which plugins there are, and goes.
  const first = await bench.role('worker:workflows', config)
  const flowId = await saveFlow(gateway, flow)
  process.kill(first.pid, 'SIGTERM')
  const load = loader(bench)
  const { hostname, port } = new URL(gateway.url)
  let accepted = 0
  while (accepted < count) {
    const request = post(`/api/v1/flows/${flowId}/execute`, '{}')
    const task = { host: hostname, port: Number(port), requests: [request], connections: 64, warmUpSeconds: 0 }
    accepted += (await load({ ...task, seconds: 5, expectedStatus: 200 })).requests
  }
  const worker = await bench.role('worker:workflows', config)
  const tenths: { readonly perSecond: number; readonly workerMb: number | null }[] = []
  let last = { at: performance.now(), ended: 0 }
  for (let tenth = 1; tenth <= 10; tenth++) {
    const ended = await endedAtLeast(gateway, (accepted * tenth) / 10)
    const now = performance.now()
    const perSecond = Math.round((ended - last.ended) / ((now - last.at) / 1000))
    tenths.push({ perSecond, workerMb: rssMb(worker.pid) })
    last = { at: now, ended }
  }
  return { accepted, tenths }
}

/** One execution of many tasks: how long it takes, and how long its pages of history take at the end. */
async function longLoop(count: number) {
  await using bench = new Bench()
  const engine = await startEngine(bench, 'lazy')
  const flowId = await saveFlow(engine, loopFlow(count))
  const begun = performance.now()
  const started = await fetch(`${engine.url}/api/v1/flows/${flowId}/execute`, { method: 'POST' })
  const { executionId } = (await started.json()) as { executionId: string }
  await endedAtLeast(engine, 1)
  const tookSeconds = round((performance.now() - begun) / 1000)
  const timed = async (path: string) => {
    const asked = performance.now()
    const response = await fetch(`${engine.url}/api/v1/executions/${executionId}${path}`)
    const bytes = (await response.arrayBuffer()).byteLength
    if (!response.ok) throw new Error(`${path} was answered with ${response.status}`)
    return { ms: Math.round(performance.now() - asked), bytes }
  }
  return {
    tasks: count,
    tookSeconds,
    detail: await timed(''),
    events: await timed('/events'),
    logs: await timed('/logs'),
  }
}

await main()
