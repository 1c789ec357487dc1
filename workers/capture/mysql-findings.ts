import type { Connection, RowDataPacket } from 'mysql2/promise'
import { CaptureBusy, CaptureRefused } from './refusal.ts'

/** What reading the log of a server takes. */
export interface BinlogServer {
  readonly isMariadb: boolean
  /** What cannot be compared with the positions of another server. */
  readonly identity: string
  /** GTIDs that are executed now. */
  readonly executed: string
}

interface Setting {
  readonly name: string
  readonly wanted: string
  /** Why it is needed. */
  readonly because: string
  /** Statements that set it without a restart; null: it takes one. */
  readonly dynamic: boolean
}

const settings = (isMariadb: boolean): readonly Setting[] => [
  { name: 'log_bin', wanted: 'ON', because: 'there is no binary log', dynamic: false },
  { name: 'binlog_format', wanted: 'ROW', because: 'the log holds statements instead of rows', dynamic: true },
  { name: 'binlog_row_image', wanted: 'FULL', because: 'the log leaves columns out', dynamic: true },
  { name: 'binlog_row_metadata', wanted: 'FULL', because: 'the log has no names of columns', dynamic: true },
  ...(isMariadb
    ? []
    : [
        { name: 'gtid_mode', wanted: 'ON', because: 'transactions have no ids', dynamic: false },
        {
          name: 'binlog_transaction_compression',
          wanted: 'OFF',
          because: 'compressed transactions cannot be read',
          dynamic: true,
        },
      ]),
]

/**
 * What is read from a server, once it can be.
 *
 * @throws {CaptureRefused} with all that is in the way, and the statements that mend it
 */
export async function checkBinlog(connection: Connection): Promise<BinlogServer> {
  const variables = await variablesOf(connection)
  const version = variables.get('version') ?? ''
  const isMariadb = /mariadb/i.test(version) || variables.has('gtid_binlog_pos')
  const wrong = settings(isMariadb).filter(({ name, wanted }) => {
    const value = variables.get(name)
    // Older servers have no compression to be switched off.
    if (value === undefined) return wanted !== 'OFF'
    return value.toUpperCase() !== wanted
  })
  const missing = await missingRights(connection, isMariadb)
  if (wrong.length > 0 || missing.length > 0) {
    const reasons = [...wrong.map(told(variables)), ...missing.map((right) => `the user lacks ${right}`)]
    const account = await accountOf(connection)
    const statements = [
      ...wrong.map(({ name, wanted, dynamic }) =>
        dynamic
          ? `SET GLOBAL ${name} = ${wanted}; -- and in my.cnf; sessions that are open keep what they had`
          : `-- in my.cnf: ${name}${name === 'log_bin' ? '' : ` = ${wanted}`}, then restart the server`,
      ),
      ...(missing.length > 0 ? [`GRANT ${missing.join(', ')} ON *.* TO ${account};`] : []),
    ]
    throw new CaptureRefused(`Change capture cannot read the binary log: ${reasons.join('; ')}`, statements)
  }
  const executed = variables.get(isMariadb ? 'gtid_binlog_pos' : 'gtid_executed') ?? ''
  return {
    isMariadb,
    identity: `${variables.get('server_uuid') ?? variables.get('server_uid') ?? variables.get('hostname')}/${variables.get('datadir')}`,
    executed: executed.replace(/\s/g, ''),
  }
}

const told =
  (variables: ReadonlyMap<string, string>) =>
  ({ name, wanted, because }: Setting): string =>
    `${name} is ${variables.get(name) ?? 'not known to the server'}, not ${wanted} (${because})`

async function variablesOf(connection: Connection): Promise<ReadonlyMap<string, string>> {
  const [rows] = await connection.query<RowDataPacket[]>('show global variables')
  return new Map(rows.map(({ Variable_name: name, Value: value }) => [String(name).toLowerCase(), String(value)]))
}

/** What the user must be granted to read the log; `SHOW GRANTS` names what it has in many ways. */
async function missingRights(connection: Connection, isMariadb: boolean): Promise<readonly string[]> {
  const [rows] = await connection.query<RowDataPacket[]>('show grants')
  const grants = rows
    .map((row) => String(Object.values(row)[0]).toUpperCase())
    .filter((grant) => / ON \*\.\* /.test(grant))
  const has = (...names: string[]) =>
    grants.some((grant) => [...names, 'ALL PRIVILEGES'].some((name) => grant.includes(name)))
  const wanted = isMariadb
    ? [
        ['REPLICATION SLAVE', 'REPLICATION REPLICA'],
        ['BINLOG MONITOR', 'REPLICATION CLIENT'],
      ]
    : [['REPLICATION SLAVE'], ['REPLICATION CLIENT']]
  return wanted.filter((names) => !has(...names)).map(([name]) => name!)
}

async function accountOf(connection: Connection): Promise<string> {
  const [rows] = await connection.query<RowDataPacket[]>('select current_user() as account')
  const [user = '', host = '%'] = String(rows[0]?.account).split('@')
  return `'${user}'@'${host}'`
}

/**
 * Takes the place of the one reader; it lasts as long as the connection does.
 *
 * @throws {CaptureBusy} while somebody else has it
 */
export async function takeReading(connection: Connection, name: string): Promise<void> {
  // Names of locks are short.
  const [rows] = await connection.query<RowDataPacket[]>('select get_lock(?, 0) as taken', [
    `busbar/${name}`.slice(0, 64),
  ])
  if (Number(rows[0]?.taken) !== 1) throw new CaptureBusy('Another capture reads the log')
}
