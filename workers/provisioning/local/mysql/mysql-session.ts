import { join } from 'node:path'
import { type Connection, createConnection } from 'mysql2/promise'
import { CareFailure } from '../care-failure.ts'
import type { MysqlNode } from './mysql-node.ts'

export interface MysqlSessionOptions {
  /** Default: the instance's own database; null for none. */
  readonly database?: string | null
  /** Default: the superuser of the node. */
  readonly user?: { readonly user: string; readonly password: string }
}

/**
 * Opens a session, hands it to `work` and closes it however that ends.
 *
 * @throws {CareFailure} `unavailable` when the server does not answer; what `work` throws is passed on as it is.
 */
export async function withMysql<T>(
  node: MysqlNode,
  work: (connection: Connection) => Promise<T>,
  options: MysqlSessionOptions = {},
): Promise<T> {
  const connection = await openMysql(node, options)
  try {
    return await work(connection)
  } finally {
    await connection.end().catch(() => connection.destroy())
  }
}

/** As {@link withMysql}, for a session that outlives one call: the caller ends it. */
export async function openMysql(node: MysqlNode, options: MysqlSessionOptions = {}): Promise<Connection> {
  const { user = node.superuser, database = node.database } = options
  try {
    const connection = await createConnection({
      ...(node.socketFolder === undefined
        ? { host: '127.0.0.1', port: node.port }
        : { socketPath: join(node.socketFolder, 's') }),
      user: user.user,
      password: user.password,
      ...(database === null ? {} : { database }),
      connectTimeout: 10_000,
      timezone: 'Z',
      supportBigNumbers: true,
    })
    // Without a listener a session whose server dies would end this process.
    connection.on('error', () => undefined)
    return connection
  } catch (error) {
    const { code = '' } = error as { code?: string }
    const words: Readonly<Record<string, string>> = {
      ER_ACCESS_DENIED_ERROR: 'The database server does not accept the kept password.',
      ER_BAD_DB_ERROR: 'The database of the instance does not exist.',
      ER_CON_COUNT_ERROR: 'The database server has no connection left.',
    }
    throw new CareFailure('unavailable', words[code] ?? 'The database server does not answer.', { cause: error })
  }
}

/** The rows of a query. */
export async function rowsOf<T>(
  connection: Connection,
  sql: string,
  values: readonly unknown[] = [],
): Promise<readonly T[]> {
  const [rows] = await connection.query(sql, values as never)
  return rows as T[]
}

/** A server's own answer: its number and SQLSTATE, not a broken connection. */
export function serverError(
  error: unknown,
): { readonly errno: number; readonly sqlState: string; readonly message: string } | undefined {
  const { errno, sqlState, message } = error as { errno?: unknown; sqlState?: unknown; message: string }
  return typeof errno === 'number' && typeof sqlState === 'string' ? { errno, sqlState, message } : undefined
}
