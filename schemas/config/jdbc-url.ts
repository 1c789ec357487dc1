import { ConfigError } from './config-error.ts'
import { maskUrl } from './mask.ts'

/** Where and how to reach a database. */
export interface DatabaseAddress {
  readonly host: string
  readonly port: number
  /** Undefined: the one named like the user. */
  readonly database: string | undefined
  readonly user: string | undefined
  readonly password: string | undefined
  readonly tls: Tls | undefined
  /** First schemas on the search path. */
  readonly currentSchema: string | undefined
  readonly applicationName: string | undefined
  readonly connectTimeoutMs: number | undefined
  /** Options of the session, as in `-c statement_timeout=5000`. */
  readonly options: string | undefined
}

export interface Tls {
  /** `encrypt`: any certificate; `verify-ca`: one signed by a known authority; `verify-full`: and for this host. */
  readonly mode: 'encrypt' | 'verify-ca' | 'verify-full'
  readonly rootCertFile: string | undefined
  readonly certFile: string | undefined
  readonly keyFile: string | undefined
}

/** The key the URL was given under, for the error's text. */
export interface UrlOrigin {
  readonly key: string
}

const tlsModes: Readonly<Record<string, Tls['mode'] | undefined>> = {
  disable: undefined,
  // A plain connection is what these end in when the server does not ask for more.
  allow: undefined,
  prefer: undefined,
  require: 'encrypt',
  'no-verify': 'encrypt',
  'verify-ca': 'verify-ca',
  'verify-full': 'verify-full',
}

/** What a kind of database's URLs look like. */
interface UrlKind {
  readonly schemes: readonly string[]
  readonly port: number
  readonly example: string
}

const postgresUrl: UrlKind = {
  schemes: ['postgresql', 'postgres'],
  port: 5432,
  example: 'jdbc:postgresql://host:5432/database or postgresql://user@host:5432/database',
}
const mysqlUrl: UrlKind = {
  schemes: ['mysql', 'mariadb'],
  port: 3306,
  example: 'jdbc:mysql://host:3306/database, jdbc:mariadb://host:3306/database or mysql://user@host:3306/database',
}

/**
 * Reads `jdbc:postgresql://host:port/db?…` and `postgresql://user:password@host:port/db?…`. Of several hosts the first is
 * taken; parameters that concern only the Java driver are passed over.
 *
 * @throws {ConfigError} naming the key, never the password.
 * Source: https://jdbc.postgresql.org/documentation/use/
 */
export function readDatabaseUrl(url: string, origin: UrlOrigin): DatabaseAddress {
  return readUrl(url, origin, postgresUrl)
}

/**
 * The same of `jdbc:mysql://host:port/db?…`, `jdbc:mariadb://…`, `mysql://…` and `mariadb://…`; the parameters that count are `user`,
 * `password`, `sslMode` and `useSSL`.
 *
 * @throws {ConfigError} naming the key, never the password.
 * Source: MySQL Connector/J Developer Guide, "Connection URL Syntax"; "About MariaDB Connector/J"
 */
export function readMysqlUrl(url: string, origin: UrlOrigin): DatabaseAddress {
  return readUrl(url, origin, mysqlUrl)
}

/** Whether it looks like the URL of a MySQL or MariaDB. */
export function isMysqlUrl(url: string): boolean {
  return /^(?:jdbc:)?(?:mysql|mariadb):/i.test(url.trim())
}

function readUrl(url: string, origin: UrlOrigin, kind: UrlKind): DatabaseAddress {
  const refuse = (reason: string) => new ConfigError(`${origin.key} ${reason}: ${maskUrl(url).slice(0, 200)}`)
  const [, jdbc, scheme, rest = ''] = /^(jdbc:)?([a-z0-9]+):(.*)$/is.exec(url.trim()) ?? []
  if (scheme === undefined || !kind.schemes.includes(scheme.toLowerCase()) || (!jdbc && !rest.startsWith('//'))) {
    throw refuse(`must look like ${kind.example}`)
  }
  const { hosts, path, query } = split(rest)
  const parameters = readParameters(query, refuse)
  const credentials = hosts.lastIndexOf('@')
  const [user, password] = credentials < 0 ? [] : userInfo(hosts.slice(0, credentials), refuse)
  const first = hosts.slice(credentials + 1).split(',')[0] ?? ''
  return {
    ...hostAndPort(first, kind.port, refuse),
    database: decoded(path, refuse) || undefined,
    user: parameters.get('user') ?? user,
    password: parameters.get('password') ?? password,
    tls: kind === mysqlUrl ? readMysqlTls(parameters, refuse) : readTls(parameters, refuse),
    currentSchema: parameters.get('currentschema'),
    applicationName: parameters.get('applicationname') ?? parameters.get('application_name'),
    connectTimeoutMs: kind === mysqlUrl ? undefined : seconds(parameters, refuse),
    options: parameters.get('options'),
  }
}

const mysqlTlsModes: Readonly<Record<string, Tls['mode'] | undefined>> = {
  disable: undefined,
  disabled: undefined,
  preferred: undefined,
  trust: 'encrypt',
  required: 'encrypt',
  'verify-ca': 'verify-ca',
  'verify-full': 'verify-full',
  'verify-identity': 'verify-full',
}

function readMysqlTls(parameters: ReadonlyMap<string, string>, refuse: Refuse): Tls | undefined {
  const mode = parameters.get('sslmode')?.toLowerCase().replaceAll('_', '-')
  if (mode !== undefined && !(mode in mysqlTlsModes)) {
    throw refuse(`has an unknown sslMode ${JSON.stringify(mode)}, known are ${Object.keys(mysqlTlsModes).join(', ')}`)
  }
  const asked = mode === undefined ? (parameters.get('usessl') === 'true' ? 'encrypt' : undefined) : mysqlTlsModes[mode]
  if (asked === undefined) return undefined
  return { mode: asked, rootCertFile: parameters.get('serversslcert'), certFile: undefined, keyFile: undefined }
}

/** The address as a JDBC URL, with everything in it but the defaults. */
export function writeDatabaseUrl(address: DatabaseAddress): string {
  const { host, port, database, tls } = address
  const sslmode = tls?.mode === 'encrypt' ? 'require' : tls?.mode
  const parameters: readonly (readonly [string, string | number | undefined])[] = [
    ['user', address.user],
    ['password', address.password],
    ['sslmode', sslmode],
    ['sslrootcert', tls?.rootCertFile],
    ['sslcert', tls?.certFile],
    ['sslkey', tls?.keyFile],
    ['currentSchema', address.currentSchema],
    ['ApplicationName', address.applicationName],
    ['connectTimeout', address.connectTimeoutMs === undefined ? undefined : address.connectTimeoutMs / 1000],
    ['options', address.options],
  ]
  const given = parameters.filter(([, value]) => value !== undefined)
  const query = given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join('&')
  const name = host.includes(':') ? `[${host}]` : encodeURIComponent(host)
  return `jdbc:postgresql://${name}:${port}/${encodeURIComponent(database ?? '')}${query === '' ? '' : `?${query}`}`
}

type Refuse = (reason: string) => ConfigError

function split(rest: string): { readonly hosts: string; readonly path: string; readonly query: string } {
  const mark = rest.indexOf('?')
  const query = mark < 0 ? '' : rest.slice(mark + 1)
  const address = mark < 0 ? rest : rest.slice(0, mark)
  // `jdbc:postgresql:db` and `jdbc:postgresql:/` name no host.
  if (!address.startsWith('//')) return { hosts: '', path: address.replace(/^\//, ''), query }
  const slash = address.indexOf('/', 2)
  if (slash < 0) return { hosts: address.slice(2), path: '', query }
  return { hosts: address.slice(2, slash), path: address.slice(slash + 1), query }
}

function hostAndPort(
  text: string,
  defaultPort: number,
  refuse: Refuse,
): { readonly host: string; readonly port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]*))(?::(\d*))?$/.exec(text)
  if (match === null) throw refuse('has a host that cannot be read')
  const port = match[3] ? Number(match[3]) : defaultPort
  if (port < 1 || port > 65_535) throw refuse('has a port that is not between 1 and 65535')
  return { host: match[1] ?? (decoded(match[2] ?? '', refuse) || 'localhost'), port }
}

function userInfo(text: string, refuse: Refuse): [string, string | undefined] {
  const colon = text.indexOf(':')
  if (colon < 0) return [decoded(text, refuse), undefined]
  return [decoded(text.slice(0, colon), refuse), decoded(text.slice(colon + 1), refuse)]
}

/** Names are compared without regard to case: `currentSchema`, `currentschema`. */
function readParameters(query: string, refuse: Refuse): ReadonlyMap<string, string> {
  const parameters = new Map<string, string>()
  for (const part of query.split(/[&;]/).filter((each) => each !== '')) {
    const equals = part.indexOf('=')
    const name = decoded(equals < 0 ? part : part.slice(0, equals), refuse).toLowerCase()
    parameters.set(name, equals < 0 ? '' : decoded(part.slice(equals + 1), refuse))
  }
  return parameters
}

function decoded(text: string, refuse: Refuse): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw refuse('has a broken percent escape')
  }
}

function readTls(parameters: ReadonlyMap<string, string>, refuse: Refuse): Tls | undefined {
  const mode = parameters.get('sslmode')
  const bare = parameters.get('ssl')
  if (mode !== undefined && !(mode in tlsModes)) {
    throw refuse(`has an unknown sslmode ${JSON.stringify(mode)}, known are ${Object.keys(tlsModes).join(', ')}`)
  }
  // `ssl` or `ssl=true` alone means verify-full, as in the Java driver.
  const asked = mode === undefined ? (bare === '' || bare === 'true' ? 'verify-full' : undefined) : tlsModes[mode]
  if (asked === undefined) return undefined
  const [rootCertFile, certFile, keyFile] = ['sslrootcert', 'sslcert', 'sslkey'].map((name) => parameters.get(name))
  return { mode: asked, rootCertFile, certFile, keyFile }
}

function seconds(parameters: ReadonlyMap<string, string>, refuse: Refuse): number | undefined {
  const text = parameters.get('connecttimeout') ?? parameters.get('connect_timeout')
  if (text === undefined || text === '0') return undefined
  if (!/^\d{1,6}$/.test(text)) throw refuse('has a connectTimeout that is not a number of seconds')
  return Number(text) * 1000
}
