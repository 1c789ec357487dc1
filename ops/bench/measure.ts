import { Client } from 'pg'
import type { LoadAnswer, LoadResult, LoadTask } from './load.ts'
import { type Bench, cpuMs, rssMb, type Started } from './processes.ts'

export interface Measured {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Processor time a request, of the server's process and of all of PostgreSQL. */
  readonly serverCpuUs: number | null
  readonly databaseCpuUs: number | null
  readonly rssMb: number | null
}

/** What one side is asked: whole HTTP requests, sent in turn. */
export interface MeasuredLoad {
  readonly name: string
  readonly requests: readonly string[]
  readonly status: number
  readonly connections: number
  readonly seconds: number
}

/** Gives the load process one task after the other. */
export type Loader = (task: LoadTask) => Promise<LoadResult>

export function loader(bench: Bench): Loader {
  const talk = bench.talk<LoadTask, LoadAnswer>('load.ts')
  return async (task) => {
    const answer = await talk(task)
    if (answer.kind === 'failed') throw new Error(answer.message)
    return answer.result
  }
}

/** One round: a warm-up, then the measured seconds. @throws when an answer has another status. */
export async function measure(
  load: Loader,
  side: Started,
  asked: MeasuredLoad,
  postgresPid: number,
): Promise<Measured> {
  const { hostname, port } = new URL(side.url)
  const { requests, connections, status: expectedStatus, seconds } = asked
  const task = { host: hostname, port: Number(port), requests, connections, expectedStatus, warmUpSeconds: 0 }
  refuseWrong(asked, await load({ ...task, seconds: Math.min(2, seconds) }))
  const before = [cpuMs(side.pid, false), cpuMs(postgresPid, true)] as const
  const result = await load({ ...task, seconds })
  const after = [cpuMs(side.pid, false), cpuMs(postgresPid, true)] as const
  refuseWrong(asked, result)
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

function refuseWrong({ name, status }: MeasuredLoad, { wrong, firstWrong }: LoadResult): void {
  if (wrong > 0) throw new Error(`${name}: ${wrong} answers were not ${status}; the first: ${firstWrong}`)
}

/** Of every number by itself. */
export function medians(rounds: readonly Measured[]): Measured {
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

/** Of a PostgreSQL. */
export async function versionOf(url: string): Promise<string> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query('show server_version')
  await client.end()
  return rows[0].server_version
}

export function round(value: number): number {
  return Math.round(value * 100) / 100
}
