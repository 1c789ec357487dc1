import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { CareFailure } from '../care-failure.ts'
import { writeDurably } from '../durable-files.ts'
import type { PostgresNode } from '../postgres-node.ts'
import { waitUntil, withSession } from '../postgres-session.ts'
import { isSegment, nextSegment, positionOf } from './wal-name.ts'

/** Its presence tells the true archive folder from an empty place where a disk is no longer mounted. */
const marker = '.wal-archive'

/** Makes the node's archive folder (0700, of the server's account) and marks it. Idempotent. */
export function makeArchive(node: PostgresNode): void {
  mkdirSync(node.archiveFolder, { recursive: true, mode: 0o700 })
  chmodSync(node.archiveFolder, 0o700)
  const file = join(node.archiveFolder, marker)
  if (!existsSync(file))
    writeFileSync(file, 'Write-ahead log of one database server. Do not change.\n', { mode: 0o600 })
  if (node.runAs === undefined) return
  for (const path of [node.archiveFolder, file]) chownSync(path, node.runAs.uid, node.runAs.gid)
}

/**
 * The settings that make a server keep its finished WAL in the node's archive folder; the controller passes them at each
 * start of a node whose backups are on.
 *
 * The command never overwrites: a segment is written beside its place, flushed, and linked to its name, which fails when the
 * name is taken. The same content under the name is success: the server was killed between the copy and its note of it. A
 * full disk leaves nothing behind, and the server tries again; what a killed command left, the next one writes over. An archive folder without its mark is lost: an error.
 */
export function archiveSettings(node: PostgresNode): Record<string, string> {
  return {
    archive_mode: 'on',
    archive_command: archiveCommand(node.archiveFolder),
    archive_timeout: '300',
  }
}

function archiveCommand(folder: string): string {
  const target = shellWord(`${folder}/`)
  const script = [
    `a=${target}`,
    `test -f "$a"${marker} || { echo "the WAL archive is lost" >&2; exit 1; }`,
    'if test -e "${a}%f"; then cmp -s "%p" "${a}%f"; exit; fi',
    'cp "%p" "${a}.%f.tmp" && sync "${a}.%f.tmp" && ln "${a}.%f.tmp" "${a}%f" && rm "${a}.%f.tmp" && sync "$a" || { rm -f "${a}.%f.tmp"; exit 1; }',
  ]
  return script.join('; ')
}

/**
 * Takes what a server had finished and not yet archived when it ended into its archive: its successor does not do that, and a
 * restore would find a hole. What is there is not overwritten. Idempotent.
 */
export async function archiveRest(node: PostgresNode): Promise<void> {
  const log = join(node.dataFolder, 'pg_wal')
  const status = join(log, 'archive_status')
  const waiting = existsSync(status) ? readdirSync(status).filter((name) => name.endsWith('.ready')) : []
  for (const name of waiting.map((each) => each.slice(0, -'.ready'.length)).sort()) {
    const target = join(node.archiveFolder, name)
    if (existsSync(target) || !existsSync(join(log, name))) continue
    await writeDurably(target, readFileSync(join(log, name)), node.runAs)
  }
}

/** The command a restoring server takes WAL with: from the archive, else from each of the other folders. */
export function restoreCommand(folders: readonly string[]): string {
  return folders.map((folder) => `cp ${shellWord(`${folder}/`)}"%f" "%p" 2>/dev/null`).join(' || ')
}

/** Single-quoted for the shell; `%` doubled for the server, which replaces its own marks first. */
function shellWord(text: string): string {
  if (/[\r\n\0]/.test(text)) throw new CareFailure('failed', 'The folder of the WAL archive has an impossible name.')
  return `'${text.replaceAll("'", `'\\''`).replaceAll('%', '%%')}'`
}

/**
 * `LOST`: the folder or its mark is gone, or segments are missing between the first and the last one kept: what was archived
 * can no longer be relied on. `FAILING`: the newest attempt failed, WAL piles up on the server's disk.
 */
export type ArchivingState = 'OFF' | 'OK' | 'FAILING' | 'LOST'

export interface ArchiveStatus {
  readonly state: ArchivingState
  /** In words for the user when the state is FAILING or LOST. */
  readonly reason: string | null
  readonly lastArchivedWal: string | null
  /** Epoch ms. */
  readonly lastArchivedAt: number | null
  readonly failedCount: number
  readonly lastFailedAt: number | null
  /** Finished segments on the server's disk that are not yet in the archive. */
  readonly waitingSegments: number
}

interface ArchiverRow {
  mode: string
  command: string
  segment_bytes: string
  wal: string | null
  at: Date | null
  failed: string
  failed_at: Date | null
  waiting: string
}

/**
 * `from`: the segment from which on the log is wanted; by default all of it.
 * @throws {CareFailure} `unavailable` when the server does not answer.
 */
export async function readArchiveStatus(node: PostgresNode, from?: string): Promise<ArchiveStatus> {
  const row = await withSession(node, async (client) => {
    const { rows } = await client.query<ArchiverRow>(`
      select current_setting('archive_mode') as mode, current_setting('archive_command') as command,
        (select setting from pg_settings where name = 'wal_segment_size') as segment_bytes,
        last_archived_wal as wal, last_archived_time as at, failed_count as failed, last_failed_time as failed_at,
        (select count(*) from pg_ls_archive_statusdir() where name like '%.ready') as waiting
      from pg_stat_archiver`)
    return rows[0]!
  })
  const figures = {
    lastArchivedWal: row.wal,
    lastArchivedAt: row.at?.getTime() ?? null,
    failedCount: Number(row.failed),
    lastFailedAt: row.failed_at?.getTime() ?? null,
    waitingSegments: Number(row.waiting),
  }
  const off = row.mode === 'off' || row.command === ''
  const lost = off ? null : lostReason(node.archiveFolder, Number(row.segment_bytes), from)
  if (off) return { state: 'OFF', reason: null, ...figures }
  if (lost !== null) return { state: 'LOST', reason: lost, ...figures }
  const failing = figures.lastFailedAt !== null && figures.lastFailedAt > (figures.lastArchivedAt ?? 0)
  const reason = `The write-ahead log could not be archived; ${figures.waitingSegments} segments wait on the server's disk.`
  return failing ? { state: 'FAILING', reason, ...figures } : { state: 'OK', reason: null, ...figures }
}

function lostReason(folder: string, segmentBytes: number, from: string | undefined): string | null {
  if (!existsSync(join(folder, marker))) return 'The folder of the archived write-ahead log is gone.'
  const wanted = (segment: string) => from === undefined || positionOf(segment) >= positionOf(from)
  const missing = missingSegments(archivedSegments(folder).filter(wanted), segmentBytes)
  if (missing.length === 0) return null
  return `Archived write-ahead log is missing from ${missing[0]} on: times after it cannot be restored from earlier backups.`
}

/** Names of the finished segments in an archive, in the order of the log. */
export function archivedSegments(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder).filter(isSegment).sort() : []
}

/**
 * The first segment missing after each run of one timeline. A timeline may end anywhere: its successor begins there, with the same
 * segment or, where that one was full, the next.
 */
export function missingSegments(segments: readonly string[], segmentBytes: number): readonly string[] {
  return segments.flatMap((segment, index) => {
    const following = segments[index + 1]
    if (following === undefined) return []
    const expected = nextSegment(segment, segmentBytes)
    const whole =
      following.slice(0, 8) === segment.slice(0, 8)
        ? following === expected
        : positionOf(following) <= positionOf(expected)
    return whole ? [] : [expected]
  })
}

/**
 * Writes a commit into the log and waits until it is in the archive, so that every time up to the return can be restored: a
 * recovery needs one commit after its target to know that it has reached it. Answers that commit's time (epoch ms).
 *
 * @throws {CareFailure} `failed` when the archive does not take it within the time.
 */
export async function archiveUpToNow(
  node: PostgresNode,
  { timeoutMs = 60_000, signal }: { readonly timeoutMs?: number; readonly signal?: AbortSignal | undefined } = {},
): Promise<number> {
  return withSession(node, async (client) => {
    const { rows } = await client.query<{ at: Date }>('select pg_current_xact_id(), clock_timestamp() as at')
    const switched = await client.query<{ wal: string }>('select pg_walfile_name(pg_switch_wal()) as wal')
    const wal = switched.rows[0]!.wal
    await waitUntil(
      async () => existsSync(join(node.archiveFolder, wal)) && statSync(join(node.archiveFolder, wal)).isFile(),
      { timeoutMs, message: 'The write-ahead log could not be archived in time.', signal },
    )
    return rows[0]!.at.getTime()
  })
}
