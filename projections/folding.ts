import type { JsMsg } from '@nats-io/jetstream'
import pg from 'pg'
import { BusUnavailable } from '../bus/connect.ts'

export interface Folding {
  readonly client: pg.ClientBase
  readonly stream: string
  /** Writes what messages come to, in the open transaction. */
  readonly apply: (messages: readonly JsMsg[]) => Promise<void>
  /** Keeps a message that cannot be folded, with the reason. */
  readonly bury: (message: JsMsg, error: unknown) => Promise<void>
}

/**
 * Folds messages in their order and moves the checkpoint: all at once; where that fails for what is in them, half by half, until
 * it is known which of them cannot be folded. That one is buried, and the others are folded nonetheless.
 *
 * @throws what is not the fault of a message: a database or a bus that is away.
 */
export async function fold(folding: Folding, messages: readonly JsMsg[]): Promise<void> {
  const { client, apply } = folding
  try {
    await client.query('begin')
    await apply(messages)
    await finish(folding, messages)
  } catch (error) {
    if (isPassing(error)) throw error
    // It fails too when it was the connection.
    await client.query('rollback')
    if (messages.length === 1) return await skip(folding, messages[0]!, error)
    const half = messages.length >> 1
    await fold(folding, messages.slice(0, half))
    await fold(folding, messages.slice(half))
  }
}

async function skip(folding: Folding, message: JsMsg, error: unknown): Promise<void> {
  await folding.bury(message, error)
  await folding.client.query('begin')
  await finish(folding, [message])
}

async function finish({ client, stream }: Folding, messages: readonly JsMsg[]): Promise<void> {
  await client.query(
    'insert into checkpoint values ($1, $2) on conflict (stream) do update set sequence = excluded.sequence',
    [stream, messages.at(-1)!.seq],
  )
  await client.query('commit')
}

/**
 * Classes and codes of SQLSTATE that are no message's fault: the connection, a read-only server, conflicts, tables or rights that
 * are missing, what is full, in use, stopped or damaged.
 */
const passing = /^(?:08|25|28|3D|3F|40|42|53|55|57|58|F0)|^XX00[12]$/

function isPassing(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return passing.test(error.code ?? '')
  return error instanceof BusUnavailable || (error instanceof Error && 'syscall' in error)
}
