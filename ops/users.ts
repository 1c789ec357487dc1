import { existsSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import type { Bus } from '../bus/connect.ts'
import { newId } from '../bus/message.ts'
import { type KeyRing, keyRing } from '../bus/sealed.ts'
import { openAuditTrail } from '../gateways/workflows/audit-trail.ts'
import { rotateTokenKeys } from '../gateways/workflows/tokens-keys.ts'
import { openUserDirectory } from '../gateways/workflows/users-directory.ts'
import { Passwords, requirePassword } from '../gateways/workflows/users-password.ts'
import { changeUser, registerUser, sealedPassword } from '../gateways/workflows/users-store.ts'
import { roleField, shownUser } from '../gateways/workflows/users-view.ts'
import type { Config } from '../schemas/config.ts'
import { Rejected } from '../schemas/failure.ts'
import {
  decideChangeUser,
  decideDeleteUser,
  decideSignOut,
  requireUser,
  requireUsername,
  type User,
  type UserFact,
  type UserState,
} from '../schemas/workflows/user.ts'
import { openBus } from './bus.ts'
import { OperatorError } from './local/operator-error.ts'
import { createLog } from './log.ts'
import { newPassword } from './password-prompt.ts'
import { readKeyFile, secretKeysOf } from './secret-keys.ts'

/** What the commands below work on. */
export interface UserAdmin {
  readonly bus: Bus
  readonly ring: KeyRing
  /** `cli:<who is signed in at this machine>` */
  readonly by: string
}

/**
 * Runs work on the users of a platform, with its bus and its keys: those of the configuration, else those of the data folder.
 * @throws {OperatorError} when one of them is missing
 */
export async function asUserAdmin<T>(
  config: Config,
  folder: string,
  work: (admin: UserAdmin) => Promise<T>,
): Promise<T> {
  const kept = join(folder, 'secret-keys')
  const ring = keyRing(secretKeysOf(config) ?? (existsSync(kept) ? readKeyFile(kept) : undefined))
  if (ring === null) {
    throw new OperatorError('app.secrets.keys is not set, with which the passwords of users are sealed.')
  }
  const bus = await openBus(config, createLog('error'), 'users', 'all')
  try {
    return await work({ bus, ring, by: `cli:${userInfo().username}` })
  } catch (error) {
    if (!(error instanceof Rejected)) throw error
    throw new OperatorError(error.hint === undefined ? error.message : `${error.message}. ${error.hint}`, {
      cause: error,
    })
  } finally {
    await bus.close()
  }
}

/** Asks for the password. @throws {Rejected}; {OperatorError} */
export async function addUser(admin: UserAdmin, username: string, role: string): Promise<void> {
  const { bus, ring, by } = admin
  await audited(admin, 'user.create', username, async () => {
    const wanted = { username: requireUsername(username), role: roleField(role), userId: newId() }
    const password = sealedPassword(ring, wanted.userId, await askedDigest())
    await registerUser(bus, { ...wanted, password }, by, Date.now())
  })
}

/** @throws {Rejected} `workflows/user-not-found`, `workflows/last-admin`, `http/bad-request` */
export async function changeUserRole(admin: UserAdmin, username: string, role: string): Promise<void> {
  const wanted = roleField(role)
  await decided(admin, 'user.change', username, (state, by) => decideChangeUser(state, { role: wanted }, by))
}

/** @throws {Rejected} `workflows/user-not-found`, `workflows/last-admin` */
export async function enableUser(admin: UserAdmin, username: string, enabled: boolean): Promise<void> {
  await decided(admin, 'user.change', username, (state, by) => decideChangeUser(state, { enabled }, by))
}

/** Asks for it; all sessions of the user end. @throws {Rejected} `workflows/user-not-found`; {OperatorError} */
export async function changeUserPassword(admin: UserAdmin, username: string): Promise<void> {
  const digest = await askedDigest()
  await decided(admin, 'user.change', username, (state, by) => {
    const password = sealedPassword(admin.ring, requireUser(state).userId, digest)
    return decideChangeUser(state, { password }, by)
  })
}

/** All sessions of the user end. @throws {Rejected} `workflows/user-not-found` */
export async function signOutUser(admin: UserAdmin, username: string): Promise<void> {
  await decided(admin, 'user.sign-out', username, decideSignOut)
}

/** @throws {Rejected} `workflows/user-not-found`, `workflows/last-admin` */
export async function deleteUser(admin: UserAdmin, username: string): Promise<void> {
  await decided(admin, 'user.delete', username, decideDeleteUser)
}

/** @param revoke whether tokens of the keys before end at once; their sessions go on with the next refresh */
export async function rotateSigningKey(admin: UserAdmin, revoke: boolean): Promise<void> {
  const { bus, ring, by } = admin
  await audited(admin, 'token-key.rotate', null, () =>
    rotateTokenKeys(bus, ring, { by, at: Date.now(), always: true, revoke }),
  )
}

/** Newest first. */
export async function listUsers({ bus }: UserAdmin): Promise<readonly User[]> {
  const directory = await openUserDirectory(bus, () => undefined)
  try {
    return directory.all()
  } finally {
    await directory.close()
  }
}

/** As the API lists them. */
export function listedUsers(users: readonly User[]): readonly object[] {
  return users.map(shownUser)
}

/** As a table, one line a user. */
export function shownUsers(users: readonly User[]): string {
  const rows = users.map(({ username, role, enabled, createdAt, createdBy }) => {
    return [username, role, enabled ? 'enabled' : 'disabled', new Date(createdAt).toISOString(), createdBy]
  })
  const table = [['USER', 'ROLE', 'STATE', 'SINCE', 'BY'], ...rows]
  const widths = table[0]!.map((_, column) => Math.max(...table.map((row) => row[column]!.length)))
  return table
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column]!))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}

async function askedDigest(): Promise<string> {
  return await new Passwords().digest(requirePassword('password', await newPassword()))
}

async function decided(
  admin: UserAdmin,
  action: string,
  username: string,
  decide: (state: UserState, by: { by: string; at: number }) => readonly UserFact[],
): Promise<void> {
  const by = { by: admin.by, at: Date.now() }
  await audited(admin, action, username, () => changeUser(admin.bus, username, admin.by, (state) => decide(state, by)))
}

/** What is commanded at the machine is in the audit log as well. */
async function audited<T>(
  { bus, by }: UserAdmin,
  action: string,
  resourceId: string | null,
  work: () => Promise<T>,
): Promise<T> {
  const told = {
    id: newId(),
    at: Date.now(),
    username: by,
    role: null,
    action,
    resourceId: resourceId?.slice(0, 64) ?? null,
  }
  const place = { resourceType: action.slice(0, action.indexOf('.')), statusCode: null, ip: null, requestId: null }
  const trail = openAuditTrail(bus)
  try {
    const result = await work()
    await trail.record({ ...told, ...place, outcome: 'SUCCESS', error: null })
    return result
  } catch (error) {
    if (error instanceof Rejected) await trail.record({ ...told, ...place, outcome: 'FAILED', error: error.code })
    throw error
  }
}
