import { type ChildProcess, execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { cpus, loadavg, tmpdir, totalmem } from 'node:os'
import { join, resolve } from 'node:path'
import { environment } from '../../schemas/config/environment.ts'
import { endProcess } from '../local/child.ts'
import { bringMariadb } from '../local/mariadb-binaries.ts'
import { type MariadbServer, startMariadb } from '../local/mariadb-server.ts'
import { findNats } from '../local/nats-binary.ts'
import { type NatsServer, startNats } from '../local/nats-server.ts'
import { type PostgresServer, startPostgres } from '../local/postgres-server.ts'
import type { RoleMessage } from '../run.ts'
import { checkout, searchPath } from '../settings.ts'
import { jwtSecret, webRole } from './dataset.ts'

/** One benchmark's servers and processes, in a folder of their own; all end with it. */
export class Bench implements AsyncDisposable {
  readonly #folder = newFolder()
  readonly #ends: (() => Promise<unknown>)[] = []

  async postgres(settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
    const server = await startPostgres({ dataDir: join(this.#folder, `postgres-${this.#ends.length}`), settings })
    this.#ends.push(() => server.stop())
    return server
  }

  async mariadb(): Promise<MariadbServer> {
    const folder = resolve(checkout, environment().BUSBAR_DATA ?? '.busbar')
    const binaries = await bringMariadb({ searchPath: searchPath(), folder })
    const server = await startMariadb({ dataDir: join(this.#folder, `mariadb-${this.#ends.length}`), binaries })
    this.#ends.push(() => server.stop())
    return server
  }

  async nats(syncInterval = 'always'): Promise<NatsServer> {
    const data = resolve(checkout, environment().BUSBAR_DATA ?? '.busbar')
    const binary = findNats({ searchPath: searchPath(), binFolder: join(data, 'bin') })
    const server = await startNats({ dataDir: join(this.#folder, `nats-${this.#ends.length}`), binary, syncInterval })
    this.#ends.push(() => server.stop())
    return server
  }

  /** Runs a module of this folder and waits for its `ready`. */
  module(file: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Started> {
    return this.#start(join(import.meta.dirname, file), args, file, env)
  }

  /** Runs a role as `busbar run` does, with these configuration values. */
  role(name: string, config: Readonly<Record<string, string | number | boolean>>): Promise<Started> {
    const values = Object.entries(config).map(([key, value]) => `--${key}=${value}`)
    return this.#start(join(import.meta.dirname, '../cli.ts'), ['run', name, ...values], name)
  }

  /** A process of this folder that takes one task after the other and answers each. */
  talk<Task extends object, Answer>(file: string): (task: Task) => Promise<Answer> {
    const child = fork(join(import.meta.dirname, file), [], { execArgv: [] })
    this.#ends.push(() => endProcess(child, [['SIGTERM', 2_000], ['SIGKILL', 2_000]])) // biome-ignore format: one step a pair
    const ready = firstMessage(child)
    const ended = exit(child).then((): [null] => [null])
    return async (task) => {
      await ready
      const answer = once(child, 'message') as Promise<[Answer]>
      child.send(task)
      const [message] = await Promise.race([answer, ended])
      if (message === null) throw new Error(`${file} ended`)
      return message
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#ends.reverse()) await end()
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  }

  async #start(path: string, args: readonly string[], name: string, env = {}): Promise<Started> {
    const logPath = join(this.#folder, `${name.replace(/\W/g, '-')}.log`)
    const log = openSync(logPath, 'a')
    const child = fork(path, [...args], {
      stdio: ['ignore', log, log, 'ipc'],
      execArgv: [],
      env: { ...environment(), ...env },
    })
    this.#ends.push(() => endProcess(child, [['SIGTERM', 10_000], ['SIGKILL', 2_000]])) // biome-ignore format: one step a pair
    const message = await Promise.race([firstMessage(child), exit(child)])
    if (message?.kind === 'ready') return { pid: child.pid!, url: message.url ?? '' }
    throw new Error(`${name} did not start: ${message?.message ?? readFileSync(logPath, 'utf8').slice(-2000)}`)
  }
}

/** PostgreSQL may run as another user, who must be able to pass. */
function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-bench-'))
  chmodSync(folder, 0o711)
  return folder
}

export interface Started {
  readonly pid: number
  /** Where it listens; empty for a worker. */
  readonly url: string
}

type RoleConfig = Record<string, string | number | boolean>

/** Values for a gateway alone, which connects as the owner of the tables. */
export function databaseConfig(postgres: PostgresServer): RoleConfig {
  const { hostname, port, pathname, username, password } = new URL(postgres.url)
  return {
    'spring.datasource.url': `jdbc:postgresql://${hostname}:${port}${pathname}`,
    'spring.datasource.username': username,
    'spring.datasource.password': password,
    'log.level': 'warn',
  }
}

/** Values for a gateway or a worker on the benchmark's servers, with tokens and row security on. */
export function roleConfig(postgres: PostgresServer, nats: NatsServer): RoleConfig {
  return {
    ...databaseConfig(postgres),
    'app.nats.enabled': true,
    'app.nats.url': nats.url,
    'app.jwt.secret': jwtSecret,
    'app.jwt.anonymous-role': webRole,
  }
}

/** Processor time used so far in ms by a process and its descendants; null where there is no /proc. */
export function cpuMs(pid: number, withDescendants: boolean): number | null {
  try {
    const ticks = readTicks(pid)
    const children = withDescendants ? childrenOf(pid) : []
    return (ticks + children.reduce((sum, child) => sum + readTicks(child), 0)) * (1000 / ticksPerSecond())
  } catch {
    return null
  }
}

export function rssMb(pid: number): number | null {
  try {
    const kilobytes = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return kilobytes === undefined ? null : Math.round(Number(kilobytes) / 1024)
  } catch {
    return null
  }
}

/** What a result can only be read with. */
export function machine() {
  const [first] = cpus()
  return {
    processor: first?.model ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 1024 ** 3),
    platform: `${process.platform}-${process.arch}`,
    loadBefore: loadavg()[0],
    node: process.version,
    commit: commit(),
  }
}

function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: import.meta.dirname, encoding: 'utf8' }).trim()
  } catch {
    return 'unknown'
  }
}

/** utime, stime, and those of children that have ended. */
function readTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return [11, 12, 13, 14].reduce((sum, index) => sum + Number(fields[index]), 0)
}

function childrenOf(pid: number): number[] {
  const children: number[] = []
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const list = readFileSync(`/proc/${pid}/task/${task}/children`, 'latin1').trim()
    for (const child of list === '' ? [] : list.split(' ').map(Number)) children.push(child, ...childrenOf(child))
  }
  return children
}

let knownTicksPerSecond = 0
function ticksPerSecond(): number {
  if (knownTicksPerSecond === 0)
    knownTicksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))
  return knownTicksPerSecond
}

function firstMessage(child: ChildProcess): Promise<RoleMessage> {
  return new Promise((resolve) => child.once('message', (message) => resolve(message as RoleMessage)))
}

function exit(child: ChildProcess): Promise<null> {
  return new Promise((resolve) => child.once('exit', () => resolve(null)))
}
