import { validateHeaderName, validateHeaderValue } from 'node:http'
import { errorCodes } from '../../schemas/errors.ts'
import { type CallFault, faultErrors, plainReply } from '../../schemas/functions/call.ts'
import type { CallAnswer } from './calls.ts'

/** Headers that are the connection's, not the function's. */
const notTheirs: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])
const retrySeconds = 1

export type HeaderValues = Readonly<Record<string, string | string[]>>

export interface CallResponse {
  readonly status: number
  /** Names in lower case. */
  readonly headers: HeaderValues
  /** Null where HTTP has none. */
  readonly body: Uint8Array | null
}

/** The response that a call's answer means. `seconds`: the longest run of a handler. */
export function callResponse({ reply, body }: CallAnswer, seconds: number): CallResponse {
  if (reply === plainReply) return { status: reply.status, headers: plainReply.headers, body }
  const { status, fault } = reply
  if (fault !== undefined) return faultResponse(fault, seconds)
  const headers: Record<string, string | string[]> = {}
  for (const [given, text] of Object.entries(reply.headers ?? {})) {
    const name = given.toLowerCase()
    if (notTheirs.has(name)) continue
    const value = headerValue(name, text)
    if (!usable(name, value)) {
      const message = `The header ${given.slice(0, 100)} cannot be sent`
      return faultResponse({ code: 'unserialisable', message }, seconds)
    }
    headers[name] = value
  }
  if (status === 204 || status === 304) return { status, headers, body: null }
  headers['content-type'] ??= 'application/octet-stream'
  return { status, headers, body }
}

function faultResponse(fault: CallFault, seconds: number): CallResponse {
  const { status, error } = faultAnswer(fault, seconds)
  const headers: Record<string, string> = { 'content-type': 'application/json; charset=utf-8' }
  if (status === 429) headers['retry-after'] = String(retrySeconds)
  return { status, headers, body: Buffer.from(JSON.stringify({ error })) }
}

/** Status and text of a call that has no response. `seconds`: the longest run of a handler. */
export function faultAnswer(
  { code, message }: CallFault,
  seconds: number,
): { readonly status: number; readonly error: string } {
  return { status: errorCodes[faultErrors[code]].status, error: faultText(code, message, seconds) }
}

function faultText(code: CallFault['code'], message: string, seconds: number): string {
  switch (code) {
    case 'timeout':
      return `Execution timeout (${seconds}s)`
    case 'no-handler':
      return 'No handler function exported'
    case 'host-died':
      return 'The worker that ran the call was lost; it may have had effects'
    case 'internal':
      return 'Something went wrong on our side; the log has the whole story'
    default:
      return message === '' ? 'Error' : message
  }
}

/** Cookies come with a line each. `name` in lower case. */
export function headerValue(name: string, text: string): string | string[] {
  return name === 'set-cookie' && typeof text === 'string' && text.includes('\n') ? text.split('\n') : text
}

function usable(name: string, value: unknown): boolean {
  try {
    validateHeaderName(name)
    for (const each of [value].flat()) validateHeaderValue(name, each as string)
    return true
  } catch {
    return false
  }
}
