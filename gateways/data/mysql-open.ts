import { createConnection } from 'mysql2/promise'
import { Unavailable } from '../../schemas/failure.ts'
import { roleService } from './mysql-roles.ts'
import { MysqlDatabase, type MysqlOptions } from './mysql-run.ts'
import { type Flavour, mariadbFlavour, mysqlFlavour } from './mysql-sql.ts'
import { reasonOf } from './postgres-failures.ts'

/**
 * Opens the first connection and returns the database; the others follow as they are needed.
 *
 * @param options `flavour` only to speak another server's SQL than the one that is there. Default: that one's
 * @throws {Unavailable} `data/database-unavailable` with the reason, for the operator who starts the service.
 */
export async function openMysql(options: MysqlOptions & { readonly flavour?: Flavour }): Promise<MysqlDatabase> {
  const { flavour: given, ...others } = options
  try {
    const connection = await createConnection({ ...options.connection, connectTimeout: 5_000 })
    try {
      const flavour = given ?? (await flavourOf(connection))
      const database = new MysqlDatabase(others, { flavour, roles: await roleService(connection, flavour) })
      await database.ping()
      return database
    } finally {
      connection.destroy()
    }
  } catch (error) {
    throw new Unavailable('data/database-unavailable', `The database cannot be reached: ${reasonOf(error)}`, {
      cause: error,
      retryAfterSeconds: 5,
    })
  }
}

function rankOf(version: string): number {
  const [, major = 0, minor = 0, patch = 0] = /^(\d+)\.(\d+)(?:\.(\d+))?/.exec(version) ?? []
  return Number(major) * 1e6 + Number(minor) * 1e3 + Number(patch)
}

async function flavourOf(connection: { query(text: string): Promise<unknown> }): Promise<Flavour> {
  const [rows] = (await connection.query('select version() as version')) as [{ version: string }[]]
  const version = rows[0]?.version ?? ''
  const isMariadb = /mariadb/i.test(version)
  if (rankOf(version) >= rankOf(isMariadb ? '10.7.0' : '8.0.17')) return isMariadb ? mariadbFlavour : mysqlFlavour
  throw new Error(`${version} is too old: MariaDB 10.7 or MySQL 8.0.17 is the least`)
}
