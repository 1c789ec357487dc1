import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Rejected } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import type { Plan, Step, StepWork } from '../driver.ts'
import { readBackup } from './backup/backup-record.ts'
import { makeBaseBackup } from './backup/base-backup.ts'
import { restoreBackup } from './backup/restore.ts'
import { chooseBackup, parseTargetTime, type RestoreTarget } from './backup/restore-target.ts'
import { firstBackup } from './backups.ts'
import { makeFolders, makeStandbys, makeUser, removeAll, reserve, startFirst, verify } from './create.ts'
import { makeMemberFolder } from './members.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres, type PostgresInstance } from './postgres-instance.ts'
import { windowOf } from './restore-window.ts'

/** A new instance with what another has now, or had at a time. The other is only read. */
export function copyPlan(place: LocalPlace): Plan {
  return {
    steps: [
      reserve(place),
      makeFolders(place),
      copyData(place),
      startFirst(place),
      makeUser(place),
      makeStandbys(place),
      firstBackup(place),
      verify(place),
    ],
    undo: [removeAll(place)],
  }
}

function copyData(place: LocalPlace): Step {
  return {
    name: 'CRD_DEPLOYMENT',
    async run(work) {
      const opened = await openPostgres(place, work.instance)
      const into = opened.primary()
      if (existsSync(into.dataFolder)) {
        // Of a predecessor that was killed once the data was there.
        await rm(seedFolder(opened), { recursive: true, force: true })
        return undefined
      }
      makeMemberFolder(into)
      // Of a predecessor that was killed in the middle.
      await opened.control.fence({ ...into, dataFolder: `${into.dataFolder}.restoring` })
      const source = requireSource(place, work.instance)
      const restored =
        work.operation.type === 'CLONE'
          ? await clone(place, source, opened, work)
          : await restore(place, source, opened, work)
      const { restoredTo, backupId } = restored
      const at = restoredTo === null ? null : new Date(restoredTo).toISOString()
      return { data: { result: { restoredTo: at, backupId, source: source.projectName } } }
    },
  }
}

/** @throws {Rejected} `provisioning/invalid-state` */
function requireSource(place: LocalPlace, { source }: Instance): Instance {
  const found = place.instances().find(({ uid }) => uid === source?.uid)
  if (found !== undefined) return found
  throw new Rejected('provisioning/invalid-state', 'The instance that was to be copied is gone')
}

function seedFolder({ folders }: PostgresInstance): string {
  return join(folders.root, 'seed')
}

/** From a base backup made for it, which is not kept. */
async function clone(place: LocalPlace, source: Instance, opened: PostgresInstance, { instance, signal }: StepWork) {
  const from = (await openPostgres(place, source)).primary()
  const seed = seedFolder(opened)
  const id = `${instance.projectName}-seed`
  if (!existsSync(join(seed, id))) {
    await makeBaseBackup(from, { projectId: source.projectName, type: 'MANUAL', backupsFolder: seed, id, signal })
  }
  const restored = await restoreBackup({
    backupsFolder: seed,
    backup: readBackup(seed, id),
    target: { kind: 'backup' },
    logFolders: [],
    into: opened.primary(),
    control: opened.control,
    passwords: { [instance.masterUsername]: opened.password('master') },
    signal,
  })
  await rm(seed, { recursive: true, force: true })
  return { ...restored, backupId: null }
}

async function restore(place: LocalPlace, source: Instance, opened: PostgresInstance, { instance, signal }: StepWork) {
  const from = await openPostgres(place, source)
  const { target, backupId } = targetOf(instance.source?.targetTime ?? null, instance.source?.backupId ?? null)
  const window = await windowOf(from)
  const live = window.liveAt !== undefined
  return await restoreBackup({
    backupsFolder: from.folders.backups,
    backup: chooseBackup(window, target, { backupId, now: Date.now() }),
    target,
    logFolders: window.logFolders,
    ...(live && { liveSource: from.primary() }),
    sourceIsWhole: !live && source.primary !== null,
    into: opened.primary(),
    control: opened.control,
    passwords: { [instance.masterUsername]: opened.password('master') },
    signal,
  })
}

/** With a time to that time, with a backup alone as it was then, without either to the end of the log. */
function targetOf(targetTime: string | null, backupId: string | null) {
  const target: RestoreTarget =
    targetTime !== null
      ? { kind: 'time', at: parseTargetTime(targetTime) }
      : { kind: backupId === null ? 'latest' : 'backup' }
  return { target, backupId: backupId ?? undefined }
}

/** Refuses what a restore would refuse later. @throws {CareFailure} */
export async function checkRestore(
  place: LocalPlace,
  instance: Instance,
  { targetTime, backupId }: { readonly targetTime: string | null; readonly backupId: string | null },
): Promise<{ readonly backupId: string; readonly targetTime: string | null }> {
  const asked = targetOf(targetTime, backupId)
  const chosen = chooseBackup(await windowOf(await openPostgres(place, instance)), asked.target, {
    backupId: asked.backupId,
    now: Date.now(),
  })
  const { target } = asked
  return { backupId: chosen.id, targetTime: target.kind === 'time' ? new Date(target.at).toISOString() : null }
}
