import { setTimeout as sleep } from 'node:timers/promises'
import { DeliverPolicy } from '@nats-io/jetstream'
import type { Bus } from '../../bus/connect.ts'
import { asking } from '../../bus/publish.ts'
import { ownedKeysSubject, unescapeToken } from '../../bus/subject.ts'
import { functionsBucket } from '../../bus/topology.ts'

export const functionsStream = `KV_${functionsBucket}`

/** Of a function's store, or of a part of it. */
export interface KvSize {
  readonly keys: number
  /** Of keys and values, in UTF-8. */
  readonly bytes: number
}

/** Of a key and its value. */
export function sizeOf(key: string, valueBytes: number): number {
  return Buffer.byteLength(key) + valueBytes
}

export function keyOf(subject: string): string {
  return unescapeToken(subject.slice(subject.lastIndexOf('.') + 1).replaceAll('=', '%'))
}

/** The size of each key and its value; the values are not read for it. @throws {BusUnavailable} */
async function storedSizes(bus: Bus, functionId: string): Promise<ReadonlyMap<string, number>> {
  const options = {
    filter_subjects: ownedKeysSubject(functionsBucket, functionId),
    deliver_policy: DeliverPolicy.LastPerSubject,
    headers_only: true,
  }
  const sizes = new Map<string, number>()
  const consumer = await asking(bus, () => bus.jetstream.consumers.get(functionsStream, options))
  const { num_pending } = await asking(bus, () => consumer.info())
  if (num_pending === 0) return sizes
  const messages = await asking(bus, () => consumer.consume())
  try {
    await asking(bus, async () => {
      let read = 0
      for await (const { subject, headers, info } of messages) {
        const key = keyOf(subject)
        sizes.set(key, sizeOf(key, Number(headers?.get('Nats-Msg-Size') ?? 0)))
        // What is written meanwhile comes behind; that may never end.
        if (info.pending === 0 || ++read >= 2 * num_pending) break
      }
    })
  } finally {
    await messages.close()
    await consumer.delete().catch(() => undefined)
  }
  return sizes
}

/** The pause behind a reading is so many times as long as it took: what one function may take of a worker's time. */
const pauses = 3

/** Reads what functions keep: each function's store once at a time, for all who asked before. */
export class KvSizes {
  readonly #bus: Bus
  /** Have not begun. */
  readonly #waiting = new Map<string, Promise<ReadonlyMap<string, number>>>()
  /** When the next one may begin. */
  readonly #free = new Map<string, Promise<void>>()

  constructor(bus: Bus) {
    this.#bus = bus
  }

  /** By key, as it is when this is called or later. @throws {BusUnavailable} */
  read(functionId: string): Promise<ReadonlyMap<string, number>> {
    const waiting = this.#waiting.get(functionId)
    if (waiting !== undefined) return waiting
    let begunAt = 0
    const reading = (this.#free.get(functionId) ?? Promise.resolve()).then(() => {
      this.#waiting.delete(functionId)
      begunAt = performance.now()
      return storedSizes(this.#bus, functionId)
    })
    this.#waiting.set(functionId, reading)
    const pause = () => sleep(pauses * (performance.now() - begunAt), undefined, { ref: false })
    const free = reading.then(pause, pause).then(() => {
      if (this.#free.get(functionId) === free) this.#free.delete(functionId)
    })
    this.#free.set(functionId, free)
    return reading
  }
}
