import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from 'pg'
import { refuse } from '../care-failure.ts'
import { writeDurably } from '../durable-files.ts'
import { type NodeControl, type PostgresNode, ServerStartFailed, type StartOptions } from '../postgres-node.ts'
import { sqlState, withSession } from '../postgres-session.ts'
import { type ParameterPlan, planParameters } from './plan.ts'
import { isPlatformSetting, type Setting } from './setting.ts'

/** What ALTER SYSTEM writes; read by the server after all other files. */
const systemFile = 'postgresql.auto.conf'
/** The last content of it that the server started with. Lies in the data folder, so that copies bring it along. */
export const goodFile = 'postgresql.auto.conf.good'

export interface ParameterState {
  readonly name: string
  /** What is in force, as `SHOW` prints it. */
  readonly value: string
  /** What will be in force after a restart; null when nothing is pending. */
  readonly pending: string | null
  readonly unit: string | null
  readonly effect: 'reload' | 'restart'
  /** Where the value comes from: `default`, `user` (set through the platform) or `platform`. */
  readonly source: 'default' | 'user' | 'platform'
}

/** Every setting of the server, by its name in lower case. */
async function readSettings(node: PostgresNode): Promise<ReadonlyMap<string, Setting>> {
  return withSession(node, settingsOf)
}

async function settingsOf(client: Client): Promise<ReadonlyMap<string, Setting>> {
  const { rows } = await client.query<Setting>(`
    select name, setting, nullif(unit, '') as unit, vartype, context, min_val as min, max_val as max, enumvals,
      -- At a reload the server also marks what its command line overrides.
      pending_restart and source <> 'command line' as "pendingRestart"
    from pg_settings`)
  return new Map(rows.map((row) => [row.name.toLowerCase(), row]))
}

/**
 * Checks parameters against a running server without changing it.
 *
 * @throws {CareFailure} `refused` as {@link planParameters} does; `unavailable`.
 */
export async function checkParameters(
  node: PostgresNode,
  values: Readonly<Record<string, string>>,
): Promise<ParameterPlan> {
  return planParameters(await readSettings(node), values)
}

export interface Applied {
  readonly plan: ParameterPlan
  /** Names whose new value waits for a restart of this node. */
  readonly pendingRestart: readonly string[]
}

/**
 * Sets parameters on one node (null: back to the default) and reloads it: what needs no restart is in force at the return.
 * Either all of them or none. The server checks each value itself too.
 *
 * @throws {CareFailure} `refused` (400) with the server's reason; `unavailable`.
 */
export async function applyParameters(
  node: PostgresNode,
  changes: Readonly<Record<string, string | null>>,
): Promise<Applied> {
  const values = Object.fromEntries(Object.entries(changes).filter((entry): entry is [string, string] => entry[1] !== null)) // biome-ignore format: one expression
  const dropped = Object.keys(changes).filter((name) => changes[name] === null)
  return withSession(node, async (client) => {
    const settings = await settingsOf(client)
    const plan = planParameters(settings, values)
    requireKnown(settings, dropped)
    await keepGood(node)
    const before = await readFile(join(node.dataFolder, systemFile))
    try {
      for (const [name, value] of Object.entries(plan.values)) await alterSystem(client, name, value)
      for (const name of dropped)
        await client.query(`alter system reset ${client.escapeIdentifier(name.toLowerCase())}`)
      await requireReadable(client)
    } catch (error) {
      // Nothing is in force yet: the server reads the file at a reload.
      await putSystemFile(node, before)
      throw error
    }
    await reload(client)
    const after = [...(await settingsOf(client)).values()]
    const pendingRestart = after.filter((setting) => setting.pendingRestart).map(({ name }) => name)
    if (pendingRestart.length === 0) await rm(join(node.dataFolder, goodFile), { force: true })
    return { plan, pendingRestart }
  })
}

function requireKnown(settings: ReadonlyMap<string, Setting>, names: readonly string[]): void {
  for (const name of names) {
    const known = settings.has(name.toLowerCase()) && !isPlatformSetting(name.toLowerCase())
    if (!known)
      refuse(`There is no parameter ${name.slice(0, 80)} to reset.`, { field: `parameters.${name.slice(0, 80)}` })
  }
}

async function alterSystem(client: Client, name: string, value: string): Promise<void> {
  try {
    await client.query(`alter system set ${client.escapeIdentifier(name)} = ${client.escapeLiteral(value)}`)
  } catch (error) {
    if (sqlState(error) === undefined) throw error
    const { message, hint } = error as { message: string; hint?: string }
    refuse(`${message}${hint === undefined ? '' : ` (${hint})`}.`, { field: `parameters.${name}`, cause: error })
  }
}

/** Faults the server finds only when it reads its files. */
async function requireReadable(client: Client): Promise<void> {
  const { rows } = await client.query<{ name: string | null; error: string }>(
    "select name, error from pg_file_settings where error is not null and error <> 'setting could not be applied' limit 1",
  )
  const [fault] = rows
  if (fault !== undefined)
    refuse(`The server refuses the parameters: ${fault.error}.`, { field: `parameters.${fault.name}` })
}

/** Resolves when the server has read its files: each session reads them on its own, this one too. */
async function reload(client: Client): Promise<void> {
  const loadedAt = async () =>
    (await client.query<{ at: string }>('select pg_conf_load_time()::text as at')).rows[0]!.at
  const before = await loadedAt()
  await client.query('select pg_reload_conf()')
  const end = performance.now() + 10_000
  while ((await loadedAt()) === before && performance.now() < end) await new Promise((again) => setTimeout(again, 20))
}

/** Remembers the file a server runs with, unless an older one waits for the outcome of a restart. */
export async function keepGood(node: PostgresNode): Promise<void> {
  const good = join(node.dataFolder, goodFile)
  if (existsSync(good)) return
  await writeDurably(good, await readFile(join(node.dataFolder, systemFile)), node.runAs)
}

async function putSystemFile(node: PostgresNode, content: Buffer): Promise<void> {
  await writeDurably(join(node.dataFolder, systemFile), content, node.runAs)
}

export interface RestartOutcome {
  /** False when the server did not start with the new parameters and was started with the last good ones. */
  readonly applied: boolean
  /** The server's reason, in words for the user, when not applied. */
  readonly reason: string | null
}

/**
 * Restarts a node for its pending parameters. When it does not come up, the parameters it last ran with are put back and it is
 * started again.
 *
 * @throws {ServerStartFailed} when the node does not start with the last good parameters either.
 */
export async function restartWithParameters(
  control: NodeControl,
  node: PostgresNode,
  options: StartOptions = {},
): Promise<RestartOutcome> {
  await control.stop(node)
  return await startWithParameters(control, node, options)
}

/** As {@link restartWithParameters}, for a node that is to run: whoever restarted it may have been killed in between. */
export async function startWithParameters(
  control: Pick<NodeControl, 'start' | 'stop' | 'pid'>,
  node: PostgresNode,
  options: StartOptions = {},
): Promise<RestartOutcome> {
  const good = join(node.dataFolder, goodFile)
  // One that runs already may have read none of what waits for its restart.
  const runs = (await control.pid(node)) !== undefined
  let reason: string | null = null
  try {
    await control.start(node, options)
  } catch (error) {
    if (!(error instanceof ServerStartFailed) || !existsSync(good)) throw error
    reason = startFailureReason(error.log)
    await control.stop(node, { mode: 'immediate' })
    await putSystemFile(node, await readFile(good))
    await control.start(node, options)
  }
  if (!runs || reason !== null) await rm(good, { force: true })
  return { applied: reason === null, reason }
}

/** The server's own words, without time, process number and paths. */
export function startFailureReason(log: string): string {
  const lines = log.split('\n').filter((line) => /\b(FATAL|PANIC|ERROR|LOG):/.test(line))
  const line = lines.find((entry) => /\b(FATAL|PANIC|ERROR):/.test(entry)) ?? lines.at(-1) ?? ''
  const words = line.replace(/^.*?\b(FATAL|PANIC|ERROR|LOG):\s*/, '').replaceAll(/"?(\/[\w.+-]+){2,}"?/g, 'a file')
  return words.slice(0, 300) || 'the server did not become ready in time'
}

/** Settings that differ from the server's built-in default or wait for a restart. */
export async function listParameters(node: PostgresNode): Promise<readonly ParameterState[]> {
  return withSession(node, async (client) => {
    const { rows } = await client.query<ParameterRow>(`
      select s.name, current_setting(s.name) as value, nullif(s.unit, '') as unit, s.context, s.pending_restart and s.source <> 'command line' as pending,
        f.setting as file, f.mine
      from pg_settings s
      left join lateral (
        select setting, sourcefile like '%/${systemFile}' as mine from pg_file_settings f
        where f.name = s.name order by seqno desc limit 1) f on true
      where s.context <> 'internal' and (s.source not in ('default', 'session', 'client') or s.pending_restart)
        and s.name not in ('search_path', 'statement_timeout', 'application_name')
      order by s.name`)
    return rows.map(({ name, value, unit, context, pending, file, mine }) => ({
      name,
      value: isPlatformSetting(name) ? 'managed' : value,
      pending: pending ? (file ?? 'default') : null,
      unit,
      effect: context === 'postmaster' ? ('restart' as const) : ('reload' as const),
      source: isPlatformSetting(name) ? ('platform' as const) : mine ? ('user' as const) : ('default' as const),
    }))
  })
}

interface ParameterRow {
  readonly name: string
  readonly value: string
  readonly unit: string | null
  readonly context: string
  readonly pending: boolean
  readonly file: string | null
  readonly mine: boolean | null
}
