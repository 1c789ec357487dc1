import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream'
import type { Bus } from './connect.ts'
import { type EncodedMessage, encodeMessage, messageIdHeader } from './envelope.ts'
import { lastMessage, type Place } from './load.ts'
import type { EventSet, Fact, Message } from './message.ts'
import { putAside } from './objects.ts'
import { asking, publishOnce, untilAnswered } from './publish.ts'

/** Someone else decided on the subject in between: reload and decide again. */
export class AppendConflict extends Error {
  override readonly name = 'AppendConflict'
  readonly subject: string
  readonly expectedSequence: number
  /** The stream sequence of the subject's last message; 0 when it has none. */
  readonly lastSequence: number

  constructor(subject: string, expectedSequence: number, lastSequence: number, cause?: unknown) {
    super(`${subject} has gone on: sequence ${expectedSequence} was expected, it is at ${lastSequence}`, { cause })
    this.subject = subject
    this.expectedSequence = expectedSequence
    this.lastSequence = lastSequence
  }
}

export interface Append<F extends Fact> extends Place {
  /** The stream sequence of the last message seen on the subject; 0 when there was none. */
  readonly expectedSequence: number
  readonly events: EventSet<F>
  readonly message: Message<F>
}

export interface Appended {
  /** The stream sequence of the subject's last message from now on. */
  readonly sequence: number
  /** True when the bus had this id already, from before `expectedSequence`: nothing was stored now. */
  readonly duplicate: boolean
  /** It was found stored under its id: by an unanswered try of this call, or by another with the same id. */
  readonly found: boolean
}

const expectedHeader = 'Nats-Expected-Last-Subject-Sequence'
const attempts = 3

/**
 * Appends one decision if nothing else has come on its subject. An unanswered try is settled by looking and by trying again
 * under the same id, so that it is stored once or not at all.
 *
 * @throws {AppendConflict}; {MessageInvalid}; {BusUnavailable}, which is BusUnanswered when it may be stored nonetheless.
 */
export async function append<F extends Fact>(bus: Bus, { events, message, ...place }: Append<F>): Promise<Appended> {
  const encoded = await putAside(bus, encodeMessage(events, message))
  const pending: Pending = { ...place, id: encoded.headers[messageIdHeader]!, encoded }
  return settle(bus, pending.stream, [pending], (timeoutMs) => publishPending(bus, pending, timeoutMs))
}

/** A message that is ready to go. */
export interface Pending extends Place {
  readonly expectedSequence: number
  /** As in the header. */
  readonly id: string
  readonly encoded: EncodedMessage
}

export function pendingHeaders({ expectedSequence, encoded }: Pending): Readonly<Record<string, string>> {
  return { ...encoded.headers, [expectedHeader]: String(expectedSequence) }
}

async function publishPending(bus: Bus, pending: Pending, timeoutMs: number): Promise<Appended> {
  const { subject, stream, expectedSequence, encoded, id } = pending
  const ack = await publishOnce(bus, { subject, body: encoded.body, headers: pendingHeaders(pending) }, timeoutMs)
  if (!ack.duplicate) return { sequence: ack.seq, duplicate: false, found: false }
  // The bus knows ids by stream, not by subject.
  const known = await asking(bus, () => bus.manager.direct.getMessage(stream, { seq: ack.seq }))
  if (known !== null && known.subject !== subject) {
    throw new Error(`The message id ${id} for ${subject} is taken by ${known.subject}`)
  }
  if (ack.seq > expectedSequence) return { sequence: ack.seq, duplicate: false, found: true }
  return { sequence: await lastSequence(bus, stream, subject), duplicate: true, found: true }
}

/** Tries until the outcome is known, or says that it is not. All of `pendings` are stored or none. */
export async function settle<T>(
  bus: Bus,
  stream: string,
  pendings: readonly Pending[],
  attempt: (timeoutMs: number) => Promise<T>,
): Promise<T | Appended> {
  return await untilAnswered(bus, attempts, async (timeoutMs): Promise<T | Appended> => {
    try {
      return await attempt(timeoutMs)
    } catch (error) {
      if (isConflict(error)) return await ownOrConflict(bus, stream, pendings, error)
      throw error
    }
  })
}

/** A conflict with what an earlier, unanswered try of ours has stored is none. */
async function ownOrConflict(
  bus: Bus,
  stream: string,
  pendings: readonly Pending[],
  cause: unknown,
): Promise<Appended> {
  for (const { subject, expectedSequence, id } of pendings) {
    // If ours is stored, it is the first after the one we expected.
    const next = await asking(bus, () =>
      bus.manager.direct.getMessage(stream, { seq: expectedSequence + 1, next_by_subj: subject }),
    )
    if (next?.header.get(messageIdHeader) === id) return { sequence: next.seq, duplicate: false, found: true }
    const last = await lastSequence(bus, stream, subject)
    if (last !== expectedSequence) throw new AppendConflict(subject, expectedSequence, last, cause)
  }
  throw cause
}

function isConflict(error: unknown): boolean {
  if (!(error instanceof JetStreamApiError)) return false
  const { StreamWrongLastSequence, StreamWrongLastSequenceUnknown } = JetStreamApiCodes
  const codes: readonly number[] = [StreamWrongLastSequence, StreamWrongLastSequenceUnknown, batchDuplicateId]
  return codes.includes(error.code)
}

/** An atomic batch with an id that the stream has already. */
const batchDuplicateId = 10201

async function lastSequence(bus: Bus, stream: string, subject: string): Promise<number> {
  return (await lastMessage(bus, stream, subject))?.seq ?? 0
}
