import { open, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Client } from 'pg'
import { CareFailure, refuse } from '../care-failure.ts'
import { requireRoom } from '../durable-files.ts'
import { inMaintenance } from '../maintenance.ts'
import type { NodeControl, PostgresNode } from '../postgres-node.ts'
import { withSession } from '../postgres-session.ts'
import { requireTool, runTool } from '../postgres-tools.ts'
import { copyRoleSettings, copyRoles } from './roles.ts'

export type UpgradeStep = 'CHECKING' | 'COPYING_ROLES' | 'COPYING_DATA' | 'COMPARING' | 'ANALYZING'

export interface UpgradeRequest {
  /** The old server; stopped, or running: it is stopped, and left stopped and unchanged. Starting it is the way back. */
  readonly from: PostgresNode
  /** The new server: a cluster of the newer version just made, stopped, with the same superuser. Left stopped. */
  readonly to: PostgresNode
  readonly control: NodeControl
  readonly onStep?: (step: UpgradeStep) => void
  readonly signal?: AbortSignal
}

interface Database {
  readonly name: string
  readonly owner: string
  readonly encoding: string
  readonly collate: string
  readonly ctype: string
  readonly provider: 'b' | 'c' | 'i'
  /** Of the provider; null for the C library's. */
  readonly locale: string | null
  readonly bytes: number
  readonly own: boolean
}

/**
 * Brings all roles and databases of a server into one of a newer version, by dump. Both are closed to everybody meanwhile, so
 * that nothing is written to the old one that the new one lacks; at the end the rows of every table are counted on both.
 *
 * @throws {CareFailure} `refused`: 400 for a version that is not newer, 424 without the client tools of the old version, 422
 *   with the names when the new version lacks an extension; `failed` (507) without room, and when the copy differs. The old
 *   server is as it was in each case.
 */
export async function upgradePostgres(request: UpgradeRequest): Promise<void> {
  const { from, to, control } = request
  request.onStep?.('CHECKING')
  const tools = { dump: requireTool(from, 'pg_dump', 'atLeast'), restore: requireTool(from, 'pg_restore', 'atLeast') }
  await control.stop(from)
  await inMaintenance(control, from, { settings: { default_transaction_read_only: 'on' } }, (source) =>
    inMaintenance(control, to, { settings: { fsync: 'off', autovacuum: 'off' } }, (target) =>
      copyEverything(request, source, target, tools),
    ),
  )
}

type Tools = { readonly dump: string; readonly restore: string }

async function copyEverything(request: UpgradeRequest, source: PostgresNode, target: PostgresNode, tools: Tools) {
  const { onStep, signal } = request
  const databases = await check(source, target)
  onStep?.('COPYING_ROLES')
  await both(source, target, copyRoles)
  onStep?.('COPYING_DATA')
  for (const database of databases) {
    signal?.throwIfAborted()
    if (!database.own) await makeDatabase(target, database)
    await copyDatabase(source, target, database.name, tools, signal)
  }
  await both(source, target, copyRoleSettings)
  onStep?.('COMPARING')
  for (const { name } of databases) await compare(source, target, name)
  onStep?.('ANALYZING')
  for (const { name } of databases) {
    await withSession(target, (client) => client.query('analyze'), { database: name, statementTimeoutMs: 0 })
  }
  // What was written without flushing is flushed now, and again by the stop.
  await withSession(target, (client) => client.query('checkpoint'), { database: 'postgres', statementTimeoutMs: 0 })
}

function both<T>(
  source: PostgresNode,
  target: PostgresNode,
  work: (from: Client, to: Client) => Promise<T>,
): Promise<T> {
  const options = { database: 'postgres', statementTimeoutMs: 0 }
  return withSession(source, (from) => withSession(target, (to) => work(from, to), options), options)
}

async function check(source: PostgresNode, target: PostgresNode): Promise<readonly Database[]> {
  const databases = await both(source, target, async (from, to) => {
    const [old, next] = await Promise.all([from, to].map(majorVersion))
    if (next! <= old!) refuse(`version must be newer than ${old}.`, { field: 'version' })
    const { rows } = await from.query<Database>(`
      select datname as name, pg_get_userbyid(datdba) as owner, pg_encoding_to_char(encoding) as encoding,
        datcollate as collate, datctype as ctype, datlocprovider as provider,
        coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale') as locale, pg_database_size(oid)::float8 as bytes, datname in ('postgres') as own
      from pg_database d where datallowconn and not datistemplate order by oid`)
    return rows
  })
  await requireExtensions(source, target, databases)
  const bytes = databases.reduce((sum, database) => sum + database.bytes, 0)
  await requireRoom(dirname(target.dataFolder), bytes * 2, 'the upgraded data')
  return databases
}

async function majorVersion(client: Client): Promise<number> {
  const { rows } = await client.query<{ major: number }>(
    "select current_setting('server_version_num')::int / 10000 as major",
  )
  return rows[0]!.major
}

async function requireExtensions(source: PostgresNode, target: PostgresNode, databases: readonly Database[]) {
  const installed = new Set<string>()
  for (const { name } of databases) {
    const rows = await namesOf(source, name, 'select extname as name from pg_extension')
    for (const extension of rows) installed.add(extension)
  }
  const available = new Set(await namesOf(target, 'postgres', 'select name from pg_available_extensions'))
  const missing = [...installed].filter((name) => !available.has(name))
  if (missing.length === 0) return
  refuse(`The new version lacks the extensions ${missing.join(', ')}.`, {
    status: 422,
    field: 'version',
    details: { missing },
  })
}

function namesOf(node: PostgresNode, database: string, sql: string): Promise<readonly string[]> {
  return withSession(node, async (client) => (await client.query<{ name: string }>(sql)).rows.map(({ name }) => name), {
    database,
  })
}

async function makeDatabase(target: PostgresNode, database: Database): Promise<void> {
  const make = async (client: Client) => {
    const { name, owner, encoding } = database
    await client.query(
      `create database ${client.escapeIdentifier(name)} template template0 owner ${client.escapeIdentifier(owner)}
       encoding ${client.escapeLiteral(encoding)} ${localeOf(client, database)}`,
    )
  }
  await withSession(target, make, { database: 'postgres', statementTimeoutMs: 0 })
}

const providers = { b: 'builtin', c: 'libc', i: 'icu' } as const

/** The plain order of code points is the new server's default, whoever provides it. */
function localeOf(client: Client, { provider, collate, ctype, locale }: Database): string {
  if (provider === 'c' && /^(C|POSIX)(\.UTF-?8)?$/i.test(collate)) return ''
  const own = locale === null ? '' : ` ${providers[provider]}_locale ${client.escapeLiteral(locale)}`
  const library = `lc_collate ${client.escapeLiteral(collate)} lc_ctype ${client.escapeLiteral(ctype)}`
  return `locale_provider ${providers[provider]}${own} ${library}`
}

async function copyDatabase(
  source: PostgresNode,
  target: PostgresNode,
  name: string,
  tools: Tools,
  signal?: AbortSignal,
) {
  const file = join(dirname(target.dataFolder), `.upgrade-${process.pid}.dump`)
  const place = (node: PostgresNode) => [`--host=${node.socketFolder}`, `--port=${node.port}`, `--username=${node.superuser.user}`] // biome-ignore format: one list
  const output = await open(file, 'w', 0o600)
  try {
    const dumped = await runTool(tools.dump, { args: [...place(source), '--format=custom', '--compress=1', name], stdout: output.fd, signal }) // biome-ignore format: one call
    if (!dumped.ok) throw toolFailure('read', dumped.complaint)
    const options = ['--exit-on-error', `--dbname=${name}`, ...(name === 'postgres' ? ['--no-comments'] : [])]
    const loaded = await runTool(tools.restore, { args: [...place(target), ...options, file], signal })
    if (!loaded.ok) throw toolFailure('loaded', loaded.complaint)
  } finally {
    await output.close()
    await rm(file, { force: true })
  }
}

function toolFailure(what: string, complaint: string): CareFailure {
  const line = complaint.split('\n').find((entry) => /error/i.test(entry)) ?? 'it was ended'
  const reason = line
    .replace(/^pg_\w+: (error: )?/, '')
    .replaceAll(/"?(\/[\w.+-]+){2,}"?/g, 'a file')
    .slice(0, 300)
  return new CareFailure('failed', `The databases could not be ${what}: ${reason}.`)
}

async function compare(source: PostgresNode, target: PostgresNode, database: string): Promise<void> {
  const [old, next] = await Promise.all([source, target].map((node) => countRows(node, database)))
  for (const [table, rows] of old!) {
    if (next!.get(table) === rows) continue
    throw new CareFailure('failed', `The table ${table} has ${next!.get(table) ?? 'no'} rows after the upgrade instead of ${rows}.`) // biome-ignore format: one sentence
  }
}

async function countRows(node: PostgresNode, database: string): Promise<ReadonlyMap<string, string>> {
  const count = async (client: Client) => {
    const { rows } = await client.query<{ name: string }>(`
      select c.oid::regclass::text as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'm') and c.relpersistence <> 't' and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'`)
    const counts = new Map<string, string>()
    for (const { name } of rows) {
      const answer = await client.query<{ count: string }>(`select count(*) from only ${name}`)
      counts.set(name, answer.rows[0]!.count)
    }
    return counts
  }
  return withSession(node, count, { database, statementTimeoutMs: 0 })
}
