import type { FastifyRequest } from 'fastify'
import type pg from 'pg'
import type { Bus } from '../../bus/connect.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import type { PluginManifest } from '../../schemas/workflows/plugin-manifest.ts'
import type { Role } from '../../schemas/workflows/role.ts'
import type { AuditTrail } from './audit-trail.ts'
import type { Accounts } from './auth-accounts.ts'
import type { Principal } from './auth-principal.ts'
import type { CredentialView } from './credentials-view.ts'

/** What the routes of the workflow engine's door share. */
export interface WorkflowService {
  readonly bus: Bus
  /** The platform's database, with the read models of `projections/workflows/`. */
  readonly database: pg.Pool
  /** What the workers say they can run. */
  readonly plugins: PluginView
  /** Null: there are no keys, so secrets are refused. */
  readonly keys: KeyRing | null
  /** Who asks. The route's role was checked before. */
  readonly principalOf: (request: FastifyRequest) => Principal
  /**
   * Waits, not for long, until the read models hold what a stream had at a sequence: so whoever has written finds it.
   * @param stream `EVT_WORKFLOWS` or `EVT_EXECUTIONS`
   */
  readonly readable: (stream: string, sequence: number) => Promise<void>
  readonly credentials: CredentialView
  /** A credential's value, or one field of it; null when there is none. @throws {SealBroken} */
  readonly credentialOf: (namespace: string, name: string, field: string | null) => Promise<string | null>
  readonly accounts: Accounts
  readonly audit: AuditTrail
  /** Epoch ms. */
  readonly now: () => number
}

export interface PluginView {
  all(): readonly PluginManifest[]
  find(id: string): PluginManifest | undefined
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The least role that may use the route; `public`: anybody. */
    role?: Role | 'public'
    /** What the audit log calls it, for routes that change something. */
    audit?: string
  }
}
