import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { compile } from './compile.ts'
import { functionId, invalid, readObject } from './request.ts'
import { allowManagement, type FunctionService } from './service.ts'

/** JSON can take more bytes than the code in it. */
const maxDeployBytes = 4 * 1024 * 1024
type WithId = { readonly Params: { readonly id: string } }

/** Deploy and delete. */
export function deployRoutes(app: FastifyInstance, service: FunctionService): void {
  const { store } = service
  app.post('/deploy', { bodyLimit: maxDeployBytes }, async (request, reply) => {
    await allowManagement(service, request)
    const { id, code: source, idempotent } = readDeploy(request, service.maxCodeBytes)
    const { code, sourceMap, hasHandler } = await compile(source)
    await store.deploy({ functionId: id, source, code, sourceMap, hasHandler, idempotent })
    if (!hasHandler) reply.header('Warning', '199 busbar "No handler function exported"')
    return reply.code(201).send({ id, url: `/invoke/${id}` })
  })
  app.delete<WithId>('/delete/:id', async (request) => {
    await allowManagement(service, request)
    const id = functionId(request.params.id)
    try {
      await store.remove(id)
    } catch (error) {
      if (!(error instanceof Rejected) || error.code !== 'functions/not-found') throw error
      throw new Rejected('functions/not-found', 'Not found', { cause: error })
    }
    return { status: 'deleted', id }
  })
}

function readDeploy({ body }: FastifyRequest, maxCodeBytes: number) {
  const { id, code, idempotent = false } = readObject(body, ['id', 'code', 'idempotent'])
  if (id === undefined || code === undefined || id === '' || code === '') throw invalid('Missing id or code')
  if (typeof code !== 'string') throw invalid('code must be a string: JavaScript or TypeScript source')
  if (typeof idempotent !== 'boolean') throw invalid('idempotent must be true or false')
  if (Buffer.byteLength(code) > maxCodeBytes) {
    throw new Rejected('http/payload-too-large', `code is larger than ${maxCodeBytes} bytes`)
  }
  return { id: functionId(id), code: code.toWellFormed(), idempotent }
}
