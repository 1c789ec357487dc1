import type { Hash, Hmac } from 'node:crypto'
import { Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { bytesOf, contentProperties } from '../content.ts'

const checksums = ['crc32'] as const
const digests = [
  'md5',
  'sha1',
  'sha224',
  'sha256',
  'sha384',
  'sha512',
  'sha512-256',
  'sha3-256',
  'sha3-384',
  'sha3-512',
  'blake2s256',
  'blake2b512',
  'ripemd160',
] as const

const chunkBytes = 4 * 1024 ** 2

/** Source: FIPS 180-4, FIPS 202, RFC 2104 (HMAC), RFC 7693 (BLAKE2) */
export const hash = definePlugin({
  id: 'transform.hash',
  name: 'Hash',
  category: 'Transforms',
  description: 'The digest of a text or a file, with a key its HMAC, and whether it is the one that was expected.',
  effect: 'pure',
  input: Type.Object(
    {
      algorithm: Type.Enum([...digests, ...checksums], {
        description: 'How; md5, sha1 and crc32 are for those who still ask for them',
        default: 'sha256',
        examples: ['sha512'],
      }),
      ...contentProperties('What to hash', 'abc'),
      textEncoding: Type.Enum(['utf-8', 'hex', 'base64'], {
        description: 'Whether `text` is one, or bytes in hex or base64',
        default: 'utf-8',
        examples: ['hex'],
      }),
      key: Type.Optional(Type.String({ description: 'With it, an HMAC is made', examples: ['${WEBHOOK_SECRET}'] })),
      keyEncoding: Type.Enum(['utf-8', 'hex', 'base64'], {
        description: 'Whether `key` is a text, or bytes in hex or base64',
        default: 'utf-8',
        examples: ['base64'],
      }),
      encoding: Type.Enum(['hex', 'base64', 'base64url'], {
        description: 'How the digest is written',
        default: 'hex',
        examples: ['base64'],
      }),
      expected: Type.Optional(
        Type.String({ description: 'The digest there should be, written the same way', examples: ['ba7816bf'] }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    digest: Type.String({ description: 'The digest', examples: ['ba7816bf'] }),
    algorithm: Type.String({ description: 'How it was made', examples: ['sha256'] }),
    sizeBytes: Type.Integer({ description: 'Size of what was hashed', examples: [3] }),
    matches: Type.Union([Type.Boolean(), Type.Null()], {
      description: 'Whether it is the expected one; null when none was expected',
      examples: [true],
    }),
  }),
  example: `name: digest
tasks:
  - name: digest
    type: transform.hash
    properties:
      text: abc
      expected: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
`,
  async run(task) {
    const { algorithm, encoding, expected, text, textEncoding } = task.input
    const given = await bytesOf(task, task.input)
    const bytes = text === undefined ? given : asked(text, textEncoding, 'text')
    const digest = (await digestOf(task, bytes)).toString(encoding)
    const matches =
      expected === undefined ? null : await isSame(digest, encoding === 'hex' ? expected.toLowerCase() : expected)
    return { digest, algorithm, sizeBytes: bytes.length, matches }
  },
})

async function digestOf(
  { input, signal }: TaskRun<{ algorithm: string; key?: string; keyEncoding: string }>,
  bytes: Uint8Array,
) {
  const { algorithm, key, keyEncoding } = input
  if (algorithm === 'crc32') {
    if (key !== undefined) throw new TaskFailure('refused', 'properties.key: crc32 takes none')
    const { crc32 } = await import('node:zlib')
    const digest = Buffer.alloc(4)
    digest.writeUInt32BE(crc32(bytes))
    return digest
  }
  const { createHash, createHmac } = await import('node:crypto')
  const hashing: Hash | Hmac =
    key === undefined ? createHash(algorithm) : createHmac(algorithm, asked(key, keyEncoding, 'key'))
  for (let at = 0; at < bytes.length; at += chunkBytes) {
    hashing.update(bytes.subarray(at, at + chunkBytes))
    // Others have a turn in between.
    if (bytes.length > chunkBytes) await new Promise(setImmediate)
    signal.throwIfAborted()
  }
  return hashing.digest()
}

function asked(text: string, encoding: string, name: string): Buffer {
  if (encoding === 'utf-8') return Buffer.from(text, 'utf8')
  const bytes = Buffer.from(text, encoding as 'hex')
  const isWhole = encoding === 'hex' ? /^(?:[0-9A-Fa-f]{2})*$/.test(text) : /^[A-Za-z0-9+/]*={0,2}$/.test(text)
  if (isWhole) return bytes
  throw new TaskFailure('refused', `properties.${name} is not in ${encoding}`)
}

async function isSame(one: string, other: string): Promise<boolean> {
  const { timingSafeEqual } = await import('node:crypto')
  return one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other.padEnd(one.length)))
}
