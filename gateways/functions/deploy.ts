import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { decideRollback } from '../../schemas/functions/function.ts'
import { compile } from './compile.ts'
import { functionId, invalid, readObject } from './request.ts'
import { allowManagement, type FunctionService } from './service.ts'

/** JSON can take more bytes than the code in it. */
const maxDeployBytes = 4 * 1024 * 1024
type WithId = { readonly Params: { readonly id: string } }

/** Deploy, delete, revisions and rollback. */
export function deployRoutes(app: FastifyInstance, service: FunctionService): void {
  const { store, view } = service
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
  app.get<WithId>('/scripts/:id/revisions', async (request) => {
    await allowManagement(service, request)
    const { id, state } = view.get(functionId(request.params.id))
    const revisions = state.revisions.map(({ revision, program, at, idempotent }) => ({
      revision,
      deployedAt: new Date(at).toISOString(),
      active: revision === state.revision,
      ...(program !== revision && { rolledBackTo: program }),
      ...(idempotent && { idempotent }),
    }))
    return { id, revisions: revisions.reverse() }
  })
  app.post<WithId>('/scripts/:id/rollback', async (request) => {
    await allowManagement(service, request)
    const id = functionId(request.params.id)
    const to = readRollback(request)
    await store.change(id, (state, moment) => decideRollback(state, { functionId: id, to }, moment))
    return { id, revision: view.get(id).state.revision }
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

/** Null: to the revision before. */
function readRollback({ body }: FastifyRequest): number | null {
  if (!Buffer.isBuffer(body) || body.length === 0) return null
  const { revision = null } = readObject(body, ['revision'])
  if (revision === null) return null
  if (!Number.isSafeInteger(revision) || (revision as number) < 1)
    throw invalid('revision must be a whole number from 1')
  return revision as number
}
