import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { ticksBetween } from '../../schemas/cron.ts'
import { decideOperation, type Instance, instance } from '../../schemas/provisioning/instance.ts'
import type { OperationType } from '../../schemas/provisioning/instance-facts.ts'
import { isUnderWay } from '../../schemas/provisioning/operation.ts'
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

/** What is due by the clock, and has it begun. One for each instance. */
export function scheduler({ bus, driver }: { readonly bus: Bus; readonly driver: Driver }) {
  const begun = new Set<string>()
  return async (found: Instance, now: number): Promise<void> => {
    if (isUnderWay(found.operation) || !found.created) return
    const due =
      (await dueBackup(driver, found, now)) ??
      (await dueMaintenance(driver, found, now)) ??
      (await dueTest(driver, found, now))
    if (due === null || begun.has(due.cause)) return
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
