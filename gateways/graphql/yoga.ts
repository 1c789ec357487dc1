import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { GraphQLError, OperationTypeNode } from 'graphql'
import { createYoga, type Plugin } from 'graphql-yoga'
import { playgroundAssets, replyPlayground } from '../http/playground.ts'
import { fieldError } from './errors.ts'
import { executeToBytes, readOperation } from './execute.ts'
import { contextOf, type GraphqlService } from './handler.ts'

interface ServerContext {
  readonly request: FastifyRequest
}

/** Operations in one request that is an array of them. */
const maxBatch = 10

/**
 * Everything of GraphQL over HTTP beside `handler.ts`: queries by GET, other media types, batches, and the playground for browsers. The
 * documents, their limits and their execution are the same.
 */
export function yogaRoutes(
  app: FastifyInstance,
  service: GraphqlService,
): (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply> {
  const yoga = createYoga<{ request: FastifyRequest }>({
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
    const response = await yoga.fetch(
      new Request(`http://${headers.host ?? 'localhost'}${url}`, {
        method: method ?? 'GET',
        headers: Object.entries(headers).flatMap(([name, value]) =>
          value === undefined ? [] : [[name, String(value)] as [string, string]],
        ),
        ...(Buffer.isBuffer(request.body) ? { body: new Uint8Array(request.body) } : {}),
      }),
      { request },
    )
    reply.code(response.status)
    for (const [name, value] of response.headers as unknown as Iterable<[string, string]>) reply.header(name, value)
    return reply.send(Buffer.from(await response.arrayBuffer()))
  }
  playgroundAssets(app)
  app.get('/', (_request, reply) => reply.redirect('/graphql'))
  app.get('/graphql', (request, reply) => {
    const browser = request.headers.accept?.includes('text/html')
    return browser ? replyPlayground(reply, { endpoint: '/graphql' }) : handle(request, reply)
  })
  return handle
}

function ours(service: GraphqlService): Plugin<ServerContext> {
  return {
    onParse: ({ params, setParsedDocument }) => {
      const read = service.watch.current().documents.read(String(params.source))
      if (read.errors === null) setParsedDocument(read.document)
      else throw severalErrors(read.errors)
    },
    // The document has been validated with our limits when it was read.
    onValidate: ({ setResult }) => setResult([]),
    onExecute: ({ args, setExecuteFn }) => {
      setExecuteFn(async () => {
        const { request } = args.contextValue as unknown as ServerContext
        return await execute(service, request, args)
      })
    },
  }
}

/** Yoga reports what parsing throws; of several errors the first says that there are more. */
function severalErrors(errors: readonly GraphQLError[]): GraphQLError {
  return errors[0] ?? new GraphQLError('The document cannot be executed')
}

async function execute(
  service: GraphqlService,
  request: FastifyRequest,
  args: { readonly document: unknown; readonly operationName?: string | null; readonly variableValues?: unknown },
): Promise<unknown> {
  const state = service.watch.current()
  try {
    const principal = await service.authenticate(request.headers)
    const checked = state.documents.check(args.document as never)
    const operation = readOperation(
      state,
      checked,
      args.operationName,
      (args.variableValues ?? {}) as Record<string, unknown>,
    )
    if ('errors' in operation) return { errors: operation.errors }
    if (operation.node.operation === OperationTypeNode.SUBSCRIPTION)
      return { errors: [new GraphQLError('Subscriptions are not served here')] }
    return JSON.parse((await executeToBytes(operation, contextOf(service, principal, request))).toString('utf8'))
  } catch (error) {
    const { formatted } = fieldError(error, [], request.id)
    const { message, extensions } = formatted
    return {
      errors: [
        new GraphQLError(message, {
          extensions: { ...extensions, http: { status: (extensions as { status?: number }).status ?? 500 } },
        }),
      ],
    }
  }
}
