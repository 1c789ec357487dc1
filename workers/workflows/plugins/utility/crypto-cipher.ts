import { createCipheriv, createDecipheriv, randomBytes, scrypt } from 'node:crypto'
import { TaskFailure } from '../../plugin.ts'
import { bytesOf, decoded, givenBack } from '../content.ts'
import type { CryptoInput, CryptoRun } from './crypto-properties.ts'

const nonceBytes = 12
const tagBytes = 16
const saltBytes = 16
/** 64 MB a guess. Source: RFC 7914 */
const cost = { N: 65_536, r: 8, p: 1, maxmem: 96 * 1024 ** 2 }

/** Nonce, content and tag one after the other; with a password its salt before them. Source: NIST SP 800-38D */
export async function onCipher(task: CryptoRun) {
  const { operation, toFile, file } = task.input
  const bytes = await bytesOf(task, task.input)
  if (operation === 'encrypt') {
    const made = await encrypted(task.input, bytes)
    return await givenBack(task, toFile ? made : made.toString('base64'), toFile)
  }
  const packed = file === undefined ? base64Of(decoded(bytes, 'properties.text')) : bytes
  const made = await decrypted(task.input, packed)
  return await givenBack(task, toFile ? made : decoded(made, 'What is in it'), toFile)
}

async function encrypted(input: CryptoInput, bytes: Uint8Array): Promise<Buffer> {
  const salt = input.password === undefined ? Buffer.alloc(0) : randomBytes(saltBytes)
  const key = await keyOf(input, salt)
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv(algorithmOf(key), key, nonce)
  if (input.additionalData !== undefined) cipher.setAAD(Buffer.from(input.additionalData))
  const content = Buffer.concat([cipher.update(bytes), cipher.final()])
  return Buffer.concat([salt, nonce, content, cipher.getAuthTag()])
}

async function decrypted(input: CryptoInput, packed: Uint8Array): Promise<Buffer> {
  const begin = input.password === undefined ? 0 : saltBytes
  if (packed.length < begin + nonceBytes + tagBytes) {
    throw new TaskFailure('refused', 'What is to be decrypted is too short: it has been cut')
  }
  const key = await keyOf(input, packed.subarray(0, begin))
  const decipher = createDecipheriv(algorithmOf(key), key, packed.subarray(begin, begin + nonceBytes))
  decipher.setAuthTag(packed.subarray(packed.length - tagBytes))
  if (input.additionalData !== undefined) decipher.setAAD(Buffer.from(input.additionalData))
  try {
    const content = packed.subarray(begin + nonceBytes, packed.length - tagBytes)
    return Buffer.concat([decipher.update(content), decipher.final()])
  } catch (cause) {
    throw new TaskFailure('refused', 'It cannot be decrypted: the key is another, or it has been changed', cause)
  }
}

function algorithmOf(key: Buffer) {
  return `aes-${key.length * 8}-gcm` as 'aes-256-gcm'
}

async function keyOf({ key, password }: CryptoInput, salt: Uint8Array): Promise<Buffer> {
  if ((key === undefined) === (password === undefined)) {
    throw new TaskFailure('refused', 'properties.key or properties.password is needed, and not both')
  }
  if (password !== undefined) {
    return await new Promise((resolve, reject) => {
      scrypt(password, salt, 32, cost, (error, derived) => (error === null ? resolve(derived) : reject(error)))
    })
  }
  const text = typeof key === 'string' ? key.trim() : ''
  const bytes = /^([0-9A-Fa-f]{32}|[0-9A-Fa-f]{48}|[0-9A-Fa-f]{64})$/.test(text)
    ? Buffer.from(text, 'hex')
    : base64Of(text)
  if ([16, 24, 32].includes(bytes.length)) return bytes
  throw new TaskFailure('refused', 'properties.key is not 16, 24 or 32 bytes in base64 or hex')
}

function base64Of(text: string): Buffer {
  const compact = text.replace(/\s+/g, '')
  return /^[A-Za-z0-9+/_-]*={0,2}$/.test(compact) ? Buffer.from(compact, 'base64') : Buffer.alloc(0)
}
