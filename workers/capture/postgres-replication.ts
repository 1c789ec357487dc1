import { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { ClientConfig } from 'pg'
import { LogicalReplicationService, type Pgoutput, PgoutputPlugin } from 'pg-logical-replication'
import { formatLsn, parseLsn } from './lsn.ts'

export interface ReplicationOptions {
  readonly connection: ClientConfig
  readonly slotName: string
  readonly publicationNames: readonly string[]
  /** Called with one message after the other; the connection is not read meanwhile. A failure ends the replication. */
  readonly handle: (message: Pgoutput.Message) => Promise<void> | void
  /** Everything before this position is stored elsewhere and may be forgotten by the slot. */
  readonly durableLsn: () => bigint
  /** The server has sent everything up to here, and all of it was handled. */
  readonly onCaughtUp: (lsn: bigint) => void
  readonly onStart: () => void
  readonly signal: AbortSignal
}

/** How often the server hears from us, whatever it sends: well within any `wal_sender_timeout` in use. */
const feedbackMs = 500
const closingMs = 2_000

/** The settings REST answers are made under, so that events show values the same way. */
const sessionOptions = [
  'DateStyle=ISO,YMD',
  'IntervalStyle=iso_8601',
  'TimeZone=UTC',
  'bytea_output=hex',
  'extra_float_digits=1',
  'statement_timeout=0',
  'idle_in_transaction_session_timeout=0',
]
  .map((setting) => `-c ${setting}`)
  .join(' ')

/** Hands every value on as the text the server sent: a parsed number or date has lost digits. */
class TextPlugin extends PgoutputPlugin {
  received = 0

  override parse(buffer: Buffer): Pgoutput.Message {
    this.received += 1
    const message = super.parse(buffer)
    if (message.tag === 'relation') for (const column of message.columns) column.parser = asText
    return message
  }
}

interface ReplicationClient extends NodeJS.EventEmitter {
  readonly connection: NodeJS.EventEmitter
}

/**
 * The library hears a connection's errors only once it is made and until it is told to end; one that comes before or after would end
 * the process. It keeps the client in a field: whoever is put there is listened to from the first moment to long after the last.
 */
function guardErrors(service: LogicalReplicationService): LogicalReplicationService {
  let current: ReplicationClient | null = null
  const ignore = () => undefined
  return Object.defineProperty(service, '_client', {
    get: () => current,
    set(next: ReplicationClient | null) {
      // It takes every listener off before it lets go.
      const guarded = next ?? current
      guarded?.on('error', ignore)
      guarded?.connection.on('error', ignore)
      current = next
    },
  })
}

function asText(text: string): string {
  return text
}

/**
 * Reads a slot until the signal (then it resolves) or a fault (then it rejects). Each call makes a service of its own: the
 * library's would go on at the last position received, and what was not confirmed before would be lost.
 */
export async function replicate(options: ReplicationOptions): Promise<void> {
  const { signal, slotName } = options
  signal.throwIfAborted()
  const socket = new Socket()
  // TCP tells of a server that is gone without a word only when asked to.
  socket.setKeepAlive(true, 10_000)
  const service = guardErrors(
    new LogicalReplicationService(
      {
        ...options.connection,
        application_name: 'busbar-capture',
        connectionTimeoutMillis: 10_000,
        options: `${options.connection.options ?? ''} ${sessionOptions}`.trim(),
        stream: () => socket,
      },
      { acknowledge: { auto: false, timeoutSeconds: 0 }, flowControl: { enabled: true } },
    ),
  )
  const plugin = new TextPlugin({ protoVersion: 1, publicationNames: [...options.publicationNames], messages: true })
  const fault = Promise.withResolvers<never>()
  fault.promise.catch(() => undefined)
  const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  const feedback = new Feedback(service, options.durableLsn)
  let handled = 0
  let broken = false
  const fail = (error: unknown) => {
    broken = true
    fault.reject(error)
  }
  service.on('start', options.onStart)
  service.on('error', fail)
  service.on('data', async (_lsn, message: Pgoutput.Message) => {
    // The library goes on with the next message after a failed one, which would leave a hole.
    if (broken) return
    try {
      const handling = options.handle(message)
      if (handling) await handling
      handled += 1
    } catch (error) {
      fail(error)
    }
  })
  service.on('heartbeat', (lsn, _timestamp, shouldRespond) => {
    if (!broken && handled === plugin.received) options.onCaughtUp(parseLsn(lsn))
    if (shouldRespond) feedback.send()
  })
  const timer = setInterval(() => feedback.send(), feedbackMs)
  try {
    const ended = service.subscribe(plugin, slotName, '0/00000000').then(() => {
      throw new Error('The server ended the replication')
    })
    await Promise.race([stopped, fault.promise, ended])
    feedback.send()
  } finally {
    clearInterval(timer)
    broken = true
    // `destroy` waits for the server's goodbye, which a paused socket never reads.
    await Promise.race([service.destroy().catch(() => undefined), delay(closingMs, undefined, { ref: false })])
    socket.destroy()
  }
}

/** What the server is told of our progress. */
class Feedback {
  readonly #service: LogicalReplicationService
  readonly #durableLsn: () => bigint

  constructor(service: LogicalReplicationService, durableLsn: () => bigint) {
    this.#service = service
    this.#durableLsn = durableLsn
  }

  send(): void {
    const lsn = this.#durableLsn()
    // The library adds one. Confirming one byte too many would skip a commit record that starts right there.
    if (lsn > 0n) this.#service.acknowledge(formatLsn(lsn - 1n)).catch(() => undefined)
  }
}
