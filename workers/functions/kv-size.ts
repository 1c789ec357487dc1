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

/** What a function keeps now; its values are not read for it. @throws {BusUnavailable} */
export async function storedSize(bus: Bus, functionId: string): Promise<KvSize> {
  const options = {
    filter_subjects: ownedKeysSubject(functionsBucket, functionId),
    deliver_policy: DeliverPolicy.LastPerSubject,
    headers_only: true,
  }
  const consumer = await asking(bus, () => bus.jetstream.consumers.get(functionsStream, options))
  const { num_pending } = await asking(bus, () => consumer.info())
  if (num_pending === 0) return { keys: 0, bytes: 0 }
  const sizes = new Map<string, number>()
  const messages = await asking(bus, () => consumer.consume())
  try {
    await asking(bus, async () => {
      let read = 0
      for await (const { subject, headers, info } of messages) {
        sizes.set(subject, sizeOf(keyOf(subject), Number(headers?.get('Nats-Msg-Size') ?? 0)))
        // What is written meanwhile comes behind; that may never end.
        if (info.pending === 0 || ++read >= 2 * num_pending) break
      }
    })
  } finally {
    await messages.close()
    await consumer.delete().catch(() => undefined)
  }
  return { keys: sizes.size, bytes: [...sizes.values()].reduce((sum, size) => sum + size, 0) }
}
