import { fromBase64, toBase64 } from './body.ts'
import { DOMException } from './dom-exception.ts'
import { ask, request } from './host.ts'
import { bytesOf, setPrototypeOf, typedArrayName } from './intrinsics.ts'
import { SYNC_DIGEST_BYTES } from './operations.ts'
import { fromLatin1, latin1, pack, unpack } from './wire.ts'

const INTEGERS = /^(Big)?(Int|Uint)(8|16|32|64)(Clamped)?Array$/

interface KeyData {
  readonly format: string
  readonly material: unknown
  readonly type: string
  readonly algorithm: object
  readonly usages: string[]
}

let allowed = false
let makeKey: (data: KeyData, extractable: boolean) => CryptoKey
let keyData: (key: unknown) => KeyData
let isExtractable: (key: CryptoKey) => boolean

/** The material stays in a private field: user code sees it only through exportKey, when the key is extractable. */
export class CryptoKey {
  readonly #data: KeyData
  readonly #extractable: boolean
  static {
    makeKey = (data, extractable) => {
      allowed = true
      // Without a prototype no toJSON of the user's is asked, which would see the material.
      return new CryptoKey(setPrototypeOf(data, null) as KeyData, extractable)
    }
    isExtractable = (key) => key.#extractable
    keyData = (key) => {
      if (typeof key !== 'object' || key === null || !(#data in key)) throw new TypeError('The key must be a CryptoKey')
      return key.#data
    }
  }
  constructor(data: KeyData, extractable: boolean) {
    if (!allowed) throw new TypeError('Illegal constructor')
    allowed = false
    this.#data = data
    this.#extractable = extractable
  }
  get type(): string {
    return this.#data.type
  }
  get extractable(): boolean {
    return this.#extractable
  }
  get algorithm(): object {
    return wetted(this.#data.algorithm) as object
  }
  get usages(): string[] {
    return [...this.#data.usages]
  }
}

/** Bytes inside JSON: `{ "$bytes": base64 }`; keys by what they are made of. */
function dried(value: unknown): unknown {
  const bytes = bytesOf(value)
  if (bytes !== null) return { $bytes: toBase64(latin1(bytes)) }
  if (value instanceof CryptoKey) return keyData(value)
  if (typeof value !== 'object' || value === null) return value
  const copy: Record<string, unknown> = {}
  for (const name of Object.keys(value)) copy[name] = dried((value as Record<string, unknown>)[name])
  return copy
}

function wetted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const { $bytes } = value as { $bytes?: unknown }
  if (typeof $bytes === 'string') return fromBase64($bytes)
  const copy: Record<string, unknown> = {}
  for (const name of Object.keys(value)) copy[name] = wetted((value as Record<string, unknown>)[name])
  return copy
}

const algorithmOf = (given: unknown): unknown => dried(typeof given === 'string' ? { name: given } : given)

function need(given: unknown): Uint8Array {
  const bytes = bytesOf(given)
  if (bytes === null) throw new TypeError('The data must be an ArrayBuffer or a view of one')
  return bytes
}

function usable(key: unknown, usage: string): KeyData {
  const data = keyData(key)
  if (!data.usages.includes(usage)) throw new DOMException(`The key cannot be used to ${usage}`, 'InvalidAccessError')
  return data
}

async function operation(
  method: string,
  algorithm: unknown,
  key: KeyData | null,
  extra: unknown,
  data = '',
): Promise<{ head: unknown; rest: string }> {
  return unpack(await request('subtle', pack({ __proto__: null, method, algorithm, key, extra }, data)))
}

const buffer = (text: string): ArrayBuffer => fromLatin1(text).buffer

type KeyUse = 'encrypt' | 'decrypt' | 'sign'
async function bytesBy(method: KeyUse, algorithm: unknown, key: unknown, data: unknown): Promise<ArrayBuffer> {
  const text = latin1(need(data))
  return buffer((await operation(method, algorithmOf(algorithm), usable(key, method), null, text)).rest)
}

export class SubtleCrypto {
  constructor() {
    if (!allowed) throw new TypeError('Illegal constructor')
    allowed = false
  }
  async digest(algorithm: unknown, data: unknown): Promise<ArrayBuffer> {
    const bytes = need(data)
    const named = algorithmOf(algorithm) as { name?: unknown }
    const name = String(named?.name).toUpperCase()
    if (bytes.length <= SYNC_DIGEST_BYTES) return buffer(ask('digest', pack([name], latin1(bytes))))
    return buffer((await operation('digest', named, null, null, latin1(bytes))).rest)
  }
  encrypt(algorithm: unknown, key: unknown, data: unknown): Promise<ArrayBuffer> {
    return bytesBy('encrypt', algorithm, key, data)
  }
  decrypt(algorithm: unknown, key: unknown, data: unknown): Promise<ArrayBuffer> {
    return bytesBy('decrypt', algorithm, key, data)
  }
  sign(algorithm: unknown, key: unknown, data: unknown): Promise<ArrayBuffer> {
    return bytesBy('sign', algorithm, key, data)
  }
  async verify(algorithm: unknown, key: unknown, signature: unknown, data: unknown): Promise<boolean> {
    const extra = dried(need(signature))
    const { head } = await operation('verify', algorithmOf(algorithm), usable(key, 'verify'), extra, latin1(need(data)))
    return head === true
  }
  async deriveBits(algorithm: unknown, key: unknown, length: unknown = null): Promise<ArrayBuffer> {
    return buffer((await operation('deriveBits', algorithmOf(algorithm), usable(key, 'deriveBits'), length)).rest)
  }
  async generateKey(algorithm: unknown, extractable: unknown, usages: Iterable<string>): Promise<unknown> {
    const made = await operation('generateKey', algorithmOf(algorithm), null, [...usages])
    const keys = made.head as [KeyData, KeyData?]
    const first = keys[0]
    const second = keys[1]
    if (second === undefined) return makeKey(first, Boolean(extractable))
    return { publicKey: makeKey(first, true), privateKey: makeKey(second, Boolean(extractable)) }
  }
  async importKey(
    format: unknown,
    data: unknown,
    algorithm: unknown,
    extractable: unknown,
    usages: Iterable<string>,
  ): Promise<CryptoKey> {
    const jwk = format === 'jwk' ? data : null
    const bytes = format === 'jwk' ? '' : latin1(need(data))
    const made = await operation('importKey', algorithmOf(algorithm), null, [String(format), [...usages], jwk], bytes)
    return makeKey((made.head as [KeyData])[0], Boolean(extractable))
  }
  async exportKey(format: unknown, key: unknown): Promise<unknown> {
    const data = keyData(key)
    if (!isExtractable(key as CryptoKey)) throw new DOMException('The key is not extractable', 'InvalidAccessError')
    const { head, rest } = await operation('exportKey', null, data, String(format))
    if (format !== 'jwk') return buffer(rest)
    return { ...(head as object), ext: true, key_ops: [...data.usages] }
  }
}

export class Crypto {
  readonly #subtle: SubtleCrypto
  constructor() {
    if (!allowed) throw new TypeError('Illegal constructor')
    this.#subtle = new SubtleCrypto()
  }
  get subtle(): SubtleCrypto {
    return this.#subtle
  }
  randomUUID(): string {
    return ask('uuid', '')
  }
  getRandomValues<View>(view: View): View {
    const bytes = bytesOf(view)
    const name = typedArrayName(view)
    if (bytes === null || name === undefined || !INTEGERS.test(name))
      throw new DOMException('The view must be a typed array of integers', 'TypeMismatchError')
    if (bytes.length > 65_536) throw new DOMException('At most 65536 bytes at once', 'QuotaExceededError')
    bytes.set(fromLatin1(ask('random', `${bytes.length}`)))
    return view
  }
}

export function makeCrypto(): Crypto {
  allowed = true
  return new Crypto()
}
