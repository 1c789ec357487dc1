import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type ExecutionArgs, type GraphQLFormattedError, GraphQLSchema, OperationTypeNode, parse } from 'graphql'
import { type Context, handleProtocols, makeServer, type SubscribePayload } from 'graphql-ws'
import type { WebSocket } from 'ws'
import { Rejected } from '../../schemas/failure.ts'
import type { Principal } from '../http/auth.ts'
import { failureOf } from '../http/failure-reply.ts'
import { closeCode, openSocketStream, type SocketStream } from '../http/websocket.ts'
import { executeToBytes } from './execute.ts'
import { contextOf, type GraphqlService } from './handler.ts'
import { errorsOf } from './subscription-errors.ts'
import type { LiveSubscription, SubscriptionTarget } from './subscription-live.ts'
import { socketOperation } from './subscription-operation.ts'
import { RequestErrors } from './subscription-plan.ts'
import { operationOf } from './subscription-request.ts'
import type { Subscriptions } from './subscriptions.ts'

export interface SocketLimits {
  /** Sockets of the gateway. Default 10,000. */
  readonly maxSockets?: number
  /** Operations that run on one socket at a time, subscriptions among them. Default 100. */
  readonly maxOperations?: number
  /** How long a client may take to say `connection_init`. Default 5,000. */
  readonly initTimeoutMs?: number
  /** Bytes a client has not taken, with which it gets no more answers. Default 1 MiB. */
  readonly maxUnsentBytes?: number
}

export interface SocketsOptions extends SocketLimits {
  readonly service: GraphqlService
  readonly subscriptions: Subscriptions
  /** Signs of life of open connections, called by the owner. */
  readonly beats: Set<() => void>
}

interface Extra {
  readonly request: FastifyRequest
  readonly socket: WebSocket
  readonly stream: SocketStream
  /** As whom the connection was opened. */
  principal?: Principal
}

type Connection = Context<Record<string, unknown> | undefined, Extra>

interface Asked {
  readonly id: string
  readonly payload: SubscribePayload
  readonly connection: Connection
}

/** More that a client does not take, with pongs for example, ends its connection. */
const maxBacklog = 8
/** Of graphql-transport-ws. */
const invalidMessage = 4400

/**
 * GraphQL over WebSocket, all kinds of operations. Source: graphql-ws, PROTOCOL.md (`graphql-transport-ws`). The library keeps the
 * protocol; results are written beside it, since it would turn their JSON into values and back.
 */
export class GraphqlSockets {
  readonly #options: SocketsOptions
  readonly #sockets = new Set<WebSocket>()
  readonly #server: ReturnType<typeof makeServer<Record<string, unknown> | undefined, Extra>>

  constructor(options: SocketsOptions) {
    this.#options = options
    this.#server = makeServer<Record<string, unknown> | undefined, Extra>({
      connectionInitWaitTimeout: options.initTimeoutMs ?? 5_000,
      onConnect: (connection) => this.#connect(connection),
      onSubscribe: (connection, id, payload) => argumentsFor({ id, payload, connection }),
      execute: ({ contextValue }) => this.#operation(contextValue as Asked),
      onError: (_connection, _id, _payload, errors) => {
        const cause = errors[0]?.originalError
        return cause instanceof RequestErrors ? (cause.errors as readonly GraphQLFormattedError[]) : undefined
      },
    })
  }

  /** Call once, after WebSockets have been registered. */
  chooseProtocol(app: FastifyInstance): void {
    app.websocketServer.options.handleProtocols = handleProtocols
  }

  /** @throws {Rejected} `http/too-many-requests` */
  requirePlace(): void {
    const { maxSockets = 10_000 } = this.#options
    if (this.#sockets.size < maxSockets) return
    throw new Rejected('http/too-many-requests', `${maxSockets} WebSockets are open, which is the limit`)
  }

  serve(socket: WebSocket, request: FastifyRequest): void {
    const { beats, maxUnsentBytes = 1_048_576 } = this.#options
    const stream = openSocketStream(socket)
    const beat = () => stream.beat()
    this.#sockets.add(socket)
    beats.add(beat)
    socket.on('error', () => socket.terminate())
    const closed = this.#server.opened(
      {
        protocol: socket.protocol,
        send: async (text) => stream.write(text),
        close: (code, reason) => socket.close(code, reason),
        onMessage: (handle) =>
          socket.on('message', (message) => {
            if (stream.unsentBytes > maxBacklog * maxUnsentBytes) return socket.terminate()
            // What is ours is answered as an error of its operation; what remains is a message nobody can read.
            handle(String(message)).catch(() => socket.close(invalidMessage, 'Invalid message received'))
          }),
      },
      { request, socket, stream },
    )
    stream.onClose(() => {
      this.#sockets.delete(socket)
      beats.delete(beat)
      void closed()
    })
  }

  /** After the subscriptions have been ended. */
  close(): void {
    for (const socket of this.#sockets) socket.close(closeCode.goingAway, 'The service is stopping')
  }

  async #connect({ extra, connectionParams }: Connection): Promise<boolean> {
    const { request, socket } = extra
    try {
      const authorization = authorizationOf(connectionParams) ?? request.headers.authorization
      const headers = { ...request.headers, ...(authorization === undefined ? {} : { authorization }) }
      const query = new URLSearchParams(request.raw.url?.split('?').slice(1).join('?'))
      extra.principal = await this.#options.service.authenticate(headers, query)
      return true
    } catch (error) {
      const { status, text, fault } = failureOf(error)
      if (fault) this.#options.service.onFault({ requestId: request.id, route: 'WebSocket /graphql', error })
      socket.close(status === 401 ? closeCode.unauthorized : closeCode.tryLater, text.slice(0, 100))
      return false
    }
  }

  #operation({ id, payload, connection }: Asked): AsyncGenerator<never, void, void> {
    const { stream } = connection.extra
    const requestId = randomUUID()
    const head = `{"id":${JSON.stringify(id)},"type":"next","payload":`
    return socketOperation({
      target: {
        requestId,
        get unsentBytes() {
          return stream.unsentBytes
        },
        next: (result) => stream.write(`${head}${result}}`),
        drained: () => stream.drained(),
      },
      run: (target) => this.#run(target, payload, connection),
      errorsOf: (error) => {
        const { errors, fault } = errorsOf(error, requestId)
        if (fault) this.#options.service.onFault({ requestId, route: 'WebSocket /graphql', error })
        return errors
      },
    })
  }

  /** @returns a subscription that goes on */
  async #run(
    target: SubscriptionTarget,
    payload: SubscribePayload,
    { extra, subscriptions: open }: Connection,
  ): Promise<LiveSubscription | null> {
    const { service, subscriptions, maxOperations = 100, maxUnsentBytes = 1_048_576 } = this.#options
    const { stream, request } = extra
    const principal = requireValid(extra.principal)
    requireFewer(Object.keys(open).length, maxOperations)
    const state = await service.watch.viewOf(principal).current()
    const { query, ...others } = payload
    // The library wants a text where a persisted document has none.
    const operation = operationOf(service, state, { ...others, ...(query === '' ? {} : { query }) })
    if (operation.node.operation === OperationTypeNode.SUBSCRIPTION)
      return subscriptions.start(await subscriptions.open(operation, principal), target)
    if (stream.unsentBytes > maxUnsentBytes) await stream.drained()
    const { keyed: _, command, ...context } = contextOf(service, principal, request)
    const { requestId } = target
    const own = { ...context, requestId, command: command && { ...command, commandId: requestId } }
    target.next((await executeToBytes(operation, own)).toString('utf8'))
    return null
  }
}

function requireValid(principal: Principal | undefined): Principal {
  if (principal !== undefined && (principal.expiresAt ?? Number.POSITIVE_INFINITY) > Date.now()) return principal
  throw new Rejected('http/unauthorized', 'The token has expired', { hint: 'Connect again with a new one.' })
}

function requireFewer(count: number, most: number): void {
  if (count <= most) return
  throw new Rejected('http/too-many-requests', `${most} operations run on this connection, which is the limit`)
}

/** Clients write the name as they please, some of them below `headers`. */
function authorizationOf(parameters: Record<string, unknown> | undefined): string | undefined {
  const { headers } = parameters ?? {}
  const places = [parameters, typeof headers === 'object' && headers !== null ? headers : {}]
  for (const place of places) {
    const found = Object.entries(place ?? {}).find(([name]) => name.toLowerCase() === 'authorization')
    if (typeof found?.[1] === 'string') return found[1]
  }
  return undefined
}

/** The library asks for a document and runs `execute` of a query; which document it is, is found out there. */
function argumentsFor(contextValue: Asked): ExecutionArgs {
  return { schema: noSchema, document: noDocument, contextValue }
}

const noSchema = new GraphQLSchema({})
const noDocument = parse('{ __typename }')
