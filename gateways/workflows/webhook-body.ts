import type { FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { invalid, parsedBody } from '../http/request.ts'

/** What a webhook was sent, as `trigger.body` has it. */
export interface WebhookBody {
  readonly body: unknown
  /** Those of its members that may become inputs; undefined: what it is has none of the sender's. */
  readonly members: unknown
}

/** Bytes that are no text, the body itself or a file of a form. */
interface Binary {
  readonly contentType: string
  readonly sizeBytes: number
  readonly base64: string
}

const maxJsonDepth = 64
const maxFields = 1_000
const maxFieldName = 1_000
const accepted =
  'JSON, application/x-www-form-urlencoded, multipart/form-data, text/* and XML are taken, and any other single type as base64'

const form = 'application/x-www-form-urlencoded'
const multipart = 'multipart/form-data'
const jsonTypes = /^(application|text)\/json$|\+json$/
const textTypes =
  /^text\/|\+(xml|yaml)$|^application\/(xml|yaml|x-yaml|javascript|graphql|sql|x-ndjson|jsonl|jsonlines|toml)$/

/**
 * The body as its Content-Type says: JSON as it is; fields of a form as an object, repeated ones as lists, files of it and bytes of any
 * type that is no text as `{contentType, sizeBytes, base64}`; every other text as one. Source: RFC 9110 8.3 for a body without a type.
 * @throws {Rejected} `http/bad-request` for what does not hold what it says; `http/unsupported-media-type` for other multiparts
 */
export async function webhookBodyOf(request: FastifyRequest): Promise<WebhookBody> {
  const bytes = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
  if (bytes.length === 0) return { body: null, members: null }
  const header = request.headers['content-type'] ?? 'application/octet-stream'
  const type = header.split(';')[0]!.trim().toLowerCase()
  const same = (body: unknown): WebhookBody => ({ body, members: body })
  if (jsonTypes.test(type)) return same(jsonOf(bytes))
  if (type === form) return same(formOf(textOf(bytes, charsetOf(header))))
  if (type === multipart) return same(await multipartOf(bytes, header))
  if (type.startsWith('multipart/')) {
    throw new Rejected('http/unsupported-media-type', `A webhook does not take ${type}: ${accepted}`)
  }
  if (textTypes.test(type)) return { body: textOf(bytes, charsetOf(header)), members: undefined }
  return { body: binaryOf(bytes, type), members: undefined }
}

function jsonOf(bytes: Buffer): unknown {
  const text = bytes.toString('utf8')
  if (text.trim() === '') return null
  if (depthOf(text) > maxJsonDepth) throw invalid('body', `nests deeper than ${maxJsonDepth} levels`)
  return parsedBody(text)
}

/** How deep JSON nests, at least. */
function depthOf(text: string): number {
  let [depth, deepest, quoted] = [0, 0, false]
  for (let index = 0; index < text.length; index++) {
    const character = text[index]
    if (quoted) {
      if (character === '\\') index++
      else if (character === '"') quoted = false
    } else if (character === '"') quoted = true
    else if (character === '{' || character === '[') deepest = Math.max(deepest, ++depth)
    else if (character === '}' || character === ']') depth--
  }
  return deepest
}

function charsetOf(header: string): string {
  return /;\s*charset\s*=\s*"?([^\s";]{1,40})/i.exec(header)?.[1] ?? 'utf-8'
}

function textOf(bytes: Buffer, charset: string): string {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes)
  } catch (cause) {
    const reason = cause instanceof RangeError ? `has a charset that is not known: ${charset}` : `is not ${charset}`
    throw invalid('body', `${reason}; say which charset it has, or send it as application/octet-stream`)
  }
}

function formOf(text: string): Readonly<Record<string, unknown>> {
  // Counted before they are taken apart.
  if (text.split('&', maxFields + 1).length > maxFields) throw tooManyFields()
  return collected(new URLSearchParams(text))
}

async function multipartOf(bytes: Buffer, header: string): Promise<Readonly<Record<string, unknown>>> {
  const fields: [string, unknown][] = []
  for (const [name, value] of await partsOf(bytes, header)) {
    if (typeof value === 'string') fields.push([name, value])
    else {
      const content = Buffer.from(await value.arrayBuffer())
      fields.push([name, { filename: value.name, ...binaryOf(content, value.type || 'application/octet-stream') }])
    }
    if (fields.length > maxFields) throw tooManyFields()
  }
  return collected(fields)
}

/** Node's own reader, which takes a whole form or nothing of it. */
async function partsOf(bytes: Buffer, header: string): Promise<FormData> {
  try {
    return await new Response(new Uint8Array(bytes), { headers: { 'Content-Type': header } }).formData()
  } catch (cause) {
    const reason = 'is no multipart/form-data with the boundary that Content-Type names'
    throw new Rejected('http/bad-request', `body ${reason}`, { details: { field: 'body', reason }, cause })
  }
}

function collected(fields: Iterable<readonly [string, unknown]>): Readonly<Record<string, unknown>> {
  const found = new Map<string, unknown[]>()
  for (const [name, value] of fields) {
    if (name.length > maxFieldName)
      throw invalid('body', `has a field with a name of more than ${maxFieldName} characters`)
    const known = found.get(name)
    if (known === undefined) found.set(name, [value])
    else known.push(value)
  }
  return Object.fromEntries([...found].map(([name, values]) => [name, values.length === 1 ? values[0] : values]))
}

function binaryOf(bytes: Buffer, contentType: string): Binary {
  return { contentType, sizeBytes: bytes.length, base64: bytes.toString('base64') }
}

function tooManyFields(): Rejected {
  return invalid('body', `has more than ${maxFields} fields`)
}
