import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { CareFailure, refuse } from '../care-failure.ts'
import { requireRoom, syncFolder, writeDurably } from '../durable-files.ts'
import type { SnapshotRequest } from '../snapshots/postgres-snapshot.ts'
import {
  newSnapshotId,
  readSnapshot,
  recordName,
  type SnapshotRecord,
  snapshotFile,
  snapshotFileName,
} from '../snapshots/snapshot-record.ts'
import type { MysqlNode } from './mysql-node.ts'
import { rowsOf, withMysql } from './mysql-session.ts'
import { runMysqlTool } from './mysql-tools.ts'

const spareBytes = 32 * 1024 * 1024
const maxTables = 100

/**
 * Exports the instance's database as SQL (`plain`, the only format MariaDB has): one consistent state, without blocking
 * writers; beside its place, flushed, checksummed, then renamed.
 *
 * @throws {CareFailure} `refused`: 400 for a bad name or an unknown table, 409 for an id that exists, 422 for another format.
 */
export async function exportMysqlSnapshot(node: MysqlNode, request: SnapshotRequest): Promise<SnapshotRecord> {
  const { snapshotsFolder: folder, projectId, schemaOnly = false, format = 'plain', signal } = request
  if (format !== 'plain')
    refuse(`A MySQL instance has snapshots of the format plain only, not ${format.slice(0, 40)}.`, {
      status: 422,
      field: 'format',
    })
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const createdAt = new Date()
  const taken = (candidate: string) => existsSync(join(folder, recordName(candidate)))
  const id = request.id ?? newSnapshotId(projectId, createdAt, taken)
  if (taken(id)) refuse(`A snapshot of the id ${id} exists.`, { status: 409, field: 'snapshotId' })
  const database = await readDatabase(node)
  const tables = readNames(request.tables, 'tables', database.tables)
  const excludeTables = readNames(request.excludeTables, 'excludeTables', database.tables)
  await requireRoom(folder, (schemaOnly ? 0 : database.bytes) + spareBytes, 'the snapshot')
  const fileName = snapshotFileName(id, 'plain')
  const partial = join(folder, `.partial-${id}`)
  // Of a predecessor that was killed.
  await rm(partial, { force: true })
  const output = await open(partial, 'wx', 0o600)
  try {
    const args = [
      '--single-transaction',
      '--quick',
      '--skip-lock-tables',
      '--hex-blob',
      '--routines',
      '--triggers',
      '--events',
      ...(schemaOnly ? ['--no-data'] : []),
      ...excludeTables.map((name) => `--ignore-table=${node.database}.${name}`),
      node.database,
      ...tables,
    ]
    const limit = request.timeoutMs === undefined ? {} : { timeoutMs: request.timeoutMs }
    await runMysqlTool(
      node,
      'mariadb-dump',
      { args, stdout: output.fd, signal, ...limit },
      'The database could not be dumped',
    )
    await output.sync()
    const { size } = await stat(partial)
    const sha256 = await checksum(partial)
    await rename(partial, join(folder, fileName))
    await syncFolder(folder)
    const record: SnapshotRecord = {
      id,
      projectId,
      format: 'plain',
      schemaOnly,
      tables,
      excludeTables,
      size,
      sha256,
      createdAt: createdAt.toISOString(),
      fileName,
      databaseName: node.database,
      engineVersion: database.version,
    }
    await writeDurably(join(folder, recordName(id)), `${JSON.stringify(record, null, 2)}\n`)
    return record
  } catch (error) {
    await rm(partial, { force: true })
    throw error
  } finally {
    await output.close()
  }
}

async function readDatabase(node: MysqlNode) {
  return withMysql(node, async (connection) => {
    const rows = await rowsOf<{ name: string; bytes: number }>(
      connection,
      'select table_name as name, coalesce(data_length + index_length, 0) as bytes from information_schema.tables where table_schema = database()',
    )
    const [server] = await rowsOf<{ version: string }>(connection, 'select version() as version')
    const bytes = rows.reduce((sum, row) => sum + Number(row.bytes), 0)
    return { tables: new Set(rows.map(({ name }) => name)), bytes, version: server!.version }
  })
}

/** Only names the database has: they become arguments. A name of the form `database.table` is of another instance. */
function readNames(names: readonly string[] = [], field: string, known: ReadonlySet<string>): readonly string[] {
  if (names.length > maxTables) refuse(`${field} has more than ${maxTables} names.`, { field })
  const bad = names.find((name) => !known.has(name) || !/^[A-Za-z_][\w$]*$/.test(name))
  if (bad !== undefined) refuse(`${field}: a table "${bad.slice(0, 80)}" does not exist.`, { field })
  return names
}

async function checksum(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

/**
 * Loads a snapshot into a node's database, which must not have tables yet: MariaDB cannot undo half of a load.
 *
 * @throws {CareFailure} `refused` (404) for an unknown id, (409) when the database has tables; `failed` when the file was
 *   changed or the server refuses it.
 */
export async function loadMysqlSnapshot(
  node: MysqlNode,
  request: { readonly snapshotsFolder: string; readonly id: string; readonly signal?: AbortSignal },
): Promise<void> {
  const snapshot = readSnapshot(request.snapshotsFolder, request.id)
  const path = snapshotFile(request.snapshotsFolder, snapshot)
  if ((await checksum(path)) !== snapshot.sha256)
    throw new CareFailure('failed', 'The snapshot was changed on the disk.')
  const { tables } = await readDatabase(node)
  if (tables.size > 0) refuse('The database has tables already.', { status: 409 })
  const input = await open(path, 'r')
  try {
    const run = { args: ['--binary-mode', '--batch', node.database], stdin: input.fd, signal: request.signal }
    await runMysqlTool(node, 'mariadb', run, 'The snapshot could not be loaded')
  } finally {
    await input.close()
  }
}
