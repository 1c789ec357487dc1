import type { Connection, PoolConnection, RowDataPacket } from 'mysql2/promise'
import { Rejected } from '../../schemas/failure.ts'
import type { Flavour } from './mysql-sql.ts'
import type { CallContext } from './statement.ts'

/** How the roles of tokens are taken on, or why they are not. */
export interface RoleService {
  /** What gives a connection back the rights it began with. */
  readonly reset: string
  /** Null: the role may be tried. */
  refusal(role: string | undefined): Rejected | null
}

/** Rights that show nobody's rows. */
const harmless: ReadonlySet<string> = new Set([
  'USAGE',
  'REPLICATION SLAVE',
  'REPLICATION CLIENT',
  'REPLICATION_APPLIER',
  'BINLOG MONITOR',
  'SLAVE MONITOR',
  'PROCESS',
  'SHOW DATABASES',
  'CONNECTION ADMIN',
  'CONNECTION_ADMIN',
  'SESSION_VARIABLES_ADMIN',
])

/**
 * MySQL's roles take no rights away from those that an account has itself. So they are served where it has none: what callers without
 * a role may do comes from the account's default role, which another role stands in for.
 */
export async function roleService(connection: Connection, { server }: Flavour): Promise<RoleService> {
  const [[before] = []] = await connection.query<RowDataPacket[]>('select current_role() as role')
  await connection.query('set role none')
  const [grants] = await connection.query<RowDataPacket[]>('show grants')
  const own = grants.map((row) => String(Object.values(row)[0])).filter(givesRights)
  const first = before?.role === null || before?.role === undefined ? null : String(before.role)
  const reset = server === 'mysql' ? 'set role default' : `set role ${first === null ? 'none' : quotedName(first)}`
  return {
    reset,
    refusal: (role) => {
      if (role === undefined) return null
      if (own.length > 0) return notServed()
      // To the server these are no names.
      return /^(?:none|default|all|public|)$/i.test(role) || role.length > 80 ? unknownRole(role) : null
    },
  }
}

function givesRights(grant: string): boolean {
  const [, rights, on] = /^GRANT (.+?) ON (.+?) TO /is.exec(grant) ?? []
  if (rights === undefined || on === undefined) return false
  // The keys of requests are no data of callers.
  if (on.replaceAll('`', '').startsWith('busbar.')) return false
  return rights.split(',').some((right) => !harmless.has(right.trim().toUpperCase()))
}

/** Runs the work as the caller's role. The connection never keeps it: where it cannot be given back, the connection ends. */
export async function inRole<T>(
  connection: PoolConnection,
  { reset }: RoleService,
  { role }: Pick<CallContext, 'role'>,
  work: () => Promise<T>,
): Promise<T> {
  if (role === undefined) return await work()
  try {
    await connection.query(`set role ${quotedName(role)}`)
  } catch (error) {
    throw isRefused(error) ? unknownRole(role, error) : error
  }
  try {
    return await work()
  } finally {
    await connection.query(reset).catch(() => connection.destroy())
  }
}

/** 1959 of MariaDB; 3530 and 3523 of MySQL. */
function isRefused(error: unknown): boolean {
  const { errno } = error as { readonly errno?: number }
  return errno === 1959 || errno === 3530 || errno === 3523
}

function quotedName(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``
}

function unknownRole(role: string, cause?: unknown): Rejected {
  return new Rejected('data/forbidden', 'The database does not accept the role of this caller', {
    details: { sqlstate: '0P000', role },
    hint: 'The role must exist in the database and be granted to the login account of this service.',
    cause,
  })
}

function notServed(): Rejected {
  return new Rejected(
    'data/forbidden',
    'Roles of tokens are not served: the database account has rights of its own, which a role would not take away',
    {
      hint: 'Give the account its rights by a default role, or leave jwt.anonymous-role empty and the role claim out of tokens.',
    },
  )
}
