import { dirname, join } from 'node:path'
import type { NodeAccount, StopOptions } from '../postgres-node.ts'

/** The programs of a MariaDB installation. */
export interface MysqlBinaries {
  readonly server: string
  /** The script that makes a data folder. */
  readonly install: string
  /** Folder with `mariadb`, `mariadb-dump`, `mariadb-binlog`, `mariadb-backup`. */
  readonly clientFolder: string
  /** What the programs take as `--basedir`. */
  readonly baseFolder: string
  readonly pluginFolder: string
  /** Variables under which the programs run. */
  readonly environment: Readonly<Record<string, string>>
}

/** A MariaDB server of an instance as the driver's pieces see it. */
export interface MysqlNode {
  readonly binaries: MysqlBinaries
  readonly dataFolder: string
  readonly port: number
  /** Default: the server is reached on 127.0.0.1. */
  readonly socketFolder?: string
  readonly superuser: { readonly user: string; readonly password: string }
  /** The instance's own database. */
  readonly database: string
  /** Default: the account of this process. */
  readonly runAs?: NodeAccount
  /** Where the server writes its binary log: the archive for recovery to a time. One folder a server, never shared. */
  readonly binlogFolder: string
  /** The user's parameters, as a my.cnf. May be missing. */
  readonly parametersFile: string
  /** What the server writes on standard error goes to the end of this file. */
  readonly logFile: string
  /** Unique among the servers that replicate from each other, 1 to 2^32 - 1. */
  readonly serverId: number
}

export interface MysqlStartOptions {
  /** Options of this start alone, above all others. A value of null: the option without a value. */
  readonly settings?: Readonly<Record<string, string | null>>
  /** Default 60,000. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

/** As NodeControl of postgres-node.ts, for MariaDB: SIGTERM stops cleanly, SIGKILL is `immediate`. */
export interface MysqlControl {
  /**
   * Runs `binaries.server` with {@link mysqlArguments} under `binaries.environment` as `runAs`; resolves when it accepts
   * connections (a refused password counts).
   *
   * @throws {ServerStartFailed}
   */
  start(node: MysqlNode, options?: MysqlStartOptions): Promise<void>
  stop(node: MysqlNode, options?: StopOptions): Promise<void>
  restart(node: MysqlNode, options?: MysqlStartOptions): Promise<void>
  pid(node: MysqlNode): Promise<number | undefined>
}

/** The platform's own settings: whole rows in a flushed binary log, by position and by global transaction id. */
const platformSettings: Readonly<Record<string, string>> = {
  bind_address: '127.0.0.1',
  binlog_format: 'ROW',
  binlog_row_image: 'FULL',
  binlog_row_metadata: 'FULL',
  gtid_strict_mode: 'ON',
  log_slave_updates: 'ON',
  sync_binlog: '1',
  innodb_flush_log_at_trx_commit: '1',
  binlog_expire_logs_seconds: '0',
  max_binlog_size: '64M',
  character_set_server: 'utf8mb4',
  default_time_zone: '+00:00',
  skip_name_resolve: 'ON',
  local_infile: 'OFF',
}

/** Of the node's own servers, one after the other: the finished data's, and that of data that is being made. */
export function temporaryFolder({ dataFolder }: Pick<MysqlNode, 'dataFolder'>): string {
  return join(dirname(dataFolder), 'tmp')
}

/** The command line of a node's server. The user's parameters are read first, the platform's settings win. */
export function mysqlArguments(node: MysqlNode, { settings = {} }: MysqlStartOptions = {}): readonly string[] {
  const { binaries, binlogFolder } = node
  const all: Readonly<Record<string, string | null>> = {
    ...platformSettings,
    server_id: String(node.serverId),
    // Not the machine's: a server that starts removes all temporary tables it finds, other servers' too.
    tmpdir: temporaryFolder(node),
    log_bin: join(binlogFolder, 'binlog'),
    log_bin_index: join(binlogFolder, 'binlog.index'),
    ...settings,
  }
  return [
    `--defaults-file=${node.parametersFile}`,
    `--basedir=${binaries.baseFolder}`,
    `--datadir=${node.dataFolder}`,
    `--plugin-dir=${binaries.pluginFolder}`,
    `--port=${node.port}`,
    // Relative to the data folder: a socket's path has a limit of some 100 characters.
    `--socket=${node.socketFolder === undefined ? 'server.sock' : join(node.socketFolder, 's')}`,
    `--pid-file=${join(node.dataFolder, 'server.pid')}`,
    ...Object.entries(all).map(([name, value]) => `--${name.replaceAll('_', '-')}${value === null ? '' : `=${value}`}`),
  ]
}
