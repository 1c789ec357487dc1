import { facts, type OperationType } from '../../../schemas/provisioning/instance-facts.ts'
import type { Plan } from '../driver.ts'
import { CareFailure } from './care-failure.ts'
import { type ParameterChanges, parametersFact, prepareRotation } from './care-plans.ts'
import { applyMysqlParameters, restartMysqlWithParameters } from './mysql/mysql-parameters.ts'
import { enableMysqlStatistics } from './mysql/mysql-performance.ts'
import { exportMysqlSnapshot } from './mysql/mysql-snapshot.ts'
import { rotateMysqlPassword } from './mysql/passwords.ts'
import { mysqlBackupPlan } from './mysql-backups.ts'
import { type MysqlInstance, startMysql } from './mysql-instance.ts'
import type { MakeStep } from './mysql-step.ts'
import type { LocalPlace } from './place.ts'
import { shownSnapshot } from './shown-snapshot.ts'
import { listSnapshots, requireSnapshotRoom } from './snapshots/snapshot-record.ts'

/** What changes an instance and is no matter of how many servers it has. */
export function mysqlCarePlans(place: LocalPlace, step: MakeStep): Partial<Record<OperationType, Plan>> {
  const single = (name: string, run: Parameters<MakeStep>[1]): Plan => ({ steps: [step(name, run)], undo: [] })
  return {
    ROTATE: {
      steps: [
        prepareRotation(place),
        step('SET', async (opened, { instance }) => {
          const { masterUsername: user, credentials } = instance
          const { superuser, pending, version } = credentials!
          await rotateMysqlPassword(opened.primary(), { user, password: opened.password('pending') })
          const next = { superuser, master: pending!, pending: null, version: version + 1, at: Date.now() }
          return { facts: [facts.credentials.of(next)] }
        }),
      ],
      undo: [
        step('SET_BACK', async (opened, { instance }) => {
          const { superuser, master, version, at } = instance.credentials!
          await rotateMysqlPassword(opened.primary(), {
            user: instance.masterUsername,
            password: opened.password('master'),
          })
          return { facts: [facts.credentials.of({ superuser, master, pending: null, version, at })] }
        }),
      ],
    },
    PARAMETERS: {
      steps: [
        step('APPLY', async (opened, { instance, operation, signal }) => {
          const wanted = operation.request.parameters as ParameterChanges
          await setMysqlParameters(opened, wanted, signal)
          const own = parametersFact(instance, operation)
          return { facts: [facts.settings.of({ ...own, by: operation.by, at: Date.now() })] }
        }),
      ],
      undo: [
        step('APPLY_BACK', async (opened, { instance, operation, signal }) => {
          const names = Object.keys(operation.request.parameters as object)
          const before = Object.fromEntries(names.map((name) => [name, instance.parameters[name] ?? null]))
          await setMysqlParameters(opened, before, signal)
          return undefined
        }),
      ],
    },
    RESTART: single('RESTART', async (opened, { instance, signal }) => {
      for (const member of instance.members) await opened.control.stop(opened.nodeOf(member))
      await startMysql(opened, signal)
      return undefined
    }),
    RESIZE: single('RESIZE', async (_opened, { operation }) => {
      const storageBytes = Number(operation.request.storageBytes)
      return { facts: [facts.settings.of({ storageBytes, by: operation.by, at: Date.now() })] }
    }),
    ENABLE_QUERY_STATS: single('ENABLE', async (opened, { operation, signal }) => {
      for (const { node, start } of opened.servers()) await enableMysqlStatistics(opened.control, node, start)
      await startMysql(opened, signal)
      return { facts: [facts.settings.of({ queryStats: true, by: operation.by, at: Date.now() })] }
    }),
    BACKUP: mysqlBackupPlan(step),
    SNAPSHOT: single('EXPORT', async (opened, { instance, operation, signal }) => {
      const { snapshots: snapshotsFolder } = opened.folders
      const id = String(operation.request.snapshotId)
      const done = listSnapshots(snapshotsFolder).find((each) => each.id === id)
      if (done === undefined) requireSnapshotRoom(snapshotsFolder)
      const { format, ...request } = operation.request as { format?: string }
      const plain = format === undefined || format === 'custom' ? 'plain' : format
      const { projectName: projectId } = instance
      const wanted = { ...request, format: plain, projectId, snapshotsFolder, id, signal }
      return { data: { result: { ...shownSnapshot(done ?? (await exportMysqlSnapshot(opened.primary(), wanted))) } } }
    }),
  }
}

/** @throws {CareFailure} when the server does not start with them, and runs with the last good ones */
export async function setMysqlParameters(
  opened: MysqlInstance,
  changes: ParameterChanges,
  signal: AbortSignal,
): Promise<void> {
  if (Object.keys(changes).length === 0) return
  for (const { node, start } of opened.servers()) {
    const { pendingRestart } = await applyMysqlParameters(node, changes)
    if (pendingRestart.length === 0) continue
    const { applied, reason } = await restartMysqlWithParameters(opened.control, node, start)
    if (!applied) throw new CareFailure('failed', `The server does not start with the parameters: ${reason}`)
  }
  await startMysql(opened, signal)
}
