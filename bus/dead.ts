import { type JsMsg, RetentionPolicy, type StoredMsg } from '@nats-io/jetstream'
import type { Bus } from './connect.ts'
import { type HeaderReader, messageIdHeader } from './envelope.ts'
import { asking, publish } from './publish.ts'
import { deadSubject, deadSubjects } from './subject.ts'

/** What a consumer gave up on. */
export interface DeadLetter {
  /** Of the letter itself, in the stream DEAD: its name in `retryDead` and `dropDead`. */
  readonly sequence: number
  /** Epoch ms. */
  readonly diedAt: number
  readonly consumer: string
  readonly stream: string
  readonly subject: string
  /** Of the message in its own stream. */
  readonly streamSequence: number
  readonly deliveryCount: number
  /** `<name>: <text>` */
  readonly error: string
  /** The message's own, without those that only the server understands. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

/** Nothing can be done with the dead letter as asked; the text says why. */
export class DeadLetterRefused extends Error {
  override readonly name = 'DeadLetterRefused'
}

const stream = 'DEAD'
const prefix = 'Busbar-Dead-'
const names = {
  consumer: `${prefix}Consumer`,
  stream: `${prefix}Stream`,
  subject: `${prefix}Subject`,
  sequence: `${prefix}Sequence`,
  deliveries: `${prefix}Deliveries`,
  messageId: `${prefix}Message-Id`,
  error: `${prefix}Error`,
} as const
const maxErrorLength = 1_000

/** Stores a message that cannot be handled, once, with the reason. @throws {BusUnavailable} */
export async function buryMessage(bus: Bus, consumer: string, message: JsMsg, error: unknown): Promise<void> {
  const { stream: source, deliveryCount } = message.info
  const headers = {
    ...ownHeaders(message.headers),
    [messageIdHeader]: `dead/${consumer}/${source}/${message.seq}/${message.info.timestampNanos}`,
    [names.consumer]: consumer,
    [names.stream]: source,
    [names.subject]: message.subject,
    [names.sequence]: String(message.seq),
    [names.deliveries]: String(deliveryCount),
    [names.messageId]: message.headers?.get(messageIdHeader) ?? '',
    [names.error]: errorText(error),
  }
  await publish(bus, { subject: deadSubject(consumer, message.subject), body: message.data, headers })
}

/** Oldest first. @throws {BusUnavailable} */
export async function listDead(
  bus: Bus,
  {
    consumer,
    from = 1,
    limit = 100,
  }: {
    /** Default: of all consumers. */
    readonly consumer?: string
    /** The first sequence. Default 1. */
    readonly from?: number
    /** Default 100. */
    readonly limit?: number
  } = {},
): Promise<readonly DeadLetter[]> {
  const query = { seq: from, next_by_subj: deadSubjects(consumer), batch: limit }
  const letters: DeadLetter[] = []
  await asking(bus, async () => {
    try {
      for await (const stored of await bus.manager.direct.getBatch(stream, query)) letters.push(letterOf(stored))
    } catch (error) {
      // The client throws the server's "there is none".
      if ((error as { code?: unknown }).code !== 404) throw error
    }
  })
  return letters
}

/**
 * Puts the message back on its subject, then drops the letter.
 *
 * @throws {DeadLetterRefused} when there is no such letter, or its stream keeps its messages: a fact must not happen twice.
 */
export async function retryDead(bus: Bus, sequence: number): Promise<void> {
  const { stream: source, subject, headers, body } = await readDead(bus, sequence)
  const { config } = await asking(bus, () => bus.manager.streams.info(source))
  // What a timer has set off is a message to be handled, though its stream is not a queue.
  if (config.retention !== RetentionPolicy.Workqueue && !subject.startsWith('due.')) {
    throw new DeadLetterRefused(
      `${subject} is a fact that ${source} keeps: to publish it again would make it happen twice`,
    )
  }
  await publish(bus, { subject, body, headers: { ...headers, [messageIdHeader]: `dead/${sequence}/retry` } })
  await dropDead(bus, sequence)
}

/** Forgets a dead letter. @throws {DeadLetterRefused} when there is none. */
export async function dropDead(bus: Bus, sequence: number): Promise<void> {
  await readDead(bus, sequence)
  await asking(bus, () => bus.manager.streams.deleteMessage(stream, sequence))
}

/** One letter. @throws {DeadLetterRefused} when there is none; {BusUnavailable} */
export async function readDead(bus: Bus, sequence: number): Promise<DeadLetter> {
  const stored = await asking(bus, () => bus.manager.direct.getMessage(stream, { seq: sequence }))
  if (stored === null) throw new DeadLetterRefused(`There is no dead letter ${sequence}`)
  return letterOf(stored)
}

function letterOf({ header, data, seq, time }: StoredMsg): DeadLetter {
  return {
    sequence: seq,
    diedAt: time.getTime(),
    consumer: header.get(names.consumer),
    stream: header.get(names.stream),
    subject: header.get(names.subject),
    streamSequence: Number(header.get(names.sequence)),
    deliveryCount: Number(header.get(names.deliveries)),
    error: header.get(names.error),
    headers: ownHeaders(header),
    body: data,
  }
}

/** Headers of the server (expected sequences, schedules, counts …) would take effect once more. */
function ownHeaders(headers: (HeaderReader & { keys(): string[] }) | undefined): Record<string, string> {
  const own = (headers?.keys() ?? []).filter((name) => !name.startsWith('Nats-') && !name.startsWith(prefix))
  return Object.fromEntries(own.map((name) => [name, headers!.get(name)]))
}

function errorText(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  return text.replace(/\s+/g, ' ').slice(0, maxErrorLength)
}
