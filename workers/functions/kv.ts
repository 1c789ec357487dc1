import type { Bus } from '../../bus/connect.ts'
import { asking, publish } from '../../bus/publish.ts'
import { ownedKeySubject, ownedKeysSubject } from '../../bus/subject.ts'
import { functionsBucket, maxValueBytes } from '../../bus/topology.ts'
import { type KvLimits, KvRefused, KvRoom } from './kv-room.ts'
import { KvSizes, keyOf, sizeOf, functionsStream as stream } from './kv-size.ts'

export interface KeyPage {
  readonly keys: readonly string[]
  /** For the next page; null at the end. */
  readonly cursor: string | null
}

/** The key-value namespaces of functions, on the bus. Values are JSON texts. Every call can throw {KvRefused} and {BusUnavailable}. */
export interface FunctionKv {
  /** Null when there is none. */
  get(functionId: string, key: string): Promise<string | null>
  /** `ttlSeconds`: forgotten after it. Default never. @throws {KvFull} */
  put(functionId: string, key: string, json: string, ttlSeconds?: number): Promise<void>
  delete(functionId: string, key: string): Promise<void>
  /** In the order of the keys. */
  list(
    functionId: string,
    options: { readonly prefix?: string; readonly limit?: number; readonly cursor?: string },
  ): Promise<KeyPage>
  /** Forgets what a function kept up to a time of the bus, epoch ms. */
  clear(functionId: string, until: number): Promise<void>
}

const maxKeyBytes = 512
const maxPage = 1_000

export function functionKv(bus: Bus, limits: KvLimits = {}): FunctionKv {
  const subjectOf = (functionId: string, key: string) => ownedKeySubject(functionsBucket, functionId, checked(key))
  const sizes = new KvSizes(bus)
  const last = (subject: string) => asking(bus, () => bus.manager.direct.getMessage(stream, { last_by_subj: subject }))
  const purge = (what: { filter: string; seq?: number }) => asking(bus, () => bus.manager.streams.purge(stream, what))
  const room = new KvRoom(bus, sizes, limits)
  return {
    async get(functionId, key) {
      return (await last(subjectOf(functionId, key)))?.string() ?? null
    },
    async put(functionId, key, json, ttlSeconds) {
      const subject = subjectOf(functionId, key)
      const bytes = Buffer.byteLength(json)
      if (bytes > maxValueBytes) throw new KvRefused(`A value has at most ${maxValueBytes} bytes`)
      const headers = ttlSeconds === undefined ? {} : { 'Nats-TTL': `${wholeSeconds(ttlSeconds)}s` }
      const before = await last(subject)
      const more =
        before === null
          ? { keys: 1, bytes: sizeOf(keyOf(subject), bytes) }
          : { keys: 0, bytes: bytes - before.data.length }
      await room.write(functionId, more, () => publish(bus, { subject, body: json, headers }))
    },
    async delete(functionId, key) {
      await purge({ filter: subjectOf(functionId, key) })
    },
    async list(functionId, { prefix = '', limit = maxPage, cursor = '' }) {
      if (typeof prefix !== 'string' || typeof cursor !== 'string') throw new KvRefused('prefix and cursor are texts')
      if (!Number.isInteger(limit) || limit < 1) throw new KvRefused('limit is a whole number from 1')
      const size = Math.min(maxPage, limit)
      const keys = [...(await sizes.read(functionId)).keys()]
        .filter((key) => key.startsWith(prefix) && key > cursor)
        .sort()
      const page = keys.slice(0, size)
      return { keys: page, cursor: keys.length > size ? (page.at(-1) ?? null) : null }
    },
    async clear(functionId, until) {
      const query = { start_time: new Date(until + 1) }
      const after = await asking(bus, () => bus.manager.direct.getMessage(stream, query))
      const filter = ownedKeysSubject(functionsBucket, functionId)
      await purge(after === null ? { filter } : { filter, seq: after.seq })
    },
  }
}

function checked(key: string): string {
  if (typeof key !== 'string' || key === '' || Buffer.byteLength(key) > maxKeyBytes) {
    throw new KvRefused(`A key is a text of 1 to ${maxKeyBytes} bytes`)
  }
  return key.toWellFormed()
}

function wholeSeconds(seconds: number): number {
  if (!Number.isFinite(seconds) || seconds < 1) throw new KvRefused('expirationTtl is a number of seconds from 1')
  return Math.ceil(Math.min(seconds, 10 * 365 * 86_400))
}
