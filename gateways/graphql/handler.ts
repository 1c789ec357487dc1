import type { FastifyReply, FastifyRequest } from 'fastify'
import { GraphQLError, OperationTypeNode } from 'graphql'
import type { CommandMessage } from '../../schemas/data/change.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { TransactionalDatabase } from '../data/statement.ts'
import type { Authenticate, Principal } from '../http/auth.ts'
import { untilCallerGone } from '../http/caller.ts'
import { fieldError } from './errors.ts'
import { type ExecutionContext, executeToBytes, readOperation } from './execute.ts'
import { KeyedWrites } from './keyed-writes.ts'
import type { PersistedQueries } from './persisted.ts'
import { readParameters } from './request.ts'
import type { SchemaState } from './schema-state.ts'
import type { SchemaWatch } from './schema-watch.ts'

export interface GraphqlService {
  readonly watch: SchemaWatch
  readonly persisted: PersistedQueries
  readonly database: TransactionalDatabase
  readonly authenticate: Authenticate
  /** Whether writes put their command into the write-ahead log. */
  readonly emitCommands: boolean
  readonly onFault: (fault: { readonly requestId: string; readonly route: string; readonly error: unknown }) => void
}

const jsonType = 'application/json; charset=utf-8'
const graphqlType = 'application/graphql-response+json; charset=utf-8'

/** One operation sent as JSON, to be answered as JSON: not a batch, not a stream. */
export function isPlainOperation(request: FastifyRequest): boolean {
  const { accept = '' } = request.headers
  const json = accept === '' || /application\/(?:graphql-response\+)?json|\*\/\*|application\/\*/i.test(accept)
  return json && Buffer.isBuffer(request.body) && !isBatch(request)
}

export function isBatch({ body }: FastifyRequest): boolean {
  return Buffer.isBuffer(body) && body[body.findIndex((byte) => byte > 0x20)] === openBracket
}

const openBracket = 0x5b

/** A query or mutation sent as JSON and answered as JSON: the bytes of the answer come from PostgreSQL. */
export async function postOperation(
  service: GraphqlService,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const modern = /application\/graphql-response\+json/i.test(request.headers.accept ?? '')
  const type = modern ? graphqlType : jsonType
  const refuse = (status: number, errors: readonly unknown[]) =>
    reply
      .code(modern || status === 401 ? status : legacyStatus(status))
      .type(type)
      .send(JSON.stringify({ errors }))
  try {
    const { principal, state } = await openRequest(service, request)
    const parameters = readParameters(contentOf(request.body))
    const read = service.persisted.read(parameters, state.documents)
    const operation = readOperation(state, read, parameters.operationName, parameters.variables)
    if ('errors' in operation) return refuse(400, operation.errors)
    if (operation.node.operation === OperationTypeNode.SUBSCRIPTION) return refuse(400, [streamsOnly])
    const context = contextOf(service, principal, request, reply)
    const body = await executeToBytes(operation, context)
    if (context.keyed?.replayed) reply.header('Idempotency-Replayed', 'true')
    return reply.type(type).send(body)
  } catch (error) {
    if (error instanceof GraphQLError) return refuse(400, [error])
    const { formatted, fault } = fieldError(error, [], request.id)
    if (fault) service.onFault({ requestId: request.id, route: 'POST /graphql', error })
    const { path: _, ...rest } = formatted
    const { status } = formatted.extensions as { readonly status: number }
    return reply
      .code(status)
      .type(type)
      .send(JSON.stringify({ errors: [rest] }))
  }
}

/** To those who ask for a subscription and for one answer. */
export const streamsOnly = {
  message: 'Subscriptions are streams: accept text/event-stream, or connect by WebSocket',
  extensions: { code: 'http/bad-request' },
}

/**
 * Who asks, and the schema as they see it.
 * @throws {Rejected} `http/unauthorized`, and what the database says to an unknown role
 */
export async function openRequest(
  { authenticate, watch }: Pick<GraphqlService, 'authenticate' | 'watch'>,
  { headers }: FastifyRequest,
): Promise<{ readonly principal: Principal; readonly state: SchemaState }> {
  const principal = await authenticate(headers)
  return { principal, state: await watch.viewOf(principal).current() }
}

/** In the older media type a well-formed request is answered with 200, whatever became of it. */
function legacyStatus(status: number): number {
  return status === 400 ? 200 : status
}

/** A body of JSON. @throws {Rejected} `http/bad-request` */
export function contentOf(body: unknown): unknown {
  try {
    return JSON.parse(Buffer.isBuffer(body) ? body.toString('utf8') : '')
  } catch (cause) {
    throw new Rejected('http/bad-request', 'The body is not JSON', { details: { field: 'body' }, cause })
  }
}

/** @throws {Rejected} `http/bad-request` for an unusable Idempotency-Key */
export function contextOf(
  service: GraphqlService,
  principal: Principal,
  request: FastifyRequest,
  /** Absent: the connection outlives the operation. */
  reply?: FastifyReply,
): ExecutionContext {
  const { role, claims, anonymous, actor } = principal
  const caller = { anonymous, ...(role === undefined ? {} : { role }), ...(claims === undefined ? {} : { claims }) }
  const { 'idempotency-key': key, 'busbar-cost': cost } = request.headers
  return {
    watch: service.watch.viewOf(principal),
    run: service.database.run,
    caller,
    requestId: request.id,
    command: service.emitCommands ? commandOf(actor, request) : null,
    ...(key === undefined ? {} : { keyed: new KeyedWrites(service.database, String(key), actor) }),
    reportCost: cost === '1',
    ...(reply === undefined ? {} : { untilGone: () => untilCallerGone(reply) }),
    onFault: (error) => service.onFault({ requestId: request.id, route: 'POST /graphql', error }),
  }
}

function commandOf(actor: string, request: FastifyRequest): Omit<CommandMessage, 'operation'> {
  const trace = request.headers.traceparent
  const traced = typeof trace === 'string' && /^[0-9a-f-]{55}$/.test(trace) ? { trace } : {}
  return { commandId: request.id, actor, ...traced }
}
