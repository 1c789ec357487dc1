import { existsSync } from 'node:fs'
import { Rejected } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import type { Observed } from '../driver.ts'
import { listBackups } from './backup/backup-record.ts'
import { chooseBackup, restorableWindow } from './backup/restore-target.ts'
import { readLogTail } from './metrics/log-tail.ts'
import { listedMigrations } from './migrations/migration.ts'
import { trimUnusedBinlog } from './mysql/binlog.ts'
import { applyMysqlRetention, type MysqlBackupRecord } from './mysql/mysql-backup.ts'
import { applyMysqlMigration, listMysqlMigrations } from './mysql/mysql-migrations.ts'
import type { MysqlNode } from './mysql/mysql-node.ts'
import { checkMysqlParameters } from './mysql/mysql-parameters.ts'
import { readMysqlSummary, readMysqlTopQueries, readMysqlWaitEvents } from './mysql/mysql-performance.ts'
import { rowsOf, withMysql } from './mysql/mysql-session.ts'
import { readReplicaStatus } from './mysql/replica.ts'
import { shownMysqlBackup } from './mysql-backups.ts'
import { mysqlTarget, mysqlWindow } from './mysql-copies.ts'
import { type MysqlInstance, openMysqlInstance, startMysql } from './mysql-instance.ts'
import type { LocalPlace } from './place.ts'
import { bytesOf } from './questions.ts'
import { retentionDue, type Tidied } from './retention-due.ts'
import { shownSnapshot } from './shown-snapshot.ts'
import { deleteSnapshot, listSnapshots, readSnapshot, snapshotFile } from './snapshots/snapshot-record.ts'
import { storageProblem } from './storage.ts'

type Params = Readonly<Record<string, unknown>>
type Question = (opened: MysqlInstance, instance: Instance, params: Params) => Promise<unknown>

const maxChunkBytes = 1024 * 1024

/** What can be asked of an instance with MariaDB servers. */
const questions: Readonly<Record<string, Question>> = {
  backups: async (opened) => {
    const window = restorableWindow(await mysqlWindow(opened))
    const time = (at: number | null) => (at === null ? null : new Date(at).toISOString())
    return {
      backups: listBackups<MysqlBackupRecord>(opened.folders.backups).map(shownMysqlBackup),
      archiving: existsSync(opened.primary().binlogFolder) ? 'OK' : 'LOST',
      earliestRestorableTime: time(window.earliest),
      latestRestorableTime: time(window.latest),
    }
  },
  'check-restore': async (opened, _instance, { targetTime = null, backupId = null }) => {
    const asked = mysqlTarget(targetTime as string | null, backupId as string | null)
    const chosen = chooseBackup(await mysqlWindow(opened), asked.target, { backupId: asked.backupId, now: Date.now() })
    return { backupId: chosen.id }
  },
  'check-parameters': async (opened, _instance, { parameters }) => {
    await checkMysqlParameters(opened.primary(), parameters as Record<string, string>)
    return null
  },
  logs: async (opened, { projectName: projectId }, { lines: count }) => {
    const { lines, truncated } = await readLogTail(opened.primary().logFile, { lines: Number(count) })
    return { projectId, logs: lines.join('\n'), lines: lines.map(logLine), truncated }
  },
  migrate: async (opened, { masterUsername, projectName: projectId }, params) => {
    const migration = params as Pick<Parameters<typeof applyMysqlMigration>[2], 'version' | 'name' | 'sql'>
    const user = { user: masterUsername, password: opened.password('master') }
    return await applyMysqlMigration(opened.primary(), user, { ...migration, projectId })
  },
  migrations: async (opened, { masterUsername: user }) =>
    listedMigrations(await listMysqlMigrations(opened.primary(), { user, password: opened.password('master') })),
  snapshots: async ({ folders }) => listSnapshots(folders.snapshots).map(shownSnapshot),
  snapshot: async ({ folders }, _instance, { snapshotId }) =>
    shownSnapshot(readSnapshot(folders.snapshots, String(snapshotId))),
  'snapshot-bytes': async ({ folders }, _instance, { snapshotId, offset, length }) => {
    const path = snapshotFile(folders.snapshots, readSnapshot(folders.snapshots, String(snapshotId)))
    return (await bytesOf(path, Number(offset), Math.min(maxChunkBytes, Number(length)))).toString('base64')
  },
  'delete-snapshot': async ({ folders }, _instance, { snapshotId }) => {
    await deleteSnapshot(folders.snapshots, String(snapshotId))
    return null
  },
  'performance-summary': async (opened) => readMysqlSummary(opened.primary()),
  'top-queries': async (opened, _instance, { limit }) => readMysqlTopQueries(opened.primary(), Number(limit)),
  'wait-events': async (opened) => readMysqlWaitEvents(opened.primary()),
  'audit-config': async () => ({ enabled: false, mode: null, logLevel: null, settings: {} }),
  'audit-logs': async () => ({ logs: '', lines: [] }),
}

const linePattern = /^(\d{4}-\d{2}-\d{2})\s+(\d{1,2}:\d{2}:\d{2}) (\d+) \[(\w+)\] (.*)$/

/** A line of MariaDB's log; its number is that of the connection, not of a process. */
function logLine(line: string): object {
  const [, day, clock = '', , severity, message] = linePattern.exec(line) ?? []
  if (day === undefined) return { time: null, severity: null, pid: null, message: line }
  return { time: `${day}T${clock.padStart(8, '0')}Z`, severity: severity!.toUpperCase(), pid: null, message }
}

/** @throws {Rejected} `provisioning/unsupported`; {CareFailure} */
export async function askMysql(
  place: LocalPlace,
  question: string,
  instance: Instance,
  params: Params,
): Promise<unknown> {
  const answer = Object.hasOwn(questions, question) ? questions[question] : undefined
  if (answer !== undefined) return await answer(await openMysqlInstance(place, instance), instance, params)
  throw new Rejected('provisioning/unsupported', `${question} is not for ${instance.databaseType}`)
}

/** Starts what should run and does not. */
export async function bringUpMysql(place: LocalPlace, instance: Instance, signal: AbortSignal): Promise<void> {
  if (instance.primary === null || instance.credentials === null) return
  await startMysql(await openMysqlInstance(place, instance), signal)
}

/** How an instance is, by asking its servers. A dead server is started again where it was: nobody takes its place. */
export async function observeMysql(
  place: LocalPlace,
  instance: Instance,
  watched: Tidied & { readonly diskBytes: number | null },
): Promise<Observed> {
  const opened = await openMysqlInstance(place, instance)
  const full = await storageProblem(opened.folders.root, instance, watched.diskBytes)
  try {
    await allowMysqlWrites(opened.primary(), full === null)
  } catch {
    if (full !== null) return { health: 'STORAGE_FULL', reason: full }
    const running = (await opened.control.pid(opened.primary())) !== undefined
    return { health: 'DOWN', reason: `The database server ${running ? 'does not answer' : 'has ended'}` }
  }
  if (listBackups(opened.folders.backups).length === 0) {
    await trimUnusedBinlog(opened.primary(), { full: full !== null, now: Date.now() })
  }
  const rule = retentionDue(place, instance, watched)
  if (rule !== null) await applyMysqlRetention(opened.primary(), opened.folders.backups, rule)
  if (full !== null) return { health: 'STORAGE_FULL', reason: full }
  const missing: string[] = []
  for (const member of opened.replicas) {
    const node = opened.nodeOf(member)
    const status = await readReplicaStatus(node).catch(() => undefined)
    if (status?.state !== 'STREAMING') missing.push(member.name)
    // What is written to it is nowhere else, and stops the replication.
    else await allowMysqlWrites(node, false).catch(() => undefined)
  }
  if (missing.length === 0) return { health: 'HEALTHY', reason: null }
  return { health: 'DEGRADED', reason: `No replication to ${missing.join(', ')}` }
}

/** Whether users may write. @throws when the server does not answer */
async function allowMysqlWrites(node: MysqlNode, allowed: boolean): Promise<void> {
  await withMysql(
    node,
    async (connection) => {
      const [row] = await rowsOf<{ closed: number }>(connection, 'select @@global.read_only as closed')
      if ((row?.closed === 0) !== allowed) await connection.query(`set global read_only = ${allowed ? 'off' : 'on'}`)
    },
    { database: null },
  )
}
