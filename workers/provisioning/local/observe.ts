import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Unavailable } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { isUnderWay } from '../../../schemas/provisioning/operation.ts'
import { tiers } from '../../../schemas/provisioning/tiers.ts'
import type { Observed } from '../driver.ts'
import { allowWrites, readOnlyParameter } from './care-plans.ts'
import { setSynchronous } from './create.ts'
import { hasData, isStandby } from './members.ts'
import type { Look } from './metrics/metrics.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres, type PostgresInstance } from './postgres-instance.ts'
import { diskProblem, storageProblem } from './storage.ts'

/** What is remembered between two looks. */
export interface Watched {
  /** Since when each has not been replicating, by name; performance.now(). */
  readonly missingSince: Map<string, number>
  /** As measured last. */
  readonly diskBytes: number | null
  readonly before: Look | undefined
}

/** How long the primary may take to answer, and how often in a row it may not. */
const probeMs = 2_000
const probePauseMs = 300
const silentProbes = 3
/** A standby that has not come back by then is made anew. */
const missingMs = 30_000
const graceMs = 3_000
/** After an attempt of the driver's own that failed. */
const againMs = 60_000

/** How an instance is, by asking its servers. */
export async function observe(place: LocalPlace, instance: Instance, watched: Watched): Promise<Observed> {
  const opened = await openPostgres(place, instance)
  let asked: Asked
  try {
    asked = await ask(opened)
  } catch (error) {
    return await silentPrimary(opened, instance, error as Error)
  }
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

interface Asked {
  /** Names of the standbys that get what is written. */
  readonly streaming: readonly string[]
  readonly readOnly: boolean
}

/** Asked quickly, in a session of its own: a server that hangs takes a connection and says nothing. */
async function ask(opened: PostgresInstance): Promise<Asked> {
  const { port, superuser } = opened.primary()
  const client = new pg.Client({
    host: '127.0.0.1',
    port,
    user: superuser.user,
    password: superuser.password,
    database: 'postgres',
    application_name: 'busbar health',
    connectionTimeoutMillis: probeMs,
    query_timeout: probeMs,
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const { rows } = await client.query<{ streaming: readonly string[]; closed: string }>(
      `select current_setting('${readOnlyParameter}') as closed,
        array(select application_name from pg_stat_replication where state = 'streaming') as streaming`,
    )
    return { streaming: rows[0]!.streaming, readOnly: rows[0]!.closed === 'on' }
  } finally {
    // Not waited for: one that hangs does not say goodbye.
    void client.end().catch(() => undefined)
  }
}

/** A primary that ended has a successor at once, one that does not answer after a few looks. */
async function silentPrimary(opened: PostgresInstance, instance: Instance, error: Error): Promise<Observed> {
  const full = await diskProblem(opened.folders.root, instance)
  // Another server on the same disk could not write either.
  if (full !== null) return { health: 'STORAGE_FULL', reason: full }
  const pids = await Promise.all(instance.members.map((member) => opened.control.pid(opened.nodeOf(member))))
  const ended = pids[instance.members.findIndex(({ name }) => name === instance.primary)] === undefined
  const reason = ended ? 'The database server has ended' : 'The database server does not answer'
  const seen = { health: 'DOWN', reason } as const
  // They went together, with what looked after them: none is better than the others.
  if (instance.members.length > 1 && pids.every((pid) => pid === undefined)) {
    throw new Unavailable('http/unavailable', 'The servers do not run')
  }
  const able = opened.standbys.some((member) => isStandby(opened.nodeOf(member)))
  if (!able || failedLately(instance, 'FAILOVER')) return seen
  // It is coming up, or has all its connections taken: alive.
  const { code } = error as { readonly code?: string }
  if (!ended && (code === '57P03' || code === '53300')) return seen
  if (!ended && (await answersYet(opened))) return seen
  return { ...seen, wants: { type: 'FAILOVER', request: { reason: ended ? 'ended' : 'silent' } } }
}

async function answersYet(opened: PostgresInstance): Promise<boolean> {
  for (let probe = 1; probe < silentProbes; probe++) {
    await sleep(probePauseMs)
    const answered = await ask(opened).then(
      () => true,
      () => false,
    )
    if (answered) return true
  }
  return false
}

function failedLately({ operation }: Instance, type: 'FAILOVER' | 'REPAIR'): boolean {
  if (operation.type !== type || operation.state !== 'FAILED' || isUnderWay(operation)) return false
  return Date.now() - (operation.endedAt ?? 0) < againMs
}
