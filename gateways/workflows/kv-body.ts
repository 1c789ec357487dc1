import type { FastifyRequest } from 'fastify'
import type { KvCondition, KvWrite } from '../../bus/kv-space.ts'
import { type KvType, kvTypeMistake, kvTypeOf, kvTypes, parseTtl } from '../../schemas/workflows/kv.ts'
import { invalid, parsedBody } from '../http/request.ts'
import { queryOf, wholeNumber } from './request.ts'

export interface KvTold {
  /** What was asked for in a header is refused with another status. */
  readonly byHeader: boolean
}

interface Envelope {
  readonly value: unknown
  readonly ttl?: unknown
  readonly type?: unknown
  readonly version?: unknown
}

const members = ['value', 'ttl', 'type', 'version']

/**
 * What a PUT wants written: any JSON, or `{value, ttl, type, version}`, or a text. An object that has `value` and nothing but those is the
 * latter. @throws {Rejected} `http/bad-request`
 */
export function kvBodyOf(request: FastifyRequest): { readonly write: KvWrite; readonly told: KvTold } {
  const query = queryOf(request, ['ttl', 'type', 'version'])
  const { value, ttl = query.ttl, type = query.type, version = query.version } = envelopeOf(request)
  const { condition, byHeader } = conditionOf(request, { version }, ['ttl', 'type', 'version'])
  const write = {
    value,
    type: typeOf(type, value),
    ...(ttl !== undefined && ttl !== null && { ttlMs: ttlOf(ttl) }),
    ...(condition !== undefined && { condition }),
  }
  return { write, told: { byHeader } }
}

/**
 * The condition of a write: `If-Match: "<version>"` or `*`, `If-None-Match: *`, or `version` (0: it must not be there).
 * @throws {Rejected} `http/bad-request`
 */
export function conditionOf(
  request: FastifyRequest,
  given: { readonly version?: unknown },
  parameters: readonly string[] = ['version'],
): KvTold & { readonly condition?: KvCondition } {
  const { version = queryOf(request, parameters).version } = given
  const { 'if-match': match, 'if-none-match': noneMatch } = request.headers
  const told = [match, noneMatch, version].filter((each) => each !== undefined)
  if (told.length > 1) throw invalid('version', 'If-Match and If-None-Match exclude each other')
  if (version !== undefined) {
    return { byHeader: false, condition: wholeNumber('version', version, { min: 0, max: Number.MAX_SAFE_INTEGER }) }
  }
  if (noneMatch !== undefined && noneMatch.trim() !== '*') throw invalid('If-None-Match', 'must be *')
  if (noneMatch !== undefined) return { byHeader: true, condition: 0 }
  if (match === undefined) return { byHeader: false }
  if (match.trim() === '*') return { byHeader: true, condition: 'any' }
  const [, number] = /^"([1-9]\d{0,14})"$/.exec(match.trim()) ?? []
  if (number === undefined) throw invalid('If-Match', 'must be a version as ETag gave it, or *')
  return { byHeader: true, condition: Number(number) }
}

function envelopeOf(request: FastifyRequest): Envelope {
  const bytes = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
  const text = bytes.toString('utf8')
  if (/^text\/plain\b/i.test(request.headers['content-type'] ?? '')) return { value: text }
  if (text.trim() === '') throw invalid('value', 'is required')
  const value = parsedBody(text)
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, 'value')) return { value }
  return Object.keys(value).every((name) => members.includes(name)) ? (value as Envelope) : { value }
}

function typeOf(type: unknown, value: unknown): KvType {
  if (type === undefined) return kvTypeOf(value)
  const known = kvTypes.find((each) => each === type)
  if (known === undefined) throw invalid('type', `must be one of ${kvTypes.join(', ')}`)
  const mistake = kvTypeMistake(known, value)
  if (mistake !== null) throw invalid('value', `${mistake}, since type is ${known}`)
  return known
}

function ttlOf(ttl: unknown): number {
  const ms = parseTtl(ttl)
  if (ms !== null) return ms
  throw invalid('ttl', 'must be more than nothing: a number of seconds, PT1H, or 90m')
}
