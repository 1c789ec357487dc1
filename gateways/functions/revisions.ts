import type { FastifyInstance, FastifyRequest } from 'fastify'
import { loadMessage } from '../../bus/load.ts'
import { Rejected } from '../../schemas/failure.ts'
import { type DeployedFact, decideRollback, functionAggregate } from '../../schemas/functions/function.ts'
import { functionId, invalid, readObject } from './request.ts'
import { allowManagement, type FunctionService } from './service.ts'

type WithId = { readonly Params: { readonly id: string } }
type WithRevision = { readonly Params: { readonly id: string; readonly revision: string } }

/** What was deployed, the source of each, and the way back. */
export function revisionRoutes(app: FastifyInstance, service: FunctionService): void {
  const { bus, store, view } = service
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
  app.get<WithRevision>('/scripts/:id/revisions/:revision', async (request) => {
    await allowManagement(service, request)
    const { id, state } = view.get(functionId(request.params.id))
    const wanted = Number(request.params.revision)
    const entry = state.revisions.find(({ revision }) => revision === wanted)
    const message =
      entry === undefined ? null : await loadMessage(bus, functionAggregate.events, 'EVT_FUNCTIONS', entry.sequence)
    const deployed = message?.facts.find((fact): fact is DeployedFact => fact.type === 'functions.function.deployed')
    if (entry === undefined || deployed === undefined) {
      throw new Rejected('functions/not-found', `Script ${id} has no revision ${request.params.revision.slice(0, 20)}`)
    }
    const { revision, at, idempotent } = entry
    return { id, revision, deployedAt: new Date(at).toISOString(), idempotent, code: deployed.data.source }
  })
  app.post<WithId>('/scripts/:id/rollback', async (request) => {
    await allowManagement(service, request)
    const id = functionId(request.params.id)
    const to = readRollback(request)
    await store.change(id, (state, moment) => decideRollback(state, { functionId: id, to }, moment))
    return { id, revision: view.get(id).state.revision }
  })
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
