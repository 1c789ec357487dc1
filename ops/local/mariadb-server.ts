import { type ChildProcess, execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chownSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { createConnection } from 'mysql2/promise'
import { endLeftover, endProcess, exited, freePort, spawnServer } from './child.ts'
import type { MariadbBinaries } from './mariadb-binaries.ts'
import { OperatorError } from './operator-error.ts'
import { type Account, canReach, makeOwnFolder, unprivilegedAccount } from './unprivileged.ts'

export interface MariadbOptions {
  /** Folder of this server: its data, its password and its log. Created when missing. */
  readonly dataDir: string
  readonly binaries: MariadbBinaries
  /** Default 0: a free one. */
  readonly port?: number
  /** Settings on top of the defaults, as in my.cnf. */
  readonly settings?: Readonly<Record<string, string | number>>
  /** Default: random at the first start, then the one kept in the data folder. */
  readonly password?: string
}

export interface MariadbServer {
  /** `mysql://root:<password>@127.0.0.1:<port>` */
  readonly url: string
  readonly port: number
  readonly process: ChildProcess
  /** Shuts down cleanly; resolves when the process is gone. */
  stop(): Promise<void>
  /** Resolves when the process is gone. */
  kill(signal: NodeJS.Signals): Promise<void>
}

/** The binlog has whole rows with the names of their columns, which change capture needs. */
const defaultSettings = {
  bind_address: '127.0.0.1',
  server_id: 1,
  log_bin: 'binlog',
  binlog_format: 'ROW',
  binlog_row_image: 'FULL',
  binlog_row_metadata: 'FULL',
  binlog_annotate_row_events: 'ON',
  gtid_strict_mode: 'ON',
  sync_binlog: 1,
  character_set_server: 'utf8mb4',
  collation_server: 'utf8mb4_unicode_ci',
  default_time_zone: '+00:00',
  max_connections: 200,
  skip_name_resolve: 'ON',
}

/**
 * Starts MariaDB on 127.0.0.1 with password authentication, making its data first when the folder is new. As root the server runs
 * as an unprivileged account.
 *
 * @throws {OperatorError} when the port is in use, the folder cannot be used, or the server does not start.
 */
export async function startMariadb(options: MariadbOptions): Promise<MariadbServer> {
  const home = resolve(options.dataDir)
  const account = unprivilegedAccount(home)
  if (!canReach(dirname(home), account)) {
    throw new OperatorError(
      `MariaDB (user id ${account?.uid}) may not enter ${home}: choose a data folder it can reach.`,
    )
  }
  makeOwnFolder(home, account)
  const password = keptPassword(home, account, options.password)
  const data = join(home, 'data')
  // Servers that share a folder for temporary tables take each other's away.
  const temporary = join(home, 'tmp')
  makeOwnFolder(temporary, account)
  const binaries = { ...options.binaries, environment: { ...options.binaries.environment, TMPDIR: temporary } }
  if (!existsSync(join(data, 'mysql'))) await makeData(data, binaries, home, account)
  const pidFile = join(data, 'server.pid')
  if (existsSync(pidFile)) await endLeftover(Number.parseInt(readFileSync(pidFile, 'utf8'), 10), data, 'SIGTERM')
  for (let attempt = 1; ; attempt++) {
    const port = options.port || (await freePort())
    const started = await tryStart({ home, data, binaries, account, port, password, options })
    if (!('failure' in started)) return started
    const taken = /Address already in use/.test(started.failure)
    const locked = /Unable to lock|aria_log_control/.test(started.failure)
    if (attempt < 40 && (locked || (taken && !options.port))) await delayAlive(locked ? 250 : 0)
    else if (taken)
      throw new OperatorError(`Port ${port} for MariaDB is in use: stop what uses it or choose another one.`)
    else throw new OperatorError(`MariaDB did not start: ${started.failure} (log: ${join(home, 'server.log')})`)
  }
}

interface StartPlan {
  readonly home: string
  readonly data: string
  readonly binaries: MariadbBinaries
  readonly account: Account | undefined
  readonly port: number
  readonly password: string
  readonly options: MariadbOptions
}

async function tryStart(plan: StartPlan): Promise<MariadbServer | { readonly failure: string }> {
  const { home, data, binaries, account, port, password, options } = plan
  const logFile = join(home, 'server.log')
  const logStart = existsSync(logFile) ? statSync(logFile).size : 0
  const settings = { ...defaultSettings, ...options.settings }
  const child = spawnServer({
    command: binaries.server,
    args: [
      '--no-defaults',
      `--basedir=${binaries.baseFolder}`,
      `--datadir=${data}`,
      `--plugin-dir=${binaries.pluginFolder}`,
      `--port=${port}`,
      // Relative to the data folder: a socket's path has a limit of some 100 characters.
      '--socket=server.sock',
      `--pid-file=${join(data, 'server.pid')}`,
      `--init-file=${join(home, 'init.sql')}`,
      ...Object.entries(settings).map(([name, value]) => `--${name.replaceAll('_', '-')}=${value}`),
    ],
    logFile,
    cwd: home,
    deathSignal: 'TERM',
    env: binaries.environment,
    ...account,
  })
  const url = `mysql://root:${encodeURIComponent(password)}@127.0.0.1:${port}`
  const failure = await waitUntilReady(child, url, data)
  if (failure !== undefined) {
    await endProcess(child, [['SIGKILL', 5000]])
    return { failure: firstFailure(readFileSync(logFile, 'utf8').slice(logStart)) ?? failure }
  }
  return {
    url,
    port,
    process: child,
    stop: () => endProcess(child, [['SIGTERM', 20_000], ['SIGKILL', 5000]]), // biome-ignore format: one step a pair
    async kill(signal) {
      child.kill(signal)
      await exited(child)
    },
  }
}

/** Answers why the server will never be ready, or undefined when it is. Recovery after a crash may take its time. */
async function waitUntilReady(child: ChildProcess, url: string, data: string): Promise<string | undefined> {
  let spawnFailure: Error | undefined
  child.once('error', (error) => {
    spawnFailure = error
  })
  for (;;) {
    try {
      const connection = await createConnection({ uri: url, connectTimeout: 5000 })
      try {
        // The port may belong to another server while ours is still failing to bind it.
        const [rows] = await connection.query('select @@datadir as folder')
        const [{ folder = '' } = {}] = rows as { folder?: string }[]
        return resolve(folder) === data ? undefined : 'Address already in use'
      } finally {
        connection.destroy()
      }
    } catch (error) {
      if (spawnFailure !== undefined) return spawnFailure.message
      if (child.exitCode !== null || child.signalCode !== null) return 'the server ended at once'
      if ((error as { code?: string }).code === 'ER_ACCESS_DENIED_ERROR') return 'the kept password does not open it'
    }
    await delayAlive(50)
  }
}

/** Keeps the process alive: nothing else may be running while we wait. */
function delayAlive(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** The log's own words for the failure, without time. */
function firstFailure(log: string): string | undefined {
  const lines = log.split('\n')
  const bind = lines.find((line) => line.includes('Address already in use'))
  const line = bind ?? lines.find((entry) => /\[ERROR\]|error while loading/.test(entry))
  return line?.replace(/^.*?\[ERROR\]\s*/, '').trim()
}

/** Kept beside the statements that give the account its password at each start, so that it never stands on a command line. */
function keptPassword(home: string, account: Account | undefined, given: string | undefined): string {
  const file = join(home, 'password')
  if (existsSync(file)) return readFileSync(file, 'utf8').trim()
  const password = given ?? randomBytes(24).toString('base64url')
  const identified = `identified by '${password.replaceAll("'", "''").replaceAll('\\', '\\\\')}'`
  const statements = [
    'set sql_log_bin = 0;',
    `alter user if exists root@127.0.0.1 ${identified};`,
    `alter user if exists root@localhost ${identified};`,
    'drop user if exists root@`::1`;',
  ]
  const texts = { 'init.sql': `${statements.join('\n')}\n`, password: `${password}\n` }
  for (const [name, text] of Object.entries(texts)) {
    writeFileSync(join(home, name), text, { mode: 0o600 })
    if (account !== undefined) chownSync(join(home, name), account.uid, account.gid)
  }
  return password
}

/** Made beside its final place and then renamed: a start that was cut off leaves no half of a database. */
async function makeData(
  data: string,
  binaries: MariadbBinaries,
  home: string,
  account: Account | undefined,
): Promise<void> {
  for (const name of readdirSync(home)) {
    if (name.startsWith('data')) rmSync(join(home, name), { recursive: true, force: true })
  }
  const unfinished = `${data}.new`
  const where = ['--no-defaults', `--basedir=${binaries.baseFolder}`, `--datadir=${unfinished}`]
  const how = ['--auth-root-authentication-method=normal', '--skip-test-db', '--skip-name-resolve']
  try {
    await promisify(execFile)(binaries.install, [...where, ...how], {
      cwd: home,
      env: { LC_ALL: 'C', TZ: 'UTC', ...binaries.environment },
      ...account,
    })
  } catch (error) {
    const { stderr = '', stdout = '', message } = error as { stderr?: string; stdout?: string; message: string }
    const reason = `${stderr}\n${stdout}`.split('\n').find((line) => /\[ERROR\]|FATAL|error/i.test(line)) ?? message
    throw new OperatorError(`MariaDB could not make its data folder ${home}: ${reason.trim()}`, { cause: error })
  }
  renameSync(unfinished, data)
}
