import { createTwoFilesPatch } from 'diff'
import type { FastifyInstance } from 'fastify'
import { listRevisions } from '../../projections/workflows/flows-read.ts'
import { requireFlow } from '../../schemas/workflows/flow.ts'
import { flowRevision, requireSaved, saveFlow } from './flow-store.ts'
import { changedDraft } from './flow-text.ts'
import { type ById, changeOf, shownFlow } from './flow-view.ts'
import { pageOf, queryOf, replyList, wholeNumber } from './request.ts'
import type { WorkflowService } from './service.ts'

type ByRevision = { Params: { id: string; rev: string } }

/** Comparing texts that have nothing in common can take for ever. */
const maxDiffMs = 500
const contextLines = 3

/** The texts a flow has had; saving one that differs makes the next. */
export function revisionRoutes(app: FastifyInstance, service: WorkflowService): void {
  const { bus, database } = service
  const viewer = { config: { role: 'viewer' } } as const
  const path = '/api/v1/flows/:id/revisions'
  app.get<ById>(path, viewer, async (request, reply) => {
    const range = pageOf(queryOf(request, ['limit', 'cursor']))
    const { id } = request.params
    const { sequence } = await requireSaved(bus, id)
    await service.readable('EVT_WORKFLOWS', sequence)
    return replyList(request, reply, await listRevisions(database, id, range))
  })
  app.get<ByRevision>(`${path}/:rev`, viewer, async ({ params: { id, rev } }) => {
    const { flowId, revision, name, namespace, yamlContent, by, at, restoredFrom } = await find(rev, id)
    const createdAt = new Date(at).toISOString()
    return {
      flowId,
      revision,
      name,
      namespace,
      yamlContent,
      createdAt,
      createdBy: by,
      restoredFrom: restoredFrom ?? null,
    }
  })
  app.get<ByRevision>(`${path}/:rev/diff`, viewer, async (request, reply) => {
    const { id, rev } = request.params
    const query = queryOf(request, ['from'])
    const to = await find(rev, id)
    const from = query.from === undefined ? await before(to.revision, id) : await find(query.from, id, 'from')
    const patch = unifiedDiff(
      { title: `revision ${from.revision}`, text: from.yamlContent },
      { title: `revision ${to.revision}`, text: to.yamlContent },
    )
    return reply.type('text/x-diff; charset=utf-8').send(patch)
  })
  const config = { role: 'editor', audit: 'flow.restore' } as const
  app.post<ByRevision>(`${path}/:rev/restore`, { config }, async (request) => {
    const { id, rev } = request.params
    const { yamlContent, revision } = await find(rev, id)
    const { flow, sequence } = await saveFlow(bus, changeOf(service, request, id), (state) => ({
      ...changedDraft(service, requireFlow(state), { yamlContent }),
      restoredFrom: revision,
    }))
    await service.readable('EVT_WORKFLOWS', sequence)
    return shownFlow(flow)
  })

  const find = (written: string, id: string, field = 'rev') => {
    return flowRevision(bus, id, wholeNumber(field, written, { min: 1, max: 1e9 }))
  }
  /** The first revision is compared with nothing. */
  const before = async (revision: number, id: string) => {
    return revision === 1 ? { revision: 0, yamlContent: '' } : await flowRevision(bus, id, revision - 1)
  }
}

interface Side {
  readonly title: string
  readonly text: string
}

/** Empty for equal texts. */
function unifiedDiff(from: Side, to: Side): string {
  if (from.text === to.text) return ''
  const options = { context: contextLines, timeout: maxDiffMs }
  const patch = createTwoFilesPatch(from.title, to.title, from.text, to.text, undefined, undefined, options)
  return patch?.replace(/^=+\n/, '') ?? replaced(from, to)
}

/** All of one for all of the other. */
function replaced(from: Side, to: Side): string {
  const lines = (sign: string, text: string) => text.split('\n').map((line) => `${sign}${line}\n`)
  const [removed, added] = [lines('-', from.text), lines('+', to.text)]
  const head = `--- ${from.title}\n+++ ${to.title}\n@@ -1,${removed.length} +1,${added.length} @@\n`
  return head + removed.join('') + added.join('')
}
