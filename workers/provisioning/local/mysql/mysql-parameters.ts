import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import type { Connection } from 'mysql2/promise'
import { refuse } from '../care-failure.ts'
import { writeDurably } from '../durable-files.ts'
import type { ParameterState, RestartOutcome } from '../parameters/postgres-parameters.ts'
import { ServerStartFailed } from '../postgres-node.ts'
import type { MysqlControl, MysqlNode, MysqlStartOptions } from './mysql-node.ts'
import { rowsOf, serverError, withMysql } from './mysql-session.ts'

interface Variable {
  readonly name: string
  readonly type: string
  readonly value: string
  readonly fallback: string | null
  readonly min: string | null
  readonly max: string | null
  readonly words: string | null
  readonly readOnly: 'YES' | 'NO'
  readonly commandLine: string | null
  readonly scope: string
}

/** The platform's own: where the server is and listens, its logs for recovery and replication, and who gets in. */
const ours: readonly (string | RegExp)[] = [
  'basedir', 'bind_address', 'character_sets_dir', 'datadir', 'default_time_zone', 'event_scheduler', 'general_log', 'general_log_file', 'init_connect',
  'init_file', 'init_slave', 'local_infile', 'log_error', 'log_output', 'log_slave_updates', 'old_passwords', 'pid_file', 'plugin_dir', 'plugin_maturity',
  'port', 'read_only', 'report_host', 'secure_auth', 'secure_file_priv', 'server_id', 'skip_grant_tables', 'skip_name_resolve', 'skip_networking',
  'skip_slave_start', 'slow_query_log_file', 'socket', 'super_read_only', 'sync_binlog', 'tmpdir', 'user', 'wsrep_on', 'log_bin', 'log_bin_index', 'enforce_storage_engine',
  'innodb_data_home_dir', 'innodb_data_file_path', 'innodb_log_group_home_dir', 'innodb_undo_directory', 'innodb_force_recovery', 'innodb_doublewrite',
  'innodb_flush_log_at_trx_commit', 'innodb_page_size', 'innodb_checksum_algorithm', 'innodb_read_only', 'lower_case_table_names', 'max_binlog_size', 'time_zone',
  /^binlog_/, /^gtid_/, /^master_/, /^relay_/, /^replicate_/, /^rpl_semi_sync_/, /^slave_/, /^ssl_/, /^wsrep_/, /^tls_/, /^feedback/, /^debug/, /^plugin_load/, /^aria_log_dir/, /^log_bin_/, /^extra_/,
] // biome-ignore format: a list of names

/** Whether users may not set it: told by name, in lower case. */
export function isMysqlPlatformSetting(name: string): boolean {
  return ours.some((entry) => (typeof entry === 'string' ? entry === name : entry.test(name)))
}

async function readVariables(connection: Connection): Promise<ReadonlyMap<string, Variable>> {
  const rows = await rowsOf<Variable>(
    connection,
    `select lower(variable_name) as name, variable_type as type, coalesce(global_value, '') as value, default_value as fallback,
      numeric_min_value as min, numeric_max_value as max, enum_value_list as words, read_only as readOnly,
      command_line_argument as commandLine, variable_scope as scope
    from information_schema.system_variables`,
  )
  return new Map(rows.map((row) => [row.name, row]))
}

/** A value as the server takes it: sizes with K, M, G as plain numbers, words as written. */
function readValue(variable: Variable, value: string): string {
  const wrong = (reason: string) =>
    refuse(`${variable.name} ${reason}.`, { field: `parameters.${variable.name}`, details: { type: variable.type, ...(variable.words && { allowed: variable.words.split(',') }) } }) // biome-ignore format: one call
  if (/[\0\r\n]/.test(value) || value.length > 1000) wrong('must be one line of at most 1000 characters')
  if (/INT/.test(variable.type) || variable.type === 'DOUBLE') {
    const [, digits, unit = ''] = /^(-?\d+(?:\.\d+)?)([KMGT]?)$/i.exec(value) ?? []
    if (digits === undefined) return wrong('must be a number, or one with K, M or G')
    const number = Number(digits) * 1024 ** ['', 'K', 'M', 'G', 'T'].indexOf(unit.toUpperCase())
    if (number < Number(variable.min) || number > Number(variable.max))
      wrong(`must be between ${variable.min} and ${variable.max}`)
    return variable.type === 'DOUBLE' ? String(number) : String(Math.round(number))
  }
  if (variable.type === 'BOOLEAN' && !/^(on|off|1|0|true|false)$/i.test(value)) wrong('must be ON or OFF')
  if (variable.type === 'ENUM') {
    const words = variable.words?.split(',') ?? []
    if (!words.some((word) => word.toLowerCase() === value.toLowerCase())) wrong(`must be one of ${words.join(', ')}`)
  }
  return value
}

function knownVariable(variables: ReadonlyMap<string, Variable>, given: string): Variable {
  const name = given.toLowerCase().replaceAll('-', '_')
  const field = `parameters.${given.slice(0, 80)}`
  if (isMysqlPlatformSetting(name)) refuse(`${name} is managed by the platform and cannot be set.`, { field })
  const variable = variables.get(name) ?? refuse(`There is no parameter ${given.slice(0, 80)}.`, { field })
  if (variable.scope === 'SESSION ONLY' || (variable.readOnly === 'YES' && variable.commandLine === null)) {
    refuse(`${name} cannot be set for the server.`, { field })
  }
  return variable
}

const goodFile = (node: MysqlNode) => `${node.parametersFile}.good`

/** The user's parameters of a node, as they are in its file. */
export async function readMysqlParameters(node: MysqlNode): Promise<Readonly<Record<string, string>>> {
  const text = await readFile(node.parametersFile, 'utf8').catch(() => '')
  const entries = text.split('\n').map((line) => /^(\w+)="(.*)"$/.exec(line)).filter((match) => match !== null) // biome-ignore format: one chain
  return Object.fromEntries(entries.map(([, name = '', value = '']) => [name, value.replace(/\\(["\\])/g, '$1')]))
}

async function writeParameters(node: MysqlNode, values: Readonly<Record<string, string>>): Promise<void> {
  const lines = Object.entries(values).map(([name, value]) => `${name}="${value.replace(/["\\]/g, '\\$&')}"`)
  await writeDurably(node.parametersFile, `${['[mysqld]', ...lines].join('\n')}\n`, node.runAs)
}

interface Change {
  readonly variable: Variable
  /** Null: back to the default. */
  readonly value: string | null
}

function readChanges(
  variables: ReadonlyMap<string, Variable>,
  changes: Readonly<Record<string, string | null>>,
): readonly Change[] {
  if (Object.keys(changes).length > 100) refuse('parameters has more than 100 names.', { field: 'parameters' })
  return Object.entries(changes).map(([given, value]) => {
    const variable = knownVariable(variables, given)
    return { variable, value: value === null ? null : readValue(variable, value) }
  })
}

/**
 * Checks parameters against a running server without changing it.
 *
 * @throws {CareFailure} `refused` (400), field `parameters.<name>`; `unavailable`.
 */
export async function checkMysqlParameters(
  node: MysqlNode,
  changes: Readonly<Record<string, string | null>>,
): Promise<void> {
  readChanges(await withMysql(node, readVariables, { database: null }), changes)
}

export interface MysqlApplied {
  readonly reload: readonly string[]
  /** Names whose new value waits for a restart. */
  readonly pendingRestart: readonly string[]
}

/**
 * Sets parameters (null: back to the default): what the server can change while it runs is in force at the return, the rest
 * after a restart. All of them are checked before the first is set.
 *
 * @throws {CareFailure} `refused` (400), field `parameters.<name>`; `unavailable`.
 */
export async function applyMysqlParameters(
  node: MysqlNode,
  changes: Readonly<Record<string, string | null>>,
): Promise<MysqlApplied> {
  return withMysql(
    node,
    async (connection) => {
      const entries = readChanges(await readVariables(connection), changes)
      const live = entries.filter(({ variable }) => variable.readOnly === 'NO')
      for (const { variable, value } of live) await setLive(connection, variable, value)
      const kept = await readMysqlParameters(node)
      if (!existsSync(goodFile(node)))
        await writeDurably(goodFile(node), await readFile(node.parametersFile), node.runAs)
      const next = new Map(Object.entries(kept))
      for (const { variable, value } of entries)
        value === null ? next.delete(variable.name) : next.set(variable.name, value)
      await writeParameters(node, Object.fromEntries(next))
      const pendingRestart = entries
        .filter(({ variable }) => variable.readOnly === 'YES')
        .map(({ variable }) => variable.name)
      if (pendingRestart.length === 0) await rm(goodFile(node), { force: true })
      return { reload: live.map(({ variable }) => variable.name), pendingRestart }
    },
    { database: null },
  )
}

async function setLive(connection: Connection, { name, type }: Variable, value: string | null): Promise<void> {
  const numeric = /INT|DOUBLE/.test(type) && value !== null
  try {
    await connection.query(
      `set global \`${name}\` = ${value === null ? 'default' : numeric ? value : connection.escape(value)}`,
    )
  } catch (error) {
    const known = serverError(error)
    if (known === undefined) throw error
    refuse(`${name}: ${known.message}.`, { field: `parameters.${name}`, cause: error })
  }
}

/**
 * Restarts a node for its pending parameters; when it does not come up, the last good ones are put back and it is started
 * again.
 *
 * @throws {ServerStartFailed} when it does not start with the last good ones either.
 */
export async function restartMysqlWithParameters(
  control: MysqlControl,
  node: MysqlNode,
  { timeoutMs = 60_000, ...how }: Pick<MysqlStartOptions, 'timeoutMs' | 'settings'> = {},
): Promise<RestartOutcome> {
  const good = goodFile(node)
  try {
    await control.restart(node, { ...how, timeoutMs })
    await rm(good, { force: true })
    return { applied: true, reason: null }
  } catch (error) {
    if (!(error instanceof ServerStartFailed) || !existsSync(good)) throw error
    await control.stop(node, { mode: 'immediate' })
    await writeDurably(node.parametersFile, await readFile(good), node.runAs)
    await control.start(node, { ...how, timeoutMs })
    await rm(good, { force: true })
    return { applied: false, reason: mysqlStartFailure(error.log) }
  }
}

/** The server's own words, without time and paths. */
function mysqlStartFailure(log: string): string {
  const line = log.split('\n').find((entry) => entry.includes('[ERROR]')) ?? ''
  const words = line.replace(/^.*?\[ERROR\]\s*/, '').replaceAll(/'?(\/[\w.+-]+){2,}'?/g, 'a file')
  return words.slice(0, 300) || 'the server did not become ready in time'
}

/** The user's parameters and what is in force of them. */
export async function listMysqlParameters(node: MysqlNode): Promise<readonly ParameterState[]> {
  const kept = await readMysqlParameters(node)
  const variables = await withMysql(node, readVariables, { database: null })
  return Object.entries(kept).flatMap(([name, value]) => {
    const variable = variables.get(name)
    if (variable === undefined) return []
    const inForce = variable.value.toLowerCase() === value.toLowerCase() || Number(variable.value) === Number(value)
    const effect = variable.readOnly === 'YES' ? ('restart' as const) : ('reload' as const)
    return [
      { name, value: variable.value, pending: inForce ? null : value, unit: null, effect, source: 'user' as const },
    ]
  })
}
