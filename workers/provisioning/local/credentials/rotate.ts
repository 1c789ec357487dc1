import { CareFailure } from '../care-failure.ts'
import type { PostgresNode } from '../postgres-node.ts'
import { openSession, withSession } from '../postgres-session.ts'
import { scramVerifier } from './scram.ts'

export interface RotateRequest {
  /** Name of the role. */
  readonly user: string
  readonly password: string
  /** Sessions opened under the old password: left alone (default), or ended at once. */
  readonly oldSessions?: 'keep' | 'end'
}

/**
 * Gives a role a new password. The server gets its verifier only: the password is in no log and no statistics. Repeating the
 * call after a kill ends in the same state. Then the new password is tried.
 *
 * @throws {CareFailure} `refused` (404) when there is no such role; `unavailable` when the server does not answer; `failed`
 *   when the role cannot log in with it.
 */
export async function rotatePassword(
  node: PostgresNode,
  request: RotateRequest,
): Promise<{ readonly endedSessions: number }> {
  const { user, password, oldSessions = 'keep' } = request
  const verifier = await scramVerifier(password)
  const endedSessions = await withSession(node, async (client) => {
    try {
      await client.query(`alter role ${client.escapeIdentifier(user)} password ${client.escapeLiteral(verifier)}`)
    } catch (error) {
      const { code } = error as { code?: string }
      if (code === '42704') throw new CareFailure('refused', `There is no user ${user}.`, { status: 404, cause: error })
      throw new CareFailure('failed', 'The server did not take the new password.', { cause: error })
    }
    if (oldSessions === 'keep') return 0
    const { rowCount } = await client.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where usename = $1 and pid <> pg_backend_pid()',
      [user],
    )
    return rowCount ?? 0
  })
  await requireLogin(node, { user, password })
  return { endedSessions }
}

/** @throws {CareFailure} `failed` when the server does not let the user in with the password. */
async function requireLogin(
  node: PostgresNode,
  user: { readonly user: string; readonly password: string },
): Promise<void> {
  try {
    const client = await openSession(node, { user, applicationName: 'busbar login test' })
    await client.end()
  } catch (error) {
    throw new CareFailure('failed', 'The new password does not open the database.', { cause: error })
  }
}
