import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Rejected } from '../../../../schemas/failure.ts'
import { refuse } from '../care-failure.ts'
import { syncFolder } from '../durable-files.ts'
import { stampedId } from '../stamped-id.ts'

export const snapshotFormats = ['custom', 'plain', 'directory', 'tar'] as const
export type SnapshotFormat = (typeof snapshotFormats)[number]

export interface SnapshotRecord {
  /** `<project>-YYYYMMDD-HHMMSS`. */
  readonly id: string
  readonly projectId: string
  readonly format: SnapshotFormat
  readonly schemaOnly: boolean
  readonly tables: readonly string[]
  readonly excludeTables: readonly string[]
  /** Bytes. */
  readonly size: number
  /** Hex, of the file. */
  readonly sha256: string
  /** RFC 3339. */
  readonly createdAt: string
  /** Name of the file in the snapshot folder, and for the download: `.sql` for plain, else `.dump`. */
  readonly fileName: string
  readonly databaseName: string
  readonly engineVersion: string
}

const recordEnding = '.json'

/** `directory` snapshots are kept and downloaded as a tar archive of the directory. */
export function snapshotFileName(id: string, format: SnapshotFormat): string {
  return `${id}.${format === 'plain' ? 'sql' : 'dump'}`
}

export function recordName(id: string): string {
  return `${id}${recordEnding}`
}

/** Finished snapshots, oldest first. */
export function listSnapshots(folder: string): readonly SnapshotRecord[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .filter((name) => name.endsWith(recordEnding) && !name.startsWith('.'))
    .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as SnapshotRecord)
    .sort((a, b) => a.createdAt.localeCompare(b.createdAt) || a.id.localeCompare(b.id))
}

const maxSnapshots = 100

/** @throws {Rejected} `provisioning/quota` when there are so many that one must go first */
export function requireSnapshotRoom(folder: string): void {
  if (listSnapshots(folder).length < maxSnapshots) return
  throw new Rejected('provisioning/quota', `There are ${maxSnapshots} snapshots: delete one first`)
}

/** @throws {CareFailure} `refused` (404). */
export function readSnapshot(folder: string, id: string): SnapshotRecord {
  return (
    listSnapshots(folder).find((snapshot) => snapshot.id === id) ??
    refuse(`snapshot not found: ${id}`, { status: 404, field: 'snapshotId' })
  )
}

/** The file to stream; its length and checksum are in the record. */
export function snapshotFile(folder: string, snapshot: SnapshotRecord): string {
  return join(folder, snapshot.fileName)
}

/** Out of the list first, then the file. @throws {CareFailure} `refused` (404). */
export async function deleteSnapshot(folder: string, id: string): Promise<void> {
  const snapshot = readSnapshot(folder, id)
  await rm(join(folder, recordName(id)), { force: true })
  await syncFolder(folder)
  await rm(snapshotFile(folder, snapshot), { force: true })
}

/** Removes what cut-off exports and deletions left. Only while none of this instance is being made. */
export async function cleanSnapshots(folder: string): Promise<void> {
  if (!existsSync(folder)) return
  const wanted = new Set(listSnapshots(folder).flatMap(({ id, fileName }) => [recordName(id), fileName]))
  for (const name of readdirSync(folder)) {
    if (!wanted.has(name)) await rm(join(folder, name), { recursive: true, force: true })
  }
}

/** `<project>-YYYYMMDD-HHMMSS`, with `-2` and so on when that second has one. */
export function newSnapshotId(projectId: string, at: Date, taken: (id: string) => boolean): string {
  return stampedId(projectId, at, taken)
}
