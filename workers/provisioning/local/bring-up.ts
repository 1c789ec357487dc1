import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { hasData, isStandby, startPrimary, startStandby } from './members.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres } from './postgres-instance.ts'

/**
 * Starts what should run and does not: the primary, then its standbys. A server that was a primary and is one no longer has no
 * mark of a standby, and stays down until it is built anew.
 */
export async function bringUp(place: LocalPlace, instance: Instance, signal: AbortSignal): Promise<void> {
  if (instance.primary === null || instance.credentials === null) return
  const opened = await openPostgres(place, instance)
  const primary = opened.primary()
  if (!hasData(primary) || isStandby(primary)) return
  let failure: unknown = null
  await startPrimary(opened, primary, opened.standbys.length, signal).catch((error: unknown) => {
    failure = error
  })
  // Without the primary, too: one of them may have to take its place.
  let standing = 0
  for (const member of opened.standbys) {
    const node = opened.nodeOf(member)
    if (!hasData(node) || !isStandby(node)) continue
    await startStandby(opened, primary.port, node, signal).then(
      () => standing++,
      () => signal.throwIfAborted(),
    )
  }
  if (failure !== null && standing === 0) throw failure
}
