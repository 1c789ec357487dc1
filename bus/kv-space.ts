import { DeliverPolicy, type StoredMsg } from '@nats-io/jetstream'
import { AppendConflict, settle } from './append.ts'
import type { Bus } from './connect.ts'
import { messageIdHeader } from './envelope.ts'
import { KvConflict, KvInvalid } from './kv.ts'
import {
  checkedKey,
  checkedNamespace,
  checkTtl,
  encodedValue,
  entryHeaders,
  entryOf,
  type KvEntry,
  keyOf,
  tombstoneHeaders,
} from './kv-entry.ts'
import { newId } from './message.ts'
import { asking, publishOnce } from './publish.ts'
import { ownedKeySubject, ownedKeysSubject } from './subject.ts'

export interface KvItem extends KvEntry {
  readonly value: unknown
}

export interface KvWrite {
  /** JSON. */
  readonly value: unknown
  readonly type: string
  /** Default: stays until it is deleted. */
  readonly ttlMs?: number
  readonly condition?: KvCondition
}

/** Written only when the key is at this version, or (0) is not there, or (`any`) is there. */
export type KvCondition = number | 'any'

export interface KvPage {
  /** By key, in the order of its code units. */
  readonly entries: readonly KvEntry[]
  /** On all pages. */
  readonly total: number
  /** The key that the next page comes behind; null at the end. */
  readonly next: string | null
}

/**
 * Values by namespace and key with versions and an end, in a bucket of their own. A value whose time is over is not there from that
 * millisecond on. Namespaces and keys are any text. Every call can throw {BusUnavailable} and {KvInvalid}, which names the field.
 */
export interface KvSpace {
  get(namespace: string, key: string): Promise<KvItem | null>
  /** @throws {KvConflict} when the condition does not hold */
  put(namespace: string, key: string, write: KvWrite): Promise<KvItem & { readonly created: boolean }>
  /** Whether it was there. @throws {KvConflict} when the condition does not hold */
  delete(namespace: string, key: string, condition?: KvCondition): Promise<boolean>
  list(
    namespace: string,
    page: { readonly prefix?: string; readonly limit: number; readonly after?: string },
  ): Promise<KvPage>
}

interface SpaceOptions {
  /** Must be in the topology. */
  readonly bucket: string
  /** Of a namespace. Default 10,000. */
  readonly maxKeys?: number
  /** Of all namespaces. Default 1,000,000. */
  readonly maxAllKeys?: number
  /** Default: the clock. */
  readonly now?: () => number
}

const retries = 20
const countedMs = 1_000
const expectedHeader = 'Nats-Expected-Last-Subject-Sequence'

export function kvSpace(bus: Bus, options: SpaceOptions): KvSpace {
  return new Space(bus, options)
}

/** The last message of a key. */
interface Last {
  /** 0: there is none. */
  readonly sequence: number
  /** Null: deleted or over. */
  readonly entry: KvEntry | null
  readonly message: StoredMsg | null
}

class Space implements KvSpace {
  readonly #bus: Bus
  readonly #bucket: string
  readonly #stream: string
  readonly #maxKeys: number
  readonly #maxAllKeys: number
  readonly #now: () => number
  readonly #counts = new Map<string, { keys: number; all: number; readonly at: number }>()

  constructor(bus: Bus, { bucket, maxKeys = 10_000, maxAllKeys = 1_000_000, now = Date.now }: SpaceOptions) {
    this.#bus = bus
    this.#bucket = bucket
    this.#stream = `KV_${bucket}`
    this.#maxKeys = maxKeys
    this.#maxAllKeys = maxAllKeys
    this.#now = now
  }

  async get(namespace: string, key: string): Promise<KvItem | null> {
    const { entry, message } = await this.#last(this.#subject(namespace, key), key)
    return entry === null ? null : { ...entry, value: JSON.parse(message!.string()) }
  }

  async put(namespace: string, key: string, { value, type, ttlMs, condition }: KvWrite) {
    const subject = this.#subject(namespace, key)
    const body = encodedValue(value)
    checkTtl(ttlMs)
    const id = newId()
    for (let retry = 0; ; retry++) {
      const last = await this.#last(subject, key)
      this.#allow(last, key, condition)
      if (last.entry === null) await this.#makeRoom(namespace)
      const at = this.#now()
      const entry = {
        key,
        type,
        createdAt: last.entry?.createdAt ?? at,
        updatedAt: at,
        expiresAt: ttlMs === undefined ? null : at + ttlMs,
      }
      const headers = { [messageIdHeader]: `${id}/${retry}`, ...entryHeaders(entry) }
      const expected = condition === undefined ? null : last.sequence
      const version = await this.#write(subject, { headers, body }, expected, retry)
      if (version === null) continue
      return { ...entry, version, value: JSON.parse(body), created: last.entry === null }
    }
  }

  async delete(namespace: string, key: string, condition?: KvCondition): Promise<boolean> {
    const subject = this.#subject(namespace, key)
    const id = newId()
    for (let retry = 0; ; retry++) {
      const last = await this.#last(subject, key)
      if (last.entry === null) {
        if (condition !== undefined) this.#allow(last, key, condition)
        return false
      }
      this.#allow(last, key, condition)
      const headers = { [messageIdHeader]: `${id}/${retry}`, ...tombstoneHeaders }
      const expected = condition === undefined ? null : last.sequence
      if ((await this.#write(subject, { headers, body: '' }, expected, retry)) !== null) return true
    }
  }

  async list(
    namespace: string,
    { prefix = '', limit, after }: { readonly prefix?: string; readonly limit: number; readonly after?: string },
  ): Promise<KvPage> {
    const now = this.#now()
    const found = (await this.#entries(checkedNamespace(namespace)))
      .filter(({ key, expiresAt }) => key.startsWith(prefix) && (expiresAt === null || expiresAt > now))
      .sort((one, other) => (one.key < other.key ? -1 : 1))
    const rest = after === undefined ? found : found.filter(({ key }) => key > after)
    const entries = rest.slice(0, limit)
    return { entries, total: found.length, next: rest.length > limit ? (entries.at(-1)?.key ?? null) : null }
  }

  #subject(namespace: string, key: string): string {
    return ownedKeySubject(this.#bucket, checkedNamespace(namespace), checkedKey(key))
  }

  async #last(subject: string, key: string): Promise<Last> {
    const message = await asking(this.#bus, () =>
      this.#bus.manager.direct.getMessage(this.#stream, { last_by_subj: subject }),
    )
    if (message === null) return { sequence: 0, entry: null, message }
    const entry = entryOf(message.header, key, message.seq)
    const isOver = entry?.expiresAt != null && entry.expiresAt <= this.#now()
    return { sequence: message.seq, entry: isOver ? null : entry, message }
  }

  #allow({ entry }: Last, key: string, condition: KvCondition | undefined): void {
    const version = entry?.version ?? 0
    if (condition === undefined || condition === version || (condition === 'any' && entry !== null)) return
    const found = entry === null ? 'is not there' : `is at version ${version}`
    throw new KvConflict(condition === 'any' ? `${key} ${found}` : `${key} ${found}, not at version ${condition}`)
  }

  /** The new version; null when someone was faster. */
  async #write(
    subject: string,
    message: { readonly headers: Readonly<Record<string, string>>; readonly body: string },
    expectedSequence: number | null,
    retry: number,
  ): Promise<number | null> {
    const headers: Record<string, string> = {
      ...message.headers,
      ...(expectedSequence !== null && { [expectedHeader]: String(expectedSequence) }),
    }
    const pending = {
      stream: this.#stream,
      subject,
      id: headers[messageIdHeader]!,
      expectedSequence: expectedSequence ?? 0,
      encoded: message,
    }
    try {
      const { sequence } = await settle(this.#bus, this.#stream, [pending], async () => {
        const ack = await publishOnce(this.#bus, { subject, headers, body: message.body })
        return { sequence: ack.seq, duplicate: false }
      })
      return sequence
    } catch (error) {
      if (error instanceof AppendConflict && retry < retries) return null
      if (!(error instanceof AppendConflict)) throw error
      throw new KvConflict('The key is being written by many at once', { cause: error })
    }
  }

  /** Whether there is room for one more key is looked up now and then: the limit is a fence, not a promise. */
  async #makeRoom(namespace: string): Promise<void> {
    const known = this.#counts.get(namespace)
    const count = known !== undefined && known.at > Date.now() - countedMs ? known : await this.#count(namespace)
    if (count.keys >= this.#maxKeys)
      throw new KvInvalid(`namespace has ${this.#maxKeys} keys, and no more may be in one`)
    if (count.all >= this.#maxAllKeys) throw new KvInvalid(`key is one too many: there are ${this.#maxAllKeys} in all`)
    count.keys++
    count.all++
  }

  async #count(namespace: string) {
    const filter = ownedKeysSubject(this.#bucket, namespace)
    const { state } = await asking(this.#bus, () =>
      this.#bus.manager.streams.info(this.#stream, { subjects_filter: filter }),
    )
    const count = { keys: Object.keys(state.subjects ?? {}).length, all: state.num_subjects ?? 0, at: Date.now() }
    this.#counts.clear()
    this.#counts.set(namespace, count)
    return count
  }

  /** What the headers say of every key, without the values. */
  async #entries(namespace: string): Promise<KvEntry[]> {
    const entries = new Map<string, KvEntry | null>()
    const consumer = await asking(this.#bus, () =>
      this.#bus.jetstream.consumers.get(this.#stream, {
        filter_subjects: ownedKeysSubject(this.#bucket, namespace),
        deliver_policy: DeliverPolicy.LastPerSubject,
        headers_only: true,
      }),
    )
    const { num_pending } = await asking(this.#bus, () => consumer.info())
    if (num_pending === 0) return []
    const messages = await asking(this.#bus, () => consumer.consume())
    try {
      await asking(this.#bus, async () => {
        let read = 0
        for await (const message of messages) {
          const key = keyOf(message.subject)
          entries.set(key, entryOf(message.headers, key, message.seq))
          // What is written meanwhile comes behind; that may never end.
          if (message.info.pending === 0 || ++read >= 2 * num_pending) break
        }
      })
    } finally {
      await messages.close()
      await consumer.delete().catch(() => undefined)
    }
    return [...entries.values()].filter((entry) => entry !== null)
  }
}
