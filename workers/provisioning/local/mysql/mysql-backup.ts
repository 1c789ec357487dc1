import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { pipeline } from 'node:stream/promises'
import {
  type BackupRecord,
  backupData,
  deleteBackup,
  listBackups,
  newBackupId,
  partialBackup,
  writeRecord,
} from '../backup/backup-record.ts'
import { expiredBackups } from '../backup/retention.ts'
import { CareFailure, refuse } from '../care-failure.ts'
import { requireRoom, syncFolder, syncTree, writeDurably } from '../durable-files.ts'
import { folderBytes } from '../metrics/folder-size.ts'
import { binlogFiles } from './binlog.ts'
import type { MysqlNode } from './mysql-node.ts'
import { rowsOf, withMysql } from './mysql-session.ts'
import { runMysqlTool } from './mysql-tools.ts'

/** A finished backup. The binary log after `binlogFile` at `binlogPosition` is what happened since. */
export type MysqlBackupRecord = Omit<
  BackupRecord,
  'method' | 'beginWal' | 'endWal' | 'beginLsn' | 'endLsn' | 'timeline' | 'majorVersion' | 'segmentBytes'
> & {
  readonly method: 'mariadb-backup'
  readonly binlogFile: string
  readonly binlogPosition: number
  readonly gtid: string
  readonly engineVersion: string
}

export interface MysqlBackupRequest {
  readonly projectId: string
  readonly type: BackupRecord['type']
  readonly backupsFolder: string
  /** Default: made from the project and the clock. */
  readonly id?: string
  readonly signal?: AbortSignal
}

const manifestFile = 'manifest.sha256'
const spareBytes = 64 * 1024 * 1024

/**
 * Copies a running server with mariadb-backup, prepared for a start: beside its place, with checksums, flushed, then renamed. It
 * is whole or not there; an id that exists is never written again.
 *
 * @throws {CareFailure} `refused` (409) when the id exists; `unavailable`; `failed` (507) without room, or with the tool's reason.
 */
export async function makeMysqlBackup(node: MysqlNode, request: MysqlBackupRequest): Promise<MysqlBackupRecord> {
  const { backupsFolder, projectId, signal } = request
  await mkdir(backupsFolder, { recursive: true, mode: 0o700 })
  const startedAt = new Date()
  const exists = (id: string) => existsSync(join(backupsFolder, id))
  const id = request.id ?? newBackupId(projectId, startedAt, exists)
  if (exists(id)) refuse(`A backup of the id ${id} exists; it is not overwritten.`, { status: 409, field: 'backupId' })
  await requireRoom(backupsFolder, (await folderBytes(node.dataFolder)) + spareBytes, 'the backup')
  const version = await withMysql(
    node,
    async (connection) => (await rowsOf<{ version: string }>(connection, 'select version() as version'))[0]!.version,
  )
  const partial = partialBackup(backupsFolder, id)
  const data = join(partial, 'data')
  await rm(partial, { recursive: true, force: true })
  await mkdir(partial, { recursive: true, mode: 0o700 })
  try {
    const run = (args: readonly string[]) => runMysqlTool(node, 'mariadb-backup', { args: [...args, `--target-dir=${data}`], signal }, 'The backup could not be made') // biome-ignore format: one call
    await run(['--backup', `--datadir=${node.dataFolder}`, '--lock-ddl-per-table=0'])
    await run(['--prepare'])
    const position = await readPosition(data)
    const manifest = await makeManifest(data)
    await writeDurably(join(partial, manifestFile), manifest.text)
    const completedAt = new Date()
    const record: MysqlBackupRecord = {
      id,
      projectId,
      timestamp: startedAt.toISOString(),
      type: request.type,
      status: 'COMPLETED',
      method: 'mariadb-backup',
      completedAt: completedAt.toISOString(),
      durationMs: completedAt.getTime() - startedAt.getTime(),
      sizeBytes: manifest.bytes,
      ...position,
      // The binary log knows whole seconds: the next one is the first that certainly lies after the copy.
      consistentAt: Math.ceil((completedAt.getTime() + 1) / 1000) * 1000,
      engineVersion: version,
      databaseName: node.database,
      manifestSha256: createHash('sha256').update(manifest.text).digest('hex'),
      verified: null,
    }
    await writeRecord(partial, record)
    await syncTree(partial)
    await rename(partial, join(backupsFolder, id))
    await syncFolder(backupsFolder)
    return record
  } catch (error) {
    await rm(partial, { recursive: true, force: true })
    throw error
  }
}

async function readPosition(data: string): Promise<Pick<MysqlBackupRecord, 'binlogFile' | 'binlogPosition' | 'gtid'>> {
  const name = ['mariadb_backup_binlog_info', 'xtrabackup_binlog_info'].find((file) => existsSync(join(data, file)))
  const text = name === undefined ? '' : await readFile(join(data, name), 'utf8')
  const [, binlogFile, position, gtid = ''] = /^(\S+)\t(\d+)(?:\t(\S*))?/.exec(text) ?? []
  if (binlogFile === undefined) throw new CareFailure('failed', 'The backup does not tell its place in the binary log.')
  return { binlogFile, binlogPosition: Number(position), gtid }
}

async function makeManifest(data: string): Promise<{ readonly text: string; readonly bytes: number }> {
  const lines: string[] = []
  let bytes = 0
  for (const path of await filesOf(data)) {
    const { size } = await stat(join(data, path))
    bytes += size
    lines.push(`${await sha256Of(join(data, path))}  ${size}  ${path}\n`)
  }
  return { text: lines.join(''), bytes }
}

async function filesOf(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => relative(folder, join(entry.parentPath, entry.name))).sort() // biome-ignore format: one chain
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

/** Holds every file of a backup against its manifest. Null: it is what was written; else the first problem. */
export async function checkMysqlBackup(backupsFolder: string, record: MysqlBackupRecord): Promise<string | null> {
  const text = await readFile(join(backupsFolder, record.id, manifestFile), 'utf8').catch(() => '')
  if (createHash('sha256').update(text).digest('hex') !== record.manifestSha256) return 'the manifest was changed'
  const data = backupData(backupsFolder, record.id)
  const found = new Set(await filesOf(data))
  for (const line of text.split('\n').filter(Boolean)) {
    const [sha256 = '', , path = ''] = line.split('  ')
    if (!found.delete(path)) return `${path} is missing`
    if ((await sha256Of(join(data, path))) !== sha256) return `${path} was changed`
  }
  const [additional] = found
  return additional === undefined ? null : `${additional} is not in the manifest`
}

/** Applies the retention: expired backups first, then the binary logs before the oldest one left. Safe to repeat. */
export async function applyMysqlRetention(
  node: MysqlNode,
  backupsFolder: string,
  rule: { readonly retentionDays: number; readonly now: number },
): Promise<{ readonly backups: readonly string[]; readonly binlogs: number }> {
  const expired = expiredBackups(listBackups<MysqlBackupRecord>(backupsFolder), rule)
  for (const { id } of expired) await deleteBackup(backupsFolder, id)
  const [oldest] = listBackups<MysqlBackupRecord>(backupsFolder).toSorted((a, b) =>
    a.binlogFile.localeCompare(b.binlogFile),
  )
  if (oldest === undefined) return { backups: expired.map(({ id }) => id), binlogs: 0 }
  const before = binlogFiles(node.binlogFolder).length
  // The server's own way: it does not drop what a replica still reads, and keeps its index right.
  await withMysql(node, (connection) => connection.query('purge binary logs to ?', [oldest.binlogFile]), {
    database: null,
  })
  return { backups: expired.map(({ id }) => id), binlogs: before - binlogFiles(node.binlogFolder).length }
}
