import type { Projection } from '../projector.ts'
import { applyAudit, auditTables } from './audit-fold.ts'
import { applyExecutions } from './executions-fold.ts'
import { executionTables } from './executions-tables.ts'
import { applyFlows, flowTables } from './flows-fold.ts'
import { applyTriggers, triggerTables } from './triggers-fold.ts'

/** The read models of the workflow engine. */
export const workflowProjection: Projection = {
  name: 'workflows',
  version: 5,
  streams: ['EVT_WORKFLOWS', 'EVT_EXECUTIONS', 'EVT_AUDIT'],
  tables: [flowTables, executionTables, triggerTables, auditTables].join('\n'),
  async apply(target, messages) {
    if (target.stream === 'EVT_WORKFLOWS') {
      await applyFlows(target, messages)
      await applyTriggers(target, messages)
    } else if (target.stream === 'EVT_AUDIT') await applyAudit(target, messages)
    else await applyExecutions(target, messages)
  },
}
