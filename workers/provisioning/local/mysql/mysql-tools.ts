import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import { join } from 'node:path'
import { tied } from '../../supervisor/tied.ts'
import { CareFailure } from '../care-failure.ts'
import { unnamedFile } from '../unnamed-file.ts'
import type { MysqlNode } from './mysql-node.ts'

export type MysqlTool = 'mariadb' | 'mariadb-dump' | 'mariadb-binlog' | 'mariadb-backup'

export interface MysqlToolRun {
  /** After `--defaults-file`, which holds how to connect. */
  readonly args: readonly string[]
  /** File descriptors or `pipe`. Default: nothing in, nothing out. */
  readonly stdin?: number | 'pipe'
  readonly stdout?: number | 'pipe'
  readonly signal?: AbortSignal | undefined
  /** Default 1 h. */
  readonly timeoutMs?: number
}

export interface RunningTool {
  readonly process: ChildProcess
  /** Resolves with what it complained of when it failed, undefined when all went well. */
  readonly done: Promise<string | undefined>
}

/** Starts a client program. How to connect is in a file that only it and we have open, not on the command line. */
export function startTool(node: MysqlNode, tool: MysqlTool, run: MysqlToolRun): RunningTool {
  const file = unnamedFile(clientFile(node))
  // The first descriptor behind those of the standard streams.
  const args = ['--defaults-file=/dev/fd/3', ...run.args]
  const child = spawn(...tied(join(node.binaries.clientFolder, tool), args), {
    stdio: [run.stdin ?? 'ignore', run.stdout ?? 'ignore', 'pipe', file],
    env: { LC_ALL: 'C', TZ: 'UTC', ...node.binaries.environment },
    timeout: run.timeoutMs ?? 3600_000,
    killSignal: 'SIGKILL',
    ...(run.signal === undefined ? {} : { signal: run.signal }),
  })
  closeSync(file)
  let complaint = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-8192)
  })
  const done = new Promise<string | undefined>((resolve) => {
    child.once('error', (error) => resolve(error.message))
    child.once('close', (code) => resolve(code === 0 ? undefined : complaint.trim() || 'it was ended'))
  })
  return { process: child, done }
}

/** Runs a client program to its end. @throws {CareFailure} as {@link toolFailure} says */
export async function runMysqlTool(node: MysqlNode, tool: MysqlTool, run: MysqlToolRun, what: string): Promise<void> {
  const complaint = await startTool(node, tool, run).done
  run.signal?.throwIfAborted()
  if (complaint !== undefined) throw toolFailure(what, complaint)
}

/** The clients' own words, and their numbers, for a server that is not there or has gone. Source: MariaDB, error codes 2002 to 2013. */
const serverGone = /can't connect|lost connection|gone away|\b20(02|03|06|13)\b/i

/** `unavailable` when the server ended under the program: it will be there again. Else `failed`. */
export function toolFailure(what: string, complaint: string): CareFailure {
  return new CareFailure(serverGone.test(complaint) ? 'unavailable' : 'failed', `${what}: ${toolReason(complaint)}.`)
}

/** The tool's own words for the failure, without times, program names and paths. */
export function toolReason(complaint: string): string {
  const lines = complaint.split('\n')
  const line = lines.findLast((entry) => /error|fatal/i.test(entry)) ?? lines.at(-1) ?? ''
  return line
    .replace(/^\[\d+\] \d{4}-\d{2}-\d{2} +[\d:]+ /, '')
    .replace(/^.*?\b(error|fatal):?\s*/i, '')
    .replaceAll(/'?(\/[\w.+-]+){2,}'?/g, 'a file')
    .replace(/\.$/, '')
    .slice(0, 300)
}

function clientFile(node: MysqlNode): string {
  const place = node.socketFolder === undefined ? ['protocol=TCP', 'host=127.0.0.1', `port=${node.port}`] : [`socket=${join(node.socketFolder, 's')}`] // biome-ignore format: two ways
  const { user, password } = node.superuser
  const lines = [`user=${quoted(user)}`, `password=${quoted(password)}`, ...place].join('\n')
  const charset = 'default-character-set=utf8mb4'
  // The backup reads its own group only; not every program knows the character set.
  return `[client]\n${lines}\n[mariadb-backup]\n${lines}\n[mariadb-client]\n${charset}\n[mariadb-dump]\n${charset}\n`
}

function quoted(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}
