import { JetStreamApiError } from '@nats-io/jetstream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { BusUnavailable } from '../../bus/connect.ts'
import { newId } from '../../bus/message.ts'
import { asking, publish } from '../../bus/publish.ts'
import { invocationSubject, outcomeSubject } from '../../bus/subject.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import { type Call, callHeader, type Outcome, outcomeHeader } from '../../schemas/functions/call.ts'
import type { CallTarget } from '../../schemas/functions/target.ts'
import { faultAnswer, headerValue } from './answer.ts'
import { ReadTurns } from './read-turns.ts'
import { callBody, callRequest } from './request.ts'
import { allowCall, type FunctionService } from './service.ts'

/** The code of the server for a stream that takes no more. */
const streamFull = 10077
const idPattern = /^[A-Za-z0-9_-]{1,64}$/

/** `Prefer: respond-async`: answered when the call is stored, done at least once. Source: RFC 7240. */
export async function acceptInvocation(
  { bus }: FunctionService,
  target: CallTarget,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  const id = newId()
  const call: Call = { id, ...target, at: Date.now(), ...callRequest(request.raw) }
  try {
    await publish(bus, {
      subject: invocationSubject(id),
      body: callBody(request),
      headers: { 'Nats-Msg-Id': id, [callHeader]: JSON.stringify(call) },
    })
  } catch (error) {
    if (!isFull(error)) throw error
    throw new Unavailable('functions/unavailable', 'As many asynchronous calls as may be are waiting', { cause: error })
  }
  const url = `/invocations/${id}`
  return reply
    .code(202)
    .header('Location', url)
    .header('Preference-Applied', 'respond-async')
    .send({ id, status: 'pending', url })
}

function isFull(error: unknown): boolean {
  const cause = error instanceof BusUnavailable ? error.cause : undefined
  return cause instanceof JetStreamApiError && cause.code === streamFull
}

/** What became of an asynchronous invocation. */
export function invocationRoute(app: FastifyInstance, service: FunctionService): void {
  // Each may be 6 MB.
  const turns = new ReadTurns({ most: 4, mostWaiting: 1_000 })
  app.get<{ Params: { id: string } }>('/invocations/:id', async (request) => {
    await allowCall(service, request)
    const { id } = request.params
    const found = idPattern.test(id) ? await turns.run(() => find(service, id)) : null
    if (found === null) throw new Rejected('functions/unknown-invocation', `Invocation not found: ${id.slice(0, 100)}`)
    return found
  })
}

async function find(service: FunctionService, id: string): Promise<object | null> {
  // It may be done between the two reads.
  return (await outcome(service, id)) ?? (await waiting(service, id)) ?? (await outcome(service, id))
}

async function waiting({ bus }: FunctionService, id: string): Promise<object | null> {
  const query = { last_by_subj: invocationSubject(id) }
  const stored = await asking(bus, () => bus.manager.direct.getMessage('INVOCATIONS', query))
  if (stored === null) return null
  const { fn } = JSON.parse(stored.header.get(callHeader)) as Call
  return { id, script: fn, status: 'pending' }
}

async function outcome({ bus, timeoutMs }: FunctionService, id: string): Promise<object | null> {
  const query = { last_by_subj: outcomeSubject(id) }
  const stored = await asking(bus, () => bus.manager.direct.getMessage('OUTCOMES', query))
  if (stored === null) return null
  const { fn, finishedAt, durationMs, ...reply } = JSON.parse(stored.header.get(outcomeHeader)) as Outcome
  const done = { id, script: fn, finishedAt: new Date(finishedAt).toISOString(), durationMs }
  if (reply.fault !== undefined) return { ...done, status: 'failed', ...failure(reply.fault, timeoutMs) }
  const { status, headers = {} } = reply
  const told = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, headerValue(name, text)]))
  const response = { status, headers: told, ...content(headers, Buffer.from(stored.data)) }
  return { ...done, status: 'done', response }
}

function failure(fault: NonNullable<Outcome['fault']>, timeoutMs: number) {
  return { error: faultAnswer(fault, timeoutMs / 1000).error }
}

/** JSON as JSON, text as text, other bytes in base64. */
function content(headers: Readonly<Record<string, string>>, bytes: Buffer) {
  const type = Object.entries(headers).find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? ''
  const text = bytes.toString('utf8')
  if (/\bjson\b/i.test(type)) {
    try {
      return { body: JSON.parse(text) as unknown }
    } catch {
      return { body: text }
    }
  }
  return Buffer.from(text, 'utf8').equals(bytes) ? { body: text } : { bodyBase64: bytes.toString('base64') }
}
