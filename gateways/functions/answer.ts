import { validateHeaderName, validateHeaderValue } from 'node:http'
import type { FastifyReply } from 'fastify'
import { errorCodes } from '../../schemas/errors.ts'
import { type CallFault, type CallReply, faultErrors } from '../../schemas/functions/call.ts'

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

/** The response of a function. */
export function sendAnswer(
  reply: FastifyReply,
  { status, headers = {}, fault }: CallReply,
  body: Uint8Array,
  seconds: number,
) {
  if (fault !== undefined) return sendFault(reply, fault, seconds)
  for (const [name, value] of Object.entries(headers)) {
    if (notTheirs.has(name.toLowerCase())) continue
    if (!usable(name, value)) {
      return sendFault(
        reply,
        { code: 'unserialisable', message: `The header ${name.slice(0, 100)} cannot be sent` },
        seconds,
      )
    }
    reply.header(name, value)
  }
  reply.code(status)
  return status === 204 || status === 304 ? reply.send() : reply.send(body)
}

function sendFault(reply: FastifyReply, fault: CallFault, seconds: number) {
  const { status, error } = faultAnswer(fault, seconds)
  if (status === 429) reply.header('Retry-After', String(retrySeconds))
  return reply.code(status).type('application/json; charset=utf-8').send(JSON.stringify({ error }))
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

function usable(name: string, value: unknown): value is string {
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value as string)
    return true
  } catch {
    return false
  }
}
