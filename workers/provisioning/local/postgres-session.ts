import { Client, type ClientConfig } from 'pg'
import { CareFailure } from './care-failure.ts'
import type { PostgresNode } from './postgres-node.ts'

export interface SessionOptions {
  /** Default: the instance's own database. */
  readonly database?: string
  /**
   * Default: the superuser of the node, who finds only PostgreSQL's own names: users can make functions of the same names in
   * their schemas.
   */
  readonly user?: { readonly user: string; readonly password: string }
  /** Default 30,000: the longest a statement may take (`statement_timeout`); 0 for no limit. */
  readonly statementTimeoutMs?: number
  /** Default `busbar`: what pg_stat_activity shows. */
  readonly applicationName?: string
  /** `true`: a walsender that knows the replication commands. */
  readonly replication?: boolean
}

const connectTimeoutMs = 10_000

/**
 * Opens a session, hands it to `work` and closes it however that ends.
 *
 * @throws {CareFailure} `unavailable` when the server does not answer; what `work` throws is passed on as it is.
 */
export async function withSession<T>(
  node: PostgresNode,
  work: (client: Client) => Promise<T>,
  options: SessionOptions = {},
): Promise<T> {
  const client = await openSession(node, options)
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** As {@link withSession}, for a session that outlives one call: the caller ends it. */
export async function openSession(node: PostgresNode, options: SessionOptions = {}): Promise<Client> {
  const { statementTimeoutMs = 30_000, applicationName = 'busbar', user = node.superuser, replication } = options
  const config: ClientConfig & { replication?: string } = {
    host: node.socketFolder ?? '127.0.0.1',
    port: node.port,
    user: user.user,
    password: user.password,
    database: options.database ?? node.database,
    application_name: applicationName,
    connectionTimeoutMillis: connectTimeoutMs,
    ...(replication ? { replication: 'true' } : {}),
  }
  const client = new Client(config)
  // A session whose server dies between two queries says so here; the next query says it to the caller.
  client.on('error', () => undefined)
  try {
    await client.connect()
    if (!replication) await client.query(`set statement_timeout = ${statementTimeoutMs}`)
    if (!replication && options.user === undefined) await client.query('set search_path = pg_catalog')
    return client
  } catch (error) {
    await client.end().catch(() => undefined)
    throw connectionFailure(error)
  }
}

function connectionFailure(error: unknown): CareFailure {
  const code = (error as { code?: string }).code ?? ''
  const words: Readonly<Record<string, string>> = {
    '28P01': 'The database server does not accept the kept password.',
    '28000': 'The database server does not let the administrator in.',
    '3D000': 'The database of the instance does not exist.',
    '53300': 'The database server has no connection left.',
    '57P03': 'The database server is starting or stopping.',
  }
  return new CareFailure('unavailable', words[code] ?? 'The database server does not answer.', { cause: error })
}

/** Whether this is a server's own answer (it has an SQLSTATE), not a broken connection. */
export function sqlState(error: unknown): string | undefined {
  const { code, severity } = error as { code?: unknown; severity?: unknown }
  return typeof code === 'string' && typeof severity === 'string' ? code : undefined
}

/** Asks until `condition` holds; @throws {CareFailure} `failed` with `message` when it does not within the time. */
export async function waitUntil(
  condition: () => Promise<boolean>,
  {
    timeoutMs,
    everyMs = 50,
    message,
    signal,
  }: {
    readonly timeoutMs: number
    readonly everyMs?: number
    readonly message: string
    readonly signal?: AbortSignal | undefined
  },
): Promise<void> {
  const end = performance.now() + timeoutMs
  for (;;) {
    signal?.throwIfAborted()
    if (await condition()) return
    if (performance.now() > end) throw new CareFailure('failed', message)
    await new Promise((again) => setTimeout(again, everyMs))
  }
}
