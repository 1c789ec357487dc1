import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { refuse } from '../care-failure.ts'
import type { BackupRecord } from './backup-record.ts'
import { isSegment } from './wal-name.ts'

/** Where a restore shall end: at the backup itself, at the end of the archived log, or at a time (epoch ms). */
export type RestoreTarget =
  | { readonly kind: 'backup' }
  | { readonly kind: 'latest' }
  | { readonly kind: 'time'; readonly at: number }

const timePattern = /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})?$/

/**
 * Reads a time to restore to: ISO 8601 with a zone, or without one for UTC. Answers epoch ms; a finer fraction is cut off.
 *
 * @throws {CareFailure} `refused` (400), field `targetTime`.
 */
export function parseTargetTime(text: string): number {
  const match = timePattern.exec(text)
  const [, year, month, day, hour, minute, second, fraction = '', zone = 'Z'] = match ?? []
  const date = `${year}-${month}-${day}`
  const at = Date.parse(
    `${date}T${hour}:${minute}:${second}.${fraction.padEnd(3, '0').slice(0, 3)}${zone.toUpperCase()}`,
  )
  // Date.parse takes 30 February for 2 March.
  const real = match !== null && !Number.isNaN(at) && new Date(`${date}T00:00:00Z`).toISOString().startsWith(date)
  if (!real) {
    refuse('targetTime must be an ISO 8601 time such as 2026-11-20T19:40:32.526Z.', { field: 'targetTime' })
  }
  return at
}

/** As PostgreSQL takes it at that stage of a start: a numeric zone; `Z` is an invalid value there. */
export function recoveryTargetTime(at: number): string {
  return new Date(at).toISOString().replace('T', ' ').replace('Z', '+00')
}

/** The times a point-in-time recovery can reach (epoch ms); null when there are none. */
export interface RestorableWindow {
  readonly earliest: number | null
  readonly latest: number | null
}

/** What a choice needs to know of a backup. */
export interface RestorableBackup {
  readonly id: string
  /** Epoch ms: the first time a recovery can reach with it. */
  readonly consistentAt: number
}

export interface WindowSource<B extends RestorableBackup = BackupRecord> {
  readonly backups: readonly B[]
  /** Folders with the log: the archive, and the `pg_wal` of a source that is stopped. */
  readonly logFolders: readonly string[]
  /** Set when the source runs and archives: every time up to now can be had. */
  readonly liveAt?: number
}

export function restorableWindow({ backups, logFolders, liveAt }: WindowSource<RestorableBackup>): RestorableWindow {
  const [first] = backups
  const earliest = backups.reduce((least, { consistentAt }) => Math.min(least, consistentAt), first?.consistentAt ?? 0)
  const latest = liveAt ?? newestLog(logFolders)
  if (first === undefined || latest === null || latest < earliest) return { earliest: null, latest: null }
  return { earliest, latest }
}

function newestLog(folders: readonly string[]): number | null {
  const times = folders.flatMap((folder) =>
    existsSync(folder)
      ? readdirSync(folder)
          .filter(isSegment)
          .map((name) => Math.floor(statSync(join(folder, name)).mtimeMs))
      : [],
  )
  return times.length === 0 ? null : times.reduce((newest, time) => Math.max(newest, time))
}

/**
 * The backup a restore begins with: the one asked for, else the newest that was consistent at the target.
 *
 * @throws {CareFailure} `refused`: 404 for an unknown id, 422 for a time outside the window (told in `details`) or before the
 *   end of the backup asked for. Starting there would silently give a later state.
 */
export function chooseBackup<B extends RestorableBackup>(
  source: WindowSource<B>,
  target: RestoreTarget,
  { backupId, now }: { readonly backupId?: string | undefined; readonly now: number },
): B {
  const { backups } = source
  const asked = backupId === undefined ? undefined : backups.find(({ id }) => id === backupId)
  if (backupId !== undefined && asked === undefined) {
    refuse(`backup not found: ${backupId}`, { status: 404, field: 'backupId' })
  }
  if (target.kind !== 'time') return asked ?? backups.at(-1) ?? refuse('The instance has no backup.', { status: 422 })
  requireInWindow(target.at, restorableWindow(source), now)
  if (asked !== undefined && asked.consistentAt > target.at) {
    refuse(`The backup ${asked.id} is later than targetTime; it reaches times from ${iso(asked.consistentAt)} on.`, {
      status: 422,
      field: 'targetTime',
    })
  }
  const fitting = backups.filter(({ consistentAt }) => consistentAt <= target.at)
  return asked ?? fitting.reduce((best, backup) => (backup.consistentAt > best.consistentAt ? backup : best))
}

function requireInWindow(at: number, { earliest, latest }: RestorableWindow, now: number): void {
  const field = 'targetTime'
  if (at > now) refuse('targetTime is in the future.', { status: 422, field })
  if (earliest === null || latest === null) {
    refuse('The instance has no backup to begin a point-in-time recovery with.', { status: 422, field })
  }
  const details = { earliestRestorableTime: iso(earliest), latestRestorableTime: iso(latest) }
  if (at < earliest) {
    refuse(`targetTime is before the first backup; the earliest time is ${iso(earliest)}.`, {
      status: 422,
      field,
      details,
    })
  }
  if (at > latest) {
    refuse(`targetTime is after the last archived write-ahead log; the latest time is ${iso(latest)}.`, { status: 422, field, details }) // biome-ignore format: one call
  }
}

function iso(at: number): string {
  return new Date(at).toISOString()
}
