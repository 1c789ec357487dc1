import type { Projection } from '../projector.ts'
import { applyExecutions, executionTables } from './executions-fold.ts'
import { applyFlows, flowTables } from './flows-fold.ts'

/** The read models of the workflow engine. */
export const workflowProjection: Projection = {
  name: 'workflows',
  version: 1,
  streams: ['EVT_WORKFLOWS', 'EVT_EXECUTIONS'],
  tables: [flowTables, executionTables].join('\n'),
  async apply(target, messages) {
    if (target.stream === 'EVT_WORKFLOWS') await applyFlows(target, messages)
    else await applyExecutions(target, messages)
  },
}
