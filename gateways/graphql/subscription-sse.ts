import type { FastifyReply, FastifyRequest } from 'fastify'
import { OperationTypeNode } from 'graphql'
import { Rejected } from '../../schemas/failure.ts'
import type { Principal } from '../http/auth.ts'
import { type EventStream, openEventStream } from '../http/sse.ts'
import { executeToBytes, type Operation } from './execute.ts'
import { contentOf, contextOf, type GraphqlService } from './handler.ts'
import { errorsOf } from './subscription-errors.ts'
import type { Opening } from './subscription-live.ts'
import { contentOfUrl, operationOf } from './subscription-request.ts'
import type { Subscriptions } from './subscriptions.ts'

export interface EventStreamRoute {
  readonly service: GraphqlService
  readonly subscriptions: Subscriptions
  /** Signs of life of open connections, called by the owner. */
  readonly beats: Set<() => void>
  /** What a browser waits before it connects again. */
  readonly retryMs: number
}

type Handler = (request: FastifyRequest, reply: FastifyReply) => FastifyReply | Promise<FastifyReply>

export function wantsEventStream({ headers }: FastifyRequest): boolean {
  return /text\/event-stream/i.test(headers.accept ?? '')
}

/**
 * One operation answered as server-sent events: `next` with a result, any number of times, then `complete`. What is wrong with the
 * document or the subscription is a result with `errors`; what is wrong with the request is answered with its status.
 * Source: graphql-sse, PROTOCOL.md, "Distinct connections mode".
 *
 * @param asJson answers queries and mutations of clients that take JSON as well
 */
export async function serveEventStream(
  route: EventStreamRoute,
  request: FastifyRequest,
  reply: FastifyReply,
  asJson: Handler,
): Promise<FastifyReply> {
  const { service, subscriptions } = route
  let principal: Principal
  let operation: Operation
  try {
    const parameters = new URLSearchParams(request.raw.url?.split('?').slice(1).join('?'))
    const viaUrl = request.method === 'GET'
    // EventSource cannot send headers.
    principal = await service.authenticate(request.headers, viaUrl ? parameters : undefined)
    const content = viaUrl ? contentOfUrl(parameters) : contentOf(request.body)
    const state = await service.watch.viewOf(principal).current()
    operation = operationOf(service, state, content)
  } catch (error) {
    return refuse(route, request, reply, error)
  }
  if (operation.node.operation === OperationTypeNode.SUBSCRIPTION) {
    let opening: Opening
    try {
      opening = await subscriptions.open(operation, principal)
    } catch (error) {
      return refuse(route, request, reply, error, true)
    }
    return subscribe(route, request, reply, opening)
  }
  if (/json|\*\/\*/i.test(request.headers.accept ?? '')) return await asJson(request, reply)
  try {
    if (request.method === 'GET' && operation.node.operation === OperationTypeNode.MUTATION) throw mutationByGet()
    const body = await executeToBytes(operation, contextOf(service, principal, request, reply))
    return single(route, reply, body.toString('utf8'))
  } catch (error) {
    return refuse(route, request, reply, error, true)
  }
}

function subscribe(
  { subscriptions, beats, retryMs }: EventStreamRoute,
  request: FastifyRequest,
  reply: FastifyReply,
  opening: Opening,
): FastifyReply {
  const stream = openEventStream(reply, { retryMs })
  const live = subscriptions.start(opening, {
    requestId: request.id,
    get unsentBytes() {
      return stream.unsentBytes
    },
    next: (payload) => stream.write(nextEvent(payload)),
    fail: (errors) => stream.end(nextEvent(JSON.stringify({ errors })) + completeEvent),
    drained: () => stream.drained(),
  })
  const beat = () => stream.beat()
  beats.add(beat)
  stream.onClose(() => {
    beats.delete(beat)
    live.close()
  })
  return reply
}

/** @param started the request is well-formed and only its operation is refused */
function refuse(
  route: EventStreamRoute,
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
  started = false,
): FastifyReply {
  const { errors, status, fault } = errorsOf(error, request.id)
  if (fault) route.service.onFault({ requestId: request.id, route: `${request.method} /graphql`, error })
  const isOfOperation = started || !(error instanceof Rejected || fault || status === 503)
  if (isOfOperation) return single(route, reply, JSON.stringify({ errors }))
  if (status === 401) reply.header('WWW-Authenticate', 'Bearer')
  return reply.code(status).type('application/json; charset=utf-8').send(JSON.stringify({ errors }))
}

function single({ retryMs }: EventStreamRoute, reply: FastifyReply, payload: string): FastifyReply {
  const stream: EventStream = openEventStream(reply, { retryMs })
  stream.end(nextEvent(payload) + completeEvent)
  return reply
}

/** Line ends stand only between the tokens of JSON. */
function nextEvent(payload: string): string {
  return `event: next\ndata: ${/[\r\n]/.test(payload) ? payload.replace(/[\r\n]/g, ' ') : payload}\n\n`
}

/** With data: browsers pass over events without. */
const completeEvent = 'event: complete\ndata: \n\n'

function mutationByGet(): Rejected {
  return new Rejected('http/method-not-allowed', 'Mutations are sent by POST')
}
