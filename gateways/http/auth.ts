import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWTHeaderParameters,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose'
import { LRUCache } from 'lru-cache'
import { Rejected, Unavailable } from '../../schemas/failure.ts'

export interface AuthenticatorOptions {
  /** Key of HS256 tokens, at least 32 bytes. */
  readonly secret?: string
  /** Where the public keys of RS256, ES256, EdDSA … tokens are served as a JWK set. */
  readonly jwksUrl?: string
  /** Algorithms that are accepted. Default HS256 with a secret, and the asymmetric ones with a JWK set. */
  readonly algorithms?: readonly string[]
  /** Required `iss` and `aud`; absent: not checked. */
  readonly issuer?: string
  readonly audience?: string
  /** Claim that names the database role; dots lead into objects (`app_metadata.role`). Default `role`. */
  readonly roleClaim?: string
  /** Database role of callers without a token, and of tokens that name none. Default: the login role. */
  readonly anonymousRole?: string
  /** Refuse callers without a token. Default false. */
  readonly required?: boolean
  /** How far clocks may differ. Default 30. */
  readonly clockToleranceSeconds?: number
  /** Shortest time between two fetches of the JWK set because of an unknown key. Default 30,000. */
  readonly jwksCooldownMs?: number
}

/** Who calls, and as what the database shall see them. */
export interface Principal {
  /** Database role for the call; absent: the login role. */
  readonly role?: string
  /** The token's claims, as the JSON text that was signed. */
  readonly claims?: string
  /** The token's subject, or `anonymous`. */
  readonly actor: string
  /** Tokens are on and the caller sent none. */
  readonly anonymous: boolean
  /** Epoch ms after which the token counts no more: streams end then. */
  readonly expiresAt?: number
}

/**
 * Reads `Authorization: Bearer`; `query` is passed only by routes whose clients cannot send headers (EventSource, WebSocket)
 * and may hold `access_token`.
 * @throws {Rejected} `http/unauthorized` for a missing, bad or expired token.
 * @throws {Unavailable} `http/unavailable` when the key set cannot be fetched.
 */
export type Authenticate = (
  headers: IncomingHttpHeaders,
  query?: { get(name: string): string | null },
) => Promise<Principal>

export interface Authenticator {
  /** False when neither a secret nor a JWK set is configured. */
  readonly enabled: boolean
  readonly authenticate: Authenticate
}

const asymmetric = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']
const minSecretBytes = 32
const maxTokenLength = 8_192
const maxCachedTokens = 10_000
/** A key taken out of the set counts no more after this, even for tokens seen before. */
const maxCachedMs = 60_000
const maxRoleBytes = 63
const maxActorLength = 256
const jwksTimeoutMs = 5_000
const maxJwksBytes = 512 * 1024

/** With neither secret nor JWK set everybody passes as anonymous. */
export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const getKey = keySource(options)
  const role = options.anonymousRole === undefined ? {} : { role: options.anonymousRole }
  // Policies that cast the claims to json need some: of no claims PostgreSQL makes an empty text, which is no JSON.
  const claims = getKey === null ? {} : { claims: JSON.stringify(role) }
  const nobody: Principal = { actor: 'anonymous', anonymous: getKey !== null, ...role, ...claims }
  if (getKey === null) return { enabled: false, authenticate: () => Promise.resolve(nobody) }
  const known = new LRUCache<string, Principal>({ max: maxCachedTokens, ttl: maxCachedMs })
  const toleranceMs = (options.clockToleranceSeconds ?? 30) * 1000
  return {
    enabled: true,
    async authenticate(headers, query) {
      const token = tokenOf(headers, query)
      if (token === null) {
        if (options.required === true) throw refused('A token is required', 'Send it as Authorization: Bearer <token>.')
        return nobody
      }
      const digest = hash('sha256', token, 'base64')
      const seen = known.get(digest)
      if (seen && (seen.expiresAt ?? Number.POSITIVE_INFINITY) + toleranceMs > Date.now()) return seen
      const principal = await verify(token, getKey, options)
      known.set(digest, principal)
      return principal
    },
  }
}

function keySource({ secret, jwksUrl, jwksCooldownMs = 30_000 }: AuthenticatorOptions): JWTVerifyGetKey | null {
  const secretKey = secret === undefined ? null : new TextEncoder().encode(secret)
  if (secretKey !== null && secretKey.length < minSecretBytes) {
    throw new Error(`The secret of tokens must have at least ${minSecretBytes} bytes`)
  }
  const remote =
    jwksUrl === undefined
      ? null
      : createRemoteJWKSet(new URL(jwksUrl), {
          timeoutDuration: jwksTimeoutMs,
          cooldownDuration: jwksCooldownMs,
          [customFetch]: fetchBounded,
        })
  if (secretKey === null && remote === null) return null
  // The algorithm chooses the key's kind, so that a public key can never be taken for a secret.
  return (header: JWTHeaderParameters, token) => {
    const symmetric = header.alg.startsWith('HS')
    if (symmetric && secretKey !== null) return secretKey
    if (!symmetric && remote !== null) return remote(header, token)
    throw new errors.JOSEAlgNotAllowed('No key for this algorithm')
  }
}

/** Reads at most `maxJwksBytes`, so that a key server gone wrong cannot fill the memory. */
async function fetchBounded(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, init)
  const chunks: Uint8Array[] = []
  let sizeBytes = 0
  const body = response.body as AsyncIterable<Uint8Array> | null
  for await (const chunk of body ?? []) {
    sizeBytes += chunk.length
    if (sizeBytes > maxJwksBytes) throw new Error(`The key set is larger than ${maxJwksBytes} bytes`)
    chunks.push(chunk)
  }
  return new Response(Buffer.concat(chunks), { status: response.status, headers: response.headers })
}

function tokenOf(headers: IncomingHttpHeaders, query: { get(name: string): string | null } | undefined): string | null {
  const { authorization } = headers
  if (authorization === undefined) return bounded(query?.get('access_token') || null)
  const [scheme = '', token = '', ...rest] = authorization.trim().split(/ +/)
  if (scheme.toLowerCase() !== 'bearer' || token === '' || rest.length > 0) {
    throw refused('The Authorization header must read: Bearer <token>')
  }
  return bounded(token)
}

function bounded(token: string | null): string | null {
  if (token !== null && token.length > maxTokenLength) {
    throw refused(`The token is longer than ${maxTokenLength} characters`)
  }
  return token
}

/** Other types are for other uses, whoever has signed them. Source: RFC 8725, 3.11; RFC 9068. */
const accessTypes = /^(application\/)?(at\+)?jwt$/i

async function verify(token: string, getKey: JWTVerifyGetKey, options: AuthenticatorOptions): Promise<Principal> {
  const { payload, protectedHeader } = await jwtVerify(token, getKey, {
    algorithms: [...(options.algorithms ?? defaultAlgorithms(options))],
    clockTolerance: options.clockToleranceSeconds ?? 30,
    ...(options.issuer === undefined ? {} : { issuer: options.issuer }),
    ...(options.audience === undefined ? {} : { audience: options.audience }),
  }).catch((error: unknown) => {
    throw tokenFailure(error)
  })
  if (!accessTypes.test(String(protectedHeader.typ ?? 'JWT'))) throw refused('A token of this type gives no access')
  const role = roleOf(payload, options.roleClaim ?? 'role') ?? options.anonymousRole
  // Decoded again rather than written from the parsed claims: large numbers keep their digits.
  const claims = Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8')
  return {
    claims,
    actor: actorOf(payload.sub),
    anonymous: false,
    ...(role === undefined ? {} : { role }),
    ...(payload.exp === undefined ? {} : { expiresAt: payload.exp * 1000 }),
  }
}

function defaultAlgorithms({ secret, jwksUrl }: AuthenticatorOptions): readonly string[] {
  return [...(secret === undefined ? [] : ['HS256']), ...(jwksUrl === undefined ? [] : asymmetric)]
}

function tokenFailure(error: unknown): Error {
  if (error instanceof errors.JWTExpired) return refused('The token has expired', 'Get a new one.', error)
  if (error instanceof errors.JWTClaimValidationFailed) {
    return refused(`The token's claim "${error.claim}" is not accepted`, undefined, error)
  }
  if (error instanceof errors.JOSEAlgNotAllowed) {
    return refused("The token's algorithm is not accepted", undefined, error)
  }
  const keysAway = error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid || !isJoseError(error)
  // jose says this, in the base class, of answers of the key server other than 200 and JSON.
  const keysRefused = error instanceof errors.JOSEError && error.code === 'ERR_JOSE_GENERIC'
  if (keysAway || keysRefused) {
    return new Unavailable('http/unavailable', 'The keys that tokens are checked with cannot be fetched now', {
      retryAfterSeconds: 5,
      cause: error,
    })
  }
  return refused('The token is not valid', undefined, error)
}

function isJoseError(error: unknown): boolean {
  return error instanceof errors.JOSEError
}

/** @throws {Rejected} when the claim is there and cannot be a role's name. */
function roleOf(claims: Readonly<Record<string, unknown>>, path: string): string | undefined {
  const value = Object.hasOwn(claims, path) ? claims[path] : valueAt(claims, path.split('.'))
  if (value === undefined || value === null) return undefined
  // To the database `none` is the way back to the login role.
  const usable = typeof value === 'string' && value !== '' && value !== 'none' && !value.includes('\0')
  if (!usable || Buffer.byteLength(value) > maxRoleBytes) {
    throw refused(`The token's claim "${path}" is not the name of a database role`)
  }
  return value
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  let at = value
  for (const name of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return undefined
    at = (at as Record<string, unknown>)[name]
  }
  return at
}

function actorOf(subject: unknown): string {
  return typeof subject === 'string' && subject !== '' ? subject.slice(0, maxActorLength) : 'token'
}

function refused(text: string, hint?: string, cause?: unknown): Rejected {
  return new Rejected('http/unauthorized', text, { ...(hint === undefined ? {} : { hint }), cause })
}
