import { existsSync } from 'node:fs'
import { Unavailable } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { tiers } from '../../../schemas/provisioning/tiers.ts'
import type { Observed } from '../driver.ts'
import { applyRetention, trimArchive } from './backup/retention.ts'
import { allowWrites } from './care-plans.ts'
import { setSynchronous } from './create.ts'
import { hasData, isStandby } from './members.ts'
import type { Look } from './metrics/metrics.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres, type PostgresInstance } from './postgres-instance.ts'
import type { PostgresNode } from './postgres-node.ts'
import { memberName } from './postgres-settings.ts'
import { type Asked, answersYet, ask, isSilent } from './probe.ts'
import { retentionDue, type Tidied } from './retention-due.ts'
import { diskProblem, storageProblem } from './storage.ts'
import { failedLately, hasSuccessor } from './succession.ts'

/** What is remembered between two looks. */
export interface Watched extends Tidied {
  /** Since when each has not been replicating, by name; performance.now(). */
  readonly missingSince: Map<string, number>
  /** Since when each takes connections and says nothing, by name; performance.now(). */
  readonly silentSince: Map<string, number>
  /** As measured last. */
  readonly diskBytes: number | null
  readonly before: Look | undefined
}

/** A standby that has not come back by then is made anew. */
const missingMs = 30_000
const graceMs = 3_000

interface Looking {
  readonly place: LocalPlace
  readonly opened: PostgresInstance
  readonly instance: Instance
  readonly watched: Watched
}

/** How an instance is, by asking its servers. */
export async function observe(place: LocalPlace, instance: Instance, watched: Watched): Promise<Observed> {
  const opened = await openPostgres(place, instance)
  if (!existsSync(opened.folders.marker)) return { health: 'DOWN', reason: 'The folder of the instance is gone' }
  let asked: Asked
  try {
    asked = await ask(opened.primary())
    if (asked.recovering) throw new Error('The primary is a standby')
  } catch (error) {
    return await silentPrimary({ place, opened, instance, watched }, error as Error)
  }
  watched.silentSince.clear()
  await tidy({ place, opened, instance, watched })
  const full = await seeToStorage(opened, instance, watched.diskBytes, asked)
  if (full !== null) return full
  const { streaming } = asked
  if (tiers[instance.tier].synchronous) await setSynchronous(opened, instance, streaming.length)
  const missing = opened.standbys.filter(({ name }) => !streaming.includes(name)).map(({ name }) => name)
  for (const name of [...watched.missingSince.keys()]) if (!missing.includes(name)) watched.missingSince.delete(name)
  for (const name of missing) if (!watched.missingSince.has(name)) watched.missingSince.set(name, performance.now())
  // A standby that has just been started takes a moment.
  const lasting = missing.some((name) => performance.now() - watched.missingSince.get(name)! > graceMs)
  if (missing.length === 0) return replicated(watched)
  const lost = opened.standbys.filter((member) => {
    const node = opened.nodeOf(member)
    const late = performance.now() - (watched.missingSince.get(member.name) ?? Number.POSITIVE_INFINITY) > missingMs
    return missing.includes(member.name) && (!hasData(node) || !isStandby(node) || late)
  })
  const degraded = { health: 'DEGRADED', reason: `No replication to ${missing.join(', ')}` } as const
  const seen = lasting || lost.length > 0 ? degraded : { health: instance.health, reason: instance.healthReason }
  if (lost.length === 0 || failedLately(instance, 'REPAIR')) return seen
  return { ...seen, wants: { type: 'REPAIR', request: { members: lost.map(({ name }) => name) } } }
}

/** What no restore needs any more goes. */
async function tidy({ place, opened: { folders }, instance, watched }: Looking): Promise<void> {
  await trimArchive(folders)
  const rule = retentionDue(place, instance, watched)
  if (rule !== null) await applyRetention({ backupsFolder: folders.backups, archiveFolder: folders.archive }, rule)
}

/** All standbys have what is written; whether it can be restored is the other half. */
function replicated({ before }: Watched): Observed {
  const problem = before?.sample?.archiveProblem ?? null
  return problem === null ? { health: 'HEALTHY', reason: null } : { health: 'DEGRADED', reason: problem }
}

/** Without room an instance is read-only; with some it is written to again. Null: there is room. */
async function seeToStorage(
  opened: PostgresInstance,
  instance: Instance,
  diskBytes: number | null,
  { readOnly }: Asked,
): Promise<Observed | null> {
  const reason = await storageProblem(opened.folders.root, instance, diskBytes)
  if (reason === null) {
    // Whatever its state was since: a server that went down full comes back read-only.
    if (readOnly) await allowWrites(opened, true)
    return null
  }
  // A disk that is full to the last byte has no room for the setting either: then the server refuses by itself.
  await allowWrites(opened, false).catch(() => undefined)
  return { health: 'STORAGE_FULL', reason }
}

function endReason(primary: PostgresNode): string {
  return hasData(primary) ? 'The database server has ended' : 'The data folder of the database server is gone'
}

/** A primary that ended has a successor at once, one that does not answer after a few looks; without a standby it starts anew. */
async function silentPrimary(
  { opened, instance, place, watched }: Looking,
  error: Error & { readonly code?: string },
): Promise<Observed> {
  const full = await diskProblem(opened.folders.root, instance)
  // Another server on the same disk could not write either.
  if (full !== null) return { health: 'STORAGE_FULL', reason: full }
  const primary = opened.primary()
  const pids = await Promise.all(instance.members.map((member) => opened.control.pid(opened.nodeOf(member))))
  const ended = pids[instance.members.findIndex(({ name }) => name === instance.primary)] === undefined
  const reason = ended ? endReason(primary) : 'The database server does not answer'
  const seen = { health: 'DOWN', reason, ended } as const
  // A failover that broke off after its choice: what is to be the primary is a standby still.
  if (isStandby(primary)) {
    return failedLately(instance, 'FAILOVER')
      ? seen
      : { ...seen, wants: { type: 'FAILOVER', request: { reason: 'unfinished' } } }
  }
  // They went together, with what looked after them: none is better than the others.
  if (instance.members.length > 1 && pids.every((pid) => pid === undefined)) {
    throw new Unavailable('http/unavailable', 'The servers do not run')
  }
  const successor = await hasSuccessor(opened, instance)
  if (ended) return successor ? { ...seen, wants: { type: 'FAILOVER', request: { reason: 'ended' } } } : seen
  if (!successor) return (await endSilent(place, opened, primary, watched)) ? { ...seen, reason: endedReason } : seen
  // It is coming up, or has all its connections taken: alive.
  if (error.code === '57P03' || error.code === '53300' || (await answersYet(primary))) return seen
  return { ...seen, wants: { type: 'FAILOVER', request: { reason: 'silent' } } }
}

const endedReason = 'The database server did not answer for too long: it was ended and starts again'

/**
 * Ends a server that hangs, and has for long; it starts again by itself. True when it was.
 */
async function endSilent(
  { hungMs }: LocalPlace,
  { control }: PostgresInstance,
  node: PostgresNode,
  { silentSince }: Watched,
): Promise<boolean> {
  const name = memberName(node)
  if ((await control.pid(node)) === undefined || !(await isSilent(node))) {
    silentSince.delete(name)
    return false
  }
  const since = silentSince.get(name) ?? performance.now()
  silentSince.set(name, since)
  if (performance.now() - since < hungMs) return false
  silentSince.delete(name)
  await control.kill(node)
  return true
}

/** While an operation is under way nobody looks at its servers: one that hangs would hold it up for ever. */
export async function guard(place: LocalPlace, instance: Instance, watched: Watched): Promise<void> {
  if (instance.primary === null || instance.credentials === null) return
  const opened = await openPostgres(place, instance)
  await Promise.all(instance.members.map((member) => endSilent(place, opened, opened.nodeOf(member), watched)))
}
