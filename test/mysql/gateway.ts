import { type Connection, createConnection } from 'mysql2/promise'
import type { Test } from 'tap'
import { type GraphqlGatewayOptions, startGraphqlGateway } from '../../gateways/graphql/server.ts'
import type { Answer } from '../graphql/gateway.ts'
import { testMysql } from '../support/mysql.ts'

export interface MysqlAddress {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
}

export interface MysqlTestServer {
  readonly address: MysqlAddress
  /** A connection of the test's own, as the owner of everything. */
  readonly sql: Connection
}

export interface MysqlTestGateway extends MysqlTestServer {
  readonly url: string
  ask(query: string, variables?: object, headers?: Readonly<Record<string, string>>): Promise<Answer>
}

type Owner = Pick<Test, 'teardown' | 'fail'>

/** A MySQL of its own with the database `public`. */
export async function testMysqlServer(
  t: Owner,
  schemaSql: string,
  settings: Readonly<Record<string, string | number>> = {},
): Promise<MysqlTestServer> {
  const server = await testMysql(t, { settings })
  const { hostname: host, port, username: user, password } = new URL(server.url)
  const address = { host, port: Number(port), user, password: decodeURIComponent(password) }
  const sql = await createConnection({ ...address, multipleStatements: true })
  sql.on('error', () => undefined)
  t.teardown(() => sql.destroy())
  await sql.query(`create database public character set utf8mb4; use public; ${schemaSql}`)
  return { address, sql }
}

/** A GraphQL gateway over a server that runs; every fault of the gateway fails the test. */
export async function openMysqlGateway(
  t: Owner,
  mysql: MysqlAddress,
  options: Partial<GraphqlGatewayOptions> = {},
): Promise<Pick<MysqlTestGateway, 'url' | 'ask'>> {
  const gateway = await startGraphqlGateway({
    host: '127.0.0.1',
    port: 0,
    mysql,
    schemas: ['public'],
    naming: 'spec',
    defaultPageSize: 100,
    maxPageSize: 1000,
    maxBodyBytes: 1_048_576,
    corsOrigins: ['*'],
    jwt: {},
    emitCommands: false,
    onObservation: (observation) =>
      observation.type === 'request-fault' && t.fail((observation.error as Error).stack ?? String(observation.error)),
    ...options,
  })
  t.teardown(() => gateway.stop())
  return {
    url: gateway.url,
    ask: async (query, variables, headers = {}) => {
      const response = await fetch(`${gateway.url}/graphql`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', ...headers },
        body: JSON.stringify({ query, variables }),
      })
      return { status: response.status, ...((await response.json()) as object) }
    },
  }
}

/** Both at once. */
export async function testMysqlGateway(
  t: Owner,
  {
    schemaSql,
    settings = {},
    ...options
  }: Partial<GraphqlGatewayOptions> & {
    readonly schemaSql: string
    readonly settings?: Readonly<Record<string, string | number>>
  },
): Promise<MysqlTestGateway> {
  const server = await testMysqlServer(t, schemaSql, settings)
  return { ...server, ...(await openMysqlGateway(t, server.address, options)) }
}
