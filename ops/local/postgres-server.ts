import { type ChildProcess, execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chownSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { endLeftover, endProcess, exited, freePort, spawnServer } from './child.ts'
import { OperatorError } from './operator-error.ts'
import { findPostgres, postgresVersion, reachableBinaries } from './postgres-binaries.ts'
import { type Account, canReach, makeOwnFolder, unprivilegedAccount } from './unprivileged.ts'

export interface PostgresOptions {
  /** Folder of this server: the cluster, its password and its log. Created when missing. */
  readonly dataDir: string
  /** Default 0: a free one. */
  readonly port?: number
  /** Settings on top of the defaults, as in postgresql.conf. */
  readonly settings?: Readonly<Record<string, string | number>>
  /** Folder with `postgres` and `initdb`. Default: see findPostgres. */
  readonly binaries?: string
  /** Default: random at the first start, then the one kept in the data folder. */
  readonly password?: string
}

export interface PostgresServer {
  /** With user, password and the database `postgres`. */
  readonly url: string
  readonly port: number
  readonly process: ChildProcess
  /** Ends sessions and shuts down cleanly; resolves when the process is gone. */
  stop(): Promise<void>
  /** Resolves when the process is gone. */
  kill(signal: NodeJS.Signals): Promise<void>
}

/** Logical replication is on; a slot nobody reads may hold back 4 GB of WAL, not the whole disk. */
const defaultSettings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  password_encryption: 'scram-sha-256',
  max_connections: 200,
  wal_level: 'logical',
  max_wal_senders: 20,
  max_replication_slots: 20,
  max_slot_wal_keep_size: '4GB',
  // LOG and above: the faulty statements of clients are answered, not collected on the disk.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_checkpoints: 'off',
}

/**
 * Starts PostgreSQL on 127.0.0.1 with password authentication, making the cluster first when the folder is new. As root the
 * server runs as an unprivileged account, from a copy of its binaries when it cannot reach the originals.
 *
 * @throws {OperatorError} when the port is in use, the folder cannot be used, or the server does not start.
 */
export async function startPostgres(options: PostgresOptions): Promise<PostgresServer> {
  const home = resolve(options.dataDir)
  const account = unprivilegedAccount(home)
  if (!canReach(dirname(home), account)) {
    throw new OperatorError(
      `PostgreSQL (user id ${account?.uid}) may not enter ${home}: choose a data folder it can reach.`,
    )
  }
  const binaries = reachableBinaries(options.binaries ?? findPostgres(), account)
  makeOwnFolder(home, account)
  const password = keptPassword(home, account, options.password)
  const cluster = join(home, 'cluster')
  if (!existsSync(join(cluster, 'PG_VERSION'))) await makeCluster(cluster, binaries, home, account)
  requireSameMajor(cluster, binaries)
  const pidFile = join(cluster, 'postmaster.pid')
  if (existsSync(pidFile)) await endLeftover(Number.parseInt(readFileSync(pidFile, 'utf8'), 10), cluster, 'SIGINT')
  const settings = { ...defaultSettings, ...options.settings }
  // Another process can take a free port between the question and the answer, and a killed predecessor can need a moment.
  for (let attempt = 1; ; attempt++) {
    const port = options.port || (await freePort())
    const started = await tryStart({ home, cluster, binaries, account, port, password, settings })
    if (!('failure' in started)) return started
    const passing = /pre-existing shared memory|lock file .* already exists/.test(started.failure)
    const taken = /Address already in use/.test(started.failure)
    if (attempt < 40 && (passing || (taken && !options.port))) await delayAlive(passing ? 250 : 0)
    else if (taken)
      throw new OperatorError(`Port ${port} for PostgreSQL is in use: stop what uses it or choose another one.`)
    else throw new OperatorError(`PostgreSQL did not start: ${started.failure} (log: ${join(home, 'server.log')})`)
  }
}

interface StartPlan {
  readonly home: string
  readonly cluster: string
  readonly binaries: string
  readonly account: Account | undefined
  readonly port: number
  readonly password: string
  readonly settings: Readonly<Record<string, string | number>>
}

async function tryStart(plan: StartPlan): Promise<PostgresServer | { readonly failure: string }> {
  const { home, cluster, binaries, account, port, password, settings } = plan
  const logFile = join(home, 'server.log')
  const logStart = existsSync(logFile) ? statSync(logFile).size : 0
  const child = spawnServer({
    command: join(binaries, 'postgres'),
    args: [
      '-D',
      cluster,
      '-p',
      String(port),
      ...Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`]),
    ],
    logFile,
    cwd: home,
    deathSignal: 'INT',
    ...account,
  })
  const url = `postgresql://postgres:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`
  const failure = await waitUntilReady(child, url)
  if (failure !== undefined) {
    await endProcess(child, [['SIGQUIT', 5000], ['SIGKILL', 5000]]) // biome-ignore format: one step a pair
    return { failure: firstFailure(readFileSync(logFile, 'utf8').slice(logStart)) ?? failure }
  }
  return {
    url,
    port,
    process: child,
    stop: () => endProcess(child, [['SIGINT', 20_000], ['SIGQUIT', 5000], ['SIGKILL', 5000]]), // biome-ignore format: one step a pair
    async kill(signal) {
      child.kill(signal)
      await exited(child)
    },
  }
}

/** Answers why the server will never be ready, or undefined when it is. Recovery after a crash may take its time. */
async function waitUntilReady(child: ChildProcess, url: string): Promise<string | undefined> {
  let spawnFailure: Error | undefined
  child.once('error', (error) => {
    spawnFailure = error
  })
  for (;;) {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 5000 })
    client.on('error', () => undefined)
    try {
      await client.connect()
      // The port may belong to another server while ours is still failing to bind it.
      const { rows } = await client.query<{ dir: string }>("select current_setting('data_directory') as dir")
      if (child.spawnargs.includes(rows[0]?.dir ?? '')) return undefined
      return 'Address already in use'
    } catch (error) {
      if (spawnFailure !== undefined) return spawnFailure.message
      if (child.exitCode !== null || child.signalCode !== null) return 'the server ended at once'
      const code = (error as { code?: string }).code
      if (code === '28P01') return 'the kept password does not open it'
    } finally {
      await client.end().catch(() => undefined)
    }
    await delayAlive(30)
  }
}

/** Keeps the process alive: nothing else may be running while we wait. */
function delayAlive(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** The log's own words for the failure, without time and process number. */
function firstFailure(log: string): string | undefined {
  const lines = log.split('\n')
  const bind = lines.find((line) => line.includes('Address already in use'))
  const line = bind ?? lines.find((entry) => /FATAL|PANIC|ERROR|error while loading/.test(entry))
  return line?.replace(/^.*?(FATAL|PANIC|ERROR|LOG):\s*/, '').trim()
}

function keptPassword(home: string, account: Account | undefined, given: string | undefined): string {
  const file = join(home, 'password')
  if (existsSync(file)) return readFileSync(file, 'utf8').trim()
  const password = given ?? randomBytes(24).toString('base64url')
  writeFileSync(file, `${password}\n`, { mode: 0o600 })
  if (account !== undefined) chownSync(file, account.uid, account.gid)
  return password
}

/** Made beside its final place and then renamed: a start that was cut off leaves no half of a cluster. */
async function makeCluster(
  cluster: string,
  binaries: string,
  home: string,
  account: Account | undefined,
): Promise<void> {
  for (const name of readdirSync(home)) {
    if (name.startsWith('cluster')) rmSync(join(home, name), { recursive: true, force: true })
  }
  const unfinished = `${cluster}.new`
  const ownRules = Number.parseInt(postgresVersion(binaries), 10) >= 17
  const locale = ownRules ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8'] : []
  const where = [`--pgdata=${unfinished}`, '--username=postgres', `--pwfile=${join(home, 'password')}`]
  const how = ['--auth=scram-sha-256', '--encoding=UTF8', '--locale=C', ...locale, '--no-instructions', '--no-sync']
  try {
    await promisify(execFile)(join(binaries, 'initdb'), [...where, ...how], {
      cwd: home,
      env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' },
      ...account,
    })
  } catch (error) {
    const { stderr = '', message } = error as { stderr?: string; message: string }
    const reason = stderr.split('\n').find((line) => /error|FATAL|could not/i.test(line)) ?? message
    throw new OperatorError(`PostgreSQL could not make its data folder ${home}: ${reason.trim()}`, { cause: error })
  }
  renameSync(unfinished, cluster)
}

function requireSameMajor(cluster: string, binaries: string): void {
  const data = readFileSync(join(cluster, 'PG_VERSION'), 'utf8').trim()
  const program = postgresVersion(binaries).split('.')[0]
  if (data === program) return
  throw new OperatorError(
    `The data in ${cluster} is of PostgreSQL ${data}, the server here is ${program}: start with PostgreSQL ${data}, or dump and restore.`,
  )
}
