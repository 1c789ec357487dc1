import type { Role } from '../../schemas/workflows/role.ts'

/** Who asks. */
export interface Principal {
  readonly name: string
  readonly role: Role
  /** Absent when nobody has signed in. */
  readonly session?: {
    readonly id: string
    readonly userId: string
    /** When the token counts no more, epoch ms. */
    readonly expiresAt: number
  }
}
