import type { Client } from 'pg'

export interface Finding {
  readonly problem: string
  /** The statement or command that mends it. */
  readonly mend: string
}

interface Rights {
  readonly wal_level: string
  readonly may_replicate: boolean
  readonly name: string
}

/** What a PostgreSQL lacks for change streams; empty when nothing. */
export async function replicationFindings(client: Client): Promise<Finding[]> {
  const { rows } = await client.query<Rights>(`
    SELECT current_setting('wal_level') AS wal_level,
      rolreplication OR rolsuper AS may_replicate, quote_ident(rolname) AS name
    FROM pg_roles WHERE rolname = current_user`)
  const [rights] = rows
  const findings: Finding[] = []
  if (rights === undefined) return findings
  if (rights.wal_level !== 'logical') {
    const mend = "As a superuser: ALTER SYSTEM SET wal_level = 'logical'; then restart the server."
    findings.push({ problem: `wal_level is ${rights.wal_level}, not logical`, mend })
  }
  if (!rights.may_replicate) {
    findings.push({
      problem: `the user ${rights.name} may not replicate`,
      mend: `As a superuser: ALTER ROLE ${rights.name} REPLICATION;`,
    })
  }
  return findings
}
