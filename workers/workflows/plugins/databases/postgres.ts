import type { Client, QueryResult } from 'pg'
import { type Static, Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { accountProperties, serverPlace, TlsSettings, tlsOptions } from '../server-properties.ts'
import { RowBudget } from './row-budget.ts'
import { SqlOutput, type SqlStatement, sqlOutputs, sqlProperties, statementsOf } from './sql-properties.ts'

const Input = Type.Object(
  {
    url: Type.String({ description: 'Where the database is', examples: ['postgresql://app@localhost:5432/shop'] }),
    ...accountProperties,
    tls: Type.Optional(TlsSettings),
    ...sqlProperties('select * from film where id = $1'),
  },
  { additionalProperties: false },
)
type Given = TaskRun<Static<typeof Input>>

/** Source: https://www.postgresql.org/docs/current/protocol-flow.html */
export const postgres = definePlugin({
  id: 'db.postgres',
  name: 'PostgreSQL',
  category: 'Databases',
  description:
    'Runs SQL on a PostgreSQL: one statement, one with many sets of parameters, or several in one transaction. ' +
    'Numbers keep their digits and dates their text.',
  needs: 'A PostgreSQL',
  input: Input,
  output: SqlOutput,
  example: `name: ask-postgres
tasks:
  - name: ask
    type: db.postgres
    properties:
      url: postgresql://app@localhost:5432/shop
      password: \${DB.password}
      sql: select 1 as one
`,
  async run(given) {
    const { input, signal, services } = given
    const statements = statementsOf(input)
    const client = await openClient(given)
    try {
      const results = await runAll(client, statements, input)
      return await sqlOutputs(results, input.into, services.files)
    } catch (error) {
      if (signal.aborted || error instanceof TaskFailure) await cancelOnServer(given, client)
      signal.throwIfAborted()
      throw postgresFailure(error)
    } finally {
      await endClient(client)
    }
  },
})

/** Types whose JavaScript value says the same: bool, int2, int4, float4, float8, json, jsonb, text and its arrays. */
const plain = new Set([16, 21, 23, 700, 701, 114, 3802, 25, 1009, 1043, 1015])

const connectMs = 10_000

async function openClient(given: Given): Promise<Client> {
  const { input, services, signal, idempotencyKey } = given
  const { default: pg } = await import('pg')
  const place = serverPlace(input, { postgresql: 5432, postgres: 5432 })
  const mode = place.query.get('sslmode') ?? 'disable'
  const settings = input.tls ?? (mode === 'disable' ? null : { verify: mode.startsWith('verify') })
  const socket = await services.net.connect({ host: place.host, port: place.port, signal })
  // The connection is there already.
  socket.connect = () => {
    process.nextTick(() => socket.emit('connect'))
    return socket
  }
  const client = new pg.Client({
    stream: () => socket,
    host: place.host,
    port: place.port,
    user: place.user,
    password: place.password,
    database: place.path === '' ? place.user : place.path,
    ...(settings !== null && { ssl: tlsOptions(settings, place.host) }),
    connectionTimeoutMillis: Math.min(connectMs, input.timeoutMs),
    statement_timeout: input.timeoutMs,
    application_name: `busbar ${idempotencyKey}`.slice(0, 63),
    types: {
      getTypeParser: (oid: number) => (plain.has(oid) ? pg.types.getTypeParser(oid, 'text') : asText),
    } as never,
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return client
  } catch (error) {
    socket.destroy()
    signal.throwIfAborted()
    throw postgresFailure(error)
  }
}

async function runAll(client: Client, statements: readonly SqlStatement[], input: Given['input']) {
  const { default: pg } = await import('pg')
  const budget = new RowBudget(input)
  const results: { rows: unknown[]; rowCount: number }[] = []
  const runOne = async ({ sql, parameters }: SqlStatement) => {
    const rows: unknown[] = []
    const { promise, resolve, reject } = Promise.withResolvers<QueryResult>()
    const query = client.query(new pg.Query({ text: sql, values: [...parameters] }))
    query.on('row', (row: unknown) => {
      try {
        budget.take(row)
        rows.push(row)
      } catch (error) {
        reject(error)
      }
    })
    query.on('end', (result: QueryResult) => resolve(result))
    query.on('error', reject)
    const { rowCount } = await promise
    return { rows, rowCount: rowCount ?? rows.length }
  }
  if (statements.length > 1) await client.query('begin')
  for (const statement of statements) results.push(await runOne(statement))
  if (statements.length > 1) await client.query('commit')
  return results
}

const cancelMs = 900
const cancelRequest = 80_877_102

/** A statement of a closed connection goes on until the server next looks for its client: this ends it now. */
async function cancelOnServer({ input, services }: Given, client: Client): Promise<void> {
  const { processID, secretKey } = client as unknown as { processID: number | null; secretKey: number | null }
  if (processID === null || secretKey === null) return
  const signal = AbortSignal.timeout(cancelMs)
  try {
    const { host, port } = serverPlace(input, { postgresql: 5432, postgres: 5432 })
    const socket = await services.net.connect({ host, port, signal })
    const message = Buffer.alloc(16)
    for (const [at, value] of [message.length, cancelRequest, processID, secretKey].entries()) {
      message.writeInt32BE(value, at * 4)
    }
    // The server closes it once the request has been dealt with.
    const closed = new Promise((resolve) => socket.once('close', resolve))
    socket.resume().end(message)
    await closed
  } catch {
    // The server is away: so is the statement.
  }
}

/** SQLSTATE classes of what can pass: connections, serialization, resources, a server that stops or starts. */
const passing = /^(08|40|53|57P0|55P03)/

function postgresFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { code = '', message } = error as { code?: string; message: string }
  if (/^[0-9A-Z]{5}$/.test(code) && /\d/.test(code)) {
    const kind = code === '57014' ? 'timeout' : passing.test(code) ? 'unavailable' : 'refused'
    return new TaskFailure(kind, `PostgreSQL refused it (${code}): ${message}`, error)
  }
  if (/timeout expired/.test(message)) return new TaskFailure('timeout', 'The server does not answer', error)
  if (/^E[A-Z]+$/.test(code) || /Connection terminated|closed/.test(message))
    return new TaskFailure('unavailable', `The connection broke: ${code || message}`, error)
  return new TaskFailure('refused', message, error)
}

async function endClient(client: Client): Promise<void> {
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection
  const late = setTimeout(() => stream.destroy(), 200)
  await client.end().catch(() => undefined)
  clearTimeout(late)
  stream.destroy()
}

function asText(text: string): string {
  return text
}
