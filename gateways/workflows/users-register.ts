import { newId } from '../../bus/message.ts'
import type { Role } from '../../schemas/workflows/role.ts'
import { requireUser, requireUsername, type User } from '../../schemas/workflows/user.ts'
import type { WorkflowService } from './service.ts'
import { requirePassword } from './users-password.ts'
import { registerUser, sealedPassword } from './users-store.ts'

/**
 * Makes a user out of what somebody has written.
 * @throws {Rejected} `http/bad-request`, `workflows/user-exists`, `workflows/user-limit`, `workflows/no-keys`
 */
export async function registerWritten(
  { bus, accounts, now }: Pick<WorkflowService, 'bus' | 'accounts' | 'now'>,
  written: { readonly username: unknown; readonly password: unknown; readonly role: Role },
  by: string | null,
): Promise<User> {
  const { ring } = accounts.keyed()
  const username = requireUsername(written.username)
  const digest = await accounts.passwords.digest(requirePassword('password', written.password))
  const userId = newId()
  const password = sealedPassword(ring, userId, digest)
  const user = { userId, username, role: written.role, password }
  const { state, sequence } = await registerUser(bus, user, by ?? username, now())
  accounts.users.learn(username, state, sequence)
  return requireUser(state)
}
