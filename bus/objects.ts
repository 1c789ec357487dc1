import { createHash } from 'node:crypto'
import { type ObjectStore, Objm } from '@nats-io/obj'
import type { Bus } from './connect.ts'
import type { EncodedMessage, HeaderReader } from './envelope.ts'
import { asking, BusUnanswered } from './publish.ts'
import { bodyStore } from './topology.ts'

/** A body that an event points to is gone or is not what was stored; the text has its digest. */
export class ObjectDamaged extends Error {
  override readonly name = 'ObjectDamaged'
}

/** A larger body is put aside. */
export const maxInlineBytes = 64 * 1024
/** A larger body is refused. */
const maxObjectBytes = 64 * 1024 * 1024
/** `sha256:<hex>;<size in bytes>` on a message whose body lies in the object store. */
const objectHeader = 'Busbar-Object'

const stores = new WeakMap<Bus, Promise<ObjectStore>>()

/**
 * Puts a large body aside under its digest, before the message that points to it is appended; small ones stay as they are.
 *
 * @throws {BusUnavailable}; {RangeError} over 64 MB.
 */
export async function putAside(bus: Bus, message: EncodedMessage): Promise<EncodedMessage> {
  const sizeBytes = Buffer.byteLength(message.body)
  if (sizeBytes <= maxInlineBytes) return message
  if (sizeBytes > maxObjectBytes) throw new RangeError(`A body of ${sizeBytes} bytes is over ${maxObjectBytes}`)
  const bytes = Buffer.from(message.body, 'utf8')
  const digest = sha256(bytes)
  await putObject(bus, digest, bytes)
  return { headers: { ...message.headers, [objectHeader]: `sha256:${digest};${sizeBytes}` }, body: '' }
}

/**
 * The body of a message, wherever it lies.
 *
 * @throws {ObjectDamaged} when it is missing or is not the one that was stored; {BusUnavailable}.
 */
export async function fetchBody(bus: Bus, headers: HeaderReader | undefined, body: Uint8Array): Promise<Uint8Array> {
  const pointer = headers?.get(objectHeader) ?? ''
  if (pointer === '') return body
  const [, digest, size] = /^sha256:([0-9a-f]{64});(\d{1,9})$/.exec(pointer) ?? []
  if (digest === undefined) throw new ObjectDamaged(`${objectHeader} is not sha256:<hex>;<size>: ${pointer}`)
  const bytes = await getObject(bus, digest)
  if (bytes.length !== Number(size) || sha256(bytes) !== digest) {
    throw new ObjectDamaged(`The body sha256:${digest} is not what was stored`)
  }
  return bytes
}

/**
 * Stores bytes under their digest, which it gives back; the same bytes are stored once.
 *
 * @throws {BusUnavailable}; {RangeError} over 64 MB.
 */
export async function storeBytes(bus: Bus, bytes: Uint8Array): Promise<string> {
  if (bytes.length > maxObjectBytes) throw new RangeError(`${bytes.length} bytes are over ${maxObjectBytes}`)
  const digest = sha256(bytes)
  await putObject(bus, digest, bytes)
  return digest
}

/**
 * What was stored under a digest.
 *
 * @throws {ObjectDamaged} when it is missing or is not what was stored; {BusUnavailable}.
 */
export async function readBytes(bus: Bus, digest: string): Promise<Uint8Array> {
  const bytes = await getObject(bus, digest)
  if (sha256(bytes) !== digest) throw new ObjectDamaged(`The body sha256:${digest} is not what was stored`)
  return bytes
}

async function putObject(bus: Bus, digest: string, bytes: Uint8Array): Promise<void> {
  const store = await openStore(bus)
  await asking(bus, async () => {
    const before = await store.info(digest)
    // The same name is the same content; writing it again would pull the chunks from under a reader.
    if (before !== null && !before.deleted && before.size === bytes.length) return
    await store.putBlob({ name: digest }, bytes)
  })
}

async function getObject(bus: Bus, digest: string): Promise<Uint8Array> {
  try {
    return await readObject(bus, digest)
  } catch (error) {
    // A server that was away for a moment has forgotten whom it was sending to.
    if (!(error instanceof ObjectDamaged) || !(error.cause instanceof BusUnanswered)) throw error
    return await readObject(bus, digest)
  }
}

async function readObject(bus: Bus, digest: string): Promise<Uint8Array> {
  const store = await openStore(bus)
  const found = await asking(bus, () => store.get(digest))
  if (found === null) throw new ObjectDamaged(`The body sha256:${digest} is missing`)
  // The client waits for ever for chunks that are gone, and reports a broken digest here as well as in the stream.
  found.error.catch(() => undefined)
  const reader = found.data.getReader()
  const chunks: Uint8Array[] = []
  for (;;) {
    const { done, value } = await nextChunk(bus, digest, reader)
    if (done) return Buffer.concat(chunks)
    chunks.push(value)
  }
}

async function nextChunk(bus: Bus, digest: string, reader: ReadableStreamDefaultReader<Uint8Array>) {
  const timeout = Promise.withResolvers<never>()
  const late = () => timeout.reject(new BusUnanswered('A body did not come in time'))
  const timer = setTimeout(late, bus.timeoutMs)
  const forget = bus.onDisconnect(late)
  try {
    return await Promise.race([reader.read(), timeout.promise])
  } catch (cause) {
    void reader.cancel().catch(() => undefined)
    if (cause instanceof BusUnanswered && !bus.connected) throw cause
    throw new ObjectDamaged(`The body sha256:${digest} is missing in part, or is not what was stored`, { cause })
  } finally {
    clearTimeout(timer)
    forget()
  }
}

function openStore(bus: Bus): Promise<ObjectStore> {
  let store = stores.get(bus)
  if (store === undefined) {
    // The topology has made it, so nothing needs to be asked.
    store = asking(bus, () => new Objm(bus.jetstream).open(bodyStore, false))
    stores.set(bus, store)
    store.catch(() => stores.delete(bus))
  }
  return store
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
