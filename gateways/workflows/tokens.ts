import { type CryptoKey, errors, importJWK, jwtVerify, SignJWT } from 'jose'
import type { Bus } from '../../bus/connect.ts'
import { type FollowObservation, follow } from '../../bus/follow.ts'
import { load } from '../../bus/load.ts'
import { type KeyRing, SealBroken } from '../../bus/sealed.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { Role } from '../../schemas/workflows/role.ts'
import { isDue, type TokenKeysState, tokenKeys } from '../../schemas/workflows/token-keys.ts'
import { openedTokenKey, rotateTokenKeys, tokenAlgorithm, tokenKeyPlace } from './tokens-keys.ts'

/** What a token says. */
export interface TokenClaims {
  readonly username: string
  readonly userId: string
  readonly role: Role
  readonly sessionId: string
  readonly epoch: number
  /** Epoch ms. */
  readonly expiresAt: number
}

export interface VerifiedClaims extends TokenClaims {
  readonly keyId: string
}

/** `access` goes with a request, `ticket` with one whose client cannot send headers. */
export type TokenUse = 'access' | 'ticket'

export interface Tokens {
  sign(use: TokenUse, claims: TokenClaims): Promise<string>
  /** @throws {Rejected} `http/unauthorized` */
  verify(use: TokenUse, token: string): Promise<VerifiedClaims>
  /** Whether what a key has signed counts, as it did when it was verified. */
  trusts(keyId: string): boolean
  /** The public keys that verify. Source: RFC 7517. */
  keySet(): { readonly keys: readonly object[] }
  close(): Promise<void>
}

export const accessTokenMs = 15 * 60_000
const tokenIssuer = 'busbar'
const audiences = { access: 'busbar', ticket: 'busbar-ticket' } as const
const maxTokenLength = 4_096

/** What `sign` has put in. */
interface Payload extends Pick<TokenClaims, 'username' | 'userId' | 'role' | 'epoch'> {
  readonly sid: string
  /** Epoch seconds. */
  readonly exp: number
}

/** Tokens signed with keys that lie sealed on the bus. @throws {BusUnavailable} */
export async function openTokens(
  bus: Bus,
  ring: KeyRing,
  { now, onObservation }: { now: () => number; onObservation: (observation: FollowObservation) => void },
): Promise<Tokens> {
  let state: TokenKeysState = tokenKeys.initial
  let at = 0
  const learn = (next: TokenKeysState, sequence: number) => {
    if (sequence <= at) return
    at = sequence
    state = next
  }
  const follower = await follow(bus, {
    stream: tokenKeyPlace.stream,
    subject: 'evt.workflows.token-key',
    aggregate: tokenKeys,
    onState: (_id, next, sequence) => learn(next, sequence),
    onObservation,
  })
  const find = async (kid: string | undefined) => {
    const known = () => state.keys.find((key) => key.kid === kid)
    if (known() === undefined) {
      // Another gateway has just made it.
      const loaded = await load(bus, tokenKeys, tokenKeyPlace)
      learn(loaded.state, loaded.sequence)
    }
    const found = known()
    if (found === undefined) throw new errors.JWKSNoMatchingKey()
    return await publicKey(found.kid, found.publicKey)
  }
  return {
    async sign(use, { username, userId, role, sessionId, epoch, expiresAt }) {
      if (isDue(state, now())) {
        const rotated = await rotateTokenKeys(bus, ring, { by: 'busbar', at: now(), always: false, revoke: false })
        learn(rotated.state, rotated.sequence)
      }
      const key = state.keys.at(-1)!
      const signer = (await importJWK(secretOf(ring, key), tokenAlgorithm)) as CryptoKey
      return await new SignJWT({ username, userId, role, sid: sessionId, epoch })
        .setProtectedHeader({ alg: tokenAlgorithm, kid: key.kid, typ: 'JWT' })
        .setSubject(username)
        .setIssuer(tokenIssuer)
        .setAudience(audiences[use])
        .setIssuedAt(Math.floor(now() / 1_000))
        .setExpirationTime(Math.floor(expiresAt / 1_000))
        .sign(signer)
    },
    async verify(use, token) {
      if (token.length > maxTokenLength) throw refused()
      const { payload, protectedHeader } = await jwtVerify(token, ({ kid }) => find(kid), {
        algorithms: [tokenAlgorithm],
        issuer: tokenIssuer,
        audience: audiences[use],
        requiredClaims: ['exp', 'sub'],
        currentDate: new Date(now()),
      }).catch((error: unknown) => {
        throw error instanceof errors.JOSEError || error instanceof TypeError ? refused(error) : error
      })
      const { username, userId, role, sid, epoch, exp } = payload as unknown as Payload
      return { username, userId, role, sessionId: sid, epoch, expiresAt: exp * 1_000, keyId: protectedHeader.kid! }
    },
    trusts: (keyId) => state.keys.some(({ kid }) => kid === keyId),
    keySet: () => ({
      keys: state.keys.map((key) => ({ ...key.publicKey, kid: key.kid, use: 'sig', alg: tokenAlgorithm })),
    }),
    close: () => follower.close(),
  }
}

const imported = new Map<string, ReturnType<typeof importJWK>>()

function publicKey(kid: string, jwk: object): ReturnType<typeof importJWK> {
  const known = imported.get(kid) ?? importJWK(jwk, tokenAlgorithm)
  imported.set(kid, known)
  return known
}

/** @throws {Rejected} `workflows/no-keys` when the platform's key for it is gone. */
function secretOf(ring: KeyRing, key: TokenKeysState['keys'][number]): JsonWebKey {
  try {
    return openedTokenKey(ring, key)
  } catch (error) {
    if (!(error instanceof SealBroken)) throw error
    throw new Rejected(
      'workflows/no-keys',
      'The signing key is sealed with a key that app.secrets.keys does not hold',
      {
        hint: 'Add that key, or run: busbar users rotate-signing-key',
        cause: error,
      },
    )
  }
}

/** Says not what of it is wrong. */
function refused(cause?: unknown): Rejected {
  return new Rejected('http/unauthorized', 'The token is not valid, or has expired', {
    hint: 'Get a new one: POST /auth/refresh or /auth/login.',
    cause,
  })
}
