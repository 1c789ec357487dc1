import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { isUnderWay } from '../../../schemas/provisioning/operation.ts'
import type { LocalPlace } from './place.ts'

const everyMs = 3_600_000

/** When what has become too old went last; performance.now(). */
export interface Tidied {
  tidiedAt: number
}

/**
 * What is to go now, without a backup that would see to it: the retention goes on where no schedule makes any. Null while it is not due,
 * or somebody copies of what would go.
 */
export function retentionDue(
  place: Pick<LocalPlace, 'instances'>,
  { uid, backup }: Pick<Instance, 'uid' | 'backup'>,
  tidied: Tidied,
): { readonly retentionDays: number; readonly now: number } | null {
  if (performance.now() - tidied.tidiedAt < everyMs) return null
  const copied = place.instances().some(({ source, operation }) => source?.uid === uid && isUnderWay(operation))
  if (copied) return null
  tidied.tidiedAt = performance.now()
  return { retentionDays: backup.retention, now: Date.now() }
}
