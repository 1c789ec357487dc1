import { existsSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { facts, type Member } from '../../../schemas/provisioning/instance-facts.ts'
import { type TierName, tiers } from '../../../schemas/provisioning/tiers.ts'
import type { Plan, Step, StepWork } from '../driver.ts'
import { catchUp } from './catch-up.ts'
import { bringStandbys, logIn, setSynchronous } from './create.ts'
import { ensureSlots, startPrimary, startStandby, writeTierFile } from './members.ts'
import { freePorts, type LocalPlace } from './place.ts'
import { openPostgres, type PostgresInstance } from './postgres-instance.ts'
import { tierFile, tierSettings } from './postgres-settings.ts'

interface ScaleData {
  readonly before: { readonly members: readonly Member[]; readonly tier: TierName }
  readonly added: readonly string[]
  readonly removed: readonly string[]
}

/** Another tier: standbys are added one after the other, or taken away; what the tier gives a server counts after a rolling restart. */
export function scalePlan(place: LocalPlace): Plan {
  return {
    steps: [reserve(place), addStandbys(place), removeStandbys(place), giveTier(place), verify(place)],
    undo: [
      forgetAdded(place),
      { ...addStandbys(place), name: 'BRING_BACK' },
      { ...giveTier(place), name: 'GIVE_BACK' },
    ],
  }
}

function reserve(place: LocalPlace): Step {
  return {
    name: 'RESERVE',
    async run({ instance, operation }) {
      const tier = operation.request.tier as TierName
      const { members, primary } = instance
      const missing = tiers[tier].localInstances - members.length
      const last = Math.max(0, ...members.map(({ name }) => Number(name.slice(1))))
      const version = members.find(({ name }) => name === primary)!.version
      const ports = await freePorts(place, Math.max(0, missing))
      const added = ports.map((port, index): Member => ({ name: `m${last + 1 + index}`, port, version }))
      const standbys = members.filter(({ name }) => name !== primary)
      const removed = missing < 0 ? standbys.slice(missing).map(({ name }) => name) : []
      const at = Date.now()
      const before = { members: [...members], tier: instance.tier }
      const data: ScaleData = { before, added: added.map(({ name }) => name), removed }
      return {
        data: { ...data },
        facts: [
          facts.members.of({ members: [...members, ...added], primary, at }),
          facts.settings.of({ tier, by: operation.by, at }),
        ],
      }
    },
  }
}

function addStandbys(place: LocalPlace): Step {
  return {
    name: 'REPLICAS',
    async run(work) {
      await bringStandbys(await openPostgres(place, work.instance), work)
      return undefined
    },
  }
}

function removeStandbys(place: LocalPlace): Step {
  return {
    name: 'REMOVE_REPLICAS',
    async run({ instance, operation }) {
      const { removed } = operation.data as unknown as ScaleData
      const kept = instance.members.filter(({ name }) => !removed.includes(name))
      const at = Date.now()
      if (removed.length === 0) return undefined
      const after = await openPostgres(place, { ...instance, members: kept })
      await setSynchronous(after, instance, after.standbys.length)
      await removeMembers(await openPostgres(place, instance), removed)
      await ensureSlots(
        after.primary(),
        after.standbys.map(({ name }) => name),
      )
      await startPrimary(after, after.primary(), after.standbys.length, new AbortController().signal)
      return { facts: [facts.members.of({ members: kept, primary: instance.primary, at })] }
    },
  }
}

/** Stopped, and their folders away. Never the primary's. */
async function removeMembers(opened: PostgresInstance, names: readonly string[]): Promise<void> {
  for (const member of opened.standbys.filter(({ name }) => names.includes(name))) {
    const node = opened.nodeOf(member)
    await opened.control.stop(node, { mode: 'immediate' })
    await rm(dirname(node.dataFolder), { recursive: true, force: true })
  }
}

/** A standby must never have lower limits than its primary: raised there first, lowered there last. */
function giveTier(place: LocalPlace): Step {
  return {
    name: 'SETTINGS',
    async run({ instance, signal }) {
      const opened = await openPostgres(place, instance)
      const primary = opened.primary()
      const path = join(primary.dataFolder, tierFile)
      const before = existsSync(path) ? readFileSync(path, 'utf8') : ''
      const raised = maxConnections(tierSettings(instance.tier)) >= maxConnections(before)
      const standbys = opened.standbys.map((member) => opened.nodeOf(member))
      const restartPrimary = async () => {
        if (readFileSync(path, 'utf8') === tierSettings(instance.tier)) return
        await writeTierFile(primary, instance.tier)
        await opened.control.stop(primary)
        await startPrimary(opened, primary, opened.standbys.length, signal)
      }
      const restartStandbys = async () => {
        for (const node of standbys) {
          const own = join(node.dataFolder, tierFile)
          if (existsSync(own) && readFileSync(own, 'utf8') === tierSettings(instance.tier)) continue
          if (!raised) await catchUp(primary, node, signal)
          await writeTierFile(node, instance.tier)
          await opened.control.stop(node)
          await startStandby(opened, primary.port, node, signal)
        }
      }
      if (raised) await restartStandbys()
      await restartPrimary()
      if (!raised) await restartStandbys()
      return undefined
    },
  }
}

function maxConnections(settings: string): number {
  return Number(/^max_connections = (\d+)/m.exec(settings)?.[1] ?? 0)
}

function verify(place: LocalPlace): Step {
  return {
    name: 'VERIFY',
    async run({ instance }: StepWork) {
      await logIn(await openPostgres(place, instance), instance)
      return undefined
    },
  }
}

function forgetAdded(place: LocalPlace): Step {
  return {
    name: 'FORGET_REPLICAS',
    async run({ instance, operation }) {
      const data = operation.data as unknown as Partial<ScaleData>
      if (data.before === undefined || data.added === undefined) return undefined
      await removeMembers(await openPostgres(place, instance), data.added)
      const { members, tier } = data.before
      const at = Date.now()
      return {
        facts: [
          facts.members.of({ members: [...members], primary: instance.primary, at }),
          facts.settings.of({ tier, by: operation.by, at }),
        ],
      }
    },
  }
}
