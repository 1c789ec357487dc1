/** From the least to the most: each may do what those before it may. */
export const roles = ['viewer', 'executor', 'editor', 'admin'] as const
export type Role = (typeof roles)[number]

/** Whether a role may do what another is needed for. */
export function mayAct(role: Role, needed: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(needed)
}
