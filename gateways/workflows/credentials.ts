import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { newId } from '../../bus/message.ts'
import { Rejected } from '../../schemas/failure.ts'
import { decideDeleteCredential, decideSaveCredential, requireCredential } from '../../schemas/workflows/credential.ts'
import { credentialBodyOf, credentialDraft } from './credentials-body.ts'
import { changeCredential, loadCredential } from './credentials-store.ts'
import { shownCredential } from './credentials-view.ts'
import { namespaceField } from './flow-text.ts'
import type { ById } from './flow-view.ts'
import { pageOf, queryOf, replyList } from './request.ts'
import type { WorkflowService } from './service.ts'

const maxCredentials = 10_000

/** Credentials: what tasks use as `${NAME}`. Their data goes in and never comes out. */
export function credentialRoutes(app: FastifyInstance, service: WorkflowService): void {
  const { bus } = service
  const viewer = { config: { role: 'viewer' } } as const
  const editor = (audit: string) => ({ config: { role: 'editor', audit } }) as const
  app.get('/api/v1/credentials', viewer, (request, reply) => list(service, request, reply))
  app.get<ById>('/api/v1/credentials/:id', viewer, async ({ params }) => {
    return shownCredential(requireCredential((await loadCredential(bus, params.id)).state))
  })
  app.post('/api/v1/credentials', editor('credential.create'), (request, reply) => create(service, request, reply))
  app.put<ById>('/api/v1/credentials/:id', editor('credential.update'), async (request) => {
    const body = credentialBodyOf(request)
    const own = ownOf(service, request, request.params.id)
    const { state } = await changeCredential(bus, own.credentialId, own.by, (before) => {
      return decideSaveCredential(before, credentialDraft(service, requireCredential(before), body, own))
    })
    return shownCredential(requireCredential(state))
  })
  const admin = { config: { role: 'admin', audit: 'credential.delete' } } as const
  app.delete<ById>('/api/v1/credentials/:id', admin, async (request, reply) => {
    const own = ownOf(service, request, request.params.id)
    await changeCredential(bus, own.credentialId, own.by, (before) => decideDeleteCredential(before, own))
    return reply.code(204).send()
  })
}

async function create(service: WorkflowService, request: FastifyRequest, reply: FastifyReply) {
  const body = credentialBodyOf(request)
  const own = ownOf(service, request, newId())
  if (service.credentials.size >= maxCredentials) {
    throw new Rejected('workflows/credential-limit', `There are ${maxCredentials} credentials, and no more may be`)
  }
  const { state } = await changeCredential(service.bus, own.credentialId, own.by, (before) => {
    return decideSaveCredential(before, credentialDraft(service, before, body, own))
  })
  reply.code(201).header('Location', `/api/v1/credentials/${own.credentialId}`)
  return shownCredential(requireCredential(state))
}

async function list({ credentials }: WorkflowService, request: FastifyRequest, reply: FastifyReply) {
  const { namespace, type, q, limit, cursor } = queryOf(request, ['namespace', 'type', 'q', 'limit', 'cursor'])
  const filter = {
    ...(namespace !== undefined && { namespace: namespaceField(namespace) }),
    ...(type !== undefined && { type }),
    ...(q !== undefined && { text: q.slice(0, 200) }),
  }
  const page = { ...pageOf({ ...(limit !== undefined && { limit }) }), ...(cursor !== undefined && { cursor }) }
  return replyList(request, reply, await credentials.list(filter, page))
}

function ownOf({ principalOf, now }: WorkflowService, request: FastifyRequest, credentialId: string) {
  return { credentialId, by: principalOf(request).name, at: now() }
}
