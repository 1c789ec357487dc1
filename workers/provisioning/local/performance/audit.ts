import { refuse } from '../care-failure.ts'
import { readLogTail } from '../metrics/log-tail.ts'
import type { NodeControl, PostgresNode } from '../postgres-node.ts'
import { withSession } from '../postgres-session.ts'
import { createExtension, preloadLibrary } from './preload.ts'

const auditClasses = ['read', 'write', 'function', 'role', 'ddl', 'misc', 'misc_set', 'all'] as const

export interface AuditConfig {
  readonly enabled: boolean
  /** `pgaudit.log`: the classes recorded. */
  readonly logLevel: string | null
  /** The `pgaudit.*` settings. */
  readonly settings: Readonly<Record<string, string>>
}

/** Roles, structure and data changes; statements of the catalogue, which tools send all the time, are left out. */
const defaultClasses: readonly string[] = ['ddl', 'role', 'write']

/**
 * Turns auditing on: pgaudit is loaded (a restart when it is not yet), its extension made and its classes set.
 *
 * @throws {CareFailure} `refused` (424) when the server's installation has no pgaudit, (400) for an unknown class; `failed`.
 */
export async function enableAudit(
  control: NodeControl,
  node: PostgresNode,
  classes: readonly string[] = defaultClasses,
): Promise<void> {
  const unknown = classes.find((name) => !auditClasses.some((known) => known === name))
  if (unknown !== undefined) refuse(`classes must be of ${auditClasses.join(', ')}.`, { field: 'classes' })
  await preloadLibrary(control, node, 'pgaudit')
  await createExtension(node, 'pgaudit')
  await withSession(node, async (client) => {
    await client.query(`alter system set pgaudit.log = ${client.escapeLiteral(classes.join(', '))}`)
    await client.query('alter system set pgaudit.log_catalog = off')
    await client.query('select pg_reload_conf()')
  })
}

export async function readAuditConfig(node: PostgresNode): Promise<AuditConfig> {
  return withSession(node, async (client) => {
    const { rows } = await client.query<{ name: string; setting: string }>(
      "select name, setting from pg_settings where name like 'pgaudit.%' order by name",
    )
    const settings = Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))
    const logLevel = settings['pgaudit.log'] ?? null
    return { enabled: logLevel !== null && logLevel !== '' && logLevel !== 'none', logLevel, settings }
  })
}

/** The last audit lines of the server's log (default 100, at most 5000). */
export async function readAuditLog(node: PostgresNode, lines?: number): Promise<readonly string[]> {
  const only = (line: string) => line.includes('AUDIT: ')
  return (await readLogTail(node.logFile, lines === undefined ? { only } : { lines, only })).lines
}

/** Where there is no pgaudit. What the platform asks its servers every few seconds is not what anybody looks for. */
const logged = /LOG: +(statement:|connection authorized|disconnection)/
const ownSession = /LOG: +(connection authorized|disconnection): .*\buser=busbar_/

/** As {@link readAuditLog}, of servers that write down statements and who logs in. */
export async function readStatementLog(
  { logFile }: Pick<PostgresNode, 'logFile'>,
  lines: number,
): Promise<readonly string[]> {
  return (await readLogTail(logFile, { lines, only: (line) => logged.test(line) && !ownSession.test(line) })).lines
}
