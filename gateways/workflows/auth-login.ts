import type { FastifyReply, FastifyRequest } from 'fastify'
import { load } from '../../bus/load.ts'
import { Rejected } from '../../schemas/failure.ts'
import { decideReseal, requireUser, type User, userAggregate, userKey } from '../../schemas/workflows/user.ts'
import { forgiveLogin, tryLogin } from './auth-throttle.ts'
import type { WorkflowService } from './service.ts'
import { accessTokenMs } from './tokens.ts'
import { changeUser, openedPassword, sealedPassword, userPlace } from './users-store.ts'

interface Tried {
  readonly username: string
  readonly password: string
}

/**
 * The user whose password it is. Takes as long for a name that nobody has.
 * @throws {Rejected} `workflows/login-refused`, the same for whatever is wrong; `http/too-many-requests`; `workflows/no-keys`
 */
export async function checkLogin(
  service: WorkflowService,
  request: FastifyRequest,
  reply: FastifyReply,
  { username, password }: Tried,
): Promise<User> {
  const { bus, accounts, now } = service
  const { ring } = accounts.keyed()
  const key = userKey(username)
  const tried = { user: key ?? '', address: accounts.addressOf(request) }
  refuseTooMany(reply, await tryLogin(bus, tried, now()))
  const { state } = await load(bus, userAggregate, userPlace(key ?? ''))
  const user = state.stage === 'registered' ? state.user : null
  // A name that nobody has may be a password in the wrong field.
  request.auditNote = { username: user?.username ?? 'anonymous', resourceId: user?.username ?? null }
  const digest = user === null ? null : openedPassword(ring, user)
  const right = await accounts.passwords.check(password, digest)
  if (user === null || digest === null || !right || !user.enabled) {
    throw new Rejected('workflows/login-refused', 'User name or password is wrong')
  }
  await forgiveLogin(bus, tried)
  await resealPassword(service, user, { password, digest })
  return user
}

/** @throws {Rejected} `http/too-many-requests` */
export function refuseTooMany(reply: FastifyReply, waitMs: number): void {
  if (waitMs === 0) return
  reply.header('Retry-After', String(Math.ceil(waitMs / 1_000)))
  throw new Rejected('http/too-many-requests', 'Tried too often; try again later', {
    details: { retryAfterSeconds: Math.ceil(waitMs / 1_000) },
  })
}

/** Keys and parameters of yesterday go out of use as their users sign in. */
async function resealPassword(
  { bus, accounts, now }: WorkflowService,
  { userId, username, password: before }: User,
  { password, digest }: { readonly password: string; readonly digest: string },
): Promise<void> {
  const { ring } = accounts.keyed()
  const isDated = accounts.passwords.isDated(digest)
  if (!isDated && before.keyId === ring.keyId) return
  const after = sealedPassword(ring, userId, isDated ? await accounts.passwords.digest(password) : digest)
  const resealed = { before, after, at: now() }
  await changeUser(bus, username, 'busbar', (state) => decideReseal(state, resealed))
}

/** A new session of a user, as it is answered. @throws {Rejected} `workflows/no-keys` */
export async function signIn(service: WorkflowService, user: User) {
  const { sessionId, refreshToken } = await service.accounts.sessions.open(user)
  return await tokensOf(service, user, sessionId, refreshToken)
}

/** What a session is used with. */
export async function tokensOf(
  { accounts, now }: WorkflowService,
  { username, userId, role, epoch }: User,
  sessionId: string,
  refreshToken: string,
) {
  const expiresAt = now() + accessTokenMs
  const token = await accounts.keyed().tokens.sign('access', { username, userId, role, epoch, sessionId, expiresAt })
  return {
    token,
    tokenType: 'Bearer',
    expiresIn: accessTokenMs / 1_000,
    expiresAt: new Date(expiresAt).toISOString(),
    refreshToken,
    username,
    role,
  }
}

/** Whoever asks, as the bus has them now. @throws {Rejected} `http/unauthorized` when nobody has signed in */
export async function signedIn({ accounts, principalOf }: WorkflowService, request: FastifyRequest) {
  const { name, session } = principalOf(request)
  if (session === undefined) throw new Rejected('http/unauthorized', 'A token is required')
  const user = await accounts.users.refresh(name)
  return { user: requireUser(user === null ? { stage: 'absent' } : { stage: 'registered', user }), session }
}
