import { accessSync, constants, existsSync, mkdirSync, statfsSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { LoadedConfig } from '../schemas/config/load.ts'
import { maskUrl } from '../schemas/config/mask.ts'
import type { Config } from '../schemas/config.ts'
import { connectOnce, datasource } from './datasource.ts'
import { connectBus } from './events-tail.ts'
import { describe } from './explain.ts'
import { lookForNats, natsVersion } from './local/nats-binary.ts'
import { adviceFor } from './local/nats-fetch.ts'
import { findPostgres, postgresVersion } from './local/postgres-binaries.ts'
import { postgresHome } from './local/postgres-home.ts'
import { replicationFindings } from './replication.ts'
import { gatewayPort } from './role-options.ts'
import { roles } from './roles.ts'
import { searchPath } from './settings.ts'

interface Diagnosis {
  readonly what: string
  readonly state: 'good' | 'note' | 'bad'
  readonly text: string
}

const good = (what: string, text: string): Diagnosis => ({ what, state: 'good', text })
const note = (what: string, text: string): Diagnosis => ({ what, state: 'note', text })
const bad = (what: string, text: string): Diagnosis => ({ what, state: 'bad', text })

/** Prints one line a check; answers whether nothing is wrong. */
export async function doctor(loaded: LoadedConfig, folder: string): Promise<boolean> {
  const checks: readonly (() => readonly Diagnosis[] | Promise<readonly Diagnosis[]>)[] = [
    () => [good('Node', process.version)],
    () => checkNatsServer(folder),
    checkPostgresServer,
    () => checkFolder(folder),
    () => checkPorts(loaded, folder),
    () => checkDatasource(loaded.values),
    () => checkBus(loaded),
  ]
  let healthy = true
  for (const check of checks) {
    for (const { what, state, text } of await check()) {
      console.log(`${{ good: 'ok  ', note: 'note', bad: 'BAD ' }[state]}  ${what}: ${text}`)
      healthy &&= state !== 'bad'
    }
  }
  return healthy
}

function checkNatsServer(folder: string): Diagnosis[] {
  const binary = lookForNats({ searchPath: searchPath(), binFolder: join(folder, 'bin') })
  if (binary !== undefined) return [good('nats-server', `${natsVersion(binary)} (${binary})`)]
  const fetched = existsSync('/usr/bin/apt-get')
  return [
    fetched
      ? note('nats-server', '`busbar up` will fetch it from Debian')
      : bad('nats-server', adviceFor(process.platform)),
  ]
}

function checkPostgresServer(): Diagnosis[] {
  try {
    const binaries = findPostgres(searchPath())
    return [good('PostgreSQL', `${postgresVersion(binaries)} (${binaries})`)]
  } catch (error) {
    return [bad('PostgreSQL', describe(error))]
  }
}

function checkFolder(folder: string): Diagnosis[] {
  try {
    mkdirSync(folder, { recursive: true })
    accessSync(folder, constants.W_OK)
  } catch (error) {
    return [
      bad(
        'data folder',
        `${folder} cannot be written (${(error as NodeJS.ErrnoException).code}): choose another with --busbar.data=<folder>`,
      ),
    ]
  }
  const { bavail, bsize } = statfsSync(folder)
  const gigabytes = ((bavail * bsize) / 1024 ** 3).toFixed(1)
  const place = postgresHome(folder)
  const outside = place.startsWith(folder) ? '' : `, PostgreSQL's part in ${place}`
  const text = `${folder}, ${gigabytes} GB free${outside}`
  return [Number(gigabytes) < 1 ? bad('data folder', `${text}: make room`) : good('data folder', text)]
}

async function checkPorts({ values, sources }: LoadedConfig, folder: string): Promise<Diagnosis[]> {
  const ports: (readonly [string, number])[] = roles.flatMap(({ title, portKey, isWanted }) => {
    return portKey === undefined || isWanted?.(values) === false ? [] : [[title, gatewayPort(values, portKey)] as const]
  })
  if (sources['app.nats.url'] === 'default') ports.push(['NATS', values['nats.port']])
  if (values['spring.datasource.url'] === undefined) ports.push(['PostgreSQL', values['postgres.port']])
  const running = existsSync(join(folder, 'up.lock'))
  const diagnoses: Diagnosis[] = []
  for (const [title, port] of ports) {
    if (await isFree(port)) diagnoses.push(good(`port ${port}`, `free for ${title}`))
    else if (running) diagnoses.push(note(`port ${port}`, `in use, by the running \`busbar up\` it seems (${title})`))
    else diagnoses.push(bad(`port ${port}`, `in use, wanted for ${title}: stop what uses it or choose another port`))
  }
  return diagnoses
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

async function checkDatasource(config: Config): Promise<Diagnosis[]> {
  const what = 'datasource'
  try {
    const connection = datasource(config, 'spring.datasource')
    if (connection === undefined) return [note(what, 'none configured: `busbar up` serves its sample database')]
    const client = await connectOnce(connection, 'spring.datasource.url')
    try {
      const { rows } = await client.query<{ version: string }>("SELECT current_setting('server_version') AS version")
      const reached = good(
        what,
        `PostgreSQL ${rows[0]?.version} at ${connection.host}:${connection.port}/${connection.database}`,
      )
      const findings = await replicationFindings(client)
      if (findings.length === 0) return [reached, good('change streams', 'wal_level and rights are right')]
      return [reached, ...findings.map(({ problem, mend }) => bad('change streams', `${problem}. ${mend}`))]
    } finally {
      await client.end()
    }
  } catch (error) {
    return [bad(what, describe(error))]
  }
}

async function checkBus({ values, sources }: LoadedConfig): Promise<Diagnosis[]> {
  if (sources['app.nats.url'] === 'default') return []
  try {
    const connection = await connectBus(values['app.nats.url'])
    const { version, jetstream } = connection.info ?? {}
    await connection.close()
    const where = `${version} at ${maskUrl(values['app.nats.url'])}`
    return [jetstream ? good('bus', where) : bad('bus', `${where} has no JetStream: start nats-server with -js`)]
  } catch (error) {
    return [bad('bus', describe(error))]
  }
}
