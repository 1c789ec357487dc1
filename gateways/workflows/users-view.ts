import { type Role, roles } from '../../schemas/workflows/role.ts'
import type { User } from '../../schemas/workflows/user.ts'
import { invalid } from '../http/request.ts'

/** @throws {Rejected} `http/bad-request` */
export function roleField(value: unknown): Role {
  if ((roles as readonly unknown[]).includes(value)) return value as Role
  throw invalid('role', `must be one of ${roles.join(', ')}`)
}

/** A user as the API shows one. */
export function shownUser({ userId, username, role, enabled, createdAt, createdBy, updatedAt }: User) {
  return {
    id: userId,
    username,
    role,
    enabled,
    createdAt: new Date(createdAt).toISOString(),
    createdBy,
    updatedAt: new Date(updatedAt).toISOString(),
  }
}
