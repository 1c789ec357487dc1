import { type ConnectionOptions, createConnection, type PoolConnection } from 'mysql2/promise'
import { Unavailable } from '../../schemas/failure.ts'
import type { CallContext } from './statement.ts'

export interface KillOptions {
  /** Where another connection of the same account is opened. */
  readonly connection: ConnectionOptions
  /** After which a write is ended. 0: the server does that, or nobody. */
  readonly writeLimitMs: number
}

/** Ends the statement when the caller of a read leaves, and a write when it takes too long. */
export async function killable<T>(
  connection: PoolConnection,
  { signal, readOnly }: CallContext,
  { connection: to, writeLimitMs }: KillOptions,
  work: () => Promise<T>,
): Promise<T> {
  const stuck = Promise.withResolvers<never>()
  stuck.promise.catch(() => undefined)
  let killing: Promise<void> | undefined
  const kill = () => {
    killing ??= killQuery(to, connection.threadId).catch((error: unknown) => {
      if (readOnly) return
      connection.destroy()
      stuck.reject(stillRunning(error))
    })
  }
  const timer = !readOnly && writeLimitMs > 0 ? setTimeout(kill, writeLimitMs) : undefined
  if (readOnly) signal?.addEventListener('abort', kill, { once: true })
  try {
    return await Promise.race([work(), stuck.promise])
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', kill)
    if (killing !== undefined) {
      // What comes too late for this statement must not meet the next one on the connection.
      await killing
      await connection.query('do 0').catch(() => undefined)
    }
  }
}

async function killQuery(to: ConnectionOptions, threadId: number | null): Promise<void> {
  const connection = await createConnection({ ...to, connectTimeout: 5_000 })
  try {
    await connection.query(`kill query ${Number(threadId)}`)
  } finally {
    connection.destroy()
  }
}

/** A trigger of somebody else's runs as them, and an account ends only what is its own. */
function stillRunning(cause: unknown): Unavailable {
  return new Unavailable(
    'data/statement-timeout',
    'The write ran longer than the limit and could not be stopped: it may or may not be done',
    { details: { sqlstate: '57014' }, cause, hint: 'Look before you send it again.', retryAfterSeconds: 5 },
  )
}
