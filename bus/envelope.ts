import { type EventSet, type Fact, type Message, MessageInvalid, MessageMalformed, type Trail } from './message.ts'

export interface EncodedMessage {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Reads a header; the empty text when it is not there. What the NATS client gives fits. */
export interface HeaderReader {
  get(name: string): string
}

export const messageIdHeader = 'Nats-Msg-Id'
/** Types and versions of a message's facts, separated by commas. */
export const factsHeader = 'Busbar-Facts'
/** What a decision was taken for; absent when somebody decided from outside. */
export const causationHeader = 'Busbar-Causation'
/** `<base>/<bytes>/<size in bytes>`, see `Trail`. */
const trailHeader = 'Busbar-Trail'
const textHeaders = {
  actor: 'Busbar-Actor',
  causation: causationHeader,
  correlation: 'Busbar-Correlation',
  traceparent: 'traceparent',
} as const

const maxFacts = 1000
const maxHeaderLength = 512

/** @throws {MessageInvalid} when a fact breaks its schema, or there are none or more than 1,000. */
export function encodeMessage<F extends Fact>(events: EventSet<F>, message: Message<F>): EncodedMessage {
  if (message.facts.length === 0) throw new MessageInvalid('A message needs at least one fact')
  if (message.facts.length > maxFacts) throw new MessageInvalid(`A message holds at most ${maxFacts} facts`)
  const facts = message.facts.map((fact) => events.store(fact))
  const headers: Record<string, string> = {
    [messageIdHeader]: headerText('id', message.id),
    [factsHeader]: [...new Set(facts.map(({ type, version }) => `${type}@${version}`))].join(','),
  }
  for (const [key, header] of Object.entries(textHeaders)) {
    const text = message[key as keyof typeof textHeaders]
    if (text !== undefined) headers[header] = headerText(key, text)
  }
  const { state, trail } = message
  if (trail !== undefined) headers[trailHeader] = `${trail.base}/${trail.bytes}/${trail.sizeBytes}`
  return { headers, body: JSON.stringify(state === undefined ? { facts } : { facts, state }) }
}

/** @throws {MessageInvalid} when the body is not a message, or a fact breaks its schema after upcasting. */
export function decodeMessage<F extends Fact>(
  events: EventSet<F>,
  headers: HeaderReader,
  body: Uint8Array | string,
): Message<F> {
  const { facts, state } = parseBody(body)
  const trail = readTrail(headers.get(trailHeader))
  return {
    id: plainText(headers.get(messageIdHeader)),
    facts: facts.map((fact) => events.restore(fact)),
    ...(state !== undefined && { state }),
    ...(trail !== undefined && { trail }),
    ...Object.fromEntries(
      Object.entries(textHeaders).flatMap(([key, header]) => {
        const text = headers.get(header)
        return text === '' ? [] : [[key, plainText(text)]]
      }),
    ),
  }
}

function readTrail(header: string): Trail | undefined {
  const [, base, bytes, sizeBytes] = /^(\d{1,16})\/(\d{1,16})\/(\d{1,16})$/.exec(header) ?? []
  if (base === undefined) return undefined
  return { base: Number(base), bytes: Number(bytes), sizeBytes: Number(sizeBytes) }
}

function parseBody(body: Uint8Array | string): { facts: readonly unknown[]; state?: NonNullable<Message['state']> } {
  const { facts, state } = (readJson(body) ?? {}) as { facts?: unknown; state?: NonNullable<Message['state']> }
  if (!Array.isArray(facts)) throw new MessageMalformed('The body has no facts')
  return typeof state?.version === 'number' ? { facts, state } : { facts }
}

/** @throws {MessageMalformed} */
export function readJson(body: Uint8Array | string): unknown {
  try {
    return JSON.parse(typeof body === 'string' ? body : Buffer.from(body).toString('utf8'))
  } catch (cause) {
    throw new MessageMalformed('The body is not JSON', { cause })
  }
}

/** Headers hold visible ASCII; whatever else (and `%` itself) is percent-encoded. */
function headerText(what: string, text: string): string {
  if (text === '') throw new MessageInvalid(`The message's ${what} is empty`)
  const encoded = text.toWellFormed().replace(/[^!-$&-~]/gu, (character) => {
    const bytes = Buffer.from(character, 'utf8').toString('hex').toUpperCase()
    return bytes.replace(/../g, '%$&')
  })
  if (encoded.length > maxHeaderLength) {
    throw new MessageInvalid(`The message's ${what} is longer than ${maxHeaderLength} characters`)
  }
  return encoded
}

function plainText(header: string): string {
  try {
    return decodeURIComponent(header)
  } catch {
    // Written by someone else, with a lone percent sign.
    return header
  }
}
