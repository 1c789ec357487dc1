import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { KvConflict, KvInvalid } from '../../bus/kv.ts'
import type { KvEntry } from '../../bus/kv-entry.ts'
import { type KvCondition, type KvItem, type KvSpace, kvSpace } from '../../bus/kv-space.ts'
import { workflowsBucket } from '../../bus/topology.ts'
import { Rejected } from '../../schemas/failure.ts'
import { invalid } from '../http/request.ts'
import { namespaceField } from './flow-text.ts'
import { conditionOf, type KvTold, kvBodyOf } from './kv-body.ts'
import { cursorOf, pageOf, placeOfCursor, queryOf, replyList, textField } from './request.ts'
import type { WorkflowService } from './service.ts'

type ByNamespace = { Params: { namespace: string } }
type ByKey = { Params: { namespace: string; key: string } }

const maxPrefixLength = 512

/** The key-value store: values of any JSON by namespace and key, for people and for tasks. */
export function kvRoutes(app: FastifyInstance, service: WorkflowService): void {
  const space = kvSpace(service.bus, { bucket: workflowsBucket, now: service.now })
  const editor = (audit: string) => ({ config: { role: 'editor', audit } }) as const
  const viewer = { config: { role: 'viewer' } } as const
  app.get<ByNamespace>('/api/v1/kv/:namespace', viewer, (request, reply) => list(space, request, reply))
  app.get<ByKey>('/api/v1/kv/:namespace/:key', viewer, async (request, reply) => {
    const namespace = namespaceField(request.params.namespace)
    queryOf(request, [])
    const item = await refusing(() => space.get(namespace, request.params.key))
    if (item === null) throw notFound()
    reply.header('ETag', `"${item.version}"`)
    return { namespace, ...shown(item), value: item.value }
  })
  app.put<ByKey>('/api/v1/kv/:namespace/:key', editor('kv.put'), (request, reply) => put(space, request, reply))
  app.delete<ByKey>('/api/v1/kv/:namespace/:key', editor('kv.delete'), async (request, reply) => {
    const namespace = namespaceField(request.params.namespace)
    const told = conditionOf(request, {})
    if (!(await refusing(() => space.delete(namespace, request.params.key, told.condition), told))) throw notFound()
    return reply.code(204).send()
  })
}

async function put(space: KvSpace, request: FastifyRequest<ByKey>, reply: FastifyReply) {
  const namespace = namespaceField(request.params.namespace)
  const { write, told } = kvBodyOf(request)
  const { created, ...item } = await refusing(() => space.put(namespace, request.params.key, write), told)
  reply.code(created ? 201 : 200).header('ETag', `"${item.version}"`)
  return { namespace, ...shown(item), value: item.value }
}

async function list(space: KvSpace, request: FastifyRequest<ByNamespace>, reply: FastifyReply) {
  const namespace = namespaceField(request.params.namespace)
  const { cursor, limit, prefix } = queryOf(request, ['prefix', 'limit', 'cursor'])
  const page = {
    ...pageOf({ ...(limit !== undefined && { limit }) }),
    ...(prefix !== undefined && { prefix: textField('prefix', prefix, { max: maxPrefixLength }) }),
    ...(cursor !== undefined && { after: placeOfCursor(cursor) }),
  }
  const { entries, total, next } = await refusing(() => space.list(namespace, page))
  const rows = entries.map((entry) => ({ namespace, ...shown(entry) }))
  return replyList(request, reply, { rows, total, next: next === null ? null : cursorOf(next) })
}

function shown({ key, type, version, createdAt, updatedAt, expiresAt }: KvEntry | KvItem) {
  const iso = (at: number) => new Date(at).toISOString()
  return {
    key,
    type,
    version,
    createdAt: iso(createdAt),
    updatedAt: iso(updatedAt),
    expiresAt: expiresAt === null ? null : iso(expiresAt),
  }
}

function notFound(): Rejected {
  return new Rejected('workflows/kv-not-found', 'The namespace has no such key')
}

/** What the store refuses, as the caller is told. */
async function refusing<T>(
  call: () => Promise<T>,
  { byHeader = false }: { readonly condition?: KvCondition } & Partial<KvTold> = {},
): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof KvInvalid) {
      const [field = '', ...reason] = error.message.split(' ')
      throw invalid(field, reason.join(' '))
    }
    if (!(error instanceof KvConflict)) throw error
    const code = byHeader ? 'workflows/precondition-failed' : 'workflows/kv-conflict'
    throw new Rejected(code, error.message, { cause: error })
  }
}
