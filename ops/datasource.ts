import { readFileSync } from 'node:fs'
import { Client, type ClientConfig } from 'pg'
import { type DatabaseAddress, readDatabaseUrl, type Tls } from '../schemas/config/jdbc-url.ts'
import type { Config } from '../schemas/config.ts'
import { OperatorError } from './local/operator-error.ts'

type DatasourceKey = 'spring.datasource' | 'platform.datasource'

/**
 * What pg needs to reach a configured database; undefined when none is configured. User and password of their own keys go
 * before those in the URL.
 *
 * @throws {ConfigError} when the URL cannot be read.
 * @throws {OperatorError} when a certificate file cannot be read.
 */
export function datasource(config: Config, prefix: DatasourceKey): ClientConfig | undefined {
  const url = config[`${prefix}.url`]
  if (url === undefined) return undefined
  const address = readDatabaseUrl(url, { key: `${prefix}.url` })
  const user = config[`${prefix}.username`] ?? address.user
  const password = config[`${prefix}.password`] ?? address.password
  return {
    host: address.host,
    port: address.port,
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    database: address.database ?? user ?? 'postgres',
    ssl: address.tls === undefined ? false : tlsOptions(address.tls, prefix),
    connectionTimeoutMillis: address.connectTimeoutMs ?? 10_000,
    application_name: address.applicationName ?? 'busbar',
    ...sessionOptions(address),
  }
}

function tlsOptions(tls: Tls, prefix: DatasourceKey): Exclude<ClientConfig['ssl'], boolean | undefined> {
  const read = (file: string | undefined, name: string) => {
    if (file === undefined) return {}
    try {
      return { [name]: readFileSync(file, 'utf8') }
    } catch (error) {
      throw new OperatorError(`${prefix}.url names a file that cannot be read: ${(error as Error).message}`, {
        cause: error,
      })
    }
  }
  return {
    rejectUnauthorized: tls.mode !== 'encrypt',
    ...read(tls.rootCertFile, 'ca'),
    ...read(tls.certFile, 'cert'),
    ...read(tls.keyFile, 'key'),
    ...(tls.mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
  }
}

function sessionOptions({ options, currentSchema }: DatabaseAddress): { options?: string } {
  const path = currentSchema === undefined ? undefined : `-c search_path=${currentSchema.replace(/([\\\s])/g, '\\$1')}`
  const both = [options, path].filter((part) => part !== undefined).join(' ')
  return both === '' ? {} : { options: both }
}

/**
 * Opens a connection for a task of the operator's.
 *
 * @throws {OperatorError} one line with the key, what is wrong and what mends it.
 */
export async function connectOnce(connection: ClientConfig, key: string): Promise<Client> {
  const client = new Client(connection)
  client.on('error', () => undefined)
  try {
    await client.connect()
    return client
  } catch (error) {
    await client.end().catch(() => undefined)
    throw new OperatorError(`${key}: ${connectFailure(error as ConnectFault, connection)}`, { cause: error })
  }
}

type ConnectFault = Error & { readonly code?: string; readonly errors?: readonly (Error & { code?: string })[] }

function connectFailure(error: ConnectFault, { host, port, user, database }: ClientConfig): string {
  const where = `${host}:${port}`
  // Trying several addresses of a host ends in one error that holds the others.
  const code = error.code ?? error.errors?.[0]?.code
  switch (code) {
    case 'ECONNREFUSED':
      return `nothing listens on ${where}: is PostgreSQL running there?`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the host ${host} is not known: check the name.`
    case 'ETIMEDOUT':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return `${where} cannot be reached (${code}): check address and firewall.`
    case '28P01':
      return `wrong password for user ${user} on ${where}: check the username and password keys.`
    case '3D000':
      return `the database ${database} does not exist on ${where}: create it or change the name in the URL.`
    case '28000':
      return `${where} refuses user ${user}: ${error.message}${/no encryption/.test(error.message) ? ' (add ?sslmode=require to the URL)' : ''}`
    default:
      return `no connection to ${where}: ${error.message || code}`
  }
}
