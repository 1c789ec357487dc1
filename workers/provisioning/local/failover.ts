import { join } from 'node:path'
import { Unavailable } from '../../../schemas/failure.ts'
import { facts } from '../../../schemas/provisioning/instance-facts.ts'
import type { Plan, Step } from '../driver.ts'
import { archiveRest, restoreCommand } from './backup/archive.ts'
import { bringStandbys, logIn, setSynchronous } from './create.ts'
import { ensureSlots, hasData, isStandby, startPrimary } from './members.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres, type PostgresInstance } from './postgres-instance.ts'
import type { PostgresNode } from './postgres-node.ts'
import { withSession } from './postgres-session.ts'

const promoteSeconds = 30

/**
 * Another server becomes the primary, at the same port. The old one is ended for good before; what it has committed and not sent
 * is taken out of its write-ahead log. It comes back as a standby by a repair.
 */
export function failoverPlan(place: LocalPlace): Plan {
  return { steps: [fence(place), choose(place), promote(place)], undo: [] }
}

function fence(place: LocalPlace): Step {
  return {
    name: 'FENCE',
    async run({ instance }) {
      const opened = await openPostgres(place, instance)
      await opened.control.fence(opened.primary())
      return { data: { old: instance.primary } }
    },
  }
}

/** The standby that has the most; the instance's port goes to it. */
function choose(place: LocalPlace): Step {
  return {
    name: 'CHOOSE',
    async run({ instance, operation, signal }) {
      const opened = await openPostgres(place, instance)
      const positions = await Promise.all(
        opened.standbys.map(async (member) => ({
          member,
          position: await receivedBy(opened, opened.nodeOf(member), signal),
        })),
      )
      const [best] = positions
        .filter(({ position }) => position !== null)
        .sort((left, right) => Number(right.position! - left.position!))
      if (best === undefined) throw new Unavailable('http/unavailable', 'No standby can take over')
      const old = instance.members.find(({ name }) => name === operation.data.old)!
      const ports: Readonly<Record<string, number>> = { [old.name]: best.member.port, [best.member.name]: old.port }
      const members = instance.members.map((each) => ({ ...each, port: ports[each.name] ?? each.port }))
      return {
        data: { candidate: best.member.name, was: best.member.port },
        facts: [facts.members.of({ members, primary: best.member.name, at: Date.now() })],
      }
    },
  }
}

/** How far a standby has the log, bytes; null when it cannot take over. */
async function receivedBy(opened: PostgresInstance, node: PostgresNode, signal: AbortSignal): Promise<bigint | null> {
  if (!hasData(node) || !isStandby(node)) return null
  try {
    await opened.control.start(node, { timeoutMs: 5_000, signal })
    return await withSession(
      node,
      async (client) => {
        const { rows } = await client.query<{ position: string }>(
          "select greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'::pg_lsn as position",
        )
        return BigInt(rows[0]!.position)
      },
      { database: 'postgres', statementTimeoutMs: 3_000 },
    )
  } catch {
    signal.throwIfAborted()
    return null
  }
}

function promote(place: LocalPlace): Step {
  return {
    name: 'PROMOTE',
    async run({ instance, operation, signal }) {
      const opened = await openPostgres(place, instance)
      const node = opened.primary()
      const old = instance.members.find(({ name }) => name === operation.data.old)!
      if (isStandby(node)) {
        // At its old port, or half-way: started anew at the instance's.
        await opened.control.stop(node)
        const left = join(opened.nodeOf(old).dataFolder, 'pg_wal')
        const settings = {
          primary_conninfo: '',
          primary_slot_name: '',
          restore_command: restoreCommand([left, opened.folders.archive]),
        }
        await opened.control.start(node, { settings, signal })
        await withSession(node, (client) => client.query('select pg_promote(true, $1)', [promoteSeconds]), {
          database: 'postgres',
          statementTimeoutMs: (promoteSeconds + 5) * 1_000,
        })
      }
      await archiveRest(opened.nodeOf(old))
      const others = opened.standbys.filter(({ name }) => name !== old.name)
      await startPrimary(opened, node, others.length, signal)
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
