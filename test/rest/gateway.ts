import { readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { resolve } from 'node:path'
import pg from 'pg'
import type { Test } from 'tap'
import { type RestGatewayOptions, startRestGateway } from '../../gateways/rest/server.ts'
import { testPostgres } from '../support/servers.ts'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: what an answer holds is what the tests are about
  readonly json: () => any
}

export interface TestGateway {
  readonly url: string
  readonly databaseUrl: string
  /** A connection of the test's own, as the owner of everything. */
  readonly sql: pg.Client
  /** The path below `/api/v1`, sent as it stands: fetch would mend what the tests want to be broken. */
  call(path: string, options?: CallOptions): Promise<Answer>
}

export interface CallOptions {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** A gateway over the fixture (or over `schemaSql`); every fault of the gateway fails the test. */
export async function testGateway(
  t: Test,
  { schemaSql, ...options }: Partial<RestGatewayOptions> & { readonly schemaSql?: string } = {},
): Promise<TestGateway> {
  const server = await testPostgres(t)
  const sql = new pg.Client({ connectionString: server.url })
  await sql.connect()
  t.teardown(() => sql.end())
  await sql.query(schemaSql ?? readFileSync(resolve(import.meta.dirname, '../support/fixture.sql'), 'utf8'))
  const gateway = await startRestGateway({
    host: '127.0.0.1',
    port: 0,
    connection: { connectionString: server.url },
    schema: 'public',
    defaultPageSize: 100,
    maxPageSize: 1000,
    maxExpandDepth: 5,
    maxBodyBytes: 1_048_576,
    corsOrigins: ['*'],
    jwt: {},
    onObservation: (observation) => observation.type === 'request-fault' && t.fail(String(observation.error)),
    ...options,
  })
  t.teardown(() => gateway.stop())
  const { port } = new URL(gateway.url)
  return {
    url: gateway.url,
    databaseUrl: server.url,
    sql,
    call: (path, call) => callRaw(Number(port), `/api/v1${path}`, call),
  }
}

/** Watchdog against a hang; no answer is expected to take a fraction of it. */
const patienceMs = 20_000

function callRaw(
  port: number,
  path: string,
  { method = 'GET', headers = {}, body }: CallOptions = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { host: '127.0.0.1', port, path, method, headers, signal: AbortSignal.timeout(patienceMs) },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString()
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: () => JSON.parse(text) })
        })
      },
    )
    request.on('error', reject)
    request.end(body)
  })
}
