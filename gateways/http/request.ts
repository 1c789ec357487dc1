import type { FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { isPlainText, notPlainText } from '../../schemas/plain-text.ts'
import { namesMistake } from './json-names.ts'

/** What is refused of a request. `reason` goes on behind the name of the field: `must be a text`. */
export function invalid(field: string, reason: string): Rejected {
  return new Rejected('http/bad-request', `${field} ${reason}`, { details: { field, reason } })
}

/** The parameters of the query, each at most once, none but these and `ignored`. @throws {Rejected} `http/bad-request` */
export function queryOf<Name extends string>(
  { url }: FastifyRequest,
  names: readonly Name[],
  ignored?: string,
): Readonly<Partial<Record<Name, string>>> {
  const query: Partial<Record<Name, string>> = {}
  const at = url.indexOf('?')
  for (const [name, value] of new URLSearchParams(at < 0 ? '' : url.slice(at + 1))) {
    if (name === ignored) continue
    if (!(names as readonly string[]).includes(name)) {
      throw invalid(name.slice(0, 100), `is no parameter of this route: ${thereIs(names)}`)
    }
    if (query[name as Name] !== undefined) throw invalid(name, 'is given twice')
    if (!isPlainText(value)) throw invalid(name, notPlainText)
    query[name as Name] = value
  }
  return query
}

/** The body as an object with no other members than these; empty when there is none. @throws {Rejected} `http/bad-request` */
export function bodyOf(request: FastifyRequest, members: readonly string[]): Readonly<Record<string, unknown>> {
  const value = mapOf(request)
  const unknown = Object.keys(value).find((name) => !members.includes(name))
  if (unknown === undefined) return value
  throw invalid(unknown.slice(0, 100), `is no field here: ${thereIs(members)}`)
}

/** The body as an object of whatever members, none of them twice; empty when there is none. @throws {Rejected} `http/bad-request` */
export function mapOf({ body }: FastifyRequest): Readonly<Record<string, unknown>> {
  const text = Buffer.isBuffer(body) ? body.toString('utf8').trim() : ''
  if (text === '') return {}
  const value = parsedBody(text)
  const mistake = namesMistake(text)
  if (mistake !== null) throw invalid(mistake.field, mistake.reason)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw invalid('body', 'must be a JSON object')
}

/** @throws {Rejected} `http/bad-request` */
export function parsedBody(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    const reason = `is not JSON: ${jsonMistake(cause)}`
    throw new Rejected('http/bad-request', `The body ${reason}`, { details: { field: 'body', reason }, cause })
  }
}

/** What `JSON.parse` says of a mistake, without what it quotes from around it: that may be a secret. */
export function jsonMistake(error: unknown): string {
  return (error as Error).message.replace(/,? *(?:\.{3})?"[\s\S]*" *(?:\.{3})? *is not valid JSON$/, '')
}

function thereIs(names: readonly string[]): string {
  return names.length === 0 ? 'there is none' : `there is ${names.join(', ')}`
}
