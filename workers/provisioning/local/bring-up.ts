import { existsSync } from 'node:fs'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { isUnderWay } from '../../../schemas/provisioning/operation.ts'
import { formerPassfile, hasData, isStandby, keepPrimary, keepStandby, startPrimary, startStandby } from './members.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres, type PostgresInstance } from './postgres-instance.ts'
import { admitStandbys, hasHba } from './standby-access.ts'
import { hasSuccessor } from './succession.ts'

/**
 * Starts what should run and does not: the primary, unless a standby is to take its place, then its standbys. A server that was a primary
 * and is one no longer has no mark of a standby, and stays down until it is built anew.
 */
export async function bringUp(place: LocalPlace, instance: Instance, signal: AbortSignal): Promise<void> {
  if (instance.primary === null || instance.credentials === null) return
  const opened = await openPostgres(place, instance)
  const primary = opened.primary()
  if (isStandby(primary)) return
  const busy = isUnderWay(instance.operation)
  // One that runs is waited for by an operation, which needs it; else the next look judges it, also one that says nothing.
  const runs = async (node: typeof primary) => !busy && (await opened.control.pid(node)) !== undefined
  let failure: unknown = null
  try {
    await bringUpPrimary(opened, instance, { signal, runs: await runs(primary) })
    await readmit(opened)
  } catch (error) {
    failure = error
  }
  // Without the primary, too: one of them may have to take its place.
  let standing = 0
  for (const member of opened.standbys) {
    const node = opened.nodeOf(member)
    if (!hasData(node) || !isStandby(node)) continue
    const asItIs = (await runs(node)) && !existsSync(formerPassfile(node))
    const up = asItIs ? keepStandby(opened, node) : startStandby(opened, primary.port, node, signal)
    await up.then(
      () => standing++,
      () => signal.throwIfAborted(),
    )
  }
  if (failure !== null && standing === 0) throw failure
}

async function bringUpPrimary(
  opened: PostgresInstance,
  instance: Instance,
  { signal, runs }: { readonly signal: AbortSignal; readonly runs: boolean },
): Promise<void> {
  const { operation } = instance
  const standbys = opened.standbys.length
  if (runs) return await keepPrimary(opened, opened.primary(), standbys)
  // It was fenced, and must not take another write.
  if (isUnderWay(operation) && operation.type === 'FAILOVER') return
  if (!hasData(opened.primary()) || (await hasSuccessor(opened, instance))) return
  await startPrimary(opened, opened.primary(), standbys, signal)
}

/** Standbys of an earlier version followed as the superuser. */
async function readmit({ control, folders, nodeOf, primary, standbys }: PostgresInstance): Promise<void> {
  const asItIs = hasHba(folders.hba) && !standbys.some((member) => existsSync(formerPassfile(nodeOf(member))))
  if (!asItIs && (await control.pid(primary())) !== undefined) await admitStandbys(folders.hba, primary())
}
