import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import type { ConnectionOptions } from 'mysql2/promise'
import type { ExposedSchemas } from '../gateways/data/postgres-introspect.ts'
import { isMysqlUrl, readMysqlUrl } from '../schemas/config/jdbc-url.ts'
import type { Config } from '../schemas/config.ts'
import { OperatorError } from './local/operator-error.ts'

interface MysqlDatasource {
  /** As for `mysql2`. */
  readonly connection: ConnectionOptions
  readonly schemas: ExposedSchemas
}

/**
 * The configuration with the MySQL to serve under keys of its own: with `app.database-type=mysql` it may stand where PostgreSQL's
 * does. What is not MySQL stays for the components that need a PostgreSQL.
 */
export function withOwnMysqlKeys(config: Config): Config {
  const url = config['spring.datasource.url']
  if (config['app.database-type'] !== 'mysql' || url === undefined || !isMysqlUrl(url)) return config
  return Object.freeze({
    ...config,
    'mysql.datasource.url': url,
    'mysql.datasource.username': config['spring.datasource.username'],
    'mysql.datasource.password': config['spring.datasource.password'],
    'spring.datasource.url': undefined,
    'spring.datasource.username': undefined,
    'spring.datasource.password': undefined,
  })
}

/** Whether a MySQL is configured. */
export function isMysqlWanted(config: Config): boolean {
  return withOwnMysqlKeys(config)['mysql.datasource.url'] !== undefined
}

/**
 * What mysql2 needs to reach the configured MySQL, and what of it is served.
 *
 * @throws {ConfigError} when the URL cannot be read.
 * @throws {OperatorError} when none is configured, or it names no database.
 */
export function mysqlDatasource(given: Config, title: string): MysqlDatasource {
  const config = withOwnMysqlKeys(given)
  const url = config['mysql.datasource.url']
  if (url === undefined)
    throw new OperatorError(`${title} needs a MySQL: set mysql.datasource.url, or use busbar up --with-mysql.`)
  const { host, port, tls, database, ...address } = readMysqlUrl(url, { key: 'mysql.datasource.url' })
  const user = config['mysql.datasource.username'] ?? address.user
  const password = config['mysql.datasource.password'] ?? address.password
  const wanted = config['mysql.schemas'] ?? []
  if (wanted.length === 0 && database === undefined)
    throw new OperatorError('mysql.datasource.url names no database: add one behind the host, or set mysql.schemas.')
  if (tls?.mode === 'verify-full' && isIP(host) !== 0)
    throw new OperatorError(
      `mysql.datasource.url asks for the name in the certificate of ${host}, which is none: use a name, or sslMode=verify-ca.`,
    )
  const ca = tls?.rootCertFile
  return {
    connection: {
      host,
      port,
      ...(user === undefined ? {} : { user }),
      ...(password === undefined ? {} : { password }),
      ...(tls === undefined
        ? {}
        : {
            ssl: {
              rejectUnauthorized: tls.mode !== 'encrypt',
              verifyIdentity: tls.mode === 'verify-full',
              ...(ca === undefined ? {} : { ca: readFileSync(ca, 'utf8') }),
            },
          }),
    },
    schemas: wanted.includes('ALL') ? 'ALL' : wanted.length > 0 ? wanted : [database!],
  }
}
