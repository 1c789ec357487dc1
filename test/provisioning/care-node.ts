import { type ChildProcess, execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import type { Test } from 'tap'
import { endProcess, exited, spawnServer } from '../../ops/local/child.ts'
import { findPostgres, reachableBinaries } from '../../ops/local/postgres-binaries.ts'
import { unprivilegedAccount } from '../../ops/local/unprivileged.ts'
import { archiveSettings, makeArchive } from '../../workers/provisioning/local/backup/archive.ts'
import {
  type NodeControl,
  type PostgresNode,
  ServerStartFailed,
  type StartOptions,
} from '../../workers/provisioning/local/postgres-node.ts'

/** A place for nodes: a folder the server's account can enter, and a controller that keeps its servers in this process. */
export interface CareGround {
  readonly control: NodeControl
  readonly folder: string
  /** Describes a node in a folder of its own; no file is made but the folder. */
  describe(name: string): Promise<PostgresNode>
  /** Makes the cluster of a node, with its archive and its database `app`, and starts it. */
  create(name: string): Promise<PostgresNode>
  kill(node: PostgresNode, signal: NodeJS.Signals): Promise<void>
}

/** A free port below those the system gives to outgoing connections: a node keeps its port while it is stopped. */
export async function quietPort(): Promise<number> {
  for (;;) {
    const port = 21_000 + Math.floor(Math.random() * 11_000)
    const server = createServer()
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    })
    if (!free) continue
    await new Promise<void>((resolve) => server.close(() => resolve()))
    return port
  }
}

const usual: Readonly<Record<string, string>> = {
  fsync: 'off',
  full_page_writes: 'off',
  shared_buffers: '16MB',
  max_connections: '30',
  log_destination: 'stderr',
  logging_collector: 'off',
  password_encryption: 'scram-sha-256',
}

export function careGround(t: Pick<Test, 'teardown'>, binaries = findPostgres()): CareGround {
  const folder = mkdtempSync(join(tmpdir(), 'care-'))
  const account = unprivilegedAccount(folder)
  chmodSync(folder, 0o755)
  const binFolder = reachableBinaries(binaries, account)
  const running = new Map<string, ChildProcess>()
  const control = controller(running)
  t.teardown(async () => {
    for (const child of running.values()) await endProcess(child, [['SIGQUIT', 5000], ['SIGKILL', 5000]]) // biome-ignore format: one step a pair
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  })
  const describe = async (name: string): Promise<PostgresNode> => {
    const home = join(folder, name)
    mkdirSync(home, { mode: 0o700 })
    if (account !== undefined) chownSync(home, account.uid, account.gid)
    return {
      binFolder,
      dataFolder: join(home, 'data'),
      port: await quietPort(),
      superuser: { user: 'platform', password: `pass-${name}` },
      database: 'app',
      ...(account === undefined ? {} : { runAs: account }),
      archiveFolder: join(home, 'archive'),
      logFile: join(home, 'server.log'),
    }
  }
  return {
    control,
    folder,
    describe,
    async create(name) {
      const node = await describe(name)
      makeCluster(node, join(folder, name))
      makeArchive(node)
      await control.start(node)
      const client = new Client({ host: '127.0.0.1', port: node.port, database: 'postgres', ...node.superuser })
      await client.connect()
      await client.query('create database app')
      await client.end()
      return node
    },
    async kill(node, signal) {
      const child = running.get(node.dataFolder)
      if (child === undefined) return
      child.kill(signal)
      await exited(child)
    },
  }
}

function makeCluster(node: PostgresNode, home: string): void {
  const passwordFile = join(home, 'password')
  writeFileSync(passwordFile, node.superuser.password, { mode: 0o600 })
  if (node.runAs !== undefined) chownSync(passwordFile, node.runAs.uid, node.runAs.gid)
  const where = [`--pgdata=${node.dataFolder}`, `--username=${node.superuser.user}`, `--pwfile=${passwordFile}`]
  const how = ['--auth=scram-sha-256', '--encoding=UTF8', '--locale=C', '-k', '--wal-segsize=1', '--no-sync']
  execFileSync(join(node.binFolder, 'initdb'), [...where, ...how], {
    cwd: home,
    env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' },
    stdio: 'pipe',
    ...node.runAs,
  })
}

function controller(running: Map<string, ChildProcess>): NodeControl {
  const control: NodeControl = {
    async start(node, options = {}) {
      const known = running.get(node.dataFolder)
      if (known !== undefined && known.exitCode === null && known.signalCode === null) return
      const logStart = existsSync(node.logFile) ? statSync(node.logFile).size : 0
      const child = spawnServer({
        command: join(node.binFolder, 'postgres'),
        args: ['-D', node.dataFolder, '-p', String(node.port), ...settingsOf(node, options)],
        logFile: node.logFile,
        cwd: join(node.dataFolder, '..'),
        deathSignal: 'INT',
        ...node.runAs,
      })
      running.set(node.dataFolder, child)
      await ready(node, child, options.timeoutMs ?? 60_000, () => readFileSync(node.logFile, 'utf8').slice(logStart))
    },
    async stop(node, { mode = 'fast', timeoutMs = 30_000 } = {}) {
      const child = running.get(node.dataFolder)
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
      const steps = [['SIGINT', timeoutMs], ['SIGQUIT', 5000], ['SIGKILL', 5000]] as const // biome-ignore format: one step a pair
      await endProcess(child, mode === 'fast' ? steps : steps.slice(1))
    },
    async restart(node, options) {
      await control.stop(node)
      await control.start(node, options)
    },
    async pid(node) {
      const child = running.get(node.dataFolder)
      return child !== undefined && child.exitCode === null && child.signalCode === null ? child.pid : undefined
    },
  }
  return control
}

function settingsOf(node: PostgresNode, options: StartOptions): string[] {
  const settings = {
    ...usual,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: node.socketFolder ?? '',
    ...archiveSettings(node),
    ...options.settings,
  }
  return Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`])
}

async function ready(node: PostgresNode, child: ChildProcess, timeoutMs: number, log: () => string): Promise<void> {
  const end = performance.now() + timeoutMs
  for (;;) {
    const client = new Client({
      host: node.socketFolder ?? '127.0.0.1',
      port: node.port,
      database: 'postgres',
      ...node.superuser,
      connectionTimeoutMillis: 5000,
    })
    client.on('error', () => undefined)
    const state = await client.connect().then(() => 'up', (error: { code?: string }) => error.code) // biome-ignore format: both outcomes
    await client.end().catch(() => undefined)
    if (state === 'up' || state === '28P01' || state === '3D000') return
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new ServerStartFailed('The server ended at once', log())
    }
    if (performance.now() > end) throw new ServerStartFailed('The server did not become ready', log())
    await new Promise((again) => setTimeout(again, 30))
  }
}
