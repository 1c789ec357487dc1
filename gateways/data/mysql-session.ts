import type { Flavour } from './mysql-sql.ts'

export interface SessionOptions {
  /** 0 for no limit. */
  readonly statementTimeoutMs: number
  /** Whether the log shall have the texts of writes. */
  readonly logTexts: boolean
}

interface SessionSetting {
  readonly text: string
  /** A connection without it is of no use. */
  readonly needed: boolean
}

/** What each connection begins with, in this order. */
export function sessionSettings(
  { server }: Flavour,
  { statementTimeoutMs, logTexts }: SessionOptions,
): readonly SessionSetting[] {
  const settings = [
    server === 'mariadb'
      ? `max_statement_time = ${statementTimeoutMs / 1000}`
      : `max_execution_time = ${statementTimeoutMs}`,
    "time_zone = '+00:00'",
    "sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
    // A list that is larger is not cut but refused, since the server makes no text of this size.
    'group_concat_max_len = 4294967295',
    'div_precision_increment = 16',
    'innodb_lock_wait_timeout = 10',
  ]
  return [
    { text: `set session ${settings.join(', ')}`, needed: true },
    // MariaDB writes texts by itself; in MySQL it takes a right that the account may not have.
    ...(logTexts && server === 'mysql'
      ? [{ text: 'set session binlog_rows_query_log_events = on', needed: false }]
      : []),
  ]
}
