import type { Client } from 'pg'

interface Role {
  readonly name: string
  readonly attributes: readonly string[]
  readonly verifier: string | null
}

interface RoleRow {
  readonly name: string
  readonly login: boolean
  readonly createdb: boolean
  readonly createrole: boolean
  readonly inherit: boolean
  readonly replication: boolean
  readonly bypassrls: boolean
  readonly connections: number
  readonly verifier: string | null
}

/**
 * Copies the users' roles, with their passwords' verifiers, memberships and settings, to a cluster that does not have them.
 * PostgreSQL's own roles and the platform's superuser are there already.
 */
export async function copyRoles(from: Client, to: Client): Promise<void> {
  for (const { name, attributes, verifier } of await readRoles(from)) {
    const password = verifier === null ? '' : ` password ${to.escapeLiteral(verifier)}`
    await to.query(`create role ${to.escapeIdentifier(name)} ${attributes.join(' ')}${password}`)
  }
  const { rows: memberships } = await from.query<{ role: string; member: string; admin: boolean }>(`
    select r.rolname as role, m.rolname as member, bool_or(a.admin_option) as admin
    from pg_auth_members a join pg_roles r on r.oid = a.roleid join pg_roles m on m.oid = a.member
    where m.oid >= 16384 group by 1, 2 order by 1, 2`)
  for (const { role, member, admin } of memberships) {
    const option = admin ? ' with admin option' : ''
    await to.query(`grant ${to.escapeIdentifier(role)} to ${to.escapeIdentifier(member)}${option}`)
  }
}

async function readRoles(from: Client): Promise<readonly Role[]> {
  const { rows } = await from.query<RoleRow>(`
    select rolname as name, rolcanlogin as login, rolcreatedb as createdb, rolcreaterole as createrole, rolinherit as inherit,
      rolreplication as replication, rolbypassrls as bypassrls, rolconnlimit as connections, rolpassword as verifier
    from pg_authid where oid >= 16384 order by oid`)
  return rows.map((row) => ({
    name: row.name,
    verifier: row.verifier,
    attributes: [
      row.login ? 'login' : 'nologin',
      row.createdb ? 'createdb' : 'nocreatedb',
      row.createrole ? 'createrole' : 'nocreaterole',
      row.inherit ? 'inherit' : 'noinherit',
      row.replication ? 'replication' : 'noreplication',
      row.bypassrls ? 'bypassrls' : 'nobypassrls',
      `connection limit ${row.connections}`,
    ],
  }))
}

/** Copies what `ALTER ROLE ... SET` and `ALTER DATABASE ... SET` keep; the databases must be there. */
export async function copyRoleSettings(from: Client, to: Client): Promise<void> {
  const { rows } = await from.query<{ role: string | null; database: string | null; setting: string }>(`
    select r.rolname as role, d.datname as database, unnest(s.setconfig) as setting
    from pg_db_role_setting s left join pg_roles r on r.oid = s.setrole left join pg_database d on d.oid = s.setdatabase`)
  for (const { role, database, setting } of rows) {
    const place = database === null ? '' : ` in database ${to.escapeIdentifier(database)}`
    const whose =
      role === null ? `database ${to.escapeIdentifier(database!)}` : `role ${to.escapeIdentifier(role)}${place}`
    const split = setting.indexOf('=')
    const name = to.escapeIdentifier(setting.slice(0, split))
    // A list of names is kept as it was written, each already quoted where it must be.
    const list = ['search_path', 'temp_tablespaces', 'local_preload_libraries', 'session_preload_libraries']
    const value = setting.slice(split + 1)
    const written = list.includes(setting.slice(0, split)) ? value || "''" : to.escapeLiteral(value)
    await to.query(`alter ${whose} set ${name} = ${written}`)
  }
}
