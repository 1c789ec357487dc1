import type { FastifyReply, FastifyRequest } from 'fastify'
import { type ExecutionResult, GraphQLError, OperationTypeNode } from 'graphql'
import { createYoga, type Plugin } from 'graphql-yoga'
import { Rejected } from '../../schemas/failure.ts'
import { isJsonText } from '../data/filter-value.ts'
import type { Principal } from '../http/auth.ts'
import { fieldError } from './errors.ts'
import { executeToBytes, readOperation } from './execute.ts'
import { contextOf, type GraphqlService, isBatch, openRequest, streamsOnly } from './handler.ts'
import { readParameters, refuseMember } from './request.ts'
import type { SchemaState } from './schema-state.ts'

interface ServerContext {
  /** Yoga's own context has a `request`, which is not fastify's. */
  readonly call: { readonly request: FastifyRequest; readonly reply: FastifyReply }
  readonly principal: Principal
  readonly state: SchemaState
}

/** The body is sent as a whole, whatever Yoga meant to do. */
const framing = new Set(['content-length', 'transfer-encoding', 'connection'])
/** Characters; Yoga refuses a long list of media types with a header that is much longer, which clients cannot read. */
const longestHeader = 1000

/** Operations in one request that is an array of them. */
const maxBatch = 10

/**
 * Everything of GraphQL over HTTP beside `handler.ts` and streams: queries by GET, other media types, batches. The documents, their
 * limits and their execution are the same.
 */
export function yogaHandler(
  service: GraphqlService,
): (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply> {
  const yoga = createYoga<ServerContext>({
    schema: () => service.watch.current().schema,
    graphqlEndpoint: '/graphql',
    plugins: [ours(service)],
    batching: { limit: maxBatch },
    cors: false,
    landingPage: false,
    maskedErrors: false,
    multipart: false,
    logging: false,
    graphiql: false,
  })
  const handle = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { method, url, headers } = request.raw
    let opened: Awaited<ReturnType<typeof openRequest>>
    try {
      checkUrl(url ?? '')
      opened = await openRequest(service, request)
    } catch (error) {
      const { message, extensions } = fieldError(error, [], request.id).formatted
      const { status } = extensions as { readonly status: number }
      return reply.code(status).send({ errors: [{ message, extensions }] })
    }
    const response = await yoga.fetch(
      new Request(`http://localhost${url}`, {
        method: method ?? 'GET',
        headers: Object.entries(headers).flatMap(([name, value]) =>
          value === undefined ? [] : [[name, String(value)] as [string, string]],
        ),
        ...(Buffer.isBuffer(request.body) ? { body: new Uint8Array(request.body) } : {}),
      }),
      { call: { request, reply }, ...opened },
    )
    reply.code(response.status)
    for (const [name, value] of response.headers as unknown as Iterable<[string, string]>)
      if (!framing.has(name.toLowerCase()) && value.length < longestHeader) reply.header(name, value)
    return reply.send(Buffer.from(await response.arrayBuffer()))
  }
  return handle
}

function ours(service: GraphqlService): Plugin<ServerContext> {
  return {
    onParams: ({ params, setParams, context }) => setParams(withDocument(service, params, context as ServerContext)),
    onParse: ({ params, setParsedDocument, context }) => {
      const read = (context as unknown as ServerContext).state.documents.read(String(params.source))
      if (read.errors === null) setParsedDocument(read.document)
      else throw severalErrors(read.errors)
    },
    // The document has been validated with our limits when it was read.
    onValidate: ({ setResult }) => setResult([]),
    onExecute: ({ args, setExecuteFn }) => {
      setExecuteFn(async () => {
        return await execute(service, args.contextValue as unknown as ServerContext, args)
      })
    },
  }
}

/** Yoga reports what parsing throws; of several errors the first says that there are more. */
function severalErrors(errors: readonly GraphQLError[]): GraphQLError {
  return errors[0] ?? new GraphQLError('The document cannot be executed')
}

/** The request with the text of its document, however it named it. */
function withDocument<Params extends object>(service: GraphqlService, params: Params, context: ServerContext): Params {
  const {
    call: { request },
    state,
  } = context
  const given = params as Readonly<Record<string, unknown>>
  try {
    const documentId = request.method === 'GET' ? documentIdOf(request) : given.documentId
    const read = service.persisted.read(readParameters({ ...given, documentId }), state.documents)
    if (read.errors !== null) throw severalErrors(read.errors)
    return { ...params, documentId: undefined, query: read.document.loc?.source.body }
  } catch (error) {
    throw requestError(error, request)
  }
}

/** @throws {Rejected} `http/bad-request` for what Yoga would read as JSON and is none */
function checkUrl(url: string): void {
  const parameters = new URLSearchParams(url.slice(url.indexOf('?') + 1))
  for (const name of ['variables', 'extensions']) {
    const text = parameters.get(name)
    if (text !== null && !isJsonText(text)) refuseMember(name, 'is not JSON')
  }
}

/** Yoga reads no more of a URL than it knows. */
function documentIdOf({ raw: { url = '' } }: FastifyRequest): string | null {
  return new URLSearchParams(url.slice(url.indexOf('?') + 1)).get('documentId')
}

/** With the status of the request: a document that cannot be executed is well-formed to those who ask for plain JSON. */
function requestError(error: unknown, request: FastifyRequest): GraphQLError {
  const { message, extensions = {}, locations } = fieldError(error, [], request.id).formatted
  const http = error instanceof GraphQLError ? { spec: true, status: 400 } : { status: extensions.status ?? 500 }
  const { nodes, source, positions } = error instanceof GraphQLError ? error : {}
  const place = locations === undefined ? {} : { nodes, source, positions }
  return new GraphQLError(message, { ...place, extensions: { ...extensions, http } } as never)
}

async function execute(
  service: GraphqlService,
  { call: { request, reply }, principal, state }: ServerContext,
  args: { readonly document: unknown; readonly operationName?: string | null; readonly variableValues?: unknown },
): Promise<unknown> {
  try {
    const checked = state.documents.check(args.document as never)
    const operation = readOperation(
      state,
      checked,
      args.operationName,
      (args.variableValues ?? {}) as Record<string, unknown>,
    )
    if ('errors' in operation) return { errors: operation.errors }
    if (operation.node.operation === OperationTypeNode.SUBSCRIPTION)
      return { errors: [new GraphQLError(streamsOnly.message, { extensions: { ...streamsOnly.extensions } })] }
    const keyed = request.headers['idempotency-key'] !== undefined
    if (keyed && operation.node.operation === OperationTypeNode.MUTATION && isBatch(request)) throw keyOfBatch()
    const context = contextOf(service, principal, request, reply)
    const body = await executeToBytes(operation, context)
    if (context.keyed?.replayed) reply.header('Idempotency-Replayed', 'true')
    return asWritten(body.toString('utf8'))
  } catch (error) {
    return { errors: [requestError(error, request)] }
  }
}

/**
 * Yoga writes the result as it is, with every digit of its numbers. Without data the variables did not fit, which is the caller's error,
 * where Yoga takes errors that are plain objects for its own.
 */
function asWritten(text: string): ExecutionResult & { readonly stringify: () => string } {
  const { data, errors = [] } = JSON.parse(text) as ExecutionResult
  const stringify = () => text
  if (data !== undefined) return { data, stringify }
  const http = { spec: true, status: 400 }
  return {
    errors: errors.map((error) => ({ ...error, extensions: { ...error.extensions, http } }) as never),
    stringify,
  }
}

function keyOfBatch(): Rejected {
  return new Rejected('http/bad-request', 'Idempotency-Key is for one operation, not for a batch with mutations', {
    details: { header: 'Idempotency-Key' },
  })
}
