import { execFileSync, spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { tied } from '../supervisor/tied.ts'
import { CareFailure } from './care-failure.ts'
import type { NodeAccount, PostgresNode } from './postgres-node.ts'

/** Where Debian and its relatives put each major's programs. */
const debianFolder = '/usr/lib/postgresql'

/** The client programs the driver makes use of where they are installed. */
type PostgresTool = 'pg_dump' | 'pg_restore' | 'pg_verifybackup' | 'pg_rewind' | 'psql'

/** `same`: only of the server's own major. `atLeast`: of a newer one too. `any`: of every one, the newest first. */
type ToolFit = 'same' | 'atLeast' | 'any'

interface FoundTool {
  readonly path: string
  readonly major: number
}

/**
 * Looks for a client program: beside the server's own, else among Debian's.
 */
export function findTool(node: PostgresNode, tool: PostgresTool, fit: ToolFit): string | undefined {
  const major = majorOf(join(node.binFolder, 'postgres'))
  const own = join(node.binFolder, tool)
  if (existsSync(own)) return own
  const installed = existsSync(debianFolder) ? readdirSync(debianFolder).map(Number).filter(Number.isInteger) : []
  const found: FoundTool[] = installed
    .map((version) => ({ path: join(debianFolder, String(version), 'bin', tool), major: version }))
    .filter(({ path }) => existsSync(path))
    .sort((a, b) => a.major - b.major)
  if (fit === 'any') return found.at(-1)?.path
  return found.find((entry) => (fit === 'same' ? entry.major === major : entry.major >= major))?.path
}

/** As {@link findTool}; @throws {CareFailure} `refused` (424) with what to install. */
export function requireTool(node: PostgresNode, tool: PostgresTool, fit: ToolFit): string {
  const found = findTool(node, tool, fit)
  if (found !== undefined) return found
  const major = majorOf(join(node.binFolder, 'postgres'))
  throw new CareFailure('refused', `This needs ${tool} of PostgreSQL ${major}: install postgresql-client-${major} on the machine.`, { status: 424 }) // biome-ignore format: one sentence
}

/** The major version of a PostgreSQL program. */
function majorOf(program: string): number {
  const text = execFileSync(program, ['--version'], { encoding: 'utf8', env: { LC_ALL: 'C' } })
  return Number(/\b(\d+)/.exec(text)?.[1] ?? 0)
}

interface ToolRun {
  readonly args: readonly string[]
  /** Default: the superuser's, for tools that connect. Passed in the environment, never as an argument. */
  readonly password?: string
  readonly signal?: AbortSignal | undefined
  /** File descriptor for standard output. Default: dropped. */
  readonly stdout?: number
  /** Default 1 h. */
  readonly timeoutMs?: number
  readonly cwd?: string
  /** Default: the account of this process. */
  readonly runAs?: NodeAccount | undefined
}

interface ToolOutcome {
  readonly ok: boolean
  /** The end of what it said on standard error, without paths of programs. */
  readonly complaint: string
}

/** Runs a client program to its end; killed when the signal or the time says so. */
export async function runTool(path: string, run: ToolRun): Promise<ToolOutcome> {
  const child = spawn(...tied(path, run.args), {
    stdio: ['ignore', run.stdout ?? 'ignore', 'pipe'],
    env: {
      LC_ALL: 'C',
      TZ: 'UTC',
      PATH: '/usr/bin:/bin',
      ...(run.password === undefined ? {} : { PGPASSWORD: run.password }),
    },
    timeout: run.timeoutMs ?? 3600_000,
    killSignal: 'SIGKILL',
    ...(run.cwd === undefined ? {} : { cwd: run.cwd }),
    ...run.runAs,
    ...(run.signal === undefined ? {} : { signal: run.signal }),
  })
  let complaint = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-8192)
  })
  const code = await new Promise<number | null>((resolve) => {
    child.once('error', () => resolve(null))
    child.once('close', resolve)
  })
  run.signal?.throwIfAborted()
  return { ok: code === 0, complaint: complaint.trim() }
}
