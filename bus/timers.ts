import { type Bus, BusUnavailable } from './connect.ts'
import { newId } from './message.ts'
import { asking, publish } from './publish.ts'
import { dueSubject, timerSubject } from './subject.ts'

export interface Timer {
  /** What it is for: a consumer reads `due.<purpose>.>` (`dueSubjects`) of the stream TIMERS. */
  readonly purpose: string
  /** With the purpose it names the timer. */
  readonly id: string
  /** Epoch ms; a time that has passed is due at once. */
  readonly at: number
  /** JSON; what comes out. At most 64 KB. */
  readonly body: unknown
  /** Come out too: a trace, a correlation. */
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * How those who serve timers consume them, so that one is handled within a second of its time, whoever died, froze or lost its power with
 * it in hand: it goes to somebody else before long, and not for long to who does not answer. A machine that hangs for a minute loses none.
 */
export const timerDelivery = { ackWaitMs: 400, fetchMs: 1_000, maxSilent: 250 } as const

const stream = 'TIMERS'
/** A timer that nobody has handled for this long after its time is forgotten. */
const dueTtl = '720h'
const maxBodyBytes = 64 * 1024

/**
 * Sets a timer, or sets it anew: then the earlier one does not go off. It outlives restarts; what is due while the server is
 * down comes out when it is back. A server that dies in the very moment can let it go off twice: handle it by its id.
 * Source: NATS ADR-51.
 *
 * @throws {BusUnavailable}; {RangeError} for a body over 64 KB or a time that is none.
 */
export async function setTimer(bus: Bus, { purpose, id, at, body, headers }: Timer): Promise<void> {
  const text = JSON.stringify(body)
  if (Buffer.byteLength(text) > maxBodyBytes) throw new RangeError(`A timer's body has at most ${maxBodyBytes} bytes`)
  await publish(bus, {
    subject: timerSubject(purpose, id),
    body: text,
    headers: {
      ...headers,
      'Nats-Msg-Id': newId(),
      'Nats-Schedule': `@at ${new Date(at).toISOString()}`,
      'Nats-Schedule-Target': dueSubject(purpose, id),
      'Nats-Schedule-TTL': dueTtl,
    },
  })
}

/** False when there is no such timer, or it has gone off. @throws {BusUnavailable} */
export async function cancelTimer(bus: Bus, purpose: string, id: string): Promise<boolean> {
  const filter = timerSubject(purpose, id)
  const { success, purged } = await asking(bus, () => bus.manager.streams.purge(stream, { filter }))
  if (!success) throw new BusUnavailable(`The timer ${filter} could not be cancelled`)
  return purged > 0
}
