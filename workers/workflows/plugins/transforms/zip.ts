import { crc32 } from 'node:zlib'
import { fromBufferPromise } from 'yauzl'
import { TaskFailure } from '../../plugin.ts'

export interface UnpackLimits {
  /** Of all entries together, once unpacked. */
  readonly maxBytes: number
  readonly maxEntries: number
}

export interface ArchiveEntry {
  readonly name: string
  readonly bytes: Uint8Array
}

const symbolicLink = 0o12
const fileTypeShift = 28
const isEncrypted = 1

/**
 * The files of a zip archive, one after the other.
 *
 * @throws {TaskFailure} `refused` when it is broken or encrypted, when a name leads out of the archive, and as soon as a limit is passed
 */
export async function* zipEntries(archive: Uint8Array, limits: UnpackLimits): AsyncGenerator<ArchiveEntry> {
  const count = new UnpackCount(limits)
  try {
    const zip = await fromBufferPromise(Buffer.from(archive.buffer, archive.byteOffset, archive.length))
    for await (const entry of zip.eachEntry()) {
      const name = safeName(entry.fileName)
      count.entry(entry.uncompressedSize)
      if (name.endsWith('/')) continue
      if (entry.externalFileAttributes >>> fileTypeShift === symbolicLink) throw refusedLink(name)
      if ((entry.generalPurposeBitFlag & isEncrypted) !== 0) throw new TaskFailure('refused', `${name} is encrypted`)
      const bytes = await count.collect(await zip.openReadStreamPromise(entry))
      if (crc32(bytes) !== entry.crc32) throw new TaskFailure('refused', `${name} is damaged: its CRC-32 is another`)
      yield { name, bytes }
    }
  } catch (error) {
    if (error instanceof TaskFailure) throw error
    throw new TaskFailure('refused', `This is no zip archive that can be read: ${(error as Error).message}`, error)
  }
}

export function refusedLink(name: string): TaskFailure {
  return new TaskFailure('refused', `${name} is a link, and archives with links are not unpacked`)
}

/** @throws {TaskFailure} `refused` for a name that leads out of the folder it is unpacked in */
export function safeName(name: string): string {
  const parts = name.split('/')
  const isSafe = name !== '' && name.length <= 1_024 && !/^[A-Za-z]:|[\\\0]/.test(name) && parts[0] !== ''
  if (isSafe && !parts.includes('..')) return name
  throw new TaskFailure('refused', `The name ${JSON.stringify(name.slice(0, 200))} leads out of the archive`)
}

/** Counts what comes out of an archive, whatever the archive says of itself. */
export class UnpackCount {
  readonly #limits: UnpackLimits
  #entries = 0
  #bytes = 0
  constructor(limits: UnpackLimits) {
    this.#limits = limits
  }
  entry(declaredBytes: number): void {
    this.#entries += 1
    if (this.#entries > this.#limits.maxEntries) {
      throw new TaskFailure('refused', `There are more than ${this.#limits.maxEntries} entries`)
    }
    if (this.#bytes + declaredBytes > this.#limits.maxBytes) throw this.#tooLarge()
  }
  async collect(stream: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
    const parts: Uint8Array[] = []
    for await (const part of stream) {
      this.#bytes += part.length
      if (this.#bytes > this.#limits.maxBytes) throw this.#tooLarge()
      parts.push(part)
    }
    return new Uint8Array(Buffer.concat(parts))
  }
  #tooLarge(): TaskFailure {
    return new TaskFailure('refused', `It is larger than ${this.#limits.maxBytes} bytes once unpacked`)
  }
}
