import type { FastifyRequest } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import type { Collection } from '../../bus/kv.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { LastCall } from '../../schemas/functions/last-call.ts'
import type { Authenticator } from '../http/auth.ts'
import type { CallDesk } from './calls.ts'
import type { FunctionStore } from './store.ts'
import type { FunctionView } from './view.ts'
import type { FunctionWorkers } from './workers.ts'

/** What the routes work with. */
export interface FunctionService {
  readonly bus: Bus
  readonly view: FunctionView
  readonly store: FunctionStore
  readonly calls: CallDesk
  readonly workers: FunctionWorkers
  readonly lastCalls: Collection<LastCall>
  /** Null: secrets are refused. */
  readonly keys: KeyRing | null
  readonly authenticator: Authenticator
  readonly timeoutMs: number
  readonly maxFunctions: number
  readonly maxCodeBytes: number
  readonly maxLogClients: number
  /** Of tokens that may manage functions; absent: any. */
  readonly managementRoles?: readonly string[]
}

/**
 * Calling a function: as the tokens' settings say.
 *
 * @throws {Rejected} `http/unauthorized`; {Unavailable} when the keys cannot be fetched.
 */
export async function allowCall({ authenticator }: FunctionService, { headers }: FastifyRequest): Promise<void> {
  if (authenticator.enabled) await authenticator.authenticate(headers)
}

/**
 * Changing functions and looking into them: where tokens are on, never without one, nor with one of another role.
 *
 * @throws {Rejected} `http/unauthorized`, `http/forbidden`; {Unavailable}
 */
export async function allowManagement(
  { authenticator, managementRoles }: FunctionService,
  { headers }: FastifyRequest,
): Promise<void> {
  if (!authenticator.enabled) return
  const { anonymous, role } = await authenticator.authenticate(headers)
  if (anonymous) throw new Rejected('http/unauthorized', 'A token is required to manage functions')
  if (managementRoles === undefined || (role !== undefined && managementRoles.includes(role))) return
  throw new Rejected('http/forbidden', `Managing functions needs one of the roles ${managementRoles.join(', ')}`)
}
