import { parseArgs } from 'node:util'
import { freePort } from '../local/child.ts'
import type { PostgresServer } from '../local/postgres-server.ts'
import { createDataset } from './dataset.ts'
import { type GraphqlCase, graphqlCases } from './graphql-cases.ts'
import { benchMysql } from './graphql-mysql.ts'
import { bringPostgraphile, peerPackages } from './graphql-peer.ts'
import { getRequests, postRequests, requireData } from './graphql-requests.ts'
import { loader, type Measured, measure, medians, round, versionOf } from './measure.ts'
import { Bench, databaseConfig, machine, type Started } from './processes.ts'
import { keepResult } from './results.ts'

/**
 * The GraphQL gateway against PostGraphile and against our REST gateway, on one database in one run: case by case, all in turn, round
 * after round; the medians of the rounds count. All connect as the owner of the tables, without tokens. Prints one JSON line and keeps it
 * in results/.
 *
 *     node ops/bench/graphql.ts [--seconds=4] [--rounds=3] [--connections=32] [--pool=10] [--case=<part of a name>] [--no-keep] [--mysql]
 *
 * With `--mysql` the gateway on a MariaDB, against bare mysql2 with the same SQL.
 *
 * Targets: five times PostGraphile's throughput at a lower p99, and 0.7 of REST's throughput.
 */
const { values } = parseArgs({
  allowNegative: true,
  options: {
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '3' },
    connections: { type: 'string', default: '32' },
    pool: { type: 'string', default: '10' },
    case: { type: 'string', default: '' },
    keep: { type: 'boolean', default: true },
    mysql: { type: 'boolean', default: false },
  },
})
const seconds = Number(values.seconds)
const rounds = Number(values.rounds)
const connections = Number(values.connections)

type SideName = 'gateway' | 'postgraphile' | 'rest'

async function main(): Promise<void> {
  const before = machine()
  const peer = await bringPostgraphile()
  await using bench = new Bench()
  const postgres = await bench.postgres()
  await createDataset(postgres.url)
  const production = { NODE_ENV: 'production', GRAPHILE_ENV: 'production' }
  const sides: Readonly<Record<SideName, Started>> = {
    gateway: await role(bench, 'gateway:graphql', postgres),
    postgraphile: await bench.module('graphql-postgraphile.ts', [peer, postgres.url, values.pool], production),
    rest: await role(bench, 'gateway:rest', postgres),
  }
  const load = loader(bench)
  const cases: Record<string, unknown> = {}
  for (const chosen of graphqlCases.filter(({ name }) => name.includes(values.case))) {
    const asked = requestsOf(chosen)
    const measured: Record<SideName, Measured[]> = { gateway: [], postgraphile: [], rest: [] }
    for (const [name, requests] of asked) await requireData(sides[name], requests[0]!)
    for (let each = 0; each < rounds; each++) {
      // Another goes first each time: what disturbs a round disturbs no side more than the others.
      const inTurn = asked.map((_, index) => asked[(index + each) % asked.length]!)
      for (const [name, requests] of inTurn) {
        const task = { name: `${chosen.name}, ${name}`, requests, status: 200, connections, seconds }
        measured[name].push(await measure(load, sides[name], task, postgres.process.pid!))
      }
    }
    cases[chosen.name] = compare(measured)
  }
  const inputs = { seconds, rounds, connections, pool: Number(values.pool), peer: peerPackages }
  const at = new Date().toISOString()
  const versions = { machine: before, postgres: await versionOf(postgres.url) }
  keepResult({ benchmark: 'graphql', at, inputs, ...versions, cases }, values.keep)
}

async function role(bench: Bench, name: string, postgres: PostgresServer): Promise<Started> {
  const port = await freePort()
  return bench.role(name, { ...databaseConfig(postgres), 'server.port': port, 'app.pool-size': values.pool })
}

function requestsOf({ ours, postgraphile, variables, rest }: GraphqlCase): [SideName, string[]][] {
  const sides: [SideName, string[]][] = [
    ['gateway', postRequests(ours, variables)],
    ['postgraphile', postRequests(postgraphile, variables)],
  ]
  if (rest !== null) sides.push(['rest', getRequests((n) => `/api/v1${rest(n)}`)])
  return sides
}

function compare(measured: Readonly<Record<SideName, readonly Measured[]>>) {
  const gateway = medians(measured.gateway)
  const postgraphile = medians(measured.postgraphile)
  const toPostgraphile = {
    throughput: round(gateway.requestsPerSecond / postgraphile.requestsPerSecond),
    p99: round(gateway.p99Ms / postgraphile.p99Ms),
  }
  if (measured.rest.length === 0) return { gateway, postgraphile, toPostgraphile }
  const rest = medians(measured.rest)
  return {
    gateway,
    postgraphile,
    rest,
    toPostgraphile,
    toRest: round(gateway.requestsPerSecond / rest.requestsPerSecond),
  }
}

if (values.mysql)
  await benchMysql({ seconds, rounds, connections, pool: Number(values.pool), case: values.case, keep: values.keep })
else await main()
