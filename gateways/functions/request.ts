import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import type { CallRequest } from '../../schemas/functions/call.ts'
import { functionIdPattern } from '../../schemas/functions/function.ts'
import { jsonMistake } from '../http/request.ts'

const idPattern = new RegExp(functionIdPattern)

/** @throws {Rejected} `functions/invalid-request` */
export function functionId(value: unknown, name = 'id'): string {
  if (typeof value === 'string' && idPattern.test(value)) return value
  throw invalid(`${name} must be 1 to 128 letters, digits, "_", "-" or ".", and not "." or ".."`)
}

export function invalid(text: string): Rejected {
  return new Rejected('functions/invalid-request', text)
}

/**
 * The body as an object with no other members than these.
 *
 * @throws {Rejected} `functions/invalid-request`
 */
export function readObject(body: unknown, members: readonly string[]): Readonly<Record<string, unknown>> {
  const value = parsed(body)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid('The body must be a JSON object')
  const unknown = Object.keys(value).find((name) => !members.includes(name))
  if (unknown === undefined) return value as Record<string, unknown>
  throw invalid(`Unknown field "${unknown.slice(0, 100)}": the fields are ${members.join(', ')}`)
}

function parsed(body: unknown): unknown {
  const text = Buffer.isBuffer(body) ? body.toString('utf8') : ''
  if (text === '') throw invalid('The body is empty: it must be a JSON object')
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Rejected('functions/invalid-request', `The body is not JSON: ${jsonMistake(cause)}`, { cause })
  }
}

const noBytes = Buffer.alloc(0)
const maxQueryMembers = 1_000

/** The body as it came. */
export function callBody({ body }: FastifyRequest): Uint8Array {
  return Buffer.isBuffer(body) ? body : noBytes
}

/** The request as the function gets it. @throws {Rejected} `functions/invalid-request` for a query of too many members */
export function callRequest({ method = '', url = '', headers: given }: IncomingMessage): CallRequest {
  // The only one that Node gives as a list; most requests have none, and their headers are passed on as they are.
  const cookies = given['set-cookie']
  const headers = (
    cookies === undefined ? given : { ...given, 'set-cookie': cookies.join(', ') }
  ) as CallRequest['headers']
  const at = url.indexOf('?')
  const query = at < 0 ? {} : queryOf(url.slice(at + 1))
  return { method, path: url, query, headers }
}

function queryOf(text: string): Record<string, string | string[]> {
  const query: Record<string, string | string[]> = Object.create(null)
  let count = 0
  for (const [name, value] of new URLSearchParams(text)) {
    if (++count > maxQueryMembers) throw invalid(`The query has more than ${maxQueryMembers} members`)
    const before = query[name]
    query[name] = before === undefined ? value : [before, value].flat()
  }
  return query
}
