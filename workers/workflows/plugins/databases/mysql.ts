import type { Connection, Query } from 'mysql2'
import { type Static, Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { accountProperties, serverPlace, TlsSettings, tlsOptions } from '../server-properties.ts'
import { mysqlFailure } from './mysql-failure.ts'
import { RowBudget } from './row-budget.ts'
import { SqlOutput, type SqlStatement, sqlOutputs, sqlProperties, statementsOf } from './sql-properties.ts'

const Input = Type.Object(
  {
    url: Type.String({ description: 'Where the database is', examples: ['mysql://app@localhost:3306/shop'] }),
    ...accountProperties,
    tls: Type.Optional(TlsSettings),
    ...sqlProperties('select * from film where id = ?'),
  },
  { additionalProperties: false },
)
type Given = TaskRun<Static<typeof Input>>

/** Source: https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html and https://mariadb.com/kb/en/kill/ */
export const mysql = definePlugin({
  id: 'db.mysql',
  name: 'MySQL',
  category: 'Databases',
  description:
    'Runs SQL on a MySQL or MariaDB: one statement, one with many sets of parameters, or several in one transaction. ' +
    'DECIMAL and BIGINT come as texts with all their digits, dates as texts, bytes in base64.',
  needs: 'A MySQL 5.7 or MariaDB 10.5, or newer',
  input: Input,
  output: SqlOutput,
  example: `name: ask-mysql
tasks:
  - name: ask
    type: db.mysql
    properties:
      url: mysql://app@localhost:3306/shop
      password: \${DB.password}
      sql: select 1 as one
`,
  async run(given) {
    const { input, signal, services } = given
    const statements = statementsOf(input)
    const session = await openSession(given)
    try {
      const results = await runAll(session, statements, given)
      return await sqlOutputs(results, input.into, services.files)
    } catch (error) {
      // A statement of a closed connection goes on until the server next looks for its client.
      if (signal.aborted || error instanceof TaskFailure) await endOnServer(given, session.threadId)
      signal.throwIfAborted()
      throw mysqlFailure(error)
    } finally {
      session.destroy()
    }
  },
})

const connectMs = 10_000

async function openSession(given: Given, signal = given.signal): Promise<Connection> {
  const { input, services, idempotencyKey } = given
  const { default: driver } = await import('mysql2')
  const place = serverPlace(input, { mysql: 3306, mariadb: 3306 })
  const socket = await services.net.connect({ host: place.host, port: place.port, signal })
  const { servername = place.host, checkServerIdentity: _own, ...tls } = tlsOptions(input.tls ?? {}, place.host)
  const connection = driver.createConnection({
    // The name in the certificate; the connection is there already.
    host: servername,
    stream: socket,
    user: place.user,
    password: place.password,
    database: place.path,
    ...(input.tls !== undefined && { ssl: { ...tls, verifyIdentity: input.tls.verify } as never }),
    connectTimeout: Math.min(connectMs, input.timeoutMs),
    connectAttributes: { program_name: `busbar ${idempotencyKey}`.slice(0, 60) },
    // No file of this machine to anybody, and changed rows are rows that have changed.
    flags: ['-LOCAL_FILES', '-FOUND_ROWS'],
    charset: 'utf8mb4',
    supportBigNumbers: true,
    bigNumberStrings: true,
    dateStrings: true,
  })
  // Whoever waits listens too.
  connection.on('error', () => undefined)
  try {
    await new Promise<void>((resolve, reject) => {
      connection.once('error', reject)
      connection.connect((error) => (error ? reject(error) : resolve()))
    })
    return connection
  } catch (error) {
    connection.destroy()
    signal.throwIfAborted()
    throw mysqlFailure(error)
  }
}

async function runAll(session: Connection, statements: readonly SqlStatement[], { input, signal }: Given) {
  const budget = new RowBudget(input)
  const run = (statement: SqlStatement) => runOne(session, statement, { budget, signal, timeoutMs: input.timeoutMs })
  const results: Awaited<ReturnType<typeof runOne>>[] = []
  if (statements.length > 1) await run({ sql: 'start transaction', parameters: [] })
  for (const statement of statements) results.push(await run(statement))
  if (statements.length > 1) await run({ sql: 'commit', parameters: [] })
  return results
}

/** Parameters go to the server beside the text, never into it. */
function commandOf(session: Connection, { sql, parameters }: SqlStatement): Query {
  if (parameters.length === 0) return session.query(sql)
  return session.execute({ sql, values: parameters.map(parameterOf) as never[] }) as unknown as Query
}

function parameterOf(value: unknown): unknown {
  if (value === undefined) return null
  return value !== null && typeof value === 'object' ? JSON.stringify(value) : value
}

interface Bounds {
  readonly budget: RowBudget
  readonly signal: AbortSignal
  readonly timeoutMs: number
}

async function runOne(session: Connection, statement: SqlStatement, { budget, signal, timeoutMs }: Bounds) {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const rows: unknown[] = []
  const told = { changed: 0, insertId: null as string | null }
  let inRows = false
  const command = commandOf(session, statement)
  command.on('fields', (fields) => {
    inRows = fields !== undefined
  })
  command.on('result', (result) => {
    try {
      if (inRows) {
        const row = plainRow(result as Record<string, unknown>)
        budget.take(row)
        rows.push(row)
      } else {
        const { affectedRows = 0, insertId = 0 } = (result ?? {}) as { affectedRows?: number; insertId?: unknown }
        told.changed = affectedRows
        told.insertId = String(insertId) === '0' ? null : String(insertId)
      }
    } catch (error) {
      reject(error)
    }
  })
  command.on('error', reject)
  command.on('end', resolve)
  const late = () => reject(new TaskFailure('timeout', `The statement is not done after ${timeoutMs} ms`))
  const timer = setTimeout(late, timeoutMs)
  const stop = () => reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  // A statement without a callback is not told that its connection is gone.
  session.on('error', reject)
  try {
    await promise
  } finally {
    clearTimeout(timer)
    session.off('error', reject)
    signal.removeEventListener('abort', stop)
  }
  return { rows, rowCount: inRows || rows.length > 0 ? rows.length : told.changed, insertId: told.insertId }
}

function plainRow(row: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, Buffer.isBuffer(value) ? value.toString('base64') : value]),
  )
}

const endMs = 900

/** Ends the session on the server, with whatever it is doing. */
async function endOnServer(given: Given, threadId: number | null): Promise<void> {
  if (threadId === null) return
  const signal = AbortSignal.timeout(endMs)
  try {
    const other = await openSession(given, signal)
    try {
      await new Promise((resolve) => other.query(`kill ${Number(threadId)}`, resolve))
    } finally {
      other.destroy()
    }
  } catch {
    // The server is away, or the session has ended by itself.
  }
}
