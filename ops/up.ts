import { mkdirSync, statfsSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { LoadedConfig } from '../schemas/config/load.ts'
import type { Config } from '../schemas/config.ts'
import { connectOnce, datasource } from './datasource.ts'
import { onInterrupt } from './interrupt.ts'
import { bringMariadb } from './local/mariadb-binaries.ts'
import { startMariadb } from './local/mariadb-server.ts'
import { bringNats } from './local/nats-fetch.ts'
import { startNats } from './local/nats-server.ts'
import { OperatorError } from './local/operator-error.ts'
import { postgresHome } from './local/postgres-home.ts'
import { startPostgres } from './local/postgres-server.ts'
import { serverService } from './local/service.ts'
import { lockDataFolder } from './lock.ts'
import { openLogFile } from './log-file.ts'
import { withOwnMysqlKeys } from './mysql-datasource.ts'
import { ensureMysqlSample } from './mysql-sample.ts'
import { stopProvisionedServers } from './provisioning-roles.ts'
import { replicationFindings } from './replication.ts'
import { gatewayPort } from './role-options.ts'
import { roleProcess } from './role-process.ts'
import { type Role, requireOwnPorts, roles } from './roles.ts'
import { ensureDatabase, ensureSample, platformName } from './sample-database.ts'
import { keptSecretKeys } from './secret-keys.ts'
import { natsHome, searchPath } from './settings.ts'
import { type Kept, keepRunning, type Service } from './supervise.ts'
import { pageDefaults } from './up-pages.ts'
import { upTable } from './up-table.ts'

export interface UpOptions {
  /** NATS and PostgreSQL only; the roles are for you to run. */
  readonly serversOnly: boolean
  /** A MariaDB besides, unless a MySQL is configured. */
  readonly withMysql: boolean
}

const leastFreeBytes = 256 * 1024 * 1024

/**
 * Runs everything on this machine until it is told to stop: nats-server and PostgreSQL unless configured elsewhere, the
 * databases, then every role in a process of its own.
 *
 * @throws {OperatorError} one line, after whatever was started has been stopped again.
 */
export async function up(loaded: LoadedConfig, folder: string, options: UpOptions): Promise<void> {
  const { sources } = loaded
  const values = withOwnMysqlKeys(loaded.values)
  const startedAt = performance.now()
  prepareFolder(folder)
  const unlock = lockDataFolder(folder)
  const started: Kept[] = []
  const told = onInterrupt(() => void Promise.all(started.map((each) => each.kill())).finally(() => process.exit(130)))
  const interrupted = told.then(() => {
    throw new Interrupted()
  })
  interrupted.catch(() => undefined)
  const house: House = {
    folder,
    tell: (line) => console.log(`  ${line}`),
    keep: async (service) => {
      const kept = await keepRunning(service, (line) => console.log(line))
      started.push(kept)
      return kept
    },
  }
  try {
    console.log('Busbar is starting (Ctrl-C stops it)')
    const bringUp = startAll({ values, sources }, house, options)
    bringUp.catch(() => undefined)
    await Promise.race([bringUp, interrupted])
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    console.log(upTable({ ...(await bringUp), folder, seconds }))
    await told
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error
  } finally {
    await stopAll(started)
    await stopProvisionedServers(values)
    unlock()
  }
}

class Interrupted extends Error {}

interface House {
  readonly folder: string
  readonly tell: (line: string) => void
  readonly keep: (service: Service) => Promise<Kept>
}

async function stopAll(started: Kept[]): Promise<void> {
  if (started.length > 0) console.log('\nStopping (Ctrl-C again ends everything at once)')
  for (const kept of started.reverse()) {
    await kept.stop()
    console.log(`  ${kept.name} stopped`)
  }
}

async function startAll(loaded: LoadedConfig, house: House, { serversOnly, withMysql }: UpOptions) {
  const own = { ...ownServers(loaded), mysql: withMysql && loaded.values['mysql.datasource.url'] === undefined }
  const bus = busWanted(loaded)
  const chosen = serversOnly
    ? []
    : roles.filter((role) => (bus || !role.needsBus) && (own.mysql || role.isWanted?.(loaded.values) !== false))
  requireOwnPorts(loaded.values, chosen)
  await requireFreePorts(loaded.values, {
    nats: bus && own.nats,
    postgres: own.postgres,
    mysql: own.mysql,
    roles: chosen,
  })
  const nats = bus && own.nats ? await keepNats(loaded.values, house) : undefined
  const postgres = own.postgres ? await keepPostgres(loaded.values, house) : undefined
  const mysqlUrl = own.mysql ? await keepMysql(loaded.values, house) : undefined
  const config = await effective(
    { ...loaded.values, ...pageDefaults(loaded), ...keptKeys(loaded, house.folder) },
    {
      bus,
      natsUrl: nats?.url,
      postgresUrl: postgres?.url,
      mysqlUrl,
      tell: house.tell,
    },
  )
  const notes = await checkDatasources(config, bus)
  const running: { readonly role: Role; readonly url: string | undefined }[] = []
  for (const role of chosen) {
    const logFile = openLogFile(join(house.folder, 'logs', `${role.name.replace(':', '-')}.log`))
    const kept = await house.keep(roleProcess({ name: role.name, config, logFile, tell: (line) => console.log(line) }))
    running.push({ role, url: kept.url })
    house.tell(`${role.name} runs`)
  }
  return {
    config,
    running,
    notes,
    bus,
    sample: loaded.values['spring.datasource.url'] === undefined,
    postgres: postgres?.url,
  }
}

function ownServers({ values, sources }: LoadedConfig) {
  return {
    nats: sources['app.nats.url'] === 'default',
    postgres: values['spring.datasource.url'] === undefined || values['platform.datasource.url'] === undefined,
  }
}

/** The specification's default is off, for a gateway alone; the whole platform stands on the bus. */
function busWanted({ values, sources }: LoadedConfig): boolean {
  return sources['app.nats.enabled'] === 'default' || values['app.nats.enabled']
}

function prepareFolder(folder: string): void {
  try {
    mkdirSync(join(folder, 'logs'), { recursive: true })
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code
    throw new OperatorError(
      `The data folder ${folder} cannot be made (${reason}): choose another with --busbar.data=<folder>.`,
    )
  }
  const { bavail, bsize } = statfsSync(folder)
  if (bavail * bsize < leastFreeBytes) {
    const megabytes = Math.floor((bavail * bsize) / 1024 ** 2)
    throw new OperatorError(
      `The disk of the data folder ${folder} is full (${megabytes} MB free, 256 MB needed): make room or choose another folder with --busbar.data=<folder>.`,
    )
  }
}

interface WantedPorts {
  readonly nats: boolean
  readonly postgres: boolean
  readonly mysql: boolean
  readonly roles: readonly Role[]
}

/** Asked before anything starts, so that a start that cannot succeed changes nothing. */
async function requireFreePorts(config: Config, wanted: WantedPorts): Promise<void> {
  if (wanted.nats) {
    await requireFree(
      '127.0.0.1',
      config['nats.port'],
      'NATS',
      '--nats.port=<port>, or use that server with --app.nats.url=<url>',
    )
  }
  if (wanted.postgres) await requireFree('127.0.0.1', config['postgres.port'], 'PostgreSQL', '--postgres.port=<port>')
  if (wanted.mysql) await requireFree('127.0.0.1', config['mysql.port'], 'MariaDB', '--mysql.port=<port>')
  for (const { portKey, title } of wanted.roles) {
    if (portKey === undefined) continue
    await requireFree(config['server.host'], gatewayPort(config, portKey), `the ${title}`, `--${portKey}=<port>`)
  }
}

async function requireFree(host: string, port: number, what: string, mend: string): Promise<void> {
  const server = createServer()
  try {
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, resolve))
    await new Promise<void>((resolve) => server.close(() => resolve()))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') {
      throw new OperatorError(`Port ${port} for ${what} is in use: stop what uses it, or choose another with ${mend}.`)
    }
    throw new OperatorError(`Cannot listen on ${host}:${port} for ${what} (${code}): choose another with ${mend}.`)
  }
}

async function keepNats(config: Config, { folder, tell, keep }: House): Promise<Kept> {
  const binary = await bringNats({ searchPath: searchPath(), binFolder: join(folder, 'bin') }, tell)
  const options = {
    dataDir: natsHome(folder),
    port: config['nats.port'],
    binary,
    syncInterval: config['nats.sync-interval'],
  }
  const kept = await keep(serverService('nats-server', () => startNats(options)))
  tell('nats-server runs')
  return kept
}

async function keepPostgres(config: Config, { folder, tell, keep }: House): Promise<Kept> {
  const dataDir = postgresHome(folder)
  const kept = await keep(serverService('PostgreSQL', () => startPostgres({ dataDir, port: config['postgres.port'] })))
  tell('PostgreSQL runs')
  return kept
}

/** Answers the server's URL. */
async function keepMysql(config: Config, { folder, tell, keep }: House): Promise<string> {
  const binaries = await bringMariadb({ searchPath: searchPath(), folder }, tell)
  const dataDir = join(folder, 'mariadb')
  const options = { dataDir, binaries, port: config['mysql.port'] }
  const kept = await keep(serverService('MariaDB', () => startMariadb(options)))
  tell('MariaDB runs')
  if (kept.url === undefined) throw new Error('MariaDB has no URL')
  return kept.url
}

interface Brought {
  readonly bus: boolean
  readonly natsUrl: string | undefined
  readonly postgresUrl: string | undefined
  readonly mysqlUrl: string | undefined
  readonly tell: (line: string) => void
}

/** Secrets have keys from the first start on. */
function keptKeys({ values }: LoadedConfig, folder: string): Partial<Config> {
  if (values['app.secrets.keys'] !== undefined || values['app.secrets.keys-file'] !== undefined) return {}
  return { 'app.secrets.keys-file': keptSecretKeys(folder) }
}

/** The configuration of the roles: what was configured, and our own servers where nothing was. */
async function effective(config: Config, { bus, natsUrl, postgresUrl, mysqlUrl, tell }: Brought): Promise<Config> {
  const own: { -readonly [Name in keyof Config]?: Config[Name] } = { 'app.nats.enabled': bus }
  if (natsUrl !== undefined) own['app.nats.url'] = natsUrl
  if (mysqlUrl !== undefined) own['mysql.datasource.url'] = await ensureMysqlSample(mysqlUrl)
  if (postgresUrl !== undefined && config['platform.datasource.url'] === undefined) {
    own['platform.datasource.url'] = await ensureDatabase(postgresUrl, platformName)
  }
  if (postgresUrl !== undefined && config['spring.datasource.url'] === undefined) {
    const { url, loaded } = await ensureSample(postgresUrl)
    own['spring.datasource.url'] = url
    if (loaded) tell('the sample database is loaded')
  }
  return Object.freeze({ ...config, ...own })
}

/** Fails on a database that cannot be reached; answers what a reachable one lacks for change streams. */
async function checkDatasources(config: Config, bus: boolean): Promise<string[]> {
  const notes: string[] = []
  for (const key of ['spring.datasource', 'platform.datasource'] as const) {
    const connection = datasource(config, key)
    if (connection === undefined) continue
    const client = await connectOnce(connection, `${key}.url`)
    try {
      if (key !== 'spring.datasource' || !bus) continue
      for (const { problem, mend } of await replicationFindings(client))
        notes.push(`No change streams: ${problem}. ${mend}`)
    } finally {
      await client.end()
    }
  }
  return notes
}
