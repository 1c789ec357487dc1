import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { facts } from '../../../schemas/provisioning/instance-facts.ts'
import { type TierName, tiers } from '../../../schemas/provisioning/tiers.ts'
import type { Plan, Step, StepWork } from '../driver.ts'
import { writeDurably } from './durable-files.ts'
import { endMysqlNode } from './mysql/closed-server.ts'
import { makeMysqlFolders } from './mysql/create.ts'
import { withMysql } from './mysql/mysql-session.ts'
import { dropReplicationUsers } from './mysql/passwords.ts'
import { makeMysqlReplica } from './mysql/replica.ts'
import { type MysqlInstance, startMysql } from './mysql-instance.ts'
import type { MakeStep } from './mysql-step.ts'
import { freePorts, type LocalPlace } from './place.ts'

/** Replicas that are recorded and not there are made; then every server runs. */
export async function addReplicas(opened: MysqlInstance, signal: AbortSignal): Promise<void> {
  for (const member of opened.replicas) {
    const into = opened.nodeOf(member)
    if (!existsSync(into.dataFolder)) {
      makeMysqlFolders(into)
      // The user's parameters: they are no part of the data.
      await writeDurably(into.parametersFile, await readFile(opened.primary().parametersFile), into.runAs)
    }
    await makeMysqlReplica({ source: opened.primary(), into, control: opened.control, signal })
  }
  await startMysql(opened, signal)
}

/** Replicas are added one after the other, or taken away. */
export function mysqlScalePlan(place: LocalPlace, step: MakeStep): Plan {
  const reserveReplicas: Step = {
    name: 'RESERVE',
    async run({ instance, operation }) {
      const tier = operation.request.tier as TierName
      const { members, primary } = instance
      const missing = tiers[tier].localInstances - members.length
      const last = Math.max(...members.map(({ name }) => Number(name.slice(1))))
      const ports = await freePorts(place, Math.max(0, missing))
      const added = ports.map((port, index) => ({ ...members[0]!, name: `m${last + 1 + index}`, port }))
      const removed = missing < 0 ? members.filter(({ name }) => name !== primary).slice(missing) : []
      const at = Date.now()
      const before = { members: [...members], tier: instance.tier }
      return {
        data: { before, removed: removed.map(({ name }) => name) },
        facts: [
          facts.members.of({ members: [...members, ...added], primary, at }),
          facts.settings.of({ tier, by: operation.by, at }),
        ],
      }
    },
  }
  const add = step('REPLICAS', async (opened, { signal }) => {
    await addReplicas(opened, signal)
    return undefined
  })
  const drop = (name: string, namesOf: (work: StepWork) => readonly string[], tierOf?: (work: StepWork) => TierName) =>
    step(name, async (opened, work) => {
      const names = namesOf(work)
      const { members, primary } = work.instance
      for (const member of opened.replicas.filter((each) => names.includes(each.name))) {
        const { serverId } = opened.nodeOf(member)
        await endMysqlNode(opened.control, opened.nodeOf(member))
        await withMysql(opened.primary(), (connection) => dropReplicationUsers(connection, serverId), {
          database: null,
        })
        await rm(join(opened.folders.members, member.name), { recursive: true, force: true })
      }
      const at = Date.now()
      const kept = members.filter((each) => !names.includes(each.name))
      const tier = tierOf?.(work)
      return {
        facts: [
          facts.members.of({ members: kept, primary, at }),
          ...(tier === undefined ? [] : [facts.settings.of({ tier, by: work.operation.by, at })]),
        ],
      }
    })
  const beforeOf = ({ operation }: StepWork) => operation.data.before as { members: { name: string }[]; tier: TierName }
  return {
    steps: [reserveReplicas, add, drop('REMOVE_REPLICAS', ({ operation }) => operation.data.removed as string[])],
    undo: [
      drop(
        'FORGET_REPLICAS',
        (work) => {
          const known = beforeOf(work)?.members.map(({ name }) => name)
          return known === undefined
            ? []
            : work.instance.members.map(({ name }) => name).filter((name) => !known.includes(name))
        },
        (work) => beforeOf(work)?.tier ?? work.instance.tier,
      ),
    ],
  }
}
