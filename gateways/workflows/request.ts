import type { FastifyReply, FastifyRequest } from 'fastify'
import { isPlainText, notPlainText } from '../../schemas/plain-text.ts'
import { invalid, queryOf as plainQueryOf } from '../http/request.ts'

const maxListLimit = 1_000
const defaultListLimit = 100
const maxKeyLength = 255

/** As `queryOf` of any gateway, beside the ticket of who asks, which any GET may have. @throws {Rejected} `http/bad-request` */
export function queryOf<Name extends string>(request: FastifyRequest, names: readonly Name[]) {
  return plainQueryOf(request, names, 'ticket')
}

/** What names a request however often it is sent; null when nothing does. @throws {Rejected} `http/bad-request` */
export function idempotencyKey({ headers }: FastifyRequest): string | null {
  const key = headers['idempotency-key']
  if (key === undefined) return null
  if (typeof key === 'string' && /^[\x21-\x7e]+$/.test(key) && key.length <= maxKeyLength) return key
  throw invalid('Idempotency-Key', `must be 1 to ${maxKeyLength} visible ASCII characters`)
}

/** A whole number of a query or a body. @throws {Rejected} `http/bad-request` */
export function wholeNumber(field: string, value: unknown, { min, max }: { min: number; max: number }): number {
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
  if (typeof number === 'number' && Number.isInteger(number) && number >= min && number <= max) return number
  throw invalid(field, `must be a whole number from ${min} to ${max}`)
}

/** @throws {Rejected} `http/bad-request` */
export function textField(field: string, value: unknown, { max, min = 0 }: { max: number; min?: number }): string {
  if (typeof value !== 'string') throw invalid(field, 'must be a text')
  if (!isPlainText(value)) throw invalid(field, notPlainText)
  if (value.length < min || value.length > max) throw invalid(field, `must have ${min} to ${max} characters`)
  return value
}

/** @throws {Rejected} `http/bad-request` */
export function objectField(field: string, value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw invalid(field, 'must be an object')
}

const timeSyntax = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))?$/i

/** @throws {Rejected} `http/bad-request` */
export function timeField(field: string, value: string): Date {
  const [, day] = timeSyntax.exec(value) ?? []
  const at = new Date(value)
  // The 30th of February is taken for a day in March.
  const isDay = day !== undefined && new Date(day).toJSON()?.startsWith(day)
  if (!isDay || Number.isNaN(at.getTime())) throw invalid(field, 'must be a time, RFC 3339, or a day')
  return at
}

/** `limit` and `cursor` of a list. @throws {Rejected} `http/bad-request` */
export function pageOf(query: { readonly limit?: string; readonly cursor?: string }) {
  const limit =
    query.limit === undefined ? defaultListLimit : wholeNumber('limit', query.limit, { min: 1, max: maxListLimit })
  if (query.cursor === undefined) return { limit }
  if (!/^\d{1,15}$/.test(query.cursor)) throw invalid('cursor', 'was not made by this list')
  return { limit, cursor: query.cursor }
}

/** A cursor that holds where a page of a list in another order ended. */
export function cursorOf(place: string): string {
  return Buffer.from(place, 'utf8').toString('base64url')
}

/** @throws {Rejected} `http/bad-request` */
export function placeOfCursor(cursor: string): string {
  const place = Buffer.from(cursor, 'base64url').toString('utf8')
  if (place !== '' && cursorOf(place) === cursor) return place
  throw invalid('cursor', 'was not made by this list')
}

/** A list as a plain array, with `X-Total-Count` and, when there is more, a `Link` to the next page. Source: RFC 8288. */
export function replyList(
  request: FastifyRequest,
  reply: FastifyReply,
  { rows, total, next }: { readonly rows: readonly unknown[]; readonly total: number; readonly next: string | null },
): readonly unknown[] {
  reply.header('X-Total-Count', String(total))
  if (next !== null) {
    const [path, query] = request.url.split('?')
    const parameters = new URLSearchParams(query)
    parameters.set('cursor', next)
    reply.header('Link', `<${path}?${parameters}>; rel="next"`)
  }
  return rows
}

/** `name:value`, several with commas. @throws {Rejected} `http/bad-request` */
export function labelsField(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    text.split(',').map((pair) => {
      const at = pair.indexOf(':')
      if (at < 1) throw invalid('label', 'must be name:value, or several with commas')
      return [pair.slice(0, at), pair.slice(at + 1)]
    }),
  )
}
