import { DeliverPolicy } from '@nats-io/jetstream'
import type { Bus } from '../bus/connect.ts'
import { fetchBody } from '../bus/objects.ts'
import { asking } from '../bus/publish.ts'
import { keysOfInvocations } from './keys-functions.ts'
import { subjectsOf } from './keys-kind.ts'
import { sealedKinds } from './keys-kinds.ts'

/** By key, and by what it is used for, how often. */
export type KeyUses = ReadonlyMap<string, ReadonlyMap<string, number>>

/** Everything that lies under a key now; what is only history does not count. @throws {BusUnavailable} */
export async function keyUses(bus: Bus): Promise<KeyUses> {
  const uses = new Map<string, Map<string, number>>()
  const add = (keyId: string, what: string, count = 1) => {
    const known = uses.get(keyId) ?? new Map<string, number>()
    uses.set(keyId, known.set(what, (known.get(what) ?? 0) + count))
  }
  for (const kind of sealedKinds) {
    for (const subject of await subjectsOf(bus, kind)) {
      for (const keyId of new Set(await kind.keyIds(bus, subject))) add(keyId, kind.name)
    }
  }
  for (const [keyId, calls] of await keysOfInvocations(bus)) add(keyId, 'waiting calls of functions', calls)
  for (const keyId of await otherKeyIds(bus)) add(keyId, 'other things')
  return uses
}

const streams = ['EVT_WORKFLOWS', 'EVT_FUNCTIONS', 'EVT_PROVISIONING']

/** Envelopes in the last messages of aggregates that are of no known kind: a newer version may have put them there. */
async function otherKeyIds(bus: Bus): Promise<readonly string[]> {
  const found: string[] = []
  for (const stream of streams) {
    const consumer = await asking(bus, () =>
      bus.jetstream.consumers.get(stream, { deliver_policy: DeliverPolicy.LastPerSubject }),
    )
    const { num_pending } = await asking(bus, () => consumer.info())
    if (num_pending === 0) continue
    const messages = await asking(bus, () => consumer.consume())
    try {
      await asking(bus, async () => {
        for await (const message of messages) {
          if (!isKnown(message.subject)) {
            const body = await fetchBody(bus, message.headers, message.data)
            found.push(...envelopesIn(JSON.parse(Buffer.from(body).toString('utf8'))))
          }
          if (message.info.pending === 0) break
        }
      })
    } finally {
      await messages.close()
      await consumer.delete().catch(() => undefined)
    }
  }
  return found
}

function isKnown(subject: string): boolean {
  return sealedKinds.some(({ prefix }) => subject.startsWith(prefix))
}

function envelopesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  const { keyId, nonce, ciphertext } = value as Record<string, unknown>
  if (typeof keyId === 'string' && typeof nonce === 'string' && typeof ciphertext === 'string') return [keyId]
  return Object.values(value).flatMap(envelopesIn)
}
