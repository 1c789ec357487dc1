import type { Client } from 'pg'
import { CaptureRefused } from './refusal.ts'

export interface Rights {
  /** As of `server_version_num`. */
  readonly version: number
  readonly superuser: boolean
  readonly mayCreate: boolean
  readonly user: string
  readonly database: string
}

interface RightsRow extends Rights {
  readonly walLevel: string
  readonly inRecovery: boolean
  readonly mayReplicate: boolean
  readonly userSql: string
  readonly databaseSql: string
}

/** Managed services keep REPLICATION to themselves and give a role instead. */
const rightsSql = `
  select current_setting('server_version_num')::int as version, current_setting('wal_level') as "walLevel",
    pg_is_in_recovery() as "inRecovery", r.rolsuper as superuser,
    r.rolsuper or r.rolreplication or exists (
      select from pg_roles m where m.rolname in ('rds_replication', 'rds_superuser', 'azure_pg_admin', 'cloudsqlsuperuser')
        and pg_has_role(current_user, m.oid, 'member')) as "mayReplicate",
    has_database_privilege(current_database(), 'create') as "mayCreate",
    current_user as user, quote_ident(current_user) as "userSql",
    current_database() as database, quote_ident(current_database()) as "databaseSql"
  from pg_roles r where r.rolname = current_user`

const firstVersion = 140_000

/** @throws {CaptureRefused} when the server or the user cannot do logical replication at all. */
export async function checkRights(client: Client): Promise<Rights> {
  const row = (await client.query<RightsRow>(rightsSql)).rows[0]!
  if (row.version < firstVersion) {
    throw new CaptureRefused('Change capture needs PostgreSQL 14 or newer', [])
  }
  if (row.inRecovery) throw new CaptureRefused('The server is a standby: change capture reads from the primary', [])
  const statements: string[] = []
  const reasons: string[] = []
  if (row.walLevel !== 'logical') {
    reasons.push(`wal_level is ${row.walLevel}, not logical`)
    statements.push("ALTER SYSTEM SET wal_level = 'logical'; -- as a superuser, then restart the server")
  }
  if (!row.mayReplicate) {
    reasons.push(`the user ${row.user} may not replicate`)
    statements.push(`ALTER ROLE ${row.userSql} REPLICATION; -- as a superuser`)
  }
  if (reasons.length > 0) throw new CaptureRefused(reasons.join('; '), statements)
  return row
}

/** SQLSTATEs of refusals that waiting does not mend, with what does. */
export function refusalOf(error: unknown): CaptureRefused | null {
  const { code, message } = error as { readonly code?: unknown; readonly message?: string }
  const text = message ?? ''
  // Slots and senders share a SQLSTATE with other limits, but only these two have settings of these names.
  if (code === '53400' && /replication slots/.test(text)) {
    return new CaptureRefused(
      'All replication slots of the server are in use',
      ['ALTER SYSTEM SET max_replication_slots = 20; -- as a superuser, then restart the server'],
      { cause: error },
    )
  }
  if (code === '53300' && /max_wal_senders/.test(text)) {
    return new CaptureRefused(
      'All WAL senders of the server are in use',
      ['ALTER SYSTEM SET max_wal_senders = 20; -- as a superuser, then restart the server'],
      { cause: error },
    )
  }
  if (code === '42501' && /WAL ?sender|replication/i.test(text)) {
    return new CaptureRefused(
      'The user may not replicate',
      ['ALTER ROLE CURRENT_USER REPLICATION; -- as a superuser, with the name of the user of the connection'],
      { cause: error },
    )
  }
  if (code === '28000' && /pg_hba\.conf/.test(text)) {
    return new CaptureRefused(`The server refuses the replication connection: ${text}`, [], { cause: error })
  }
  if (code === '55000' && /wal_level/.test(text)) {
    return new CaptureRefused(
      text,
      ["ALTER SYSTEM SET wal_level = 'logical'; -- as a superuser, then restart the server"],
      { cause: error },
    )
  }
  return null
}
