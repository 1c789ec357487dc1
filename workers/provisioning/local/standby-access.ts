import { createHmac } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import type { Client } from 'pg'
import { scramVerifier } from './credentials/scram.ts'
import { writeDurably } from './durable-files.ts'
import type { NodeAccount, PostgresNode } from './postgres-node.ts'
import { withSession } from './postgres-session.ts'
import { hbaText, standbyRole } from './postgres-settings.ts'

/**
 * What standbys log in with. Whoever knows the superuser's password knows it, not the other way round; it is kept nowhere, and reaches
 * a standby in its environment.
 */
export function standbyPassword({ superuser }: Pick<PostgresNode, 'superuser'>): string {
  return createHmac('sha256', superuser.password).update('busbar/standby').digest('base64url')
}

/** Lets standbys, and nobody else by that name, follow a running primary. Idempotent. */
export async function admitStandbys(hbaFile: string, primary: PostgresNode): Promise<void> {
  const rewritten = await writeHba(hbaFile, primary.runAs)
  await withSession(
    primary,
    async (client) => {
      // Where the role is, its rules have been read.
      if (rewritten || (await readRole(client)) === undefined) await client.query('select pg_reload_conf()')
      await ensureStandbyRole(client, primary)
    },
    { database: 'postgres' },
  )
}

/** False where the file says so already. */
export async function writeHba(path: string, owner: NodeAccount | undefined): Promise<boolean> {
  if (hasHba(path)) return false
  await writeDurably(path, hbaText, owner)
  return true
}

export function hasHba(path: string): boolean {
  return existsSync(path) && readFileSync(path, 'utf8') === hbaText
}

/** The role with the password of this node's standbys, and nobody who may change it: a copied cluster has that of its source. */
export async function ensureStandbyRole(client: Client, node: Pick<PostgresNode, 'superuser'>): Promise<void> {
  const found = await readRole(client)
  if (found !== undefined && (await isWanted(found, standbyPassword(node)))) return
  const role = client.escapeIdentifier(standbyRole)
  const verifier = client.escapeLiteral(await scramVerifier(standbyPassword(node)))
  await client.query('begin read write')
  try {
    // What would be waited for here may be a standby that cannot log in yet.
    await client.query("set local synchronous_commit = 'local'")
    if (found === undefined) await client.query(`create role ${role}`)
    for (const member of found?.members ?? []) {
      await client.query(`revoke ${role} from ${client.escapeIdentifier(member)} cascade`)
    }
    await client.query(
      `alter role ${role} login replication nosuperuser nocreatedb nocreaterole noinherit nobypassrls password ${verifier}`,
    )
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => undefined)
    throw error
  }
}

interface StandbyRole {
  readonly verifier: string | null
  /** It may replicate, and nothing else. */
  readonly limited: boolean
  /** Who may act as it, or give it another password. */
  readonly members: readonly string[]
}

async function readRole(client: Client): Promise<StandbyRole | undefined> {
  const { rows } = await client.query<StandbyRole>(
    `select rolpassword as verifier,
      rolcanlogin and rolreplication and not (rolsuper or rolcreatedb or rolcreaterole or rolbypassrls) as limited,
      array(select m.rolname::text from pg_auth_members a join pg_roles m on m.oid = a.member where a.roleid = r.oid) as members
    from pg_authid r where rolname = $1`,
    [standbyRole],
  )
  return rows[0]
}

async function isWanted({ verifier, limited, members }: StandbyRole, password: string): Promise<boolean> {
  const salt = /^SCRAM-SHA-256\$\d+:([^$]+)\$/.exec(verifier ?? '')?.[1]
  if (salt === undefined || !limited || members.length > 0) return false
  return (await scramVerifier(password, Buffer.from(salt, 'base64'))) === verifier
}
