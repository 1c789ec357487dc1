import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ObjectStore, Objm } from '@nats-io/obj'
import type { Bus } from './connect.ts'
import type { EncodedMessage, HeaderReader } from './envelope.ts'
import { readPage } from './page.ts'
import { asking } from './publish.ts'
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
  const bytes = await readObject(bus, digest)
  if (bytes !== null) return bytes
  // Somebody may be storing it anew.
  await sleep(Math.min(bus.timeoutMs, 1_000))
  const again = await readObject(bus, digest)
  if (again !== null) return again
  throw new ObjectDamaged(`The body sha256:${digest} is missing in part`)
}

/**
 * Null: a part of it is missing. Asked for by pages: the client's own way to read an object leaves a consumer behind for minutes, and a
 * stream has a thousand of them at most.
 */
async function readObject(bus: Bus, digest: string): Promise<Uint8Array | null> {
  const store = await openStore(bus)
  const info = await asking(bus, () => store.info(digest))
  if (info === null || info.deleted) throw new ObjectDamaged(`The body sha256:${digest} is missing`)
  const chunks: Uint8Array[] = []
  let sizeBytes = 0
  for (let seq = 1; sizeBytes < info.size; ) {
    const query = { seq, next_by_subj: chunkSubject(info.nuid), batch: chunksAtOnce }
    const page = await asking(bus, () => readPage(bus, storeStream, query))
    if (page.length === 0) return null
    for (const { data } of page) {
      chunks.push(data)
      sizeBytes += data.length
    }
    seq = page.at(-1)!.seq + 1
  }
  return Buffer.concat(chunks)
}

const storeStream = `OBJ_${bodyStore}`
/** Of 128 KB each. */
const chunksAtOnce = 32

/** As the client lays out object stores. Source: NATS ADR-20. */
function chunkSubject(nuid: string): string {
  return `$O.${bodyStore}.C.${nuid}`
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
