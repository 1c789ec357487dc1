import { type Connection, createConnection } from 'mysql2/promise'
import type { Test } from 'tap'
import { type GraphqlGatewayOptions, startGraphqlGateway } from '../../gateways/graphql/server.ts'
import type { Answer } from '../graphql/gateway.ts'
import { testMariadb } from '../support/mariadb.ts'

export interface MysqlTestGateway {
  readonly url: string
  /** The server's own. */
  readonly address: { readonly host: string; readonly port: number; readonly user: string; readonly password: string }
  /** A connection of the test's own, as the owner of everything. */
  readonly sql: Connection
  ask(query: string, variables?: object, headers?: Readonly<Record<string, string>>): Promise<Answer>
}

/** A GraphQL gateway over a MariaDB of its own with the database `public`; every fault of the gateway fails the test. */
export async function testMysqlGateway(
  t: Test,
  {
    schemaSql,
    settings = {},
    ...options
  }: Partial<GraphqlGatewayOptions> & {
    readonly schemaSql: string
    readonly settings?: Readonly<Record<string, string | number>>
  },
): Promise<MysqlTestGateway> {
  const server = await testMariadb(t, { settings })
  const { hostname: host, port, username: user, password } = new URL(server.url)
  const address = { host, port: Number(port), user, password: decodeURIComponent(password) }
  const sql = await createConnection({ ...address, multipleStatements: true })
  sql.on('error', () => undefined)
  t.teardown(() => sql.destroy())
  await sql.query(`create database public character set utf8mb4; use public; ${schemaSql}`)
  const gateway = await startGraphqlGateway({
    host: '127.0.0.1',
    port: 0,
    mysql: address,
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
    address,
    sql,
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
