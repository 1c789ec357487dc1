import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { newId } from '../../bus/message.ts'
import { listFlows } from '../../projections/workflows/flows-read.ts'
import { requireFlow } from '../../schemas/workflows/flow.ts'
import { flowJsonSchema } from '../../schemas/workflows/flow-json-schema.ts'
import { readFlow } from '../../schemas/workflows/flow-yaml.ts'
import { invalid } from '../http/request.ts'
import { credentialWarnings } from './credentials-warnings.ts'
import { executeRoutes } from './execute.ts'
import { deleteFlow, enableFlow, flowOfName, requireSaved, saveFlow } from './flow-store.ts'
import { changedDraft, defaultNamespace, flowBodyOf, newDraft } from './flow-text.ts'
import { type ById, changeOf, shownFlow } from './flow-view.ts'
import { groupWarnings } from './group-warnings.ts'
import { labelsField, pageOf, queryOf, replyList } from './request.ts'
import { revisionRoutes } from './revisions.ts'
import type { WorkflowService } from './service.ts'

/** Flows: their texts, their revisions, and starting them. */
export function flowRoutes(app: FastifyInstance, service: WorkflowService): void {
  const { plugins } = service
  const viewer = { config: { role: 'viewer' } } as const
  app.get('/api/v1/flows', viewer, (request, reply) => list(service, request, reply))
  app.get('/api/v1/flows/schema.json', viewer, async (_request, reply) => {
    return reply.type('application/schema+json; charset=utf-8').send(JSON.stringify(flowJsonSchema(plugins.all())))
  })
  app.post('/api/v1/flows/validate', viewer, async (request) => {
    const { yamlContent, namespace: told } = flowBodyOf(request)
    if (yamlContent === undefined) throw invalid('yamlContent', 'is required')
    const { plan, namespace, problems } = readFlow(yamlContent, plugins)
    if (plan === null) return { valid: false, errors: problems }
    const warnings = [
      ...credentialWarnings(service.credentials, told ?? namespace ?? defaultNamespace, plan),
      ...(await groupWarnings(service.bus, plan)),
    ]
    return { valid: true, errors: [], ...(warnings.length > 0 && { warnings }) }
  })
  app.get<ById>('/api/v1/flows/:id', viewer, async ({ params }) => {
    return shownFlow((await requireSaved(service.bus, params.id)).flow)
  })
  changeRoutes(app, service)
  exchangeRoutes(app, service)
  revisionRoutes(app, service)
  executeRoutes(app, service)
}

function changeRoutes(app: FastifyInstance, service: WorkflowService): void {
  const { bus, readable } = service
  const editor = (audit: string) => ({ config: { role: 'editor', audit } }) as const
  app.post('/api/v1/flows', editor('flow.create'), async (request, reply) => {
    return await create(service, request, reply, flowBodyOf(request))
  })
  app.put<ById>('/api/v1/flows/:id', editor('flow.update'), async (request) => {
    const body = flowBodyOf(request)
    const { flow, sequence } = await saveFlow(bus, changeOf(service, request, request.params.id), (before) => {
      return changedDraft(service, requireFlow(before), body)
    })
    await readable('EVT_WORKFLOWS', sequence)
    return shownFlow(flow)
  })
  app.delete<ById>('/api/v1/flows/:id', editor('flow.delete'), async (request, reply) => {
    const sequence = await deleteFlow(bus, changeOf(service, request, request.params.id))
    await readable('EVT_WORKFLOWS', sequence)
    return reply.code(204).send()
  })
  for (const verb of ['enable', 'disable'] as const) {
    app.post<ById>(`/api/v1/flows/:id/${verb}`, editor(`flow.${verb}`), async (request) => {
      const change = changeOf(service, request, request.params.id)
      const { flow, sequence } = await enableFlow(bus, change, verb === 'enable')
      await readable('EVT_WORKFLOWS', sequence)
      return shownFlow(flow)
    })
  }
}

/** The name of the exchange's own format, for those that come after it. */
const exchangeVersion = 1

function exchangeRoutes(app: FastifyInstance, service: WorkflowService): void {
  const { bus } = service
  app.get<ById>('/api/v1/flows/:id/export', { config: { role: 'viewer' } }, async ({ params }, reply) => {
    const { latest } = (await requireSaved(bus, params.id)).flow
    const { name, namespace, yamlContent, revision } = latest
    reply.header('Content-Disposition', `attachment; filename="${namespace}.${fileName(name)}.json"`)
    const exportedAt = new Date(service.now()).toISOString()
    return { version: exchangeVersion, name, namespace, yamlContent, revision, exportedAt }
  })
  app.post('/api/v1/flows/import', { config: { role: 'editor', audit: 'flow.import' } }, async (request, reply) => {
    const { overwrite } = queryOf(request, ['overwrite'])
    // What an export says besides is for people.
    const body = flowBodyOf(request, ['version', 'revision', 'exportedAt'])
    if (overwrite !== 'true') return await create(service, request, reply, body)
    const draft = newDraft(service, body)
    const flowId = await flowOfName(bus, draft)
    if (flowId === null) return await create(service, request, reply, body)
    const { flow, sequence } = await saveFlow(bus, changeOf(service, request, flowId), () => draft)
    await service.readable('EVT_WORKFLOWS', sequence)
    return shownFlow(flow)
  })
}

async function create(
  service: WorkflowService,
  request: FastifyRequest,
  reply: FastifyReply,
  body: ReturnType<typeof flowBodyOf>,
) {
  const draft = newDraft(service, body)
  const flowId = newId()
  const { flow, sequence } = await saveFlow(service.bus, changeOf(service, request, flowId), () => draft)
  await service.readable('EVT_WORKFLOWS', sequence)
  return reply.code(201).header('Location', `/api/v1/flows/${flowId}`).send(shownFlow(flow))
}

async function list({ database }: WorkflowService, request: FastifyRequest, reply: FastifyReply) {
  const query = queryOf(request, ['namespace', 'enabled', 'label', 'q', 'limit', 'cursor'])
  const { namespace, enabled, label, q } = query
  if (enabled !== undefined && enabled !== 'true' && enabled !== 'false')
    throw invalid('enabled', 'must be true or false')
  const filter = {
    ...(namespace !== undefined && { namespace }),
    ...(enabled !== undefined && { enabled: enabled === 'true' }),
    ...(label !== undefined && { labels: labelsField(label) }),
    ...(q !== undefined && { text: q.slice(0, 200) }),
  }
  return replyList(request, reply, await listFlows(database, filter, pageOf(query)))
}

function fileName(name: string): string {
  return name.replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, 100)
}
