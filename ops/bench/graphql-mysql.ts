import { freePort } from '../local/child.ts'
import { createMysqlDataset } from './dataset-mysql.ts'
import { graphqlCases } from './graphql-cases.ts'
import { distinctRequests, getRequests, postRequests, requireData } from './graphql-requests.ts'
import { loader, type Measured, measure, medians, round } from './measure.ts'
import { Bench, machine, type Started } from './processes.ts'
import { keepResult } from './results.ts'

export interface MysqlBenchOptions {
  readonly seconds: number
  readonly rounds: number
  readonly connections: number
  readonly pool: number
  /** Part of a case's name. */
  readonly case: string
  readonly keep: boolean
}

type SideName = 'gateway' | 'floor'

/** The GraphQL gateway on a MariaDB against a floor of bare node:http and mysql2 with the same SQL; all in turn, the medians count. */
export async function benchMysql(options: MysqlBenchOptions): Promise<void> {
  const { seconds, rounds, connections } = options
  const before = machine()
  await using bench = new Bench()
  const mariadb = await bench.mariadb()
  const version = await createMysqlDataset(mariadb.url)
  const url = new URL(mariadb.url)
  url.pathname = '/public'
  const sides: Readonly<Record<SideName, Started>> = {
    gateway: await bench.role('gateway:graphql-mysql', {
      'mysql.datasource.url': url.href,
      'server.port': await freePort(),
      'app.pool-size': options.pool,
      'log.level': 'warn',
    }),
    floor: await bench.module('graphql-mysql-floor.ts', [url.href, String(options.pool), String(distinctRequests)]),
  }
  const load = loader(bench)
  const cases: Record<string, unknown> = {}
  for (const [index, chosen] of graphqlCases.entries()) {
    if (!chosen.name.includes(options.case)) continue
    const asked: [SideName, string[]][] = [
      ['gateway', postRequests(chosen.ours, chosen.variables)],
      ['floor', getRequests((n) => `/${index}/${n}`)],
    ]
    const measured: Record<SideName, Measured[]> = { gateway: [], floor: [] }
    for (const [name, requests] of asked) await requireData(sides[name], requests[0]!)
    for (let each = 0; each < rounds; each++) {
      for (const [name, requests] of each % 2 === 0 ? asked : asked.toReversed()) {
        const task = { name: `${chosen.name}, ${name}`, requests, status: 200, connections, seconds }
        measured[name].push(await measure(load, sides[name], task, mariadb.process.pid!))
      }
    }
    const [gateway, floor] = [medians(measured.gateway), medians(measured.floor)]
    const toFloor = {
      throughput: round(gateway.requestsPerSecond / floor.requestsPerSecond),
      p99: round(gateway.p99Ms / floor.p99Ms),
    }
    cases[chosen.name] = { gateway, floor, toFloor }
  }
  const { case: _, keep, ...inputs } = options
  const at = new Date().toISOString()
  keepResult({ benchmark: 'graphql-mysql', at, inputs, machine: before, mariadb: version, cases }, keep)
}
