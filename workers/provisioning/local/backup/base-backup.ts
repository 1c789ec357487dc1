import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { refuse } from '../care-failure.ts'
import { requireRoom, syncFolder, syncTree } from '../durable-files.ts'
import type { PostgresNode } from '../postgres-node.ts'
import { openSession, withSession } from '../postgres-session.ts'
import { type BackupRecord, newBackupId, partialBackup, writeRecord } from './backup-record.ts'
import { streamBaseBackup } from './base-backup-stream.ts'
import { parseManifest } from './manifest.ts'
import { segmentOfLsn } from './wal-name.ts'

export interface BackupRequest {
  readonly projectId: string
  readonly type: BackupRecord['type']
  /** Folder of this instance's backups, 0700 of this process; made when missing. */
  readonly backupsFolder: string
  /** Default: made from the project and the clock. A caller that repeats a cut-off backup gives the same one again. */
  readonly id?: string
  readonly signal?: AbortSignal
  /** Bytes received so far. */
  readonly onProgress?: (bytes: number) => void
}

/** Below this a backup's copy and log do not fit beside what the server needs. */
const spareBytes = 64 * 1024 * 1024

/**
 * Makes a base backup of a running server: beside its final place, flushed, then renamed. It is whole or not there; an id that
 * exists is never written again.
 *
 * @throws {CareFailure} `refused` (409) when the id exists, (422) for a server older than 15 or with tablespaces;
 *   `unavailable` when the server does not answer; `failed` (507) when the disk has no room.
 */
export async function makeBaseBackup(node: PostgresNode, request: BackupRequest): Promise<BackupRecord> {
  const { backupsFolder, projectId } = request
  await mkdir(backupsFolder, { recursive: true, mode: 0o700 })
  const startedAt = new Date()
  const exists = (id: string) => existsSync(join(backupsFolder, id))
  const id = request.id ?? newBackupId(projectId, startedAt, exists)
  if (exists(id)) refuse(`A backup of the id ${id} exists; it is not overwritten.`, { status: 409, field: 'backupId' })
  const server = await readServer(node)
  await requireRoom(backupsFolder, server.sizeBytes + spareBytes, 'the backup')
  const partial = partialBackup(backupsFolder, id)
  await rm(partial, { recursive: true, force: true })
  await mkdir(join(partial, 'data'), { recursive: true, mode: 0o700 })
  try {
    const copied = await copyFrom(node, id, join(partial, 'data'), request)
    const manifest = await readFile(join(partial, 'data', 'backup_manifest'))
    const completedAt = new Date()
    const record: BackupRecord = {
      id,
      projectId,
      timestamp: startedAt.toISOString(),
      type: request.type,
      status: 'COMPLETED',
      method: 'base-backup',
      completedAt: completedAt.toISOString(),
      durationMs: completedAt.getTime() - startedAt.getTime(),
      sizeBytes: parseManifest(manifest).files.reduce((sum, file) => sum + file.sizeBytes, 0),
      beginWal: segmentOfLsn(copied.beginLsn, copied.timeline, server.segmentBytes),
      endWal: segmentOfLsn(copied.endLsn, copied.timeline, server.segmentBytes),
      beginLsn: copied.beginLsn,
      endLsn: copied.endLsn,
      timeline: copied.timeline,
      consistentAt: copied.consistentAt,
      majorVersion: server.majorVersion,
      segmentBytes: server.segmentBytes,
      databaseName: node.database,
      manifestSha256: createHash('sha256').update(manifest).digest('hex'),
      verified: null,
    }
    await writeRecord(partial, record)
    await syncTree(partial)
    if (exists(id)) refuse(`A backup of the id ${id} exists; it is not overwritten.`, { status: 409 })
    await rename(partial, join(backupsFolder, id))
    await syncFolder(backupsFolder)
    return record
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw error
  }
}

async function copyFrom(node: PostgresNode, id: string, into: string, request: BackupRequest) {
  const client = await openSession(node, { replication: true, applicationName: 'busbar backup' })
  try {
    const { signal, onProgress } = request
    const copied = await streamBaseBackup(client, { label: id, into, signal, onProgress })
    // The server's own clock: times of commits are compared with it.
    const consistentAt = await withSession(node, async (session) => {
      const { rows } = await session.query<{ at: Date }>('select clock_timestamp() as at')
      return rows[0]!.at.getTime() + 1
    })
    return { ...copied, consistentAt }
  } finally {
    await client.end().catch(() => undefined)
  }
}

async function readServer(node: PostgresNode) {
  const server = await withSession(node, async (client) => {
    const { rows } = await client.query<{ version: number; size: string; segment: string }>(`
      select current_setting('server_version_num')::int as version,
        (select sum(pg_database_size(oid)) from pg_database) as size,
        (select setting from pg_settings where name = 'wal_segment_size') as segment`)
    const { version, size, segment } = rows[0]!
    return { majorVersion: Math.floor(version / 10_000), sizeBytes: Number(size), segmentBytes: Number(segment) }
  })
  if (server.majorVersion < 15) {
    refuse(`Backups need PostgreSQL 15 or newer; this server is ${server.majorVersion}.`, { status: 422 })
  }
  return server
}
