import {
  createLocalJWKSet,
  decodeJwt,
  decodeProtectedHeader,
  errors,
  importJWK,
  importPKCS8,
  importSPKI,
  type JSONWebKeySet,
  type JWK,
  type JWTVerifyGetKey,
  jwtVerify,
  SignJWT,
} from 'jose'
import { TaskFailure } from '../../plugin.ts'
import { needed } from '../content.ts'
import { durationMs } from '../duration.ts'
import { callJson } from '../http-json.ts'
import { type CryptoInput, type CryptoRun, judged } from './crypto-properties.ts'

type Key = Awaited<ReturnType<typeof importJWK>>

/** Source: RFC 7519, RFC 8725 */
export async function onToken(task: CryptoRun) {
  const { operation } = task.input
  if (operation === 'jwt-sign') return await signed(task.input)
  const token = needed(task.input.token, 'token', operation)
  if (operation === 'jwt-verify') return await verified(task, token)
  try {
    return { claims: decodeJwt(token), header: decodeProtectedHeader(token) }
  } catch (cause) {
    throw new TaskFailure('refused', 'properties.token is no JSON Web Token', cause)
  }
}

async function signed(input: CryptoInput) {
  const { claims, expiresIn, issuer, audience, keyId } = input
  const algorithm = algorithmOf(input)
  const key = await keyOf(needed(input.key, 'key', 'jwt-sign'), algorithm, 'sign')
  const now = Math.floor(Date.now() / 1_000)
  const said: Record<string, unknown> = { iat: now, ...claims }
  if (issuer !== undefined) said.iss = issuer
  if (audience !== undefined) said.aud = audience
  if (expiresIn !== undefined) said.exp = now + Math.floor(durationMs(expiresIn, 'properties.expiresIn') / 1_000)
  const header = { alg: algorithm, typ: 'JWT', ...(keyId !== undefined && { kid: keyId }) }
  try {
    return { token: await new SignJWT(said).setProtectedHeader(header).sign(key), claims: said, header }
  } catch (cause) {
    throw new TaskFailure('refused', `properties.key cannot sign with ${algorithm}: ${(cause as Error).message}`, cause)
  }
}

async function verified(task: CryptoRun, token: string) {
  const { issuer, audience, clockTolerance } = task.input
  const algorithm = algorithmOf(task.input)
  const options = {
    // The token itself never says which: that is how a public key becomes a secret.
    algorithms: [algorithm],
    clockTolerance,
    ...(issuer !== undefined && { issuer }),
    ...(audience !== undefined && { audience }),
  }
  const key = await verifyingKey(task, algorithm)
  try {
    const { payload, protectedHeader } = await (typeof key === 'function'
      ? jwtVerify(token, key, options)
      : jwtVerify(token, key, options))
    return judged(task.input, null, { claims: payload, header: protectedHeader })
  } catch (error) {
    if (!(error instanceof errors.JOSEError)) {
      throw new TaskFailure('refused', `properties.key cannot verify ${algorithm}: ${(error as Error).message}`, error)
    }
    return judged(task.input, `The token is not valid: ${error.message}`, {})
  }
}

async function verifyingKey(task: CryptoRun, algorithm: string): Promise<Key | JWTVerifyGetKey> {
  const { key, jwksUrl } = task.input
  if (jwksUrl === undefined) {
    const given = needed(key, 'key', 'jwt-verify')
    const set = jsonOf(given)
    if (set !== null && Array.isArray(set.keys)) return keySet(set)
    return await keyOf(given, algorithm, 'verify')
  }
  if (algorithm.startsWith('HS'))
    throw new TaskFailure('refused', 'properties.algorithm: public keys are not for HS256')
  if (!URL.canParse(jwksUrl)) throw new TaskFailure('refused', 'properties.jwksUrl is no URL')
  const asked = { service: 'The issuer of the keys', url: jwksUrl, method: 'GET', headers: {} }
  const { body } = await callJson(task, asked)
  return keySet(body)
}

function keySet(body: unknown): JWTVerifyGetKey {
  try {
    return createLocalJWKSet(body as JSONWebKeySet)
  } catch (cause) {
    throw new TaskFailure('refused', 'This is no set of JWKs', cause)
  }
}

function algorithmOf({ algorithm = 'HS256' }: CryptoInput): string {
  if (/^([HRPE]S\d{3}|EdDSA)$/.test(algorithm)) return algorithm
  throw new TaskFailure('refused', `properties.algorithm: ${algorithm} is not for tokens`)
}

function jsonOf(key: string | Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> | null {
  if (typeof key !== 'string') return key
  if (!key.trim().startsWith('{')) return null
  try {
    return JSON.parse(key) as Record<string, unknown>
  } catch (cause) {
    throw new TaskFailure('refused', 'properties.key is no JWK', cause)
  }
}

async function keyOf(
  given: string | Readonly<Record<string, unknown>>,
  algorithm: string,
  use: 'sign' | 'verify',
): Promise<Key> {
  const jwk = jsonOf(given)
  const isPem = typeof given === 'string' && given.includes('-----BEGIN')
  try {
    if (jwk !== null) return await importJWK(jwk as JWK, algorithm)
    if (algorithm.startsWith('HS')) {
      if (!isPem) return new TextEncoder().encode(given as string)
      throw new TaskFailure(
        'refused',
        `properties.key is a PEM, and ${algorithm} asks for a secret: name the algorithm`,
      )
    }
    return await (use === 'sign' ? importPKCS8(given as string, algorithm) : importSPKI(given as string, algorithm))
  } catch (cause) {
    if (cause instanceof TaskFailure) throw cause
    throw new TaskFailure('refused', `properties.key is no key for ${algorithm}`, cause)
  }
}
