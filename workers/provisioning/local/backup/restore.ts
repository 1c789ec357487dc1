import { existsSync } from 'node:fs'
import { chmod, mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Client } from 'pg'
import { CareFailure, refuse } from '../care-failure.ts'
import { scramVerifier } from '../credentials/scram.ts'
import { copyTree, giveTree, requireRoom, syncFolder, syncTree } from '../durable-files.ts'
import { inMaintenance } from '../maintenance.ts'
import { goodFile } from '../parameters/postgres-parameters.ts'
import { type NodeControl, type PostgresNode, ServerStartFailed } from '../postgres-node.ts'
import { withSession } from '../postgres-session.ts'
import { ensureStandbyRole } from '../standby-access.ts'
import { archivedSegments, archiveUpToNow, missingSegments, restoreCommand } from './archive.ts'
import { type BackupRecord, backupData } from './backup-record.ts'
import { type RestoreTarget, recoveryTargetTime } from './restore-target.ts'
import { positionOf } from './wal-name.ts'

export type RestoreStep = 'COPYING_BACKUP' | 'WAITING_FOR_ARCHIVE' | 'REPLAYING_LOG' | 'SETTING_PASSWORDS' | 'FINISHING'

export interface RestoreRequest {
  readonly backupsFolder: string
  /** As {@link chooseBackup} chose it. */
  readonly backup: BackupRecord
  readonly target: RestoreTarget
  /** Archive of the source; a stopped source's `pg_wal` after it. */
  readonly logFolders: readonly string[]
  /** `logFolders` hold all the source ever wrote: it is stopped and its data folder is there. Default false. */
  readonly sourceIsWhole?: boolean
  /** The running source: its log is brought into the archive up to now first. */
  readonly liveSource?: PostgresNode
  /** The new node: its data folder must not exist. Its superuser has the name of the source's, and a password of its own. */
  readonly into: PostgresNode
  readonly control: NodeControl
  /** Passwords of the other roles in the new instance; as in the source when not named. */
  readonly passwords?: Readonly<Record<string, string>>
  /** Default 24 h: the longest the log's replay may take. */
  readonly replayTimeoutMs?: number
  /** Runs on the restored, still closed server. */
  readonly check?: (node: PostgresNode) => Promise<void>
  readonly onStep?: (step: RestoreStep) => void
  readonly signal?: AbortSignal
}

export interface Restored {
  /** Time of the last commit that was replayed (epoch ms); null when the log after the backup has none. */
  readonly restoredTo: number | null
  readonly backupId: string
}

/**
 * Makes a new node's data folder from a backup and the log after it. The folder appears, whole and stopped, at the end; until
 * then the work lies beside it, and a repetition after a kill begins anew. The caller starts the node.
 *
 * @throws {CareFailure} `refused` (409) when the data folder exists, (422) when the log does not reach the target;
 *   `failed` when the disk has no room, the archive has a hole, or the server does not start.
 */
export async function restoreBackup(request: RestoreRequest): Promise<Restored> {
  const { into, backup, target, signal } = request
  if (existsSync(into.dataFolder)) refuse('The new instance has a data folder already.', { status: 409 })
  if (request.liveSource !== undefined && target.kind !== 'backup') {
    request.onStep?.('WAITING_FOR_ARCHIVE')
    await archiveUpToNow(request.liveSource, { signal })
  }
  if (target.kind === 'latest') requireWholeLog(request)
  const working: PostgresNode = { ...into, dataFolder: `${into.dataFolder}.restoring` }
  try {
    // Of a predecessor that was killed in the middle.
    await request.control.stop(working, { mode: 'immediate' })
    const restoredTo = await recover(request, working)
    request.onStep?.('FINISHING')
    await syncTree(working.dataFolder)
    await rename(working.dataFolder, into.dataFolder)
    await syncFolder(dirname(into.dataFolder))
    return { restoredTo, backupId: backup.id }
  } catch (error) {
    await request.control.stop(working, { mode: 'immediate' })
    await rm(working.dataFolder, { recursive: true, force: true })
    signal?.throwIfAborted()
    throw error
  }
}

async function recover(request: RestoreRequest, working: PostgresNode): Promise<number | null> {
  await copyBackup(request, working)
  try {
    return await replay(request, working, request.target)
  } catch (error) {
    if (!(error instanceof ServerStartFailed)) throw error
    const early = /recovery ended before configured recovery target was reached/.test(error.log)
    if (!early) throw new CareFailure('failed', 'The restored server did not start.', { cause: error })
    // The log has no commit after the target: its end is the state at that time, if nothing of the log is missing.
    if (!request.sourceIsWhole) throw endsEarly(error.log)
    requireWholeLog(request)
    await copyBackup(request, working)
    return replay(request, working, { kind: 'latest' })
  }
}

async function copyBackup({ backupsFolder, backup, onStep, signal }: RestoreRequest, working: PostgresNode) {
  onStep?.('COPYING_BACKUP')
  await mkdir(dirname(working.dataFolder), { recursive: true })
  await rm(working.dataFolder, { recursive: true, force: true })
  await requireRoom(dirname(working.dataFolder), backup.sizeBytes, 'the restored data')
  await copyTree(backupData(backupsFolder, backup.id), working.dataFolder, signal)
  await chmod(working.dataFolder, 0o700)
  // What the source was in the middle of is not the new server's.
  for (const name of ['backup_manifest', 'standby.signal', goodFile])
    await rm(join(working.dataFolder, name), { force: true })
  await writeFile(join(working.dataFolder, 'recovery.signal'), '', { mode: 0o600 })
  await giveTree(working.dataFolder, working.runAs)
}

async function replay(request: RestoreRequest, working: PostgresNode, target: RestoreTarget): Promise<number | null> {
  request.onStep?.('REPLAYING_LOG')
  const settings = {
    ...recoverySettings(target, request.logFolders),
    // Nobody reads meanwhile: with hot standby the server would refuse smaller limits than the source's.
    hot_standby: 'off',
    primary_conninfo: '',
    recovery_target_action: 'promote',
    recovery_target_timeline: 'latest',
  }
  const options = { settings, timeoutMs: request.replayTimeoutMs ?? 24 * 3600_000, ...signalOf(request) }
  return inMaintenance(request.control, working, options, async (node) => {
    request.onStep?.('SETTING_PASSWORDS')
    const restoredTo = await withSession(node, (client) => setPasswords(client, request), { database: 'postgres' })
    await request.check?.(node)
    return restoredTo
  })
}

function signalOf({ signal }: RestoreRequest): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal }
}

function recoverySettings(target: RestoreTarget, logFolders: readonly string[]): Record<string, string> {
  if (target.kind === 'backup') return { recovery_target: 'immediate', restore_command: 'false' }
  const restore_command = logFolders.length === 0 ? 'false' : restoreCommand(logFolders)
  if (target.kind === 'latest') return { restore_command }
  return { restore_command, recovery_target_time: recoveryTargetTime(target.at), recovery_target_inclusive: 'on' }
}

async function setPasswords(client: Client, { into, passwords = {} }: RestoreRequest) {
  const { rows } = await client.query<{ at: Date | null; recovering: boolean }>(
    'select pg_last_xact_replay_timestamp() as at, pg_is_in_recovery() as recovering',
  )
  if (rows[0]!.recovering) throw new CareFailure('failed', 'The restored server stayed in recovery.')
  for (const [user, password] of Object.entries({ ...passwords, [into.superuser.user]: into.superuser.password })) {
    const verifier = client.escapeLiteral(await scramVerifier(password))
    await client.query(`alter role ${client.escapeIdentifier(user)} password ${verifier}`)
  }
  await ensureStandbyRole(client, into)
  // The standbys that the source's commits wait for are not there.
  await client.query('alter system reset synchronous_standby_names')
  return rows[0]!.at?.getTime() ?? null
}

/** A hole would end the recovery before it without a word. */
function requireWholeLog({ backup, logFolders }: RestoreRequest): void {
  const segments = [...new Set(logFolders.flatMap(archivedSegments))].sort()
  const needed = segments.filter((segment) => positionOf(segment) >= positionOf(backup.beginWal))
  const [first] = needed
  // The backup has the log up to the middle of its last segment.
  const late = first !== undefined && positionOf(first) > positionOf(backup.endWal)
  const missing = late ? backup.endWal : missingSegments(needed, backup.segmentBytes)[0]
  if (missing === undefined) return
  throw new CareFailure('failed', 'The archived write-ahead log has a hole: only times before it can be restored.', {
    status: 422,
    details: { missingWal: missing },
  })
}

function endsEarly(log: string): CareFailure {
  const last = /last completed transaction was at log time ([0-9: .+-]+\S*)/.exec(log)?.[1]
  const latest = last === undefined ? undefined : new Date(last.replace(' UTC', 'Z').replace(/ ?\+00$/, 'Z'))
  const known = latest !== undefined && !Number.isNaN(latest.getTime())
  const until = known ? `; its last transaction is of ${latest.toISOString()}` : ''
  return new CareFailure('refused', `targetTime is after the end of the archived write-ahead log${until}.`, {
    status: 422,
    field: 'targetTime',
    ...(known ? { details: { latestRestorableTime: latest.toISOString() } } : {}),
  })
}
