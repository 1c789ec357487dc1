import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream'
import { type KV, type KvEntry, Kvm } from '@nats-io/kv'
import type { Static, TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import type { Bus } from './connect.ts'
import { asking } from './publish.ts'
import { escapeToken, unescapeToken } from './subject.ts'
import { maxValueBytes, platformBucket } from './topology.ts'

/** Someone else has written the key in between. */
export class KvConflict extends Error {
  override readonly name = 'KvConflict'
}

/** A value that breaks its schema or is too large. */
export class KvInvalid extends Error {
  override readonly name = 'KvInvalid'
}

export interface KvValue<T> {
  readonly value: T
  /** For `update` and `delete`. */
  readonly revision: number
}

export interface KvChange<T> {
  readonly key: string
  /** Null when the key was deleted. */
  readonly value: T | null
  readonly revision: number
}

/** One kind of values in a key-value bucket. Keys are any text. Every call can throw {BusUnavailable}. */
export interface Collection<T> {
  /** @throws {KvInvalid} when what is stored breaks the schema. */
  get(key: string): Promise<KvValue<T> | null>
  /** The revision. @throws {KvConflict} when the key exists; {KvInvalid}. */
  create(key: string, value: T): Promise<number>
  /** The new revision. @throws {KvConflict} when the key is at another revision; {KvInvalid}. */
  update(key: string, value: T, revision: number): Promise<number>
  /** @throws {KvConflict} when a revision is given and the key is at another one. */
  delete(key: string, revision?: number): Promise<void>
  /** All that is there, by key. @throws {KvInvalid} when something breaks the schema. */
  entries(): Promise<ReadonlyMap<string, KvValue<T>>>
  /** What is there, then every change, until the signal is aborted. */
  watch(signal: AbortSignal): AsyncIterable<KvChange<T>>
}

interface CollectionOptions<Schema extends TSchema> {
  /** kebab-case. */
  readonly name: string
  readonly schema: Schema
  /** Must be in the topology. Default: the platform's. */
  readonly bucket?: string
}

/** @throws {BusUnavailable} */
export async function openCollection<Schema extends TSchema>(
  bus: Bus,
  { name, schema, bucket = platformBucket }: CollectionOptions<Schema>,
): Promise<Collection<Static<Schema>>> {
  // The topology has made the bucket: one that is missing is an error, not to be made here.
  const kv = await asking(bus, () => new Kvm(bus.jetstream).open(bucket))
  const validator = Compile(schema)
  const checked = (key: string, value: unknown): Static<Schema> => {
    if (validator.Check(value)) return value as Static<Schema>
    const [first] = validator.Errors(value)
    throw new KvInvalid(`${name} ${key}${first?.instancePath ?? ''} ${first?.message ?? 'breaks its schema'}`)
  }
  const encode = (key: string, value: unknown) => {
    const text = JSON.stringify(checked(key, value))
    if (Buffer.byteLength(text) <= maxValueBytes) return text
    throw new KvInvalid(`${name} ${key} has more than ${maxValueBytes} bytes`)
  }
  const decode = (key: string, entry: KvEntry) => checked(key, JSON.parse(entry.string()))
  const write = <T>(key: string, call: () => Promise<T>) => asking(bus, () => refusing(`${name} ${key}`, call))
  return {
    async get(key) {
      const entry = await asking(bus, () => kv.get(keyOf(name, key)))
      if (entry === null || entry.operation !== 'PUT') return null
      return { value: decode(key, entry), revision: entry.revision }
    },
    create: async (key, value) => write(key, () => kv.create(keyOf(name, key), encode(key, value))),
    update: async (key, value, revision) => write(key, () => kv.update(keyOf(name, key), encode(key, value), revision)),
    delete: (key, revision) =>
      write(key, () => kv.delete(keyOf(name, key), revision === undefined ? {} : { previousSeq: revision })),
    async entries() {
      const found = new Map<string, KvValue<Static<Schema>>>()
      await asking(bus, async () => {
        for await (const entry of await kv.history({ key: `${name}.*` })) {
          const key = plainKey(name, entry.key)
          if (entry.operation === 'PUT') found.set(key, { value: decode(key, entry), revision: entry.revision })
        }
      })
      return found
    },
    async *watch(signal) {
      for await (const entry of changes(await asking(bus, () => watching(kv, name)), signal)) {
        const key = plainKey(name, entry.key)
        const value = entry.operation === 'PUT' ? decode(key, entry) : null
        yield { key, value, revision: entry.revision }
      }
    },
  }
}

function watching(kv: KV, name: string) {
  return kv.watch({ key: `${name}.*` })
}

async function* changes(entries: Awaited<ReturnType<typeof watching>>, signal: AbortSignal) {
  const stop = () => entries.stop()
  if (signal.aborted) stop()
  signal.addEventListener('abort', stop)
  try {
    yield* entries
  } finally {
    signal.removeEventListener('abort', stop)
    stop()
  }
}

/** The characters of a key are fewer than those of a subject: `=` stands for `%`. */
function keyOf(name: string, key: string): string {
  return `${name}.${escapeToken(key).replaceAll('%', '=')}`
}

function plainKey(name: string, key: string): string {
  return unescapeToken(key.slice(name.length + 1).replaceAll('=', '%'))
}

async function refusing<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    const { StreamWrongLastSequence, StreamWrongLastSequenceUnknown } = JetStreamApiCodes
    const codes: readonly number[] = [StreamWrongLastSequence, StreamWrongLastSequenceUnknown]
    if (!(error instanceof JetStreamApiError) || !codes.includes(error.code)) throw error
    throw new KvConflict(`${what} was written by someone else`, { cause: error })
  }
}
