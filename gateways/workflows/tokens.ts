import { errors, jwtVerify, SignJWT } from 'jose'
import type { Bus } from '../../bus/connect.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { Role } from '../../schemas/workflows/role.ts'
import { openTokenKeys, type TokenKeysOptions, tokenAlgorithm } from './tokens-keys.ts'

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
/** Who trusts these keys for access takes no ticket for a token. Source: RFC 8725, 3.11. */
const types = { access: 'at+jwt', ticket: 'ticket+jwt' } as const
const maxTokenLength = 4_096

/** What `sign` has put in. */
interface Payload extends Pick<TokenClaims, 'username' | 'userId' | 'role' | 'epoch'> {
  readonly sid: string
  /** Epoch seconds. */
  readonly exp: number
}

/** Tokens signed with keys that lie sealed on the bus. @throws {BusUnavailable} */
export async function openTokens(bus: Bus, ring: KeyRing, options: TokenKeysOptions): Promise<Tokens> {
  const keys = await openTokenKeys(bus, ring, options)
  const { now } = options
  return {
    async sign(use, { username, userId, role, sessionId, epoch, expiresAt }) {
      const { kid, secret } = await keys.signing()
      return await new SignJWT({ username, userId, role, sid: sessionId, epoch })
        .setProtectedHeader({ alg: tokenAlgorithm, kid, typ: types[use] })
        .setSubject(username)
        .setIssuer(tokenIssuer)
        .setAudience(audiences[use])
        .setIssuedAt(Math.floor(now() / 1_000))
        .setExpirationTime(Math.floor(expiresAt / 1_000))
        .sign(secret)
    },
    async verify(use, token) {
      if (token.length > maxTokenLength) throw refused()
      const { payload, protectedHeader } = await jwtVerify(token, ({ kid }) => keys.verifying(kid), {
        algorithms: [tokenAlgorithm],
        issuer: tokenIssuer,
        audience: audiences[use],
        typ: types[use],
        requiredClaims: ['exp', 'sub'],
        currentDate: new Date(now()),
      }).catch((error: unknown) => {
        throw error instanceof errors.JOSEError || error instanceof TypeError ? refused(error) : error
      })
      const { username, userId, role, sid, epoch, exp } = payload as unknown as Payload
      return { username, userId, role, sessionId: sid, epoch, expiresAt: exp * 1_000, keyId: protectedHeader.kid! }
    },
    trusts: (keyId) => keys.trusted().some(({ kid }) => kid === keyId),
    keySet: () => ({
      keys: keys.trusted().map(({ kid, publicKey }) => ({ ...publicKey, kid, use: 'sig', alg: tokenAlgorithm })),
    }),
    close: () => keys.close(),
  }
}

/** Says not what of it is wrong. */
function refused(cause?: unknown): Rejected {
  return new Rejected('http/unauthorized', 'The token is not valid, or has expired', {
    hint: 'Get a new one: POST /auth/refresh or /auth/login.',
    cause,
  })
}
