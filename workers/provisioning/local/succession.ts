import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { isUnderWay } from '../../../schemas/provisioning/operation.ts'
import { hasData, isStandby } from './members.ts'
import type { PostgresInstance } from './postgres-instance.ts'

/** After an attempt of the driver's own that failed. */
const againMs = 60_000

/**
 * Whether a standby takes the place of a primary that has ended or hangs (FAILOVER); else the primary is started again where it was. A
 * successor has to be running. There is none
 *
 * - while an operation is under way: it needs its primary, and is done, or undone, with the one it has;
 * - for a server that did not end by itself: it was stopped for an operation, or went with its supervisor or the machine, and the others
 *   with it: none of them is better than it, as long as it has its data;
 * - for a minute after a failover that did not work out.
 */
export async function hasSuccessor(opened: PostgresInstance, instance: Instance): Promise<boolean> {
  if (isUnderWay(instance.operation) || failedLately(instance, 'FAILOVER')) return false
  const primary = opened.primary()
  if (hasData(primary) && (await opened.control.status(primary)) === undefined) return false
  const running = await Promise.all(
    opened.standbys.map(async (member) => {
      const node = opened.nodeOf(member)
      return isStandby(node) && (await opened.control.pid(node)) !== undefined
    }),
  )
  return running.includes(true)
}

export function failedLately({ operation }: Instance, type: 'FAILOVER' | 'REPAIR'): boolean {
  if (operation.type !== type || operation.state !== 'FAILED') return false
  return Date.now() - (operation.endedAt ?? 0) < againMs
}
