import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { ticksBetween } from '../../schemas/cron.ts'
import { decideOperation, type Instance, instance } from '../../schemas/provisioning/instance.ts'
import type { OperationType } from '../../schemas/provisioning/instance-facts.ts'
import { isUnderWay } from '../../schemas/provisioning/operation.ts'
import { groupChanges, type SavedGroup } from '../../schemas/provisioning/parameter-group.ts'
import type { Driver } from './driver.ts'
import { instancePlace } from './runner.ts'

interface Due {
  readonly type: OperationType
  readonly request: Readonly<Record<string, unknown>>
  /** What it is due for: once it has begun, it is not due for that any more. */
  readonly cause: string
}

/** How far back a missed tick is looked for: of those that were missed the last one counts, once. */
const lookBackMs = 32 * 86_400_000

interface SchedulerContext {
  readonly bus: Bus
  readonly driver: Driver
  readonly groupOf: (name: string) => SavedGroup | undefined
}

/** Begins what is due: by the clock, and because a parameter group has changed. One for each instance. */
export function scheduler({ bus, driver, groupOf }: SchedulerContext) {
  const begun = new Set<string>()
  const next = async (found: Instance, now: number): Promise<Due | undefined> => {
    for (const look of [dueBackup, dueGroup(groupOf), dueMaintenance, dueTest]) {
      const due = await look(driver, found, now)
      // What was begun and is due nonetheless has failed: the rest does not wait for it.
      if (due !== null && !begun.has(due.cause)) return due
    }
    return undefined
  }
  return async (found: Instance, now: number): Promise<void> => {
    if (isUnderWay(found.operation) || !found.created) return
    const due = await next(found, now)
    if (due === undefined) return
    const { projectName, uid } = found
    const id = `${due.cause}-${uid}`
    const { type, request } = due
    await decide(bus, {
      ...instancePlace(projectName),
      aggregate: instance,
      actor: 'busbar',
      decide: (state) => {
        if (state.stage !== 'wanted' || state.uid !== uid || isUnderWay(state.operation)) return []
        return decideOperation(state, projectName, { id, type, request, by: 'busbar', at: now })
      },
    })
    begun.add(due.cause)
  }
}

async function dueBackup(driver: Driver, found: Instance, now: number): Promise<Due | null> {
  const { backup, createdAt } = found
  if (!backup.enabled) return null
  const tick = lastTick(backup.schedule, now)
  if (tick === null || tick <= createdAt) return null
  const last = await driver.lastBackupAt(found)
  if (last !== null && last >= tick) return null
  return { type: 'BACKUP', request: { type: 'SCHEDULED' }, cause: `backup-${tick}` }
}

/** What its parameter group says since the instance followed it last. */
function dueGroup(groupOf: SchedulerContext['groupOf']) {
  return async (_driver: Driver, found: Instance): Promise<Due | null> => {
    const { parameterGroup: name, followed } = found
    const group = name === null ? undefined : groupOf(name)
    if (group === undefined || group.version === followed?.version) return null
    const { version, saved } = group
    const parameters = groupChanges(found.parameters, followed?.parameters ?? {}, saved.parameters)
    const request = { parameters, followed: { version, parameters: saved.parameters } }
    return { type: 'PARAMETERS', request, cause: `group-${name}-${version}` }
  }
}

/** Within the window: what waits for a restart, then a newer minor version. */
async function dueMaintenance(driver: Driver, found: Instance, now: number): Promise<Due | null> {
  const { maintenance, pendingRestart } = found
  if (maintenance === null) return null
  const tick = lastTick(maintenance.window, now)
  if (tick === null || now > tick + maintenance.durationMinutes * 60_000) return null
  if (pendingRestart.length > 0) return { type: 'RESTART', request: {}, cause: `restart-${tick}` }
  if (!maintenance.autoMinorVersionUpgrade) return null
  const version = await newerMinor(driver, found)
  return version === null ? null : { type: 'UPGRADE', request: { version }, cause: `upgrade-${version}-${tick}` }
}

async function dueTest(driver: Driver, found: Instance, now: number): Promise<Due | null> {
  if (!found.backup.enabled) return null
  const backupId = await driver.untestedBackup(found, now)
  return backupId === null ? null : { type: 'VERIFY_BACKUP', request: { backupId }, cause: `verify-${backupId}` }
}

async function newerMinor(driver: Driver, { members, primary, databaseType }: Instance): Promise<string | null> {
  // Others run what is installed, from their next start on.
  if (databaseType !== 'POSTGRESQL') return null
  const running = members.find(({ name }) => name === primary)?.version
  const engine = (await driver.engines()).find((each) => each.databaseType === databaseType)
  if (running === undefined || engine === undefined) return null
  const major = (version: string) => version.split('.')[0]
  const newest = engine.versions.find((version) => major(version) === major(running))
  const newer = newest !== undefined && newest.localeCompare(running, 'en', { numeric: true }) > 0
  return newer ? newest : null
}

function lastTick(cron: string, now: number): number | null {
  return ticksBetween({ cron }, now - lookBackMs, now, 1).at(-1) ?? null
}
