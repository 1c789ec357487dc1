import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { readOnlyParameter } from './care-plans.ts'
import type { PostgresNode } from './postgres-node.ts'

/** What a primary says of itself. */
export interface Asked {
  /** Names of the standbys that get what is written. */
  readonly streaming: readonly string[]
  readonly readOnly: boolean
  /** It is one no longer, or not yet. */
  readonly recovering: boolean
}

interface Row {
  readonly streaming: readonly string[]
  readonly closed: string
  readonly recovering: boolean
  readonly folder: string
}

/** How long a server may take to answer, and how often in a row it may not. */
const probeMs = 2_000
const probePauseMs = 300
const silentProbes = 3

/** Asked quickly, in a session of its own: a server that hangs takes a connection and says nothing. */
export async function ask({ port, superuser, dataFolder }: PostgresNode): Promise<Asked> {
  const client = new pg.Client({
    host: '127.0.0.1',
    port,
    user: superuser.user,
    password: superuser.password,
    database: 'postgres',
    application_name: 'busbar health',
    connectionTimeoutMillis: probeMs,
    query_timeout: probeMs,
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const { rows } = await client.query<Row>(
      `select current_setting('${readOnlyParameter}') as closed, pg_is_in_recovery() as recovering,
        current_setting('data_directory') as folder,
        array(select application_name from pg_stat_replication where state = 'streaming') as streaming`,
    )
    const { streaming, closed, recovering, folder } = rows[0]!
    if (folder !== dataFolder) throw new Error('Another server answers at its port')
    return { streaming, readOnly: closed === 'on', recovering }
  } finally {
    // Not waited for: one that hangs does not say goodbye.
    void client.end().catch(() => undefined)
  }
}

/** Whether it takes connections and says nothing. One that refuses them, or has no more of them, is alive: it says so. */
export async function isSilent(node: PostgresNode): Promise<boolean> {
  return await ask(node).then(
    () => false,
    (error: Error & { code?: string }) => error.code === undefined && /timeout/i.test(error.message),
  )
}

/** Whether it answers after all. */
export async function answersYet(node: PostgresNode): Promise<boolean> {
  for (let probe = 1; probe < silentProbes; probe++) {
    await sleep(probePauseMs)
    const answered = await ask(node).then(
      () => true,
      () => false,
    )
    if (answered) return true
  }
  return false
}
