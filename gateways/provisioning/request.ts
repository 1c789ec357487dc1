import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { newId } from '../../bus/message.ts'
import { isPlainText, notPlainText } from '../../schemas/plain-text.ts'
import { keyedOperationId } from '../../schemas/provisioning/operation.ts'
import { derivedId } from '../../schemas/workflows/derived-id.ts'
import { invalid, mapOf } from '../http/request.ts'

const maxKeyLength = 255
const maxWaitSeconds = 300

export interface ByProject {
  readonly Params: { readonly projectId: string }
}

/** The id of the operation that a request begins: the same for the same `Idempotency-Key` and body. @throws {Rejected} `http/bad-request` */
export function operationIdOf(request: FastifyRequest, projectId: string): string {
  const { headers, method, routeOptions, params } = request
  const key = headers['idempotency-key']
  if (key === undefined) return newId()
  if (typeof key === 'string' && /^[\x21-\x7e]+$/.test(key) && key.length <= maxKeyLength) {
    const asked = createHash('sha256')
      .update(JSON.stringify(mapOf(request)))
      .digest('hex')
    return keyedOperationId(
      derivedId(JSON.stringify([method, routeOptions.url, params, projectId, key])),
      asked.slice(0, 16),
    )
  }
  throw invalid('Idempotency-Key', `must be 1 to ${maxKeyLength} visible ASCII characters`)
}

/** Seconds of `?wait=`. @throws {Rejected} `http/bad-request` */
export function waitOf({ wait }: { readonly wait?: string }, standard = 0): number {
  return wait === undefined ? standard : writtenNumber('wait', wait, { min: 0, max: maxWaitSeconds })
}

interface Range {
  readonly min: number
  readonly max: number
}

/** A whole number of a body. @throws {Rejected} `http/bad-request` */
export function wholeNumber(field: string, value: unknown, { min, max }: Range): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value
  throw invalid(field, `must be a whole number from ${min} to ${max}`)
}

/** A whole number of a query. @throws {Rejected} `http/bad-request` */
export function writtenNumber(field: string, text: string, range: Range): number {
  return wholeNumber(field, /^\d{1,15}$/.test(text) ? Number(text) : null, range)
}

/** @throws {Rejected} `http/bad-request` */
export function textField(field: string, value: unknown, { max, min = 1 }: { max: number; min?: number }): string {
  if (value === undefined) throw invalid(field, 'is required')
  if (typeof value !== 'string') throw invalid(field, 'must be a text')
  if (!isPlainText(value)) throw invalid(field, notPlainText)
  if (value.length < min || value.length > max) throw invalid(field, `must have ${min} to ${max} characters`)
  return value
}

/** @throws {Rejected} `http/bad-request` */
export function flagField(field: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw invalid(field, value === undefined ? 'is required' : 'must be true or false')
}

/** One of a few words. @throws {Rejected} `http/bad-request` */
export function choiceField<const Choice extends string>(
  field: string,
  value: unknown,
  choices: readonly Choice[],
): Choice {
  if (choices.includes(value as Choice)) return value as Choice
  throw invalid(
    field,
    `${value === undefined ? 'is required: it' : 'must be one of'} ${value === undefined ? 'is one of ' : ''}${choices.join(', ')}`,
  )
}

/** A map of texts. @throws {Rejected} `http/bad-request` */
export function textsField(
  field: string,
  value: unknown,
  { maxEntries, maxLength }: { readonly maxEntries: number; readonly maxLength: number },
): Readonly<Record<string, string>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid(field, 'must be an object')
  const entries = Object.entries(value)
  if (entries.length > maxEntries) throw invalid(field, `has more than ${maxEntries} members`)
  return Object.fromEntries(
    entries.map(([name, each]) => {
      if (name === '' || name.length > 255)
        throw invalid(field, 'has a name that is empty or longer than 255 characters')
      return [name, textField(`${field}.${name}`, each, { min: 0, max: maxLength })]
    }),
  )
}

/** Aborted when the client has gone. */
export function goneSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  if (raw.destroyed) gone.abort()
  raw.once('close', () => gone.abort())
  return gone.signal
}
