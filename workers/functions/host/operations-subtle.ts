import { webcrypto } from 'node:crypto'
import { unpack } from '../sandbox/wire.ts'
import { OperationError } from './operations-error.ts'

const { subtle } = webcrypto

/** A key as the guest keeps it: the material travels with every operation, so the host keeps none. */
interface GuestKey {
  readonly format: 'raw' | 'pkcs8' | 'spki' | 'jwk'
  /** Base64, or the JWK. */
  readonly material: string | JsonWebKey
  readonly algorithm: webcrypto.Algorithm
  readonly usages: webcrypto.KeyUsage[]
}
type JsonWebKey = webcrypto.JsonWebKey
interface Answer {
  readonly head: unknown
  readonly rest: string
}

/** One `crypto.subtle` call of a guest. */
export interface Asked {
  readonly method: string
  readonly algorithm: unknown
  readonly key: GuestKey | null
  readonly extra: unknown
  /** The data as Latin-1. */
  readonly rest: string
}

const MAX_BYTES = 16_777_216
/** Of all that is not data: parameters, the key, a signature. */
const MAX_HEAD_CHARS = 262_144
/** Of the parameters: no algorithm has so many. */
const MAX_MEMBERS = 256
const MAX_RSA_BITS = 4096
const MAX_PBKDF2_ITERATIONS = 1_000_000
/** Iterations of all the blocks that the bits are made of. */
const MAX_PBKDF2_ROUNDS = 2_000_000
/** Of what is derived, and of keys that are made. */
const MAX_BITS = 2 ** 20
/** Salts and the like: they are hashed again for each block. */
const MAX_PARAMETER_BYTES = 65_536
/** Of a key in any format but `raw`; one of RSA with 4096 bits is a fifth of it. */
const MAX_KEY_CHARS = 16_384

/** @throws {OperationError} when it is too much */
export function readAsked(argument: string): Asked {
  const tooMuch = (what: string) => new OperationError('QuotaExceededError', `Too much ${what} for one operation`)
  if (argument.length > MAX_BYTES) throw tooMuch('data')
  if (argument.indexOf('\n') > MAX_HEAD_CHARS) throw tooMuch('beside the data')
  const { head, rest } = unpack<Omit<Asked, 'rest'>>(argument)
  return { ...head, rest }
}

/** Done by Node's. @throws {OperationError} under the DOMException name of the failure */
export async function subtleOperation({ method, algorithm: given, key, extra, rest }: Asked): Promise<Answer> {
  const algorithm = revive(given) as webcrypto.Algorithm
  bounded(algorithm)
  const data = Buffer.from(rest, 'latin1')
  try {
    return await dispatch(method, algorithm, key, extra, data)
  } catch (error) {
    if (error instanceof OperationError) throw error
    const { name, message } = error as Error
    const known = name === 'TypeError' || (error as object).constructor?.name === 'DOMException'
    throw new OperationError(known ? name : 'OperationError', known && message ? message : 'The operation failed')
  }
}

interface Parameters {
  readonly name?: unknown
  readonly modulusLength?: unknown
  readonly iterations?: unknown
  readonly length?: unknown
  readonly hash?: unknown
}

const unsupported = (text: string) => new OperationError('NotSupportedError', text)

function bounded(algorithm: unknown): void {
  if (typeof algorithm !== 'object' || algorithm === null) return
  const { modulusLength, iterations, length } = algorithm as Parameters
  if (Number(modulusLength ?? 0) > MAX_RSA_BITS) throw unsupported(`RSA keys have at most ${MAX_RSA_BITS} bits here`)
  if (Number(iterations ?? 0) > MAX_PBKDF2_ITERATIONS)
    throw unsupported(`At most ${MAX_PBKDF2_ITERATIONS} iterations are done here`)
  if (Number(length ?? 0) > MAX_BITS) throw unsupported(`Keys have at most ${MAX_BITS} bits here`)
  for (const [name, value] of Object.entries(algorithm)) {
    if (value instanceof Uint8Array && value.length > MAX_PARAMETER_BYTES)
      throw unsupported(`${name} has at most ${MAX_PARAMETER_BYTES} bytes here`)
  }
}

function boundedDerivation(algorithm: unknown, length: number | null): void {
  const bits = length ?? 0
  if (bits > MAX_BITS) throw unsupported(`At most ${MAX_BITS} bits are derived here`)
  const { iterations, hash } = algorithm as Parameters
  const blocks = Math.ceil(bits / blockBits(hash))
  if (Number(iterations ?? 0) * blocks > MAX_PBKDF2_ROUNDS)
    throw unsupported(`${bits} bits with ${iterations} iterations are more than is derived here`)
}

/** Of a hash, by its name: what is none of these is refused by what derives. */
function blockBits(hash: unknown): number {
  const bits = Number(/[0-9]+$/.exec(nameOf(hash))?.[0])
  return bits >= 256 ? bits : 160
}

/** Whether it can keep one of the few threads of the process for long. */
export function isLong({ method, algorithm }: Asked): boolean {
  return method === 'deriveBits' || (method === 'generateKey' && /^rsa/i.test(nameOf(algorithm)))
}

const nameOf = (algorithm: unknown): string =>
  String(typeof algorithm === 'object' && algorithm !== null ? (algorithm as Parameters).name : algorithm)

const bytesReply = (bytes: ArrayBuffer): Answer => ({ head: null, rest: Buffer.from(bytes).toString('latin1') })

async function dispatch(
  method: string,
  algorithm: webcrypto.Algorithm,
  key: GuestKey | null,
  extra: unknown,
  data: Buffer<ArrayBuffer>,
): Promise<Answer> {
  switch (method) {
    case 'digest':
      return bytesReply(await subtle.digest(algorithm, data))
    case 'encrypt':
      return bytesReply(await subtle.encrypt(algorithm as never, await keyFor(key), data))
    case 'decrypt':
      return bytesReply(await subtle.decrypt(algorithm as never, await keyFor(key), data))
    case 'sign':
      return bytesReply(await subtle.sign(algorithm as never, await keyFor(key), data))
    case 'verify': {
      const signature = revive(extra) as Buffer<ArrayBuffer>
      return { head: await subtle.verify(algorithm as never, await keyFor(key), signature, data), rest: '' }
    }
    case 'deriveBits': {
      const length = extra === null ? null : Number(extra)
      boundedDerivation(algorithm, length)
      return bytesReply(await subtle.deriveBits(await withPublicKey(algorithm), await keyFor(key), length as number))
    }
    case 'generateKey':
      return await generated(algorithm, extra as webcrypto.KeyUsage[])
    case 'importKey':
      return await imported(algorithm, extra as [GuestKey['format'], webcrypto.KeyUsage[], JsonWebKey | null], data)
    case 'exportKey':
      return await exported(key, extra as GuestKey['format'])
    default:
      throw new OperationError('NotSupportedError', 'No such operation')
  }
}

/** ECDH and X25519 name the other side's key in the algorithm. */
async function withPublicKey(algorithm: webcrypto.Algorithm): Promise<never> {
  const { public: other } = algorithm as { public?: GuestKey }
  return (other === undefined ? algorithm : { ...algorithm, public: await keyFor(other) }) as never
}

async function keyFor(key: GuestKey | null): Promise<webcrypto.CryptoKey> {
  if (key === null) throw new OperationError('TypeError', 'A key is needed')
  return await importAs(key.format, key.material, revive(key.algorithm) as webcrypto.Algorithm, key.usages)
}

async function importAs(
  format: GuestKey['format'],
  material: string | JsonWebKey,
  algorithm: webcrypto.Algorithm,
  usages: webcrypto.KeyUsage[],
): Promise<webcrypto.CryptoKey> {
  const chars = typeof material === 'string' ? material.length : JSON.stringify(material).length
  if (format !== 'raw' && chars > MAX_KEY_CHARS) throw unsupported('The key is larger than is used here')
  const key = await importUnbounded(format, material, algorithm, usages)
  bounded(key.algorithm)
  return key
}

function importUnbounded(
  format: GuestKey['format'],
  material: string | JsonWebKey,
  algorithm: webcrypto.Algorithm,
  usages: webcrypto.KeyUsage[],
): Promise<webcrypto.CryptoKey> {
  // Whether the guest may export it is the guest's to keep; here it must be, to answer with its material.
  if (format === 'jwk')
    return subtle.importKey('jwk', { ...(material as JsonWebKey), ext: true }, algorithm, true, usages)
  return subtle.importKey(
    format,
    Buffer.from(material as string, 'base64'),
    algorithm,
    !isDerivation(algorithm),
    usages,
  )
}

const isDerivation = (algorithm: webcrypto.Algorithm | string): boolean =>
  ['HKDF', 'PBKDF2'].includes((typeof algorithm === 'string' ? algorithm : algorithm.name).toUpperCase())

async function imported(
  algorithm: webcrypto.Algorithm,
  [format, usages, jwk]: [GuestKey['format'], webcrypto.KeyUsage[], JsonWebKey | null],
  data: Buffer,
): Promise<Answer> {
  const material = format === 'jwk' && jwk !== null ? jwk : data.toString('base64')
  const key = await importAs(format, material, algorithm, usages)
  return { head: [isDerivation(algorithm) ? ofMaterial(key, format, material) : await described(key)], rest: '' }
}

async function generated(algorithm: webcrypto.Algorithm, usages: webcrypto.KeyUsage[]): Promise<Answer> {
  const made = (await subtle.generateKey(algorithm as never, true, usages)) as
    | webcrypto.CryptoKey
    | webcrypto.CryptoKeyPair
  if (!('privateKey' in made)) return { head: [await described(made)], rest: '' }
  return { head: [await described(made.publicKey), await described(made.privateKey)], rest: '' }
}

async function exported(key: GuestKey | null, format: GuestKey['format']): Promise<Answer> {
  const out = await subtle.exportKey(format as 'raw', await keyFor(key))
  return format === 'jwk' ? { head: out, rest: '' } : bytesReply(out)
}

/** The key as the guest is to keep it. */
async function described(key: webcrypto.CryptoKey): Promise<unknown> {
  const format = ({ secret: 'raw', public: 'spki', private: 'pkcs8' } as const)[key.type]
  const material = Buffer.from(await subtle.exportKey(format, key)).toString('base64')
  return ofMaterial(key, format, material)
}

function ofMaterial(key: webcrypto.CryptoKey, format: string, material: unknown): unknown {
  return { format, material, type: key.type, algorithm: dried(key.algorithm), usages: key.usages }
}

/** Bytes inside JSON: `{ "$bytes": base64 }`. */
function revive(value: unknown, counted = { members: 0 }): unknown {
  if (typeof value !== 'object' || value === null) return value
  const { $bytes } = value as { $bytes?: unknown }
  if (typeof $bytes === 'string') return Buffer.from($bytes, 'base64')
  const names = Object.keys(value)
  counted.members += names.length
  if (counted.members > MAX_MEMBERS) throw unsupported('The algorithm has too many parameters')
  return Object.fromEntries(names.map((name) => [name, revive(value[name as never], counted)]))
}

function dried(value: unknown): unknown {
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64') }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, dried(member)]))
}
