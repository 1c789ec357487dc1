import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Rejected } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { facts, type Member } from '../../../schemas/provisioning/instance-facts.ts'
import type { Plan, Step, StepWork } from '../driver.ts'
import { makeArchive } from './backup/archive.ts'
import { firstBackup } from './backups.ts'
import { bringUp } from './bring-up.ts'
import { firstParameters } from './care-plans.ts'
import { logIn, makeStandbys, startFirst } from './create.ts'
import { instanceFolders } from './folders.ts'
import { auditAgain } from './insight.ts'
import { initDatabase, startPrimary, startStandby } from './members.ts'
import { chooseInstallation, type LocalPlace } from './place.ts'
import { majorOf, openPostgres } from './postgres-instance.ts'
import { upgradePostgres } from './upgrade/postgres-upgrade.ts'

interface UpgradeData {
  readonly kind: 'none' | 'minor' | 'major'
  readonly before: { readonly members: readonly Member[]; readonly primary: string }
  /** In the order of `before`. */
  readonly after: { readonly members: readonly Member[]; readonly primary: string }
}

/**
 * Another version of the server. A minor one: the same data, each server started anew. A major one: new servers beside the old
 * ones, which stay untouched until the new ones hold everything and have let the user in.
 */
export function upgradePlan(place: LocalPlace): Plan {
  const only = (kind: UpgradeData['kind'], step: Step): Step => ({
    name: step.name,
    run: async (work) => (dataOf(work).kind === kind ? await step.run(work) : undefined),
  })
  return {
    steps: [
      reserve(place),
      only('minor', roll(place)),
      only('major', convert(place)),
      only('major', { ...startFirst(place), name: 'START' }),
      only('major', makeStandbys(place)),
      only('major', firstParameters(place)),
      only('major', auditAgain(place)),
      only('major', firstBackup(place)),
      verify(place),
      only('major', forgetOld(place)),
    ],
    undo: [goBack(place)],
  }
}

function dataOf({ operation }: Pick<StepWork, 'operation'>): UpgradeData {
  return operation.data as unknown as UpgradeData
}

function reserve(place: LocalPlace): Step {
  return {
    name: 'RESERVE',
    async run({ instance, operation }) {
      const wanted = String(operation.request.version)
      const { version } = chooseInstallation(await place.postgres(), wanted)
      const { members, primary } = instance
      const running = members.find(({ name }) => name === primary)!.version
      const before = { members: [...members], primary: primary! }
      if (version === running) return { data: { kind: 'none', before, after: before } }
      if (version.localeCompare(running, 'en', { numeric: true }) < 0) {
        throw new Rejected('http/bad-request', `version must not be older than ${running}, which runs`)
      }
      if (majorOf(version) === majorOf(running)) {
        const after = { members: members.map((each) => ({ ...each, version })), primary: primary! }
        return { data: { kind: 'minor', before, after } }
      }
      const last = Math.max(...members.map(({ name }) => Number(name.slice(1))))
      const after = members.map((each, index) => ({ ...each, name: `m${last + 1 + index}`, version }))
      const next = after[members.findIndex(({ name }) => name === primary)]!.name
      return { data: { kind: 'major', before, after: { members: after, primary: next } } }
    },
  }
}

/** The same data with other programs, the standbys first. */
function roll(place: LocalPlace): Step {
  return {
    name: 'ROLL',
    async run(work) {
      const { after } = dataOf(work)
      await restartAll(place, { ...work.instance, ...after, members: [...after.members] }, work.signal)
      return { facts: [membersFact(after)] }
    },
  }
}

async function restartAll(place: LocalPlace, instance: Instance, signal: AbortSignal): Promise<void> {
  const opened = await openPostgres(place, instance)
  const primary = opened.primary()
  for (const member of opened.standbys) {
    const node = opened.nodeOf(member)
    await opened.control.stop(node)
    await startStandby(opened, primary.port, node, signal)
  }
  await opened.control.stop(primary)
  await startPrimary(opened, primary, opened.standbys.length, signal)
}

function convert(place: LocalPlace): Step {
  return {
    name: 'CONVERT',
    async run(work) {
      const { instance, signal } = work
      const { before, after } = dataOf(work)
      const old = await openPostgres(place, { ...instance, ...before, members: [...before.members] })
      const fresh = await openPostgres(place, { ...instance, ...after, members: [...after.members] })
      const to = fresh.primary()
      for (const member of old.standbys) await old.control.stop(old.nodeOf(member))
      // Half of what a killed predecessor made.
      await fresh.control.fence(to)
      await rm(dirname(to.dataFolder), { recursive: true, force: true })
      const major = Number(majorOf(after.members[0]!.version))
      await initDatabase(to, instance.tier, major)
      makeArchive(to)
      await old.control.fence(to)
      await upgradePostgres({ from: old.primary(), to, control: fresh.control, signal })
      return { facts: [membersFact(after)] }
    },
  }
}

function verify(place: LocalPlace): Step {
  return {
    name: 'VERIFY',
    async run(work) {
      const { instance, operation } = work
      await logIn(await openPostgres(place, instance), instance)
      const { version } = dataOf(work).after.members[0]!
      return {
        facts: [facts.settings.of({ version, by: operation.by, at: Date.now() })],
        data: { result: { version } },
      }
    },
  }
}

/** Old servers, with the archive and the backups that only they can read. */
function forgetOld(place: LocalPlace): Step {
  return {
    name: 'FORGET_OLD',
    async run(work) {
      const { before } = dataOf(work)
      const opened = await openPostgres(place, { ...work.instance, ...before, members: [...before.members] })
      for (const member of before.members) {
        await opened.control.fence(opened.nodeOf(member))
        await rm(join(opened.folders.members, member.name), { recursive: true, force: true })
      }
      const { archive, backups } = instanceFolders(place.home, work.instance.uid, majorOf(before.members[0]!.version))
      for (const folder of [archive, backups]) await rm(folder, { recursive: true, force: true })
      return undefined
    },
  }
}

function goBack(place: LocalPlace): Step {
  return {
    name: 'GO_BACK',
    async run(work) {
      const { kind, before, after } = dataOf(work)
      if (kind === undefined || kind === 'none') return undefined
      const old = { ...work.instance, ...before, members: [...before.members] }
      if (kind === 'minor') await restartAll(place, old, work.signal)
      else {
        const opened = await openPostgres(place, { ...work.instance, ...after, members: [...after.members] })
        for (const member of after.members) {
          await opened.control.fence(opened.nodeOf(member))
          await rm(join(opened.folders.members, member.name), { recursive: true, force: true })
        }
        for (const folder of [opened.folders.archive, opened.folders.backups])
          await rm(folder, { recursive: true, force: true })
        // Closed to everybody, where a killed predecessor copied from it.
        const { control, nodeOf } = await openPostgres(place, old)
        for (const member of before.members) await control.stop(nodeOf(member))
        await bringUp(place, old, work.signal)
      }
      return { facts: [membersFact(before)] }
    },
  }
}

function membersFact({ members, primary }: UpgradeData['before']) {
  return facts.members.of({ members: [...members], primary, at: Date.now() })
}
