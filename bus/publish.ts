import { JetStreamApiError, type PubAck } from '@nats-io/jetstream'
import { errors, headers, type MsgHdrs } from '@nats-io/nats-core'
import { type Bus, BusUnavailable } from './connect.ts'
import { pauseUnlessBack } from './pause.ts'

/** The bus did not answer in time: whether it stored what was sent is not known. */
export class BusUnanswered extends BusUnavailable {}

export interface Publication {
  readonly subject: string
  /** UTF-8 or bytes. Default empty. */
  readonly body?: string | Uint8Array
  readonly headers?: Readonly<Record<string, string>>
}

const attempts = 3

/**
 * Stores one message; resolves when the bus has it. With a `Nats-Msg-Id` an unanswered try is repeated, for the bus stores
 * an id once (within the stream's duplicate window).
 *
 * @throws {BusUnavailable} when the bus is away; BusUnanswered when it may have stored it nonetheless.
 * @throws {JetStreamApiError} when the stream refuses it.
 */
export async function publish(bus: Bus, publication: Publication): Promise<PubAck> {
  const tries = publication.headers?.['Nats-Msg-Id'] === undefined ? 1 : attempts
  return await untilAnswered(bus, tries, (timeoutMs) => publishOnce(bus, publication, timeoutMs))
}

/**
 * Tries again what was not answered, so often at the most, and each time with its part of the bus's time; a connection that was lost is
 * waited for meanwhile.
 *
 * @throws {BusUnanswered} when one of the tries was not answered and none was after it; whatever else a try throws
 */
export async function untilAnswered<T>(
  bus: Bus,
  tries: number,
  attempt: (timeoutMs: number) => Promise<T>,
): Promise<T> {
  const timeoutMs = Math.ceil(bus.timeoutMs / tries)
  let unanswered: BusUnanswered | null = null
  for (let number = 1; ; number++) {
    const startedAt = performance.now()
    try {
      return await attempt(timeoutMs)
    } catch (error) {
      if (error instanceof BusUnanswered) unanswered = error
      if (unanswered === null || !(error instanceof BusUnavailable)) throw error
      if (number === tries) throw unanswered
      if (!bus.connected) await pauseUnlessBack(bus, startedAt + timeoutMs - performance.now())
    }
  }
}

/** One try of `publish`. */
export function publishOnce(bus: Bus, { subject, body = '', headers }: Publication, timeoutMs = bus.timeoutMs) {
  return asking(bus, () => bus.jetstream.publish(subject, body, { timeout: timeoutMs, headers: natsHeaders(headers) }))
}

/**
 * Runs a call to the bus and tells its failures apart.
 *
 * @throws {BusUnavailable} when it is away or cannot do it now; BusUnanswered when it did not answer in time, or the connection was lost.
 */
export async function asking<T>(bus: Bus, call: () => Promise<T>): Promise<T> {
  bus.requireConnected()
  // The client would wait for an answer until its time is up.
  const lost = Promise.withResolvers<never>()
  const forget = bus.onDisconnect(() => lost.reject(new BusUnanswered('The bus has gone away without an answer')))
  try {
    return await Promise.race([call(), lost.promise])
  } catch (error) {
    throw translated(error)
  } finally {
    forget()
  }
}

function translated(error: unknown): unknown {
  if (error instanceof JetStreamApiError) {
    if (error.status < 500) return error
    return new BusUnavailable(`The bus cannot do it now: ${error.message}`, { cause: error })
  }
  if (nobodyListens(error)) return new BusUnavailable('The bus is away, or has no such stream', { cause: error })
  const lost =
    error instanceof errors.TimeoutError ||
    error instanceof errors.RequestError ||
    error instanceof errors.ClosedConnectionError ||
    error instanceof errors.DrainingConnectionError ||
    error instanceof errors.ConnectionError
  if (!lost) return error
  return new BusUnanswered('The bus did not answer; whether it took what was sent is not known', { cause: error })
}

function nobodyListens(error: unknown): boolean {
  // The client does not export the class it throws when nobody listens on a stream's subject.
  if (error instanceof Error && error.name === 'JetStreamNotEnabled') return true
  return error instanceof errors.NoRespondersError || (error instanceof errors.RequestError && error.isNoResponders())
}

export function natsHeaders(values: Readonly<Record<string, string>> = {}): MsgHdrs {
  const result = headers()
  for (const [name, value] of Object.entries(values)) result.set(name, value)
  return result
}
