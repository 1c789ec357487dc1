import {
  constants,
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  type JsonWebKey,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from 'node:crypto'
import { promisify } from 'node:util'
import { TaskFailure } from '../../plugin.ts'
import { bytesOf, needed } from '../content.ts'
import { type CryptoInput, type CryptoRun, judged } from './crypto-properties.ts'

type Scheme = 'ed25519' | 'rsa-sha256' | 'rsa-pss-sha256' | 'ecdsa-sha256'

/** Which kind of key each asks for. */
const kinds: Readonly<Record<Scheme, string>> = {
  ed25519: 'ed25519',
  'rsa-pss-sha256': 'rsa',
  'rsa-sha256': 'rsa',
  'ecdsa-sha256': 'ec',
}

/** Source: RFC 8032, RFC 8017, FIPS 186-5; those of ECDSA are in DER */
export async function onSignature(task: CryptoRun) {
  const { operation, signature, algorithm } = task.input
  const isSigning = operation === 'sign'
  const key = keyOf(needed(task.input.key, 'key', operation), isSigning)
  const scheme = schemeOf(key, algorithm)
  const bytes = await bytesOf(task, task.input)
  const digest = scheme === 'ed25519' ? null : 'sha256'
  const padding = scheme === 'rsa-pss-sha256' ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING
  const saltLength = constants.RSA_PSS_SALTLEN_DIGEST
  const options =
    kinds[scheme] === 'rsa' ? { key, padding, ...(scheme === 'rsa-pss-sha256' && { saltLength }) } : { key }
  if (isSigning) return { signature: sign(digest, bytes, options).toString('base64') }
  const given = Buffer.from(needed(signature, 'signature', 'verify'), 'base64')
  const isRight = verify(digest, bytes, options, given)
  return judged(task.input, isRight ? null : 'The signature is not right', {})
}

function keyOf(key: string | Readonly<Record<string, unknown>>, isPrivate: boolean): KeyObject {
  const jwk = typeof key === 'string' && key.trim().startsWith('{') ? jsonOf(key) : key
  try {
    const given = typeof jwk === 'string' ? jwk : ({ key: jwk as JsonWebKey, format: 'jwk' } as const)
    return isPrivate ? createPrivateKey(given) : createPublicKey(given)
  } catch (cause) {
    throw new TaskFailure(
      'refused',
      `properties.key is no ${isPrivate ? 'private' : 'public'} key as PEM or JWK`,
      cause,
    )
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new TaskFailure('refused', 'properties.key is no JWK', cause)
  }
}

function schemeOf({ asymmetricKeyType }: KeyObject, algorithm: CryptoInput['algorithm']): Scheme {
  const kind = asymmetricKeyType ?? ''
  const scheme =
    algorithm ??
    Object.keys(kinds)
      .toReversed()
      .find((each) => kinds[each as Scheme] === kind && each !== 'rsa-sha256')
  if (scheme !== undefined && Object.hasOwn(kinds, scheme) && kinds[scheme as Scheme] === kind) return scheme as Scheme
  throw new TaskFailure(
    'refused',
    `properties.key is for ${kind}${algorithm === undefined ? '' : `, and not for ${algorithm}`}`,
  )
}

const defaultBits = { bytes: 256, rsa: 3072 }

export async function newKey({ keyType, keyBits }: CryptoInput) {
  const isFit = (bits: number) => (keyType === 'bytes' ? bits <= 512 : keyType === 'rsa' && bits >= 2048)
  if (keyBits !== undefined && !isFit(keyBits))
    throw new TaskFailure('refused', `properties.keyBits: not for ${keyType}`)
  if (keyType === 'bytes') return { key: randomBytes((keyBits ?? defaultBits.bytes) / 8).toString('base64') }
  const options = {
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  } as const
  const generate = promisify(generateKeyPair)
  const pair = await (keyType === 'rsa'
    ? generate('rsa', { ...options, modulusLength: keyBits ?? defaultBits.rsa })
    : keyType === 'ec-p256'
      ? generate('ec', { ...options, namedCurve: 'P-256' })
      : generate('ed25519', options))
  return { publicKey: String(pair.publicKey), privateKey: String(pair.privateKey) }
}
