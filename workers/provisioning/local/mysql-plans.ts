import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Rejected } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { facts, type OperationType } from '../../../schemas/provisioning/instance-facts.ts'
import { type TierName, tiers } from '../../../schemas/provisioning/tiers.ts'
import type { Plan, Step, StepWork } from '../driver.ts'
import { listBackups, newBackupId } from './backup/backup-record.ts'
import { chooseBackup, parseTargetTime, type RestoreTarget, type WindowSource } from './backup/restore-target.ts'
import { CareFailure } from './care-failure.ts'
import { prepareRotation } from './care-plans.ts'
import { newPassword } from './credentials/scram.ts'
import { makeInstanceFolder, removeInstanceFolder } from './folders.ts'
import { newestBinlogAt } from './mysql/binlog.ts'
import { createMysql, makeMysqlFolders } from './mysql/create.ts'
import { applyMysqlRetention, type MysqlBackupRecord, makeMysqlBackup } from './mysql/mysql-backup.ts'
import { applyMysqlParameters, restartMysqlWithParameters } from './mysql/mysql-parameters.ts'
import { enableMysqlStatistics } from './mysql/mysql-performance.ts'
import { restoreMysql } from './mysql/mysql-restore.ts'
import { openMysql } from './mysql/mysql-session.ts'
import { exportMysqlSnapshot } from './mysql/mysql-snapshot.ts'
import { rotateMysqlPassword } from './mysql/passwords.ts'
import { cloneMysql, makeMysqlReplica } from './mysql/replica.ts'
import { type MysqlInstance, openMysqlInstance, startMysql } from './mysql-instance.ts'
import { freePorts, type LocalPlace, missingEngine } from './place.ts'
import { passwordContext } from './postgres-instance.ts'
import { shownSnapshot } from './shown-snapshot.ts'
import { listSnapshots } from './snapshots/snapshot-record.ts'

/** What can be done with an instance of the type MYSQL on this machine. */
export function mysqlPlans(place: LocalPlace): Partial<Record<OperationType, Plan>> {
  const step = (name: string, run: (opened: MysqlInstance, work: StepWork) => ReturnType<Step['run']>): Step => ({
    name,
    run: async (work) => run(await openMysqlInstance(place, work.instance), work),
  })
  const start = step('WAITING_FOR_READY', async (opened, { signal }) => {
    await startMysql(opened, signal)
    return undefined
  })
  const replicas = step('REPLICATION', async (opened, { signal }) => {
    await addReplicas(opened, signal)
    return undefined
  })
  const parameters = step('PARAMETERS', async (opened, { instance, signal }) => {
    await setParameters(opened, instance.parameters, signal)
    return undefined
  })
  const firstBackup = step('BACKUP_CONFIGURATION', async (opened, { instance, signal }) => {
    const { backups: backupsFolder } = opened.folders
    if (!instance.backup.enabled || listBackups(backupsFolder).length > 0) return undefined
    const request = { projectId: instance.projectName, type: 'SCHEDULED', backupsFolder, signal } as const
    await makeMysqlBackup(opened.primary(), request)
    return undefined
  })
  const verify = step('METRICS_SETUP', async (opened, { instance }) => {
    await logIn(opened, instance)
    return { facts: [facts.health.of({ health: 'HEALTHY', reason: null, at: Date.now() })] }
  })
  const folders = step('NAMESPACE_CREATION', async (opened, { instance }) => {
    const { uid, projectName } = instance
    await makeInstanceFolder(opened.folders, { uid, projectName }, place.account)
    for (const member of instance.members) makeMysqlFolders(opened.nodeOf(member))
    return undefined
  })
  const create = step('CRD_DEPLOYMENT', async (opened, { instance }) => {
    const owner = { user: instance.masterUsername, password: opened.password('master') }
    await createMysql(opened.control, opened.primary(), owner)
    return undefined
  })
  const copy = step('CRD_DEPLOYMENT', async (opened, work) => copyData(place, opened, work))
  const remove: Step = {
    name: 'REMOVE',
    async run({ instance }) {
      if (instance.credentials !== null) {
        const opened = await openMysqlInstance(place, instance)
        if (existsSync(opened.folders.root)) {
          for (const member of instance.members) await opened.control.stop(opened.nodeOf(member), { mode: 'immediate' })
        }
        removeInstanceFolder(opened.folders, instance.uid)
      }
      return { facts: [facts.members.of({ members: [], primary: null, at: Date.now() })] }
    },
  }
  const forget: Step = { name: 'FORGET', run: async () => ({ facts: [facts.deleted.of({ at: Date.now() })] }) }
  const made = (data: Step): Plan => ({
    steps: [reserve(place), folders, data, start, replicas, parameters, firstBackup, verify],
    undo: [remove],
  })
  return {
    CREATE: made(create),
    CLONE: made(copy),
    RESTORE: made(copy),
    DELETE: { steps: [remove, forget], undo: [] },
    ...changePlans(place, step),
    SCALE: scalePlan(place, step),
  }
}

type MakeStep = (name: string, run: (opened: MysqlInstance, work: StepWork) => ReturnType<Step['run']>) => Step

function reserve(place: LocalPlace): Step {
  return {
    name: 'VALIDATING',
    async run({ instance }) {
      const found = await place.mysql()
      if (found === null) throw missingEngine('MYSQL', 'POST /api/setup/install/MYSQL')
      const at = Date.now()
      const ports = await freePorts(place, tiers[instance.tier].localInstances)
      const members = ports.map((port, index) => ({ name: `m${index + 1}`, port, version: found.version }))
      const seal = (which: 'master' | 'superuser') =>
        place.keys.seal(newPassword(), `${passwordContext(instance.uid, which)}1`)
      const credentials = { superuser: seal('superuser'), master: seal('master'), pending: null, version: 1, at }
      return {
        facts: [
          facts.members.of({ members, primary: 'm1', at }),
          ...(instance.credentials === null ? [facts.credentials.of(credentials)] : []),
        ],
      }
    },
  }
}

async function addReplicas(opened: MysqlInstance, signal: AbortSignal): Promise<void> {
  for (const member of opened.replicas) {
    const into = opened.nodeOf(member)
    if (!existsSync(into.dataFolder)) {
      makeMysqlFolders(into)
      await makeMysqlReplica({ source: opened.primary(), into, control: opened.control, signal })
    }
  }
  await startMysql(opened, signal)
}

async function logIn(opened: MysqlInstance, { masterUsername }: Instance): Promise<void> {
  const connection = await openMysql(opened.primary(), {
    user: { user: masterUsername, password: opened.password('master') },
  })
  await connection.end()
}

/** @throws {CareFailure} when the server does not start with them, and runs with the last good ones */
async function setParameters(
  opened: MysqlInstance,
  changes: Readonly<Record<string, string | null>>,
  signal: AbortSignal,
): Promise<void> {
  if (Object.keys(changes).length === 0) return
  for (const node of [opened.primary(), ...opened.replicas.map((member) => opened.nodeOf(member))]) {
    const { pendingRestart } = await applyMysqlParameters(node, changes)
    if (pendingRestart.length === 0) continue
    const { applied, reason } = await restartMysqlWithParameters(opened.control, node)
    if (!applied) throw new CareFailure('failed', `The server does not start with the parameters: ${reason}`)
  }
  await startMysql(opened, signal)
}

async function copyData(place: LocalPlace, opened: MysqlInstance, { instance, operation, signal }: StepWork) {
  const into = opened.primary()
  if (existsSync(into.dataFolder)) return undefined
  const source = place.instances().find(({ uid }) => uid === instance.source?.uid)
  if (source === undefined)
    throw new Rejected('provisioning/invalid-state', 'The instance that was to be copied is gone')
  const from = await openMysqlInstance(place, source)
  const passwords = { [instance.masterUsername]: opened.password('master') }
  if (operation.type === 'CLONE') {
    await cloneMysql({ source: from.primary(), into, control: opened.control, passwords, signal })
    return { data: { result: { source: source.projectName } } }
  }
  const { target, backupId } = mysqlTarget(instance.source?.targetTime ?? null, instance.source?.backupId ?? null)
  const window = await mysqlWindow(from)
  const { restoredTo } = await restoreMysql({
    backupsFolder: from.folders.backups,
    backup: chooseBackup(window, target, { backupId, now: Date.now() }) as unknown as MysqlBackupRecord,
    target,
    binlogFolder: from.primary().binlogFolder,
    ...(window.liveAt !== undefined && { liveSource: from.primary() }),
    into,
    control: opened.control,
    passwords,
    signal,
  })
  return { data: { result: { restoredTo: restoredTo === null ? null : new Date(restoredTo).toISOString() } } }
}

export function mysqlTarget(targetTime: string | null, backupId: string | null) {
  const target: RestoreTarget =
    targetTime !== null
      ? { kind: 'time', at: parseTargetTime(targetTime) }
      : { kind: backupId === null ? 'latest' : 'backup' }
  return { target, backupId: backupId ?? undefined }
}

/** Which times there are to restore to. */
export async function mysqlWindow(opened: MysqlInstance): Promise<WindowSource> {
  const primary = opened.primary()
  const backups = listBackups(opened.folders.backups)
  const running = (await opened.control.pid(primary)) !== undefined
  const liveAt = running ? Date.now() : (newestBinlogAt(primary.binlogFolder) ?? undefined)
  return { backups, logFolders: [], ...(liveAt !== undefined && { liveAt }) }
}

function changePlans(place: LocalPlace, step: MakeStep): Partial<Record<OperationType, Plan>> {
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
          const wanted = operation.request.parameters as Record<string, string>
          await setParameters(opened, wanted, signal)
          const parameters = { ...instance.parameters, ...wanted }
          return { facts: [facts.settings.of({ parameters, by: operation.by, at: Date.now() })] }
        }),
      ],
      undo: [
        step('APPLY_BACK', async (opened, { instance, operation, signal }) => {
          const names = Object.keys(operation.request.parameters as object)
          const before = Object.fromEntries(names.map((name) => [name, instance.parameters[name] ?? null]))
          await setParameters(opened, before, signal)
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
      await enableMysqlStatistics(opened.control, opened.primary())
      await startMysql(opened, signal)
      return { facts: [facts.settings.of({ queryStats: true, by: operation.by, at: Date.now() })] }
    }),
    BACKUP: { steps: [nameBackup(step), copyBackup(step)], undo: [] },
    SNAPSHOT: single('EXPORT', async (opened, { instance, operation, signal }) => {
      const { snapshots: snapshotsFolder } = opened.folders
      const id = String(operation.request.snapshotId)
      const done = listSnapshots(snapshotsFolder).find((each) => each.id === id)
      const { format, ...request } = operation.request as { format?: string }
      const plain = format === undefined || format === 'custom' ? 'plain' : format
      const { projectName: projectId } = instance
      const wanted = { ...request, format: plain, projectId, snapshotsFolder, id, signal }
      return { data: { result: { ...shownSnapshot(done ?? (await exportMysqlSnapshot(opened.primary(), wanted))) } } }
    }),
  }
}

function nameBackup(step: MakeStep): Step {
  return step('NAME', async ({ folders }, { instance }) => {
    const taken = (id: string) => existsSync(join(folders.backups, id))
    return { data: { backupId: newBackupId(instance.projectName, new Date(), taken) } }
  })
}

function copyBackup(step: MakeStep): Step {
  return step('COPY', async (opened, { instance, operation, signal }) => {
    const { backups: backupsFolder } = opened.folders
    const id = String(operation.data.backupId)
    const type = operation.request.type === 'SCHEDULED' ? 'SCHEDULED' : 'MANUAL'
    const { projectName: projectId, backup } = instance
    const done = listBackups<MysqlBackupRecord>(backupsFolder).find((each) => each.id === id)
    const made = done ?? (await makeMysqlBackup(opened.primary(), { projectId, type, backupsFolder, id, signal }))
    await applyMysqlRetention(opened.primary(), backupsFolder, { retentionDays: backup.retention, now: Date.now() })
    return { data: { result: { ...shownMysqlBackup(made) } } }
  })
}

/** With the names that every backup has. */
export function shownMysqlBackup({ consistentAt, ...backup }: MysqlBackupRecord) {
  const { id, timestamp } = backup
  const restorableFrom = new Date(consistentAt).toISOString()
  return { ...backup, backupId: id, startedAt: timestamp, restorableFrom, expiresAt: null, error: null }
}

/** Replicas are added one after the other, or taken away. */
function scalePlan(place: LocalPlace, step: MakeStep): Plan {
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
        await opened.control.stop(opened.nodeOf(member), { mode: 'immediate' })
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
