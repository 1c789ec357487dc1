import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { facts, type Member } from '../../../schemas/provisioning/instance-facts.ts'
import type { Plan, Step } from '../driver.ts'
import { archivedSegments, archiveRest, restoreCommand } from './backup/archive.ts'
import { positionOf, segmentOfLsn } from './backup/wal-name.ts'
import { CareFailure } from './care-failure.ts'
import { bringStandbys, logIn, setSynchronous } from './create.ts'
import { ensureSlots, hasData, isStandby, startPrimary } from './members.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres, type PostgresInstance } from './postgres-instance.ts'
import type { PostgresNode } from './postgres-node.ts'
import { waitUntil, withSession } from './postgres-session.ts'
import { admitStandbys } from './standby-access.ts'

/** So long one of the standbys may take to be able to take over; then the old primary is better than none. */
const chooseMs = 10_000

/**
 * Another server becomes the primary, at the same port. The old one is ended for good before; what it has committed and not sent
 * is taken out of its write-ahead log. It comes back as a standby by a repair; where the other does not become the primary, as what it
 * was.
 */
export function failoverPlan(place: LocalPlace): Plan {
  return { steps: [fence(place), choose(place), promote(place)], undo: [goBack(place)] }
}

function fence(place: LocalPlace): Step {
  return {
    name: 'FENCE',
    async run({ instance }) {
      const opened = await openPostgres(place, instance)
      const primary = instance.members.find(({ name }) => name === instance.primary)!
      // Where an earlier failover broke off the recorded primary is a standby still, and the old one another.
      const old = [primary, ...opened.standbys].find((each) => isFormer(opened.nodeOf(each))) ?? primary
      await opened.control.fence(opened.nodeOf(old))
      // It may run at the port it had before.
      if (old !== primary) await opened.control.stop(opened.primary())
      return { data: { old: old.name } }
    },
  }
}

function isFormer(node: PostgresNode): boolean {
  return hasData(node) && !isStandby(node)
}

/** The standby that has the most; the instance's port goes to it. */
function choose(place: LocalPlace): Step {
  return {
    name: 'CHOOSE',
    async run({ instance, operation, signal }) {
      const opened = await openPostgres(place, instance)
      const { members } = instance
      const old = opened.nodeOf(members.find(({ name }) => name === operation.data.old)!)
      const { name, port } = await bestOf(opened, { members, logFolders: logFolders(opened, old) }, signal)
      const before = members.find((each) => each.name === instance.primary)!
      const ports: Readonly<Record<string, number>> = { [before.name]: port, [name]: before.port }
      const moved = members.map((each) => ({ ...each, port: ports[each.name] ?? each.port }))
      return {
        data: { candidate: name, was: port },
        facts: [facts.members.of({ members: moved, primary: name, at: Date.now() })],
      }
    },
  }
}

/** Where the log is that a successor has not got. */
function logFolders({ folders }: PostgresInstance, old: PostgresNode): readonly string[] {
  return [join(old.dataFolder, 'pg_wal'), folders.archive]
}

/** @throws {CareFailure} `failed` when none can take over in time: the old primary is started again */
async function bestOf(
  opened: PostgresInstance,
  all: { readonly members: readonly Member[]; readonly logFolders: readonly string[] },
  signal: AbortSignal,
): Promise<Member> {
  for (const end = performance.now() + chooseMs; ; ) {
    const received = await Promise.all(all.members.map((member) => receivedBy(opened, opened.nodeOf(member), signal)))
    const most = received.reduce((left, right) => (right.bytes > left.bytes ? right : left), nothing)
    const best = all.members[received.indexOf(most)]
    if (best !== undefined && goesOn(all.logFolders, most.segment)) return best
    if (performance.now() > end) throw new CareFailure('failed', 'No standby can take over')
    await sleep(250, undefined, { signal })
  }
}

/** How far a standby has the log. */
interface Received {
  readonly bytes: bigint
  /** Where it goes on. */
  readonly segment: string
}

/** Of one that cannot take over. */
const nothing: Received = { bytes: -1n, segment: '' }

async function receivedBy(opened: PostgresInstance, node: PostgresNode, signal: AbortSignal): Promise<Received> {
  if (!hasData(node) || !isStandby(node)) return nothing
  try {
    await opened.control.start(node, { timeoutMs: 5_000, signal })
    return await withSession(
      node,
      async (client) => {
        const { rows } = await client.query<{ lsn: string; bytes: string; segmentBytes: number }>(
          `select lsn::text, lsn - '0/0'::pg_lsn as bytes,
            (select setting::int from pg_settings where name = 'wal_segment_size') as "segmentBytes"
          from greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) as lsn`,
        )
        const { lsn, bytes, segmentBytes } = rows[0]!
        return { bytes: BigInt(bytes), segment: segmentOfLsn(lsn, 1, segmentBytes) }
      },
      { database: 'postgres', statementTimeoutMs: 3_000 },
    )
  } catch {
    signal.throwIfAborted()
    return nothing
  }
}

/** False where log after the segment is there and it is not: what was committed in it would be lost. */
function goesOn(folders: readonly string[], segment: string): boolean {
  const there = folders.flatMap(archivedSegments).map(positionOf)
  const next = positionOf(segment)
  return there.includes(next) || !there.some((position) => position > next)
}

function promote(place: LocalPlace): Step {
  return {
    name: 'PROMOTE',
    async run({ instance, operation, signal }) {
      const opened = await openPostgres(place, instance)
      const node = opened.primary()
      const old = instance.members.find(({ name }) => name === operation.data.old)!
      const former = opened.nodeOf(old)
      // Whatever happened since the first step: it must not take a write any more.
      if (old.name !== instance.primary) await opened.control.fence(former)
      if (isStandby(node)) {
        // At its old port, or half-way: started anew at the instance's.
        await opened.control.stop(node)
        const settings = {
          primary_conninfo: '',
          primary_slot_name: '',
          restore_command: restoreCommand(logFolders(opened, former)),
        }
        await opened.control.start(node, { settings, signal })
        await promoted(node, place.promoteMs, signal)
      }
      await archiveRest(former)
      const others = opened.standbys.filter(({ name }) => name !== old.name)
      await startPrimary(opened, node, others.length, signal)
      await admitStandbys(opened.folders.hba, node)
      await ensureSlots(
        node,
        opened.standbys.map(({ name }) => name),
      )
      await setSynchronous(opened, instance, others.length)
      await logIn(opened, instance)
      return {
        facts: [facts.health.of(degraded(old.name))],
        data: { result: { primary: instance.primary, old: old.name } },
      }
    },
  }
}

/** Resolves when it has read all there is of the log, and takes writes. */
async function promoted(node: PostgresNode, timeoutMs: number, signal: AbortSignal): Promise<void> {
  await withSession(
    node,
    async (client) => {
      await client.query('select pg_promote(false)')
      const isPrimary = async () =>
        !(await client.query<{ still: boolean }>('select pg_is_in_recovery() as still')).rows[0]!.still
      await waitUntil(isPrimary, { timeoutMs, message: 'The standby does not become the primary.', signal })
    },
    { database: 'postgres' },
  )
}

/** A standby that is ended as one has taken no write: what the old primary has is all there is. */
function goBack(place: LocalPlace): Step {
  return {
    name: 'GO_BACK',
    async run({ instance, operation }) {
      const opened = await openPostgres(place, instance)
      const node = opened.primary()
      const old = instance.members.find(({ name }) => name === operation.data.old)
      if (old === undefined || old.name === instance.primary) return undefined
      if (!isFormer(opened.nodeOf(old)) || !isStandby(node)) return undefined
      await opened.control.fence(node)
      // Until then it could become one.
      if (!isStandby(node)) return undefined
      const ports: Readonly<Record<string, number>> = { [old.name]: node.port, [instance.primary!]: old.port }
      const members = instance.members.map((each) => ({ ...each, port: ports[each.name] ?? each.port }))
      return { facts: [facts.members.of({ members, primary: old.name, at: Date.now() })] }
    },
  }
}

function degraded(name: string) {
  return { health: 'DEGRADED' as const, reason: `${name} failed; it comes back as a standby`, at: Date.now() }
}

/** Servers that are lost come back as standbys of the primary: rewound, or made anew. */
export function repairPlan(place: LocalPlace): Plan {
  const rebuild: Step = {
    name: 'REBUILD',
    async run(work) {
      const { members = [] } = work.operation.request as { readonly members?: readonly string[] }
      const opened = await openPostgres(place, work.instance)
      const rewound = await bringStandbys(opened, work, new Set(members))
      await startPrimary(opened, opened.primary(), opened.standbys.length, work.signal)
      return {
        data: { result: { rewound, rebuilt: members.filter((name) => !rewound.includes(name)) } },
        facts: [facts.health.of({ health: 'HEALTHY', reason: null, at: Date.now() })],
      }
    },
  }
  return { steps: [rebuild], undo: [] }
}
