import { refuse } from '../care-failure.ts'

/** A row of pg_settings. Numbers are in `unit`. */
export interface Setting {
  readonly name: string
  readonly setting: string
  readonly unit: string | null
  readonly vartype: 'bool' | 'integer' | 'real' | 'enum' | 'string'
  readonly context: string
  readonly min: string | null
  readonly max: string | null
  readonly enumvals: readonly string[] | null
  readonly pendingRestart: boolean
}

/** What a change needs before it is in force. */
export type ChangeEffect = 'reload' | 'restart'

/**
 * Settings that are the platform's: where the server is and listens, its archive and replication, what it records and which
 * libraries it loads. A change would cut the instance off from its care, or open it.
 */
const ours: readonly (string | RegExp)[] = [
  'allow_alter_system', 'allow_in_place_tablespaces', 'allow_system_table_mods', 'config_file', 'data_directory',
  'data_sync_retry', 'event_source', 'external_pid_file', 'fsync', 'full_page_writes', 'hba_file', 'hot_standby',
  'ident_file', 'ignore_checksum_failure', 'ignore_invalid_pages', 'ignore_system_indexes', 'jit_provider',
  'listen_addresses', 'port', 'cluster_name', 'dynamic_library_path', 'extension_control_path', 'local_preload_libraries',
  'session_preload_libraries', 'shared_preload_libraries', 'logging_collector', 'password_encryption',
  'primary_conninfo', 'primary_slot_name', 'promote_trigger_file', 'restart_after_crash', 'restore_command', 'remove_temp_files_after_crash',
  'sync_replication_slots', 'synchronized_standby_slots', 'synchronous_standby_names', 'wal_level', 'wal_log_hints',
  'wal_sync_method', 'wal_consistency_checking', 'zero_damaged_pages', 'max_wal_senders', 'max_replication_slots', 'max_slot_wal_keep_size',
  'default_transaction_read_only', 'stats_temp_directory', 'summarize_wal', 'trace_recovery_messages', 'unix_socket_directories',
  /^archive_/, /^bonjour/, /^krb_/, /^gss_/, /^oauth_/, /^log_(destination|directory|file_mode|filename|rotation_|truncate_)/,
  /^recovery_/, /^ssl/, /^syslog_/, /^unix_socket_/, /^debug_/, /^basic_archive\./, /^pgaudit\./,
] // biome-ignore format: a list of names

/** Whether users may not set it: told by name. */
export function isPlatformSetting(name: string): boolean {
  return ours.some((entry) => (typeof entry === 'string' ? entry === name : entry.test(name)))
}

/**
 * Holds a value against what the server says of the setting: type, unit, range, words.
 *
 * @throws {CareFailure} `refused` (400), field `parameters.<name>`.
 */
export function checkValue(setting: Setting, value: string): void {
  const wrong = (reason: string): never =>
    refuse(`${setting.name} ${reason}.`, { field: `parameters.${setting.name}`, details: bounds(setting) })
  if (/[\0\r\n]/.test(value)) wrong('must be one line')
  if (value.length > 1000) wrong('is longer than 1000 characters')
  switch (setting.vartype) {
    case 'bool':
      if (!/^(on|off|true|false|yes|no|1|0)$/i.test(value)) wrong('must be on or off')
      return
    case 'enum':
      if (!setting.enumvals?.includes(value.toLowerCase())) wrong(`must be one of ${setting.enumvals?.join(', ')}`)
      return
    case 'integer':
    case 'real': {
      const number = readNumber(value, setting.unit)
      const rounded = setting.vartype === 'integer' ? Math.round(number ?? 0) : (number ?? 0)
      if (number === undefined) wrong(numberRule(setting))
      if (rounded < Number(setting.min) || rounded > Number(setting.max)) wrong(rangeRule(setting))
      return
    }
    case 'string':
      return
  }
}

function bounds({ vartype, unit, min, max, enumvals }: Setting): Readonly<Record<string, unknown>> {
  return {
    type: vartype,
    ...(unit && { unit }),
    ...(min && { min }),
    ...(max && { max }),
    ...(enumvals && { allowed: enumvals }),
  }
}

function numberRule({ vartype, unit }: Setting): string {
  const kind = vartype === 'integer' ? 'a whole number' : 'a number'
  const units = unit === null ? '' : ` of ${unit}, or with a unit such as ${unitsLike(unit).join(', ')}`
  return `must be ${kind}${units}`
}

function rangeRule({ min, max, unit }: Setting): string {
  return `must be between ${min} and ${max}${unit === null ? '' : ` (in ${unit})`}`
}

const bytes: Readonly<Record<string, number>> = { B: 1, kB: 1024, MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 }
const times: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1000, min: 60_000, h: 3_600_000, d: 86_400_000 }

function unitsLike(unit: string): readonly string[] {
  return Object.keys(unit in times ? times : bytes)
}

/** A number in the setting's own unit; undefined when it is none. The server's unit can have a factor: `8kB`, `16MB`. */
export function readNumber(text: string, unit: string | null): number | undefined {
  const [, digits = '', given = ''] =
    /^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)\s*$/.exec(text) ?? []
  if (digits === '') return undefined
  if (given === '') return Number(digits)
  const [, factor = '', base = ''] = /^(\d*)([A-Za-z]+)$/.exec(unit ?? '') ?? []
  const table = base in times ? times : bytes
  if (base === '' || !(given in table)) return undefined
  return (Number(digits) * table[given]!) / (Number(factor || 1) * table[base]!)
}

/** @throws {CareFailure} `refused` (400) for a setting that no session-wide configuration can change. */
export function effectOf(setting: Setting): ChangeEffect {
  if (setting.context === 'internal') {
    refuse(`${setting.name} is fixed when the server is built or its data folder made.`, {
      field: `parameters.${setting.name}`,
    })
  }
  return setting.context === 'postmaster' ? 'restart' : 'reload'
}
