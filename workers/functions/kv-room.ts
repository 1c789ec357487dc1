import { JetStreamApiError } from '@nats-io/jetstream'
import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import { addToCounter, type CounterName, counterValues } from '../../bus/counters.ts'
import { asking } from '../../bus/publish.ts'
import { functionsStream, type KvSize, type KvSizes } from './kv-size.ts'

/** What a function asked of its store and may not have; the text is for its author. */
export class KvRefused extends Error {
  override readonly name: string = 'KvRefused'
}

/** There is no room for it. */
export class KvFull extends KvRefused {
  override readonly name = 'KvFull'
}

export interface KvLimits {
  /** Of one function. Default 10,000. */
  readonly maxKeys?: number
  /** Of one function: its keys and values, in UTF-8. Default 16,777,216. */
  readonly maxBytes?: number
  /** No write takes so long: what was not settled by then is a dead worker's. Default 30,000. */
  readonly deadMs?: number
}

interface Measurement {
  /** Of performance.now(). */
  readonly begunAt: number
  readonly found: KvSize
  /** What had been settled when it began: all of that was found, or is gone. */
  readonly settled: KvSize
  /** Since when that is the same, and what was asked for then. */
  readonly still: { readonly since: number; readonly asked: KvSize }
}

/** Part of the bucket's bytes that is kept for what the platform itself has in there. */
const spared = 1 / 16
const lookMs = 1_000
const tries = 3
/** The stream takes no more bytes. */
const maxBytesExceeded = 10077
const nothing: KvSize = { keys: 0, bytes: 0 }

/**
 * Holds the stores of functions to their limits, together with any number of other workers. What a write will add is added to one counter
 * on the bus before, whose answer is the sum of all that was ever asked for, and to another one when the write has come to its end. What was
 * deleted, shrank or expired is in neither. Where the sum looks too large, the store is measured: beside what is found, only that counts
 * which had not been settled when the measurement began. So no limit is passed, whoever writes at the same time or dies of it; a value that
 * takes the place of one that is deleted at that moment may come on top, once.
 */
export class KvRoom {
  readonly #bus: Bus
  readonly #sizes: KvSizes
  readonly #limits: Required<KvLimits>
  readonly #measured = new LRUCache<string, Measurement>({ max: 10_000 })
  /** The last of those who wait for a measurement, by function: one after the other. */
  readonly #lines = new Map<string, Promise<void>>()
  #bucket: { readonly at: number; readonly max: number; bytes: number } | null = null

  constructor(bus: Bus, sizes: KvSizes, { maxKeys = 10_000, maxBytes = 16 * 1024 ** 2, deadMs = 30_000 }: KvLimits) {
    this.#bus = bus
    this.#sizes = sizes
    this.#limits = { maxKeys, maxBytes, deadMs }
  }

  /** Writes what takes so much more than there is. @throws {KvFull}; {BusUnavailable}; what the write throws */
  async write(functionId: string, { keys, bytes }: KvSize, store: () => Promise<unknown>): Promise<void> {
    const more = { keys: Math.max(0, keys), bytes: Math.max(0, bytes) }
    if (more.keys === 0 && more.bytes === 0) {
      await storing(store)
      return
    }
    await this.#checkBucket(more.bytes)
    await this.#take(functionId, more)
    try {
      await storing(store)
    } finally {
      // Nobody waits for it: until it is there, the write counts as under way.
      this.#count('settled', functionId, more).catch(() => undefined)
    }
  }

  async #take(functionId: string, more: KvSize): Promise<void> {
    const from = performance.now()
    if ((await this.#ask(functionId, more)) === null) return
    const before = this.#lines.get(functionId)
    const turn = (before ?? Promise.resolve()).then(() => this.#takeMeasured(functionId, more, from))
    const line = turn.catch(() => undefined)
    this.#lines.set(functionId, line)
    try {
      await turn
    } finally {
      if (this.#lines.get(functionId) === line) this.#lines.delete(functionId)
    }
  }

  async #takeMeasured(functionId: string, more: KvSize, from: number): Promise<void> {
    let needed = from
    for (let number = 1; ; number++) {
      const { found } = await this.#measure(functionId, needed)
      const over = await this.#ask(functionId, more)
      if (over === null) return
      // It is full, and not only with what others have under way.
      if (number === tries || this.#over(more, sum(found, more)) !== null) throw new KvFull(over)
      needed = performance.now()
    }
  }

  /** Null when it is granted; else why it is not. */
  async #ask(functionId: string, more: KvSize): Promise<string | null> {
    const asked = await this.#count('asked', functionId, more)
    const { found, settled } = this.#measured.get(functionId) ?? { found: nothing, settled: nothing }
    const open = sum(asked, settled, -1)
    const over = this.#over(more, sum(found, { keys: Math.max(0, open.keys), bytes: Math.max(0, open.bytes) }))
    if (over !== null) await this.#count('asked', functionId, sum(nothing, more, -1))
    return over
  }

  #over(more: KvSize, { keys, bytes }: KvSize): string | null {
    const { maxKeys, maxBytes } = this.#limits
    if (more.keys > 0 && keys > maxKeys) return `A function has at most ${maxKeys} keys`
    if (more.bytes > 0 && bytes > maxBytes) return `The keys and values of a function have at most ${maxBytes} bytes`
    return null
  }

  /** The sums with it; 0 of what it does not change. */
  async #count(which: Sum, functionId: string, { keys, bytes }: KvSize): Promise<KvSize> {
    const add = (what: keyof KvSize, n: number) =>
      n === 0 ? 0 : addToCounter(this.#bus, counterOf(which, what, functionId), n)
    const [allKeys, allBytes] = await Promise.all([add('keys', keys), add('bytes', bytes)])
    return { keys: allKeys, bytes: allBytes }
  }

  /** One that began at a time, or later. */
  async #measure(functionId: string, from: number): Promise<Measurement> {
    const last = this.#measured.get(functionId)
    if (last !== undefined && last.begunAt >= from) return last
    const begunAt = performance.now()
    const { asked, settled } = await this.#sums(functionId)
    const sizes = await this.#sizes.read(functionId)
    const found = { keys: sizes.size, bytes: [...sizes.values()].reduce((all, size) => all + size, 0) }
    const isStill = last !== undefined && settled.keys === last.settled.keys && settled.bytes === last.settled.bytes
    const still = isStill ? last.still : { since: begunAt, asked }
    const measurement = { begunAt, found, settled, still }
    this.#measured.set(functionId, measurement)
    if (begunAt - still.since > this.#limits.deadMs) await this.#settleDead(functionId, measurement)
    return measurement
  }

  /** Nothing has been settled for long: what was asked for at the beginning of that time is of workers that died. */
  async #settleDead(functionId: string, { settled, still }: Measurement): Promise<void> {
    const dead = sum(still.asked, settled, -1)
    for (const what of ['keys', 'bytes'] as const) {
      const name = counterOf('settled', what, functionId)
      // Under this id it is done once.
      if (dead[what] > 0) await addToCounter(this.#bus, name, dead[what], `${name.join('/')}@${settled[what]}`)
    }
  }

  async #sums(functionId: string): Promise<{ readonly asked: KvSize; readonly settled: KvSize }> {
    const names = (['settled', 'asked'] as const).flatMap((which) => [
      counterOf(which, 'keys', functionId),
      counterOf(which, 'bytes', functionId),
    ])
    const [settledKeys = 0, settledBytes = 0, keys = 0, bytes = 0] = await counterValues(this.#bus, names)
    return { settled: { keys: settledKeys, bytes: settledBytes }, asked: { keys, bytes } }
  }

  /** The bucket itself takes no more at its limit; functions stop before that. */
  async #checkBucket(bytes: number): Promise<void> {
    const now = performance.now()
    if (this.#bucket === null || this.#bucket.at + lookMs < now) {
      const { config, state } = await asking(this.#bus, () => this.#bus.manager.streams.info(functionsStream))
      this.#bucket = { at: now, max: config.max_bytes, bytes: state.bytes }
    }
    if (this.#bucket.max > 0 && this.#bucket.bytes + bytes > this.#bucket.max * (1 - spared)) throw new KvFull(allFull)
    this.#bucket.bytes += bytes
  }
}

const allFull = 'The stores of all functions together are full'

async function storing(store: () => Promise<unknown>): Promise<void> {
  try {
    await store()
  } catch (error) {
    // It counts as something that the bus cannot do now.
    const { cause = error } = error as Error
    const isFull = cause instanceof JetStreamApiError && cause.code === maxBytesExceeded
    throw isFull ? new KvFull(allFull, { cause: error }) : error
  }
}

type Sum = 'asked' | 'settled'

const counterOf = (which: Sum, what: keyof KvSize, functionId: string): CounterName => [
  'function-kv',
  which,
  what,
  functionId,
]

function sum(one: KvSize, other: KvSize, sign: 1 | -1 = 1): KvSize {
  return { keys: one.keys + sign * other.keys, bytes: one.bytes + sign * other.bytes }
}
