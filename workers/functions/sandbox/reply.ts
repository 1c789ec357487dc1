import { utf8Length } from './body.ts'
import { Refusal } from './failure.ts'
import { limits } from './host.ts'
import {
  apply,
  byteLength,
  bytesOf,
  isArray,
  jsonStringify,
  lower,
  NativeTypeError,
  objectKeys,
  slice,
  toText,
} from './intrinsics.ts'
import { jsonReply, latin1, pack } from './wire.ts'

interface Made {
  readonly status: number
  /** Null: JSON. */
  readonly headers: Record<string, string> | null
  readonly body: string
  readonly binary: boolean
}

/** What a Response gives away to the reply; null for anything else. Set by the fetch classes. */
type ResponseParts = {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: string | Uint8Array | null
}
let responseParts: (value: object) => ResponseParts | null = () => null
export function readResponsesWith(read: typeof responseParts): void {
  responseParts = read
}

/**
 * The reply that a handler's result means:
 * undefined -> 204 without a body; `{status, body, headers?}` (status and body truthy) -> that response, its headers instead
 * of the defaults; a Response -> itself; bytes -> application/octet-stream; everything else -> 200 with its JSON.
 *
 * @throws {Refusal} `unserialisable`, `output-too-large`
 */
export function successReply(result: unknown, waiting: boolean): string {
  const { status, headers, body, binary } = made(result)
  // A character is at most three bytes: the exact length is counted only where it decides.
  if (body.length > limits.maxOutputBytes) tooLarge()
  if (!binary && body.length * 3 > limits.maxOutputBytes && utf8Length(body) > limits.maxOutputBytes) tooLarge()
  if (headers === null) return jsonReply(status, waiting, body)
  boundHeaders(headers)
  return pack({ __proto__: null, ok: true, status, headers, binary, waiting }, body)
}

function tooLarge(): never {
  throw new Refusal('output-too-large', `The result is larger than ${limits.maxOutputBytes} bytes`)
}

function boundHeaders(headers: Record<string, string>): void {
  const names = objectKeys(headers)
  let bytes = 0
  for (let at = 0; at < names.length; at++) {
    const name = names[at] as string
    const { length } = headers[name] as string
    if (name.length > MAX_NAME_CHARS || length > MAX_VALUE_CHARS)
      throw new Refusal('output-too-large', `The response header ${slice(name, 0, 100)} is larger than a header may be`)
    bytes += name.length + length + HEADER_OVERHEAD
  }
  if (bytes > MAX_HEADER_BYTES)
    throw new Refusal('output-too-large', `The response headers are larger than ${MAX_HEADER_BYTES} bytes`)
}

function made(result: unknown): Made {
  if (result === undefined) return { status: 204, headers: { __proto__: null as never }, body: '', binary: false }
  if (typeof result === 'object' && result !== null) {
    const response = responseParts(result)
    if (response !== null) {
      const { status, headers, body } = response
      if (typeof body === 'string') return { status, headers, body, binary: false }
      return { status, headers, body: body === null ? '' : limitedLatin1(body), binary: true }
    }
    const bytes = bytesOf(result)
    if (bytes !== null) return ofBytes(200, null, bytes)
    const { status, body } = result as { status?: unknown; body?: unknown }
    if (status && body) return httpLike(status, body, (result as { headers?: unknown }).headers)
  }
  return { status: 200, headers: null, body: json(result, 'The result'), binary: false }
}

function httpLike(status: unknown, body: unknown, headers: unknown): Made {
  if (typeof status !== 'number' || status % 1 !== 0 || status < 200 || status > 599)
    throw new Refusal('unserialisable', 'status must be an integer from 200 to 599')
  const given = headers === undefined || headers === null ? null : plainHeaders(headers)
  const bytes = bytesOf(body)
  if (bytes !== null) return ofBytes(status, given, bytes)
  const text = typeof body === 'string' ? body : json(body, 'body')
  return { status, headers: given, body: text, binary: false }
}

function ofBytes(status: number, headers: Record<string, string> | null, bytes: Uint8Array): Made {
  const plain = headers ?? { __proto__: null as never, 'content-type': 'application/octet-stream' }
  return { status, headers: plain, body: limitedLatin1(bytes), binary: true }
}

function limitedLatin1(bytes: Uint8Array): string {
  if (byteLength(bytes) > limits.maxOutputBytes) tooLarge()
  return latin1(bytes)
}

function json(value: unknown, what: string): string {
  const type = typeof value
  if (type === 'function' || type === 'symbol' || type === 'bigint')
    throw new Refusal('unserialisable', `${what} is a ${type}, which JSON cannot hold`)
  let text: string | undefined
  try {
    text = jsonStringify(value)
  } catch (error) {
    if (error instanceof NativeTypeError)
      throw new Refusal('unserialisable', `${what} cannot be JSON: ${error.message}`)
    throw error
  }
  if (text === undefined) throw new Refusal('unserialisable', `${what} has no JSON form`)
  return text
}

const MAX_HEADERS = 100
/** What is kept of an asynchronous call has its headers in one header of a message. */
const MAX_HEADER_BYTES = 16_384
const HEADER_OVERHEAD = 4
const MAX_NAME_CHARS = 256
const MAX_VALUE_CHARS = 8_192
const headerName = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/
const { exec } = RegExp.prototype
const matches = (pattern: RegExp, text: string) => apply(exec, pattern, [text]) !== null

/** Cookies stay apart: each on a line of its own. `name` in lower case. */
export function addHeader(headers: Record<string, string>, name: string, value: string): void {
  const before = headers[name]
  if (before === undefined) headers[name] = value
  else headers[name] = name === 'set-cookie' ? `${before}\n${value}` : `${before}, ${value}`
}

/** A plain object of headers; also pairs and Headers, by their own iteration. @throws {Refusal} on a bad name or value. */
function plainHeaders(given: unknown): Record<string, string> {
  if (typeof given !== 'object') throw new Refusal('unserialisable', 'headers must be an object')
  const out: Record<string, string> = { __proto__: null as never }
  let count = 0
  const add = (rawName: unknown, rawValue: unknown) => {
    const name = lower(toText(rawName))
    if (name === 'set-cookie' && isArray(rawValue)) {
      for (let at = 0; at < rawValue.length; at++) add(name, toText(rawValue[at]))
      return
    }
    const value = toText(rawValue)
    if (!matches(headerName, name)) throw new Refusal('unserialisable', `"${name}" is no header name`)
    if (!matches(headerValue, value))
      throw new Refusal('unserialisable', `The value of the header ${name} is not allowed`)
    if (++count > MAX_HEADERS) throw new Refusal('unserialisable', `More than ${MAX_HEADERS} headers`)
    addHeader(out, name, value)
  }
  const iterable = given as { [Symbol.iterator]?: unknown }
  if (isArray(given) || typeof iterable[Symbol.iterator] === 'function')
    for (const [name, value] of given as Iterable<[unknown, unknown]>) add(name, value)
  else {
    const names = objectKeys(given as object)
    for (let at = 0; at < names.length; at++) add(names[at], (given as Record<string, unknown>)[names[at] as string])
  }
  return out
}
