import type { HeaderReader } from './envelope.ts'
import { KvInvalid } from './kv.ts'
import { unescapeToken } from './subject.ts'
import { maxValueBytes } from './topology.ts'

/** What is known of a key besides its value. Times are epoch ms. */
export interface KvEntry {
  readonly key: string
  /** A word of the writer's for what the value is. */
  readonly type: string
  /** Raised by every write, also after the key was away: no version means two things. */
  readonly version: number
  readonly createdAt: number
  readonly updatedAt: number
  /** From then on the key is not there; null: it stays. */
  readonly expiresAt: number | null
}

const maxNamespaceBytes = 100
const maxKeyBytes = 512
const maxDepth = 100
const maxTtlMs = 10 * 366 * 86_400_000
const operationHeader = 'KV-Operation'
const ttlHeader = 'Nats-TTL'
const head = { type: 'Busbar-Type', created: 'Busbar-Created', updated: 'Busbar-Updated', expires: 'Busbar-Expires' }
/** A deletion is a message of its own, so that it can have a condition. */
const tombstoneSeconds = 10

/** What a message says of its key; a time to live ends with it. */
export function entryHeaders({
  type,
  createdAt,
  updatedAt,
  expiresAt,
}: Omit<KvEntry, 'key' | 'version'>): Readonly<Record<string, string>> {
  const always = { [head.type]: type, [head.created]: String(createdAt), [head.updated]: String(updatedAt) }
  if (expiresAt === null) return always
  // The bus counts whole seconds and cleans up behind us.
  const seconds = Math.max(1, Math.ceil((expiresAt - updatedAt) / 1_000))
  return { ...always, [head.expires]: String(expiresAt), [ttlHeader]: `${seconds}s` }
}

export const tombstoneHeaders: Readonly<Record<string, string>> = {
  [operationHeader]: 'DEL',
  [ttlHeader]: `${tombstoneSeconds}s`,
}

/** Out of a subject. */
export function keyOf(subject: string): string {
  return unescapeToken(subject.slice(subject.lastIndexOf('.') + 1).replaceAll('=', '%'))
}

/** Null: the message is a deletion. */
export function entryOf(headers: HeaderReader | undefined, key: string, version: number): KvEntry | null {
  if (headers === undefined || headers.get(operationHeader) !== '') return null
  const time = (name: string) => Number(headers.get(name))
  const expires = headers.get(head.expires)
  return {
    key,
    type: headers.get(head.type),
    version,
    createdAt: time(head.created),
    updatedAt: time(head.updated),
    expiresAt: expires === '' ? null : Number(expires),
  }
}

/** @throws {KvInvalid} */
export function encodedValue(value: unknown): string {
  if (value === undefined) throw new KvInvalid('value must be JSON')
  if (isDeeper(value, maxDepth)) throw new KvInvalid(`value nests deeper than ${maxDepth} levels`)
  const body = JSON.stringify(value)
  if (body === undefined) throw new KvInvalid('value must be JSON')
  if (Buffer.byteLength(body) > maxValueBytes) throw new KvInvalid(`value has more than ${maxValueBytes} bytes of JSON`)
  return body
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((each) => isDeeper(each, levels - 1))
}

/** @throws {KvInvalid} */
export function checkedNamespace(namespace: string): string {
  return checkedText('namespace', namespace, maxNamespaceBytes)
}

/** @throws {KvInvalid} */
export function checkedKey(key: string): string {
  return checkedText('key', key, maxKeyBytes)
}

function checkedText(field: string, text: string, maxBytes: number): string {
  const sizeBytes = Buffer.byteLength(text)
  if (sizeBytes >= 1 && sizeBytes <= maxBytes && text.isWellFormed()) return text
  throw new KvInvalid(`${field} must have 1 to ${maxBytes} bytes of UTF-8`)
}

/** @throws {KvInvalid} */
export function checkTtl(ttlMs: number | undefined): void {
  if (ttlMs === undefined || (Number.isFinite(ttlMs) && ttlMs > 0 && ttlMs <= maxTtlMs)) return
  throw new KvInvalid('ttl must be more than nothing and at most ten years')
}
