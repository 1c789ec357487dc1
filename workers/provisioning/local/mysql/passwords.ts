import { createHash } from 'node:crypto'
import type { Connection } from 'mysql2/promise'
import { CareFailure } from '../care-failure.ts'
import { newPassword } from '../credentials/scram.ts'
import type { MysqlNode } from './mysql-node.ts'
import { openMysql, rowsOf, serverError, withMysql } from './mysql-session.ts'

/**
 * What MariaDB stores in place of a password (mysql_native_password): the password itself never reaches the server's logs.
 *
 * Source: https://mariadb.com/kb/en/authentication-plugin-mysql_native_password/
 */
export function nativeVerifier(password: string): string {
  const sha1 = (bytes: Buffer | string) => createHash('sha1').update(bytes).digest()
  return `*${sha1(sha1(password)).toString('hex').toUpperCase()}`
}

/** Gives every account of a user name the password; @throws {CareFailure} `refused` (404) when there is none. */
export async function setPassword(connection: Connection, user: string, password: string): Promise<void> {
  const hosts = await rowsOf<{ host: string }>(connection, 'select host from mysql.global_priv where user = ?', [user])
  if (hosts.length === 0) throw new CareFailure('refused', `There is no user ${user}.`, { status: 404 })
  for (const { host } of hosts) {
    await connection.query('alter user ?@? identified via mysql_native_password using ?', [
      user,
      host,
      nativeVerifier(password),
    ])
  }
}

export interface MysqlRotateRequest {
  readonly user: string
  readonly password: string
  /** Sessions opened under the old password: left alone (default), or ended at once. */
  readonly oldSessions?: 'keep' | 'end'
}

/**
 * Gives a user a new password and tries it. Repeating the call after a kill ends in the same state.
 *
 * @throws {CareFailure} `refused` (404) when there is no such user; `unavailable`; `failed` when it cannot log in with it.
 */
export async function rotateMysqlPassword(
  node: MysqlNode,
  request: MysqlRotateRequest,
): Promise<{ readonly endedSessions: number }> {
  const { user, password, oldSessions = 'keep' } = request
  const endedSessions = await withMysql(
    node,
    async (connection) => {
      await setPassword(connection, user, password)
      return oldSessions === 'end' ? endSessions(connection, user) : 0
    },
    { database: null },
  )
  try {
    await (await openMysql(node, { user: { user, password } })).end()
  } catch (error) {
    throw new CareFailure('failed', 'The new password does not open the database.', { cause: error })
  }
  return { endedSessions }
}

async function endSessions(connection: Connection, user: string): Promise<number> {
  const sessions = await rowsOf<{ id: number }>(
    connection,
    'select id from information_schema.processlist where user = ? and id <> connection_id()',
    [user],
  )
  for (const { id } of sessions) {
    await connection.query('kill connection ?', [id]).catch((error: unknown) => {
      // 1094: it ended by itself meanwhile.
      if (serverError(error)?.errno !== 1094) throw error
    })
  }
  return sessions.length
}

const replicationPrefix = 'busbar_replica_'

/**
 * A user for one replica, with a new password and the right to read the log, no more: MariaDB keeps what a replica logs in with in
 * the clear, in the replica's data folder.
 */
export async function makeReplicationUser(
  source: MysqlNode,
  serverId: number,
): Promise<{ readonly user: string; readonly password: string }> {
  const user = `${replicationPrefix}${serverId}`
  const password = newPassword()
  await withMysql(
    source,
    async (connection) => {
      await connection.query('create or replace user ?@? identified via mysql_native_password using ?', [
        user,
        '127.0.0.1',
        nativeVerifier(password),
      ])
      await connection.query('grant replication slave on *.* to ?@?', [user, '127.0.0.1'])
    },
    { database: null },
  )
  return { user, password }
}

/** Of a replica that is gone; without an id of all of them. */
export async function dropReplicationUsers(connection: Connection, serverId?: number): Promise<void> {
  const users = await rowsOf<{ user: string; host: string }>(
    connection,
    'select user, host from mysql.global_priv where user like ?',
    [`${replicationPrefix.replaceAll('_', '\\_')}${serverId ?? '%'}`],
  )
  for (const { user, host } of users) await connection.query('drop user ?@?', [user, host])
}
