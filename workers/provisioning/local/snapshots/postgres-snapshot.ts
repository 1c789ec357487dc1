import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { CareFailure, refuse } from '../care-failure.ts'
import { requireRoom, syncFolder, writeDurably } from '../durable-files.ts'
import type { PostgresNode } from '../postgres-node.ts'
import { withSession } from '../postgres-session.ts'
import { findTool, requireTool, runTool } from '../postgres-tools.ts'
import { packFolder, unpackFolder } from './pack-folder.ts'
import { dumpPlain } from './plain-dump.ts'
import {
  newSnapshotId,
  readSnapshot,
  recordName,
  type SnapshotFormat,
  type SnapshotRecord,
  snapshotFile,
  snapshotFileName,
  snapshotFormats,
} from './snapshot-record.ts'

export interface SnapshotRequest {
  readonly projectId: string
  /** Folder of this instance's snapshots, 0700; made when missing. */
  readonly snapshotsFolder: string
  /** Default `custom`, and `plain` where the machine has no pg_dump for the server's version. */
  readonly format?: string
  readonly schemaOnly?: boolean
  /** Only these tables and views: `name`, `schema.name`, at most 100. */
  readonly tables?: readonly string[]
  readonly excludeTables?: readonly string[]
  /** Default: made from the project and the clock. */
  readonly id?: string
  /** Default 1 h. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

/** Rough: a dump is smaller than the database, but the disk must not run full under the servers. */
const spareBytes = 32 * 1024 * 1024
const maxTables = 100

/**
 * Exports the instance's database into a file: written beside its place, flushed, checksummed, then renamed; it is whole or not
 * there. One consistent state of the database, without blocking writers.
 *
 * @throws {CareFailure} `refused` (400) for an unknown format or table, (409) for an id that exists, (424) when the machine has
 *   no pg_dump for the server's version and the format needs it; `failed` with pg_dump's reason.
 */
export async function exportSnapshot(node: PostgresNode, request: SnapshotRequest): Promise<SnapshotRecord> {
  const { snapshotsFolder: folder, projectId, schemaOnly = false, tables = [], excludeTables = [] } = request
  const format = readFormat(request.format ?? (findTool(node, 'pg_dump', 'atLeast') === undefined ? 'plain' : 'custom'))
  const filter = { tables: readTables(tables, 'tables'), excludeTables: readTables(excludeTables, 'excludeTables') }
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const createdAt = new Date()
  const taken = (candidate: string) => existsSync(join(folder, recordName(candidate)))
  const id = request.id ?? newSnapshotId(projectId, createdAt, taken)
  if (taken(id)) refuse(`A snapshot of the id ${id} exists.`, { status: 409, field: 'snapshotId' })
  const server = await readDatabase(node)
  await requireRoom(folder, (schemaOnly ? 0 : server.sizeBytes) + spareBytes, 'the snapshot')
  const fileName = snapshotFileName(id, format)
  const partial = join(folder, `.partial-${id}`)
  const removePartial = async () => {
    await rm(partial, { recursive: true, force: true })
    await rm(`${partial}.d`, { recursive: true, force: true })
  }
  // Of a predecessor that was killed.
  await removePartial()
  try {
    await dump(node, { ...request, ...filter, format, schemaOnly }, partial)
    const { size } = await stat(partial)
    const sha256 = await checksum(partial)
    await rename(partial, join(folder, fileName))
    await syncFolder(folder)
    const record: SnapshotRecord = {
      id,
      projectId,
      format,
      schemaOnly,
      ...filter,
      size,
      sha256,
      createdAt: createdAt.toISOString(),
      fileName,
      databaseName: node.database,
      engineVersion: server.version,
    }
    await writeDurably(join(folder, recordName(id)), `${JSON.stringify(record, null, 2)}\n`)
    return record
  } catch (error) {
    await removePartial()
    throw error
  }
}

function readFormat(format: string): SnapshotFormat {
  const known = snapshotFormats.find((name) => name === format)
  return known ?? refuse(`format must be one of ${snapshotFormats.join(', ')}.`, { field: 'format' })
}

/** Plain names only: pg_dump would read `*` and `?` as patterns and quotes as its own. */
function readTables(names: readonly string[], field: string): readonly string[] {
  if (names.length > maxTables) refuse(`${field} has more than ${maxTables} names.`, { field })
  const bad = names.find((name) => !/^[A-Za-z_][\w$]{0,62}(\.[A-Za-z_][\w$]{0,62})?$/.test(name))
  if (bad !== undefined)
    refuse(`${field}: "${bad.slice(0, 80)}" is not a table's name (name or schema.name).`, { field })
  return names
}

/** A name as pg_dump's pattern that matches exactly it, whatever its case. */
function exactPattern(name: string): string {
  return name.split('.').map((part) => `"${part}"`).join('.') // biome-ignore format: one expression
}

interface DumpPlan {
  readonly format: SnapshotFormat
  readonly schemaOnly: boolean
  readonly tables: readonly string[]
  readonly excludeTables: readonly string[]
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

async function dump(node: PostgresNode, plan: DumpPlan, file: string): Promise<void> {
  if (plan.format === 'plain' && findTool(node, 'pg_dump', 'atLeast') === undefined) return dumpPlain(node, plan, file)
  const tool = requireTool(node, 'pg_dump', 'atLeast')
  const directory = plan.format === 'directory' ? `${file}.d` : undefined
  const output = await open(file, 'wx', 0o600)
  try {
    const args = [
      ...connection(node),
      `--format=${plan.format}`,
      '--no-password',
      '--no-owner',
      '--no-privileges',
      // Where the restore runs is another database with other tenants of the cluster.
      '--no-tablespaces',
      '--lock-wait-timeout=60000',
      ...(plan.schemaOnly ? ['--schema-only'] : []),
      ...plan.tables.map((name) => `--table=${exactPattern(name)}`),
      ...plan.excludeTables.map((name) => `--exclude-table=${exactPattern(name)}`),
      ...(plan.tables.length > 0 ? ['--strict-names'] : []),
      ...(directory === undefined ? [] : [`--file=${directory}`]),
      node.database,
    ]
    await mustRun(node, tool, { args, stdout: output.fd, ...timing(plan) })
    if (directory !== undefined) await packFolder(directory, output)
    await output.sync()
  } finally {
    await output.close()
  }
  if (directory !== undefined) await rm(directory, { recursive: true, force: true })
}

function connection(node: PostgresNode): readonly string[] {
  return [`--host=${node.socketFolder ?? '127.0.0.1'}`, `--port=${node.port}`, `--username=${node.superuser.user}`]
}

function timing({ timeoutMs, signal }: { readonly timeoutMs?: number; readonly signal?: AbortSignal }) {
  return { ...(timeoutMs === undefined ? {} : { timeoutMs }), ...(signal === undefined ? {} : { signal }) }
}

async function mustRun(
  node: PostgresNode,
  tool: string,
  run: {
    readonly args: readonly string[]
    readonly stdout?: number
    readonly timeoutMs?: number
    readonly signal?: AbortSignal
  },
): Promise<void> {
  const { ok, complaint } = await runTool(tool, { ...run, password: node.superuser.password })
  if (ok) return
  const missing = /no matching tables were found(?: for pattern "(.*?)")?/.exec(complaint)
  if (missing !== null) refuse('tables: a table of this name does not exist.', { field: 'tables' })
  throw new CareFailure('failed', `The database could not be dumped or loaded: ${firstReason(complaint)}`)
}

/** The tool's own words for the failure, without program names and paths. */
function firstReason(complaint: string): string {
  const line = complaint.split('\n').find((entry) => /error|fatal/i.test(entry)) ?? complaint.split('\n')[0] ?? ''
  return line.replace(/^pg_\w+: (error: )?/, '').replaceAll(/(\/[\w.-]+){2,}/g, 'a file').slice(0, 300) || 'it was ended.' // biome-ignore format: one chain
}

async function checksum(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

async function readDatabase(node: PostgresNode): Promise<{ sizeBytes: number; version: string }> {
  return withSession(node, async (client) => {
    const { rows } = await client.query<{ size: string; version: string }>(
      "select pg_database_size(current_database()) as size, current_setting('server_version') as version",
    )
    return { sizeBytes: Number(rows[0]!.size), version: rows[0]!.version.split(' ')[0]! }
  })
}

/**
 * Loads a snapshot into a node's database, all or nothing. The file is held against its checksum first.
 *
 * @throws {CareFailure} `refused` (404) for an unknown id, (409) when the database has tables of that name, (424) without
 *   pg_restore; `failed` when the file was changed or the server refuses it.
 */
export async function loadSnapshot(
  node: PostgresNode,
  request: {
    readonly snapshotsFolder: string
    readonly id: string
    readonly timeoutMs?: number
    readonly signal?: AbortSignal
  },
): Promise<void> {
  const snapshot = readSnapshot(request.snapshotsFolder, request.id)
  const file = snapshotFile(request.snapshotsFolder, snapshot)
  if ((await checksum(file)) !== snapshot.sha256)
    throw new CareFailure('failed', 'The snapshot was changed on the disk.')
  if (snapshot.format === 'plain') {
    const tool = requireTool(node, 'psql', 'any')
    const args = [...connection(node), '--no-psqlrc', '--quiet', '--single-transaction', '--set=ON_ERROR_STOP=1']
    return mustRun(node, tool, { args: [...args, `--file=${file}`, `--dbname=${node.database}`], ...timing(request) })
  }
  const tool = requireTool(node, 'pg_restore', 'atLeast')
  const folder = snapshot.format === 'directory' ? `${file}.d` : undefined
  try {
    if (folder !== undefined) await unpackFolder(file, folder)
    const args = [...connection(node), '--no-owner', '--single-transaction', `--dbname=${node.database}`]
    await mustRun(node, tool, { args: [...args, `--format=${snapshot.format}`, folder ?? file], ...timing(request) })
  } finally {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  }
}
