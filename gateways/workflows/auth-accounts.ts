import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import type { FollowObservation } from '../../bus/follow.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { User } from '../../schemas/workflows/user.ts'
import type { AddressOf } from './auth-address.ts'
import type { Principal } from './auth-principal.ts'
import { Sessions } from './auth-sessions.ts'
import { openTokens, type Tokens, type TokenUse, type VerifiedClaims } from './tokens.ts'
import { openUserDirectory, type UserDirectory } from './users-directory.ts'
import { type HashCost, Passwords } from './users-password.ts'

export interface AuthOptions {
  /** Whether a route asks who calls. */
  readonly enabled: boolean
  /** Whether strangers may register themselves, as viewers. */
  readonly openRegistration: boolean
  readonly addressOf: AddressOf
  /** How often it is looked whether whoever has opened a stream may still see it. Default 10,000. */
  readonly streamCheckMs?: number
  readonly hashCost?: HashCost
}

/** Users and whoever of them asks. */
export interface Accounts extends AuthOptions {
  readonly users: UserDirectory
  readonly passwords: Passwords
  readonly sessions: Sessions
  /** @throws {Rejected} `workflows/no-keys` */
  keyed(): { readonly tokens: Tokens; readonly ring: KeyRing }
  /** Whose token it is. @throws {Rejected} `http/unauthorized`; {BusUnavailable} */
  identify(use: TokenUse, token: string): Promise<Principal>
  /** Whether somebody is still signed in. @throws {BusUnavailable} */
  counts(principal: Principal): Promise<boolean>
  close(): Promise<void>
}

interface AccountsOptions extends AuthOptions {
  readonly bus: Bus
  readonly keys: KeyRing | null
  /** Epoch ms. */
  readonly now: () => number
  readonly onObservation: (observation: FollowObservation) => void
}

const maxVerified = 10_000

/** @throws {BusUnavailable} */
export async function openAccounts({ bus, keys, now, onObservation, ...auth }: AccountsOptions): Promise<Accounts> {
  const users = await openUserDirectory(bus, onObservation)
  const tokens = keys === null ? null : await openTokens(bus, keys, { now, onObservation })
  const sessions = new Sessions(bus, now)
  const verified = new LRUCache<string, VerifiedClaims>({ max: maxVerified })
  const keyed = () => {
    if (tokens !== null && keys !== null) return { tokens, ring: keys }
    throw new Rejected('workflows/no-keys', 'There are no users, because app.secrets.keys is not set')
  }
  const claimsOf = async (use: TokenUse, token: string): Promise<VerifiedClaims> => {
    const digest = `${use} ${createHash('sha256').update(token).digest('base64')}`
    if (tokens === null) throw unauthorized()
    const seen = verified.get(digest)
    if (seen !== undefined && seen.expiresAt > now() && tokens.trusts(seen.keyId)) return seen
    const claims = await tokens.verify(use, token)
    verified.set(digest, claims)
    return claims
  }
  return {
    ...auth,
    users,
    sessions,
    passwords: new Passwords(auth.hashCost),
    keyed,
    async identify(use, token) {
      const { username, userId, epoch, sessionId, expiresAt } = await claimsOf(use, token)
      const isMeant = (user: User | null) => user?.userId === userId && user.epoch === epoch
      const known = users.find(username)
      // Another gateway may have just registered or changed it.
      const user = isMeant(known) ? known : await users.refresh(username)
      if (user === null || !isMeant(user) || !(await sessions.counts(sessionId, user))) throw unauthorized()
      return { name: user.username, role: user.role, session: { id: sessionId, userId, expiresAt } }
    },
    async counts({ name, session }) {
      const user = users.find(name)
      return user !== null && session?.userId === user.userId && (await sessions.counts(session.id, user))
    },
    async close() {
      await Promise.all([users.close(), tokens?.close()])
    },
  }
}

function unauthorized(): Rejected {
  return new Rejected('http/unauthorized', 'The token is not valid, or has expired', {
    hint: 'Get a new one: POST /auth/refresh or /auth/login.',
  })
}
