import type { Instance } from './instance.ts'
import type { OperationType } from './instance-facts.ts'
import { isUnderWay } from './operation.ts'

/** What an instance is called while an operation is under way; the others leave it ACTIVE. */
const busy: Partial<Record<OperationType, Status>> = {
  CREATE: 'PROVISIONING',
  CLONE: 'CLONING',
  RESTORE: 'RESTORING',
  DELETE: 'DELETING',
  SCALE: 'MODIFYING',
  RESIZE: 'MODIFYING',
  PARAMETERS: 'MODIFYING',
  ENABLE_QUERY_STATS: 'MODIFYING',
  ENABLE_AUDIT: 'MODIFYING',
  RESTART: 'MODIFYING',
  UPGRADE: 'UPGRADING',
  FAILOVER: 'FAILING_OVER',
  REPAIR: 'DEGRADED',
}

export const statuses = [
  'PROVISIONING',
  'ACTIVE',
  'FAILED',
  'RESTORING',
  'CLONING',
  'MODIFYING',
  'UPGRADING',
  'FAILING_OVER',
  'DEGRADED',
  'STORAGE_FULL',
  'DELETING',
] as const
type Status = (typeof statuses)[number]

/** The one word for how an instance is. */
export function statusOf(found: Instance): Status {
  const { operation, created, health } = found
  if (isUnderWay(operation)) return busy[operation.type] ?? 'ACTIVE'
  if (!created) return 'FAILED'
  if (health === 'DEGRADED' || health === 'STORAGE_FULL') return health
  return health === 'DOWN' ? 'FAILED' : 'ACTIVE'
}
