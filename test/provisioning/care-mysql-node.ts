import type { ChildProcess } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createConnection } from 'mysql2/promise'
import type { Test } from 'tap'
import { endProcess, exited, spawnServer } from '../../ops/local/child.ts'
import { lookForMariadb } from '../../ops/local/mariadb-binaries.ts'
import { unprivilegedAccount } from '../../ops/local/unprivileged.ts'
import { environment } from '../../schemas/config/environment.ts'
import { createMysql, makeMysqlFolders } from '../../workers/provisioning/local/mysql/create.ts'
import {
  type MysqlBinaries,
  type MysqlControl,
  type MysqlNode,
  mysqlArguments,
} from '../../workers/provisioning/local/mysql/mysql-node.ts'
import { ServerStartFailed } from '../../workers/provisioning/local/postgres-node.ts'
import { quietPort } from './care-node.ts'

/** The MariaDB of the machine, or the one fetched into the data folder; undefined when there is neither. */
export function mariadbHere(): MysqlBinaries | undefined {
  const { PATH = '', BUSBAR_DATA } = environment()
  return lookForMariadb({ searchPath: PATH, folder: BUSBAR_DATA ?? resolve(import.meta.dirname, '../../.busbar') })
}

/** As CareGround of care-node.ts, for MariaDB. */
export interface MysqlGround {
  readonly control: MysqlControl
  readonly folder: string
  describe(name: string): Promise<MysqlNode>
  /** Owner of the database: app, first-secret. */
  create(name: string): Promise<MysqlNode>
  kill(node: MysqlNode, signal: NodeJS.Signals): Promise<void>
}

export function mysqlGround(t: Pick<Test, 'teardown'>, binaries: MysqlBinaries): MysqlGround {
  const folder = mkdtempSync(join(tmpdir(), 'care-'))
  const account = unprivilegedAccount(folder)
  chmodSync(folder, 0o755)
  const running = new Map<string, ChildProcess>()
  const control = controller(running)
  let servers = 0
  t.teardown(async () => {
    for (const child of running.values()) await endProcess(child, [['SIGKILL', 5000]])
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  })
  const describe = async (name: string): Promise<MysqlNode> => {
    const home = join(folder, name)
    mkdirSync(home, { mode: 0o700 })
    if (account !== undefined) chownSync(home, account.uid, account.gid)
    const node: MysqlNode = {
      binaries,
      dataFolder: join(home, 'data'),
      port: await quietPort(),
      superuser: { user: 'platform', password: `pass-${name}` },
      database: 'app',
      ...(account === undefined ? {} : { runAs: account }),
      binlogFolder: join(home, 'binlog'),
      parametersFile: join(home, 'parameters.cnf'),
      logFile: join(home, 'server.log'),
      serverId: ++servers,
    }
    makeMysqlFolders(node)
    return node
  }
  return {
    control,
    folder,
    describe,
    async create(name) {
      const node = await describe(name)
      await createMysql(control, node, { user: 'app', password: 'first-secret' })
      await control.start(node)
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

function controller(running: Map<string, ChildProcess>): MysqlControl {
  const alive = (node: MysqlNode) => {
    const child = running.get(node.dataFolder)
    return child !== undefined && child.exitCode === null && child.signalCode === null ? child : undefined
  }
  const control: MysqlControl = {
    async start(node, options = {}) {
      if (alive(node) !== undefined) return
      const logStart = existsSync(node.logFile) ? statSync(node.logFile).size : 0
      const small = { innodb_buffer_pool_size: '16M', innodb_flush_log_at_trx_commit: '2', sync_binlog: '0' }
      const child = spawnServer({
        command: node.binaries.server,
        args: mysqlArguments(node, { ...options, settings: { ...small, ...options.settings } }),
        logFile: node.logFile,
        cwd: join(node.dataFolder, '..'),
        deathSignal: 'TERM',
        env: node.binaries.environment,
        ...node.runAs,
      })
      running.set(node.dataFolder, child)
      await ready(node, child, options.timeoutMs ?? 60_000, () => readFileSync(node.logFile, 'utf8').slice(logStart))
    },
    async stop(node, { mode = 'fast', timeoutMs = 30_000 } = {}) {
      const child = alive(node)
      if (child === undefined) return
      await endProcess(child, mode === 'fast' ? [['SIGTERM', timeoutMs], ['SIGKILL', 5000]] : [['SIGKILL', 5000]]) // biome-ignore format: two ways
    },
    async restart(node, options) {
      await control.stop(node)
      await control.start(node, options)
    },
    pid: async (node) => alive(node)?.pid,
  }
  return control
}

async function ready(node: MysqlNode, child: ChildProcess, timeoutMs: number, log: () => string): Promise<void> {
  const place =
    node.socketFolder === undefined
      ? { host: '127.0.0.1', port: node.port }
      : { socketPath: join(node.socketFolder, 's') }
  for (const end = performance.now() + timeoutMs; ; ) {
    const state = await createConnection({
      ...place,
      user: node.superuser.user,
      password: node.superuser.password,
    }).then(
      (connection) => {
        connection.destroy()
        return 'up'
      },
      (error: { code?: string }) => error.code,
    )
    if (state === 'up' || state === 'ER_ACCESS_DENIED_ERROR') return
    if (child.exitCode !== null || child.signalCode !== null)
      throw new ServerStartFailed('The server ended at once', log())
    if (performance.now() > end) throw new ServerStartFailed('The server did not become ready', log())
    await new Promise((again) => setTimeout(again, 30))
  }
}
