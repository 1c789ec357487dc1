import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { CareFailure } from '../care-failure.ts'
import { type NodeControl, type PostgresNode, ServerStartFailed } from '../postgres-node.ts'
import { withSession } from '../postgres-session.ts'
import { findTool, runTool } from '../postgres-tools.ts'
import { type BackupVerification, backupData, readBackup, writeRecord } from './backup-record.ts'
import { checkManifest } from './manifest.ts'
import { restoreBackup } from './restore.ts'

export interface VerifyRequest {
  readonly backupsFolder: string
  readonly backupId: string
  /** For the restore test: a place for a node that nobody else uses. Its data folder is removed at the end. */
  readonly scratch: PostgresNode
  readonly control: NodeControl
  /** Default 10 min: the longest the reading of one table may take. */
  readonly tableTimeoutMs?: number
  readonly signal?: AbortSignal
}

/**
 * Tests a backup as far as it can be: every file against the manifest, the log with pg_verifybackup where it is installed, and
 * a restore: a server is started on a copy and reads every table of every database, so that each page's checksum is looked at.
 * The outcome is kept with the backup.
 *
 * @throws {CareFailure} `refused` (404) when there is no such backup. A bad backup is an answer, not an error.
 */
export async function verifyBackup(request: VerifyRequest): Promise<BackupVerification> {
  const { backupsFolder, backupId } = request
  const record = readBackup(backupsFolder, backupId)
  const problem = (await problemOfFiles(request, record.manifestSha256)) ?? (await problemOfRestore(request))
  const verified: BackupVerification = {
    at: new Date().toISOString(),
    result: problem === null ? 'OK' : 'FAILED',
    restored: problem === null,
    problem,
  }
  await writeRecord(join(backupsFolder, backupId), { ...readBackup(backupsFolder, backupId), verified })
  return verified
}

async function problemOfFiles(request: VerifyRequest, manifestSha256: string): Promise<string | null> {
  const { backupsFolder, backupId, signal, scratch } = request
  const data = backupData(backupsFolder, backupId)
  const problems = await checkManifest(data, { manifestSha256, signal })
  if (problems.length > 0) return problems.slice(0, 3).join('; ')
  const tool = findTool(scratch, 'pg_verifybackup', 'same')
  if (tool === undefined) return null
  const { ok, complaint } = await runTool(tool, { args: ['--exit-on-error', '--quiet', data], signal })
  return ok ? null : complaint.replaceAll(dirname(data), '').split('\n')[0]!.slice(0, 300)
}

async function problemOfRestore(request: VerifyRequest): Promise<string | null> {
  const { backupsFolder, backupId, scratch, control, signal } = request
  try {
    await restoreBackup({
      backupsFolder,
      backup: readBackup(backupsFolder, backupId),
      target: { kind: 'backup' },
      logFolders: [],
      into: scratch,
      control,
      check: (node) => readEverything(node, request),
      ...(signal === undefined ? {} : { signal }),
    })
    return null
  } catch (error) {
    signal?.throwIfAborted()
    // Too little disk for the test says nothing about the backup.
    if (error instanceof CareFailure && error.status !== 507) return error.message
    if (error instanceof ServerStartFailed) return 'A server does not start on it.'
    throw error
  } finally {
    await rm(scratch.dataFolder, { recursive: true, force: true })
  }
}

async function readEverything(node: PostgresNode, { tableTimeoutMs = 600_000, signal }: VerifyRequest): Promise<void> {
  const databases = await withSession(
    node,
    async (client) => {
      const sql = 'select datname as name from pg_database where datallowconn order by 1'
      return (await client.query<{ name: string }>(sql)).rows.map(({ name }) => name)
    },
    { database: 'postgres' },
  )
  for (const database of databases) {
    await withSession(
      node,
      async (client) => {
        const { rows } = await client.query<{ name: string }>(
          "select oid::regclass::text as name from pg_class where relkind in ('r', 'm', 't') and relpersistence = 'p' order by 1",
        )
        for (const { name } of rows) {
          signal?.throwIfAborted()
          await client.query(`select count(*) from ${name}`).catch((error: unknown) => {
            throw new CareFailure('failed', `A table cannot be read: ${(error as Error).message}`, { cause: error })
          })
        }
      },
      { database, statementTimeoutMs: tableTimeoutMs },
    )
  }
}
