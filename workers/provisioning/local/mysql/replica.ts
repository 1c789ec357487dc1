import { existsSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { CareFailure, refuse } from '../care-failure.ts'
import { waitUntil } from '../postgres-session.ts'
import { makeMysqlBackup } from './mysql-backup.ts'
import type { MysqlControl, MysqlNode } from './mysql-node.ts'
import { restoreMysql } from './mysql-restore.ts'
import { rowsOf, withMysql } from './mysql-session.ts'
import { makeReplicationUser } from './passwords.ts'

interface CopyRequest {
  readonly source: MysqlNode
  readonly into: MysqlNode
  readonly control: MysqlControl
  /** Passwords of users in a clone. */
  readonly passwords?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/**
 * Makes a new node with what the running source has now, in a data folder of its own; the node is left stopped. The source is
 * only read.
 *
 * @throws {CareFailure} as a backup and a restore do.
 */
export async function cloneMysql(request: CopyRequest): Promise<void> {
  await copyServer(request, false)
}

/**
 * Makes and starts a read-only replica of a running source. It has the source's users and passwords; the superuser of `into`
 * must be the source's. A repetition after a kill goes on where it was.
 *
 * @throws {CareFailure} as {@link cloneMysql}; `failed` when it does not begin to replicate.
 */
export async function makeMysqlReplica(request: CopyRequest): Promise<void> {
  const { source, into, control } = request
  const same = source.superuser.user === into.superuser.user && source.superuser.password === into.superuser.password
  if (!same) refuse('A replica has the superuser of its source.')
  if (existsSync(into.dataFolder)) await removeCopy(into)
  else await copyServer(request, true)
  await control.start(into, { settings: { read_only: 'ON' } })
  const known = await readReplicaStatus(into)
  if (known === undefined) await follow(source, into)
  // Whoever told it whom to follow was killed before it began.
  else if (known.state === 'STOPPED')
    await withMysql(into, (connection) => connection.query('start slave'), { database: null })
  const running = async () => (await readReplicaStatus(into))?.state === 'STREAMING'
  await waitUntil(running, {
    timeoutMs: 30_000,
    message: 'The replica does not begin to replicate.',
    signal: request.signal,
  })
}

async function follow(source: MysqlNode, into: MysqlNode): Promise<void> {
  const { user, password } = await makeReplicationUser(source, into.serverId)
  await withMysql(
    into,
    async (connection) => {
      await connection.query(
        `change master to master_host = '127.0.0.1', master_port = ?, master_user = ?, master_password = ?,
         master_use_gtid = slave_pos, master_connect_retry = 1`,
        [source.port, user, password],
      )
      await connection.query('start slave')
    },
    { database: null },
  )
}

/** The copy that a node is made from; of no use once its data is there. */
function copyFolder({ dataFolder }: MysqlNode): string {
  return join(dirname(dataFolder), '.copy')
}

/** Of a predecessor that was killed once the data was there. */
export async function removeCopy(node: MysqlNode): Promise<void> {
  await rm(copyFolder(node), { recursive: true, force: true })
}

async function copyServer(
  { source, into, control, passwords, signal }: CopyRequest,
  asReplica: boolean,
): Promise<void> {
  const backupsFolder = copyFolder(into)
  // Of a predecessor that was killed.
  await removeCopy(into)
  await mkdir(backupsFolder, { mode: 0o700 })
  const stop = signal === undefined ? {} : { signal }
  try {
    const backup = await makeMysqlBackup(source, { projectId: 'copy', type: 'MANUAL', backupsFolder, ...stop })
    await restoreMysql({
      backupsFolder,
      backup,
      target: { kind: 'backup' },
      binlogFolder: source.binlogFolder,
      into,
      control,
      asReplica,
      ...(passwords === undefined ? {} : { passwords }),
      ...stop,
    })
  } finally {
    await removeCopy(into)
  }
}

export interface ReplicaStatus {
  readonly state: 'STREAMING' | 'CONNECTING' | 'STOPPED'
  /** Null while it does not stream. */
  readonly lagSeconds: number | null
  /** The server's reason when it stopped, in its own words. */
  readonly error: string | null
  readonly gtid: string
}

interface SlaveRow {
  readonly Slave_IO_Running: string
  readonly Slave_SQL_Running: string
  readonly Seconds_Behind_Master: number | null
  readonly Last_Error: string
  readonly Last_IO_Error: string
  readonly Gtid_IO_Pos: string
}

/** Undefined for a server that is no replica. */
export async function readReplicaStatus(node: MysqlNode): Promise<ReplicaStatus | undefined> {
  const [row] = await withMysql(node, (connection) => rowsOf<SlaveRow>(connection, 'show slave status'), {
    database: null,
  })
  if (row === undefined) return undefined
  const applying = row.Slave_SQL_Running === 'Yes'
  const state = applying && row.Slave_IO_Running === 'Yes' ? 'STREAMING' : applying && row.Slave_IO_Running === 'Connecting' ? 'CONNECTING' : 'STOPPED' // biome-ignore format: three states
  return {
    state,
    lagSeconds: row.Seconds_Behind_Master === null ? null : Number(row.Seconds_Behind_Master),
    error: row.Last_Error || row.Last_IO_Error || null,
    gtid: row.Gtid_IO_Pos,
  }
}

/**
 * Makes a replica the primary: what it has received is applied, then it forgets its source and takes writes. The caller has
 * made sure that the old primary takes none.
 *
 * @throws {CareFailure} `failed` when it does not apply all within the time.
 */
export async function promoteMysql(
  node: MysqlNode,
  { timeoutMs = 30_000 }: { readonly timeoutMs?: number } = {},
): Promise<void> {
  await withMysql(
    node,
    async (connection) => {
      await connection.query('stop slave io_thread')
      await waitUntil(
        async () => {
          const [row] = await rowsOf<{ Slave_SQL_Running_State: string; Slave_SQL_Running: string }>(
            connection,
            'show slave status',
          )
          if (row?.Slave_SQL_Running === 'No')
            throw new CareFailure('failed', 'The replica had stopped applying changes.')
          return row === undefined || /has read all relay log/i.test(row.Slave_SQL_Running_State)
        },
        { timeoutMs, message: 'The replica did not apply all it had received in time.' },
      )
      await connection.query('stop slave')
      await connection.query('reset slave all')
      await connection.query('set global read_only = off')
    },
    { database: null },
  )
}
