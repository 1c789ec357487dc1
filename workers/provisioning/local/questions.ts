import { open } from 'node:fs/promises'
import { Rejected } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { shownBackups } from './backups.ts'
import { checkRestore } from './copies.ts'
import { auditConfig, auditLogs } from './insight.ts'
import { readLog } from './logs.ts'
import { withoutSecrets } from './metrics/log-tail.ts'
import { listedMigrations } from './migrations/migration.ts'
import { applyMigration, listMigrations } from './migrations/postgres-migrations.ts'
import { checkParameters } from './parameters/postgres-parameters.ts'
import { readPerformanceSummary, readTopQueries, readWaitEvents } from './performance/postgres-performance.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres } from './postgres-instance.ts'
import { shownSnapshot } from './shown-snapshot.ts'
import { deleteSnapshot, listSnapshots, readSnapshot, snapshotFile } from './snapshots/snapshot-record.ts'

type Params = Readonly<Record<string, unknown>>
type Question = (place: LocalPlace, instance: Instance, params: Params) => Promise<unknown>

/** Bytes of a file in one answer. */
const maxChunkBytes = 1024 * 1024

/** What can be asked of an instance with PostgreSQL servers. */
const questions: Readonly<Record<string, Question>> = {
  backups: (place, instance) => shownBackups(place, instance),
  'check-restore': (place, instance, { targetTime = null, backupId = null }) =>
    checkRestore(place, instance, { targetTime: targetTime as string | null, backupId: backupId as string | null }),
  'check-parameters': async (place, instance, { parameters }) => {
    await checkParameters((await openPostgres(place, instance)).primary(), parameters as Record<string, string>)
    return null
  },
  logs: async (place, instance, { lines }) => {
    const { logFile } = (await openPostgres(place, instance)).primary()
    return { projectId: instance.projectName, ...(await readLog(logFile, Number(lines))) }
  },
  migrate: async (place, instance, params) => {
    const opened = await openPostgres(place, instance)
    const user = { user: instance.masterUsername, password: opened.password('master') }
    const { projectName: projectId } = instance
    const migration = params as Pick<Parameters<typeof applyMigration>[2], 'version' | 'name' | 'sql' | 'description'>
    return await applyMigration(opened.primary(), user, { ...migration, projectId })
  },
  migrations: async (place, instance) => {
    const opened = await openPostgres(place, instance)
    const user = { user: instance.masterUsername, password: opened.password('master') }
    return listedMigrations(await listMigrations(opened.primary(), user))
  },
  snapshots: async (place, instance) => {
    const { folders } = await openPostgres(place, instance)
    return listSnapshots(folders.snapshots).map(shownSnapshot)
  },
  snapshot: async (place, instance, { snapshotId }) => {
    const { folders } = await openPostgres(place, instance)
    return shownSnapshot(readSnapshot(folders.snapshots, String(snapshotId)))
  },
  'snapshot-bytes': async (place, instance, { snapshotId, offset, length }) => {
    const { folders } = await openPostgres(place, instance)
    const path = snapshotFile(folders.snapshots, readSnapshot(folders.snapshots, String(snapshotId)))
    return (await bytesOf(path, Number(offset), Math.min(maxChunkBytes, Number(length)))).toString('base64')
  },
  'performance-summary': async (place, instance) =>
    readPerformanceSummary((await openPostgres(place, instance)).primary()),
  'top-queries': async (place, instance, { limit }) =>
    (await readTopQueries((await openPostgres(place, instance)).primary(), Number(limit))).map((each) => {
      // Statements that make users are counted with what they say.
      return { ...each, query: withoutSecrets(each.query) }
    }),
  'wait-events': async (place, instance) => readWaitEvents((await openPostgres(place, instance)).primary()),
  'audit-config': async (place, instance) => auditConfig(await openPostgres(place, instance), instance),
  'audit-logs': async (place, instance, { lines }) =>
    auditLogs(await openPostgres(place, instance), instance, Number(lines)),
  'delete-snapshot': async (place, instance, { snapshotId }) => {
    const { folders } = await openPostgres(place, instance)
    await deleteSnapshot(folders.snapshots, String(snapshotId))
    return null
  },
}

/** @throws {Rejected} `provisioning/unsupported`; {CareFailure} */
export async function askPostgres(
  place: LocalPlace,
  question: string,
  instance: Instance,
  params: Params,
): Promise<unknown> {
  const answer = Object.hasOwn(questions, question) ? questions[question] : undefined
  if (answer !== undefined) return await answer(place, instance, params)
  throw new Rejected('provisioning/unsupported', `${question} is not for ${instance.databaseType}`)
}

export async function bytesOf(path: string, offset: number, length: number): Promise<Buffer> {
  const file = await open(path)
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, offset)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}
