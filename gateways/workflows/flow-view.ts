import type { FastifyRequest } from 'fastify'
import type { FlowRecord } from '../../projections/workflows/flows-read.ts'
import type { SavedFlow } from './flow-store.ts'
import type { WorkflowService } from './service.ts'

export type ById = { Params: { id: string } }

/** Who changes what, and when. */
export function changeOf({ principalOf, now }: WorkflowService, request: FastifyRequest, flowId: string) {
  return { flowId, by: principalOf(request).name, at: now() }
}

/** As the list has it. */
export function shownFlow({ latest, enabled, createdAt, createdBy }: SavedFlow): FlowRecord {
  const { flowId, name, namespace, revision, yamlContent, plan, at } = latest
  return {
    id: flowId,
    name,
    namespace,
    revision,
    yamlContent,
    labels: plan.labels,
    enabled,
    createdAt: new Date(createdAt).toISOString(),
    createdBy,
    updatedAt: new Date(at).toISOString(),
  }
}
