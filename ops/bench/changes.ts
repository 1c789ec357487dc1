import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { SignJWT } from 'jose'
import { Client } from 'pg'
import { freePort } from '../local/child.ts'
import { jwtSecret, webRole } from './dataset.ts'
import type { ListenersAnswer, ListenersTask } from './listeners.ts'
import { Bench, machine, roleConfig, rssMb } from './processes.ts'
import { keepResult } from './results.ts'
import { type Listener, listen, type Tick } from './sse-client.ts'

/**
 * Change streams from the commit to the SSE client: latency of single rows, one large transaction complete and in order,
 * and many clients on one gateway. Prints one JSON line and keeps it in results/.
 *
 *     node ops/bench/changes.ts [--commits=1000] [--pause=5] [--rows=20000] [--clients=2000] [--rounds=20] [--no-keep]
 */
const { values } = parseArgs({
  allowNegative: true,
  options: {
    commits: { type: 'string', default: '1000' },
    pause: { type: 'string', default: '5' },
    rows: { type: 'string', default: '20000' },
    clients: { type: 'string', default: '2000' },
    rounds: { type: 'string', default: '20' },
    keep: { type: 'boolean', default: true },
  },
})
const patienceMs = 60_000

async function main(): Promise<void> {
  const before = machine()
  await using bench = new Bench()
  const postgres = await bench.postgres()
  const writer = await connected(postgres.url)
  try {
    await writer.query(`create role ${webRole}`)
    await writer.query(
      'create table tick (id bigint generated always as identity primary key, phase text, sent_ns bigint)',
    )
    await writer.query(`grant select on tick to ${webRole}`)
    const config = {
      ...roleConfig(postgres, await bench.nats()),
      'app.changes.max-clients': Number(values.clients) + 10,
    }
    await bench.role('worker:capture', config)
    const gateway = await bench.role('gateway:rest', { ...config, 'server.port': await freePort() })
    const url = new URL('/api/v1/tick/changes', gateway.url).href
    const jwt = new SignJWT({ sub: 'bench', role: webRole }).setProtectedHeader({ alg: 'HS256' })
    const token = await jwt.setExpirationTime('1d').sign(new TextEncoder().encode(jwtSecret))

    const single = await follow(url, token, writer)
    const latency = await measureLatency(writer, single)
    const transaction = await measureTransaction(writer, single)
    single.listener.close()
    const fanOut = await measureFanOut(bench, writer, url, token)
    const { rows } = await writer.query('show server_version')
    const inputs = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value)]))
    keepResult(
      {
        benchmark: 'changes',
        at: new Date().toISOString(),
        inputs,
        machine: before,
        postgres: rows[0].server_version,
        latency,
        transaction,
        fanOut: { ...fanOut, gatewayRssMb: rssMb(gateway.pid) },
      },
      values.keep,
    )
  } finally {
    await writer.end()
  }
}

/** One client in this process, and what it has got. */
interface Single {
  readonly listener: Listener
  readonly received: { readonly row: Tick; readonly atNs: bigint }[]
  /** Why the stream ended, when it did. */
  ended: string | null
}

async function follow(url: string, token: string, writer: Client): Promise<Single> {
  const received: Single['received'] = []
  let single: Single | null = null
  const listener = await listen(url, token, {
    onRow: (row) => received.push({ row, atNs: process.hrtime.bigint() }),
    onEnd: (reason) => {
      if (single) single.ended = reason
    },
  })
  single = { listener, received, ended: null }
  // The reader of the log may still be starting: what it brings first shows that all parts are there.
  await insert(writer, 'warm-up')
  await until('the first change', () => received.length > 0)
  for (let index = 0; index < 200; index++) await insert(writer, 'warm-up')
  await until('the warm-up', () => received.length === 201)
  received.length = 0
  return single
}

async function measureLatency(writer: Client, single: Single) {
  const commits = Number(values.commits)
  const sentNs: bigint[] = []
  const committedNs: bigint[] = []
  for (let index = 0; index < commits; index++) {
    sentNs.push(await insert(writer, 'latency'))
    committedNs.push(process.hrtime.bigint())
    await delay(Number(values.pause))
  }
  await until('all single rows', () => single.received.length >= commits || single.ended !== null)
  requireComplete(single, commits)
  const sinceCommit = single.received.map(({ atNs }, index) => Number(atNs - committedNs[index]!) / 1e6)
  const sinceInsert = single.received.map(({ atNs }, index) => Number(atNs - sentNs[index]!) / 1e6)
  single.received.length = 0
  return { commits, sinceCommitAnswered: percentiles(sinceCommit), sinceInsertSent: percentiles(sinceInsert) }
}

async function measureTransaction(writer: Client, single: Single) {
  const rows = Number(values.rows)
  await writer.query(`insert into tick (phase, sent_ns) select 'bulk', 0 from generate_series(1, $1::int)`, [rows])
  const committedNs = process.hrtime.bigint()
  await until('the large transaction', () => single.received.length >= rows || single.ended !== null)
  requireComplete(single, rows)
  const firstMs = Number(single.received[0]!.atNs - committedNs) / 1e6
  const lastMs = Number(single.received[rows - 1]!.atNs - committedNs) / 1e6
  single.received.length = 0
  return { rows, complete: true, inOrder: true, firstMs: round(firstMs), lastMs: round(lastMs) }
}

/** @throws when rows are missing, doubled or out of order: a speed without them means nothing. */
function requireComplete(single: Single, expected: number): void {
  const { received, ended } = single
  if (ended !== null) throw new Error(`The stream ended after ${received.length} of ${expected} rows: ${ended}`)
  const ids = received.map(({ row }) => Number(row.id))
  const inOrder = ids.every((id, index) => index === 0 || id === ids[index - 1]! + 1)
  if (ids.length !== expected || !inOrder)
    throw new Error(`${ids.length} rows of ${expected} came, in order: ${inOrder}`)
}

async function measureFanOut(bench: Bench, writer: Client, url: string, token: string) {
  const clients = Number(values.clients)
  const rounds = Number(values.rounds)
  const listeners = bench.talk<ListenersTask, ListenersAnswer>('listeners.ts')
  const opened = process.hrtime.bigint()
  const answer = await listeners({ kind: 'listen', url, token, clients })
  if (answer.kind === 'failed') throw new Error(answer.message)
  const openedMs = Number(process.hrtime.bigint() - opened) / 1e6
  for (let index = 0; index < rounds; index++) {
    await insert(writer, 'fan-out')
    await delay(200)
  }
  await delay(2_000)
  const report = await listeners({ kind: 'report' })
  if (report.kind !== 'report') throw new Error('The listeners did not report')
  if (report.fewest !== rounds || report.most !== rounds || report.outOfOrder > 0) {
    throw new Error(
      `Clients got between ${report.fewest} and ${report.most} of ${rounds} rows, ${report.outOfOrder} out of order`,
    )
  }
  const { p50Ms, p99Ms, maxMs, closed } = report
  return { clients, rounds, openedMs: round(openedMs), closed, sinceInsertSent: { p50Ms, p99Ms, maxMs } }
}

async function insert(writer: Client, phase: string): Promise<bigint> {
  const sentNs = process.hrtime.bigint()
  await writer.query({
    name: 'tick',
    text: 'insert into tick (phase, sent_ns) values ($1, $2)',
    values: [phase, String(sentNs)],
  })
  return sentNs
}

async function connected(url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  await client.connect()
  return client
}

async function until(what: string, condition: () => boolean): Promise<void> {
  const end = Date.now() + patienceMs
  while (!condition()) {
    if (Date.now() > end) throw new Error(`${what} did not come within ${patienceMs} ms`)
    await delay(5)
  }
}

function percentiles(values: readonly number[]) {
  const sorted = values.toSorted((one, other) => one - other)
  const at = (share: number) => round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!)
  return { p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1) }
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}

await main()
