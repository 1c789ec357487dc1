import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

/** A value encrypted with AES-256-GCM. */
export interface Sealed {
  readonly keyId: string
  /** 96 bits, random, base64. */
  readonly nonce: string
  /** With the tag behind it, base64. */
  readonly ciphertext: string
  /** The additional data: whose value this is, which version. Not secret. */
  readonly context: string
}

/** A key is missing, or what lies there is not what was sealed for this place. Says nothing of the value. */
export class SealBroken extends Error {
  override readonly name = 'SealBroken'
}

/** Keys that values are sealed with. */
export interface KeyRing {
  /** Of the key that seals now. */
  readonly keyId: string
  /** With the ring's first key. `context`: the aggregate's id and version, and what of it this is. */
  seal(text: string, context: string): Sealed
  /** @throws {SealBroken} also when the value was sealed for a place that does not begin with `owner`. */
  open(sealed: Sealed, owner: string): string
}

/** Each `<id>:<32 bytes in base64>`: the first seals, all open. A function gives them as they are at that moment. */
export type SecretKeys = readonly string[] | (() => readonly string[])

const algorithm = 'aes-256-gcm'
const keyBytes = 32
const tagBytes = 16

/**
 * The keys of `app.secrets.keys`. Null when there are none. Keys that a function gives are asked for at each use, so that a process that
 * runs follows when they change.
 *
 * @throws {TypeError} naming the key's place, never the key.
 */
export function keyRing(written: SecretKeys | undefined): KeyRing | null {
  const read = typeof written === 'function' ? written : () => written ?? []
  let known = parseKeys(read())
  const keys = () => {
    if (typeof written === 'function') known = parseKeys(read())
    return known
  }
  if (known.size === 0) return null
  return {
    get keyId() {
      return first(keys())[0]
    },
    seal(text, context) {
      const [keyId, key] = first(keys())
      const nonce = randomBytes(12)
      const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(context))
      const bytes = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return { keyId, nonce: nonce.toString('base64'), ciphertext: bytes.toString('base64'), context }
    },
    open(sealed, owner) {
      const key = known.get(sealed.keyId) ?? keys().get(sealed.keyId)
      if (key === undefined) throw new SealBroken(`There is no key ${sealed.keyId} in app.secrets.keys`)
      if (!sealed.context.startsWith(owner)) throw new SealBroken(`The sealed value does not belong to ${owner}`)
      return decipher(sealed, key)
    },
  }
}

/** The same text in the same place under the ring's first key; null when it lies under it. @throws {SealBroken} */
export function resealed(ring: KeyRing, sealed: Sealed, owner: string): Sealed | null {
  return sealed.keyId === ring.keyId ? null : ring.seal(ring.open(sealed, owner), sealed.context)
}

function first(keys: ReadonlyMap<string, Buffer>): readonly [string, Buffer] {
  const [key] = keys
  if (key === undefined) throw new SealBroken('There are no keys any more')
  return key
}

function parseKeys(written: readonly string[]): ReadonlyMap<string, Buffer> {
  const keys = new Map<string, Buffer>()
  for (const [index, text] of written.entries()) {
    const [id, key] = parseKey(text, index)
    // Which of the two has sealed something could not be told.
    if (keys.has(id)) throw new TypeError(`app.secrets.keys: entry ${index + 1} has the id of another`)
    keys.set(id, key)
  }
  return keys
}

function decipher({ nonce, ciphertext, context }: Sealed, key: Buffer): string {
  const bytes = Buffer.from(ciphertext, 'base64')
  try {
    const opener = createDecipheriv(algorithm, key, Buffer.from(nonce, 'base64'), { authTagLength: tagBytes })
    opener.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(-tagBytes))
    return Buffer.concat([opener.update(bytes.subarray(0, -tagBytes)), opener.final()]).toString('utf8')
  } catch (cause) {
    throw new SealBroken(`The sealed value of ${context} cannot be opened`, { cause })
  }
}

function parseKey(text: string, index: number): readonly [string, Buffer] {
  const at = text.indexOf(':')
  const bytes = Buffer.from(text.slice(at + 1), 'base64')
  if (at < 1 || bytes.length !== keyBytes) {
    throw new TypeError(`app.secrets.keys: entry ${index + 1} is not <id>:<32 bytes in base64>`)
  }
  return [text.slice(0, at), bytes]
}
