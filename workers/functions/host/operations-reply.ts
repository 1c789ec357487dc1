import type { GuestReply } from '../sandbox/operations.ts'
import { jsonReply, unpack } from '../sandbox/wire.ts'

const CODES: ReadonlySet<string> = new Set(['no-handler', 'threw', 'unserialisable', 'output-too-large'])
const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,256}$/
const VALUE = /^[\t\x20-\x7e\x80-\xff]{0,8192}$/
/** One cookie a line. */
const COOKIES = /^[\t\n\x20-\x7e\x80-\xff]{0,8192}$/

/**
 * Reads what `load`, `start` or `take` answered. User code can have had its hands on the text, so everything is checked
 * again; what is no reply is a failure `unserialisable`.
 */
export function readReply(text: string): GuestReply {
  if (text.startsWith(plainHead)) return { ...plain, body: text.slice(plainHead.length) }
  try {
    const { head, rest } = unpack<Record<string, unknown>>(text)
    if (head.ok === true) return successOf(head, rest) ?? garbled
    if (head.ok !== false || !CODES.has(String(head.code))) return garbled
    return {
      ok: false,
      code: head.code as 'threw',
      message: String(head.message).slice(0, 8_192),
      stack: typeof head.stack === 'string' ? head.stack.slice(0, 16_384) : null,
    }
  } catch {
    return garbled
  }
}

/** What `start` answered for so many calls: replies and tickets; null for what it does not answer. */
export function readOutcomes(text: string, calls: number): readonly (string | number)[] | null {
  const outcomes: (string | number)[] = []
  for (let at = 0; at < text.length; ) {
    const from = text.indexOf(':', at) + 1
    const length = from === 0 ? Number.NaN : Number(text.slice(at, from - 1))
    if (!Number.isInteger(length) || length < 1 || from + length > text.length) return null
    const outcome = text.slice(from, from + length)
    outcomes.push(outcome.startsWith('#') ? Number(outcome.slice(1)) : outcome)
    at = from + length
  }
  return outcomes.length === calls ? outcomes : null
}

/** What most functions answer needs no reading. */
const plainHead = jsonReply(200, false, '')
export const plainHeaders = { 'content-type': 'application/json' } as const
const plain = { ok: true, status: 200, headers: plainHeaders, binary: false, waiting: false } as const

const garbled: GuestReply = {
  ok: false,
  code: 'unserialisable',
  message: 'The function changed built-in objects so that its result could not be read',
  stack: null,
}

function successOf(head: Record<string, unknown>, body: string): GuestReply | null {
  const { status, binary, waiting } = head
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599) return null
  const headers: Record<string, string> = {}
  const given = head.headers
  if (typeof given !== 'object' || given === null) return null
  for (const [name, value] of Object.entries(given)) {
    if (typeof value !== 'string' || !NAME.test(name)) return null
    if (!(name === 'set-cookie' ? COOKIES : VALUE).test(value)) return null
    headers[name] = value
  }
  return { ok: true, status, headers, body, binary: binary === true, waiting: waiting === true }
}
