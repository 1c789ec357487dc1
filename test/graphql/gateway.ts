import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import pg from 'pg'
import type { Test } from 'tap'
import { type GraphqlGatewayOptions, startGraphqlGateway } from '../../gateways/graphql/server.ts'
import { testPostgres } from '../support/servers.ts'

export interface Answer {
  readonly status: number
  // biome-ignore-start lint/suspicious/noExplicitAny: what an answer holds is what the tests are about
  readonly data?: any
  readonly errors?: any
  // biome-ignore-end lint/suspicious/noExplicitAny: as above
}

export interface TestGateway {
  readonly url: string
  /** A connection of the test's own, as the owner of everything. */
  readonly sql: pg.Client
  ask(query: string, variables?: object, headers?: Readonly<Record<string, string>>): Promise<Answer>
}

/** A GraphQL gateway over the fixture (or over `schemaSql`); every fault of the gateway fails the test. */
export async function testGateway(
  t: Test,
  {
    schemaSql,
    settings = {},
    ...options
  }: Partial<GraphqlGatewayOptions> & {
    readonly schemaSql?: string
    readonly settings?: Readonly<Record<string, string | number>>
  } = {},
): Promise<TestGateway> {
  const server = await testPostgres(t, { settings })
  const sql = new pg.Client({ connectionString: server.url })
  await sql.connect()
  t.teardown(() => sql.end())
  await sql.query(schemaSql ?? readFileSync(resolve(import.meta.dirname, '../support/fixture.sql'), 'utf8'))
  const gateway = await startGraphqlGateway({
    host: '127.0.0.1',
    port: 0,
    connection: { connectionString: server.url },
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
