import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { failureOf } from '../http/failure-reply.ts'
import { type CallResponse, callResponse } from './answer.ts'
import type { CallAnswer } from './calls.ts'
import { corsHeaders } from './cors.ts'
import { callRequest } from './request.ts'
import type { FunctionService } from './service.ts'

export interface DirectCallsOptions {
  readonly service: FunctionService
  readonly maxBodyBytes: number
  readonly onFault: (fault: { readonly requestId: string; readonly route: string; readonly error: unknown }) => void
}

const path = /^\/invoke\/([A-Za-z0-9_.-]{1,128})(?:\?|$)/
const methods: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])
/** A body up to here goes out in one piece with the head. */
const pieceBytes = 16 * 1024
const fixedHeaders: readonly string[] = [...corsHeaders.flat(), 'x-content-type-options', 'nosniff', 'x-request-id']
const jsonType = 'application/json; charset=utf-8'

/**
 * Answers the calls that most are, JSON in the body and nothing to ask about them, without the server's routes, which cost more than all
 * else a gateway does for a call. What is not as expected goes to the routes and is answered or refused there.
 */
export function answerDirectly(server: Server, options: DirectCallsOptions): void {
  const { service } = options
  if (service.authenticator.enabled) return
  const routes = server.listeners('request') as ((request: IncomingMessage, response: ServerResponse) => void)[]
  server.removeAllListeners('request')
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const id = isPlain(request, options.maxBodyBytes) ? path.exec(request.url ?? '')?.[1] : undefined
    if (id !== undefined && service.view.has(id) && service.workers.some && service.calls.open) {
      new DirectCall(options, id, request, response).read()
    } else for (const route of routes) route.call(server, request, response)
  })
}

function isPlain({ method, headers }: IncomingMessage, maxBodyBytes: number): boolean {
  const type = headers['content-type']
  const length = headers['content-length']
  return (
    methods.has(method ?? '') &&
    (type === 'application/json' || type === jsonType) &&
    length !== undefined &&
    Number(length) <= maxBodyBytes &&
    headers.origin === undefined &&
    headers.prefer === undefined &&
    headers.expect === undefined
  )
}

class DirectCall {
  readonly #options: DirectCallsOptions
  readonly #id: string
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #chunks: Buffer[] = []

  constructor(options: DirectCallsOptions, id: string, request: IncomingMessage, response: ServerResponse) {
    this.#options = options
    this.#id = id
    this.#request = request
    this.#response = response
  }

  read(): void {
    this.#request.on('data', (chunk: Buffer) => this.#chunks.push(chunk))
    this.#request.on('end', () => this.#call())
  }

  #call(): void {
    const { view, calls } = this.#options.service
    const chunks = this.#chunks
    try {
      const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
      const answering = calls.call(view.get(this.#id).target, callRequest(this.#request), body)
      answering.then(
        (answer) => this.#answer(answer),
        (error: unknown) => this.#refuse(error),
      )
    } catch (error) {
      this.#refuse(error)
    }
  }

  #answer(answer: CallAnswer): void {
    try {
      this.#send(callResponse(answer, this.#options.service.timeoutMs / 1000), randomUUID())
    } catch (error) {
      this.#refuse(error)
    }
  }

  #refuse(error: unknown): void {
    const requestId = randomUUID()
    const { fault, status, text, retryAfterSeconds } = failureOf(error)
    if (fault) this.#options.onFault({ requestId, route: `${this.#request.method} /invoke/:id`, error })
    const retry = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }
    const headers = { 'content-type': jsonType, ...retry }
    this.#send({ status, headers, body: Buffer.from(JSON.stringify({ error: text })) }, requestId)
  }

  #send({ status, headers, body }: CallResponse, requestId: string): void {
    const response = this.#response
    if (response.headersSent || response.destroyed) return
    const head = [...fixedHeaders, requestId]
    for (const name in headers) {
      const value = headers[name]!
      if (typeof value === 'string') put(head, name, value)
      else for (const each of value) head.push(name, each)
    }
    if (body === null) {
      response.writeHead(status, head).end()
      return
    }
    head.push('content-length', String(body.length))
    response.writeHead(status, head)
    if (body.length > pieceBytes) response.end(body)
    else response.end(Buffer.from(body.buffer, body.byteOffset, body.length).toString('latin1'), 'latin1')
  }
}

/** In the place of the one of that name, if there is one. */
function put(head: string[], name: string, value: string): void {
  for (let at = 0; at < fixedHeaders.length; at += 2) {
    if (head[at] === name) {
      head[at + 1] = value
      return
    }
  }
  head.push(name, value)
}
