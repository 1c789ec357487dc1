import { existsSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { CareFailure } from '../care-failure.ts'
import type { MysqlNode } from './mysql-node.ts'
import { withMysql } from './mysql-session.ts'
import { startTool, toolFailure } from './mysql-tools.ts'

/** The binary logs of a folder, in order. */
export function binlogFiles(folder: string): readonly string[] {
  return existsSync(folder)
    ? readdirSync(folder)
        .filter((name) => /^binlog\.\d{6,}$/.test(name))
        .sort()
    : []
}

/** The last moment a stopped server's binary log can hold (epoch ms), null without one. */
export function newestBinlogAt(folder: string): number | null {
  const last = binlogFiles(folder).at(-1)
  return last === undefined ? null : Math.floor(statSync(join(folder, last)).mtimeMs)
}

const unusedAfterMs = 3_600_000

/**
 * Without a backup there is none that a restore could begin with: finished logs go, once every replica has read them. Those of the
 * last hour stay for a copy that is being made, unless the room is needed.
 */
export async function trimUnusedBinlog(node: MysqlNode, { full, now }: { full: boolean; now: number }): Promise<void> {
  const [oldest, ...later] = binlogFiles(node.binlogFolder)
  if (oldest === undefined || later.length === 0) return
  const before = full ? now : now - unusedAfterMs
  if (statSync(join(node.binlogFolder, oldest)).mtimeMs >= before) return
  await withMysql(node, (connection) => connection.query('purge binary logs before ?', [new Date(before)]), {
    database: null,
  })
}

/** Closes the running binary log, so that all until now is in finished files. */
export async function flushBinlog(node: MysqlNode): Promise<void> {
  await withMysql(node, (connection) => connection.query('flush binary logs'), { database: null })
}

export interface ReplayRequest {
  /** Where the source's binary logs lie. */
  readonly binlogFolder: string
  readonly fromFile: string
  readonly fromPosition: number
  /** Epoch ms; the log knows whole seconds: what happened in the second of this time and later is left out. Default: all. */
  readonly until?: number
  readonly signal?: AbortSignal | undefined
}

/**
 * Does again what the binary logs hold, on a closed server.
 *
 * @throws {CareFailure} `failed` (422) when a log between is missing; `failed` with the reason when the server refuses a part.
 */
export async function replayBinlog(into: MysqlNode, request: ReplayRequest): Promise<void> {
  const { binlogFolder, fromFile, fromPosition, until, signal } = request
  const files = binlogFiles(binlogFolder).filter((name) => name >= fromFile)
  requireNoHole(files, fromFile)
  const limits = [
    `--start-position=${fromPosition}`,
    ...(until === undefined ? [] : [`--stop-datetime=${binlogTime(until)}`]),
  ]
  const paths = files.map((name) => join(binlogFolder, name))
  const reader = startTool(into, 'mariadb-binlog', {
    args: ['--disable-log-bin', ...limits, ...paths],
    stdout: 'pipe',
    signal,
  })
  const writer = startTool(into, 'mariadb', { args: ['--binary-mode', '--batch'], stdin: 'pipe', signal })
  await pipeline(reader.process.stdout!, writer.process.stdin!).catch(() => undefined)
  const [read, written] = await Promise.all([reader.done, writer.done])
  signal?.throwIfAborted()
  const complaint = written ?? read
  if (complaint !== undefined) {
    throw toolFailure('The binary log could not be replayed', complaint)
  }
}

/** `YYYY-MM-DD HH:MM:SS` in UTC, the zone the programs run in. */
function binlogTime(at: number): string {
  return new Date(at).toISOString().slice(0, 19).replace('T', ' ')
}

function requireNoHole(files: readonly string[], fromFile: string): void {
  const numbers = files.map((name) => Number(name.split('.')[1]))
  const whole =
    files[0] === fromFile && numbers.every((number, index) => index === 0 || number === numbers[index - 1]! + 1)
  if (whole) return
  throw new CareFailure('failed', 'The binary log has a hole: only the backup itself can be restored.', { status: 422 })
}
