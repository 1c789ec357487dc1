import zlib from 'node:zlib'
import { extract, pack as tarPack } from 'tar-stream'
import yazl from 'yazl'
import { TaskFailure } from '../../plugin.ts'
import { type ArchiveEntry, refusedLink, safeName, UnpackCount, type UnpackLimits, zipEntries } from './zip.ts'

export type StreamFormat = 'gzip' | 'deflate' | 'brotli' | 'zstd'
export type ArchiveFormat = 'zip' | 'tar' | 'tar.gz'

/** Archives say when their entries were made: the same files make the same archive. */
const mtime = new Date(Date.UTC(1980, 0, 1))

export function pack({
  format,
  bytes,
  level,
}: {
  format: StreamFormat
  bytes: Uint8Array
  level?: number
}): Uint8Array {
  const { constants } = zlib
  if (format === 'gzip') return copied(zlib.gzipSync(bytes, { level: Math.min(level ?? 6, 9) }))
  if (format === 'deflate') return copied(zlib.deflateSync(bytes, { level: Math.min(level ?? 6, 9) }))
  if (format === 'zstd') {
    return copied(zlib.zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: level ?? 3 } }))
  }
  const params = { [constants.BROTLI_PARAM_QUALITY]: level ?? 6, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
  return copied(zlib.brotliCompressSync(bytes, { params }))
}

const expanders = {
  gzip: zlib.gunzipSync,
  deflate: zlib.inflateSync,
  brotli: zlib.brotliDecompressSync,
  zstd: zlib.zstdDecompressSync,
}

interface Expand {
  readonly format: StreamFormat
  readonly bytes: Uint8Array
  readonly maxBytes: number
}

/** @param room for what does not count, in bytes */
export function unpack({ format, bytes, maxBytes }: Expand, room = 0): Uint8Array {
  try {
    return copied(expanders[format](bytes, { maxOutputLength: maxBytes + room }))
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    if (code === 'ERR_BUFFER_TOO_LARGE') {
      throw new TaskFailure('refused', `It is larger than ${maxBytes} bytes once unpacked`, error)
    }
    throw new TaskFailure('refused', `This is not packed with ${format}: ${message}`, error)
  }
}

interface Archive {
  readonly format: ArchiveFormat
  readonly entries: readonly ArchiveEntry[]
  readonly level?: number
}

export async function packArchive({ format, entries, level }: Archive): Promise<Uint8Array> {
  const names = entries.map(({ name }) => safeName(name))
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new TaskFailure('refused', `${twice} is there twice`)
  if (format === 'zip') return await zipped(entries, level)
  const tar = tarPack()
  for (const { name, bytes } of entries) tar.entry({ name, mtime, mode: 0o644 }, asBuffer(bytes))
  tar.finalize()
  const packed = await collected(tar as unknown as AsyncIterable<Uint8Array>)
  return format === 'tar' ? packed : pack({ format: 'gzip', bytes: packed, ...(level !== undefined && { level }) })
}

async function zipped(entries: readonly ArchiveEntry[], level = 6): Promise<Uint8Array> {
  const zip = new yazl.ZipFile()
  for (const { name, bytes } of entries) {
    // In the form without a time zone, so that it is the same everywhere.
    const options = { mtime, mode: 0o100644, compressionLevel: Math.min(level, 9), compress: level > 0 }
    zip.addBuffer(asBuffer(bytes), name, options)
  }
  zip.end()
  return await collected(zip.outputStream as AsyncIterable<Uint8Array>)
}

interface Unpack extends UnpackLimits {
  readonly format: ArchiveFormat
  readonly bytes: Uint8Array
}

export async function unpackArchive({ format, bytes, ...limits }: Unpack): Promise<readonly ArchiveEntry[]> {
  const found = new Map<string, ArchiveEntry>()
  const entries = format === 'zip' ? zipEntries(bytes, limits) : tarEntries(bytes, format, limits)
  for await (const entry of entries) {
    if (found.has(entry.name)) throw new TaskFailure('refused', `${entry.name} is there twice`)
    found.set(entry.name, entry)
  }
  return [...found.values()]
}

async function* tarEntries(bytes: Uint8Array, format: ArchiveFormat, limits: UnpackLimits) {
  // Headers and padding of a tar take room that its files do not.
  const room = limits.maxEntries * 2_048 + 10_240
  const plain = format === 'tar' ? bytes : unpack({ format: 'gzip', bytes, maxBytes: limits.maxBytes }, room)
  const count = new UnpackCount(limits)
  const tar = extract()
  tar.on('error', () => undefined)
  tar.end(asBuffer(plain))
  try {
    for await (const entry of tar) {
      const { name: given, type, size = 0 } = entry.header
      const name = safeName(given.replace(/^\.\//, '') || '.')
      count.entry(size)
      if (type === 'link' || type === 'symlink') throw refusedLink(name)
      const content = await count.collect(entry as unknown as AsyncIterable<Uint8Array>)
      if (type === 'file' || type === 'contiguous-file') yield { name, bytes: content }
      else if (type !== 'directory') throw new TaskFailure('refused', `${name} is a ${type}, not a file`)
    }
  } catch (error) {
    if (error instanceof TaskFailure) throw error
    throw new TaskFailure('refused', `This is no tar archive that can be read: ${(error as Error).message}`, error)
  } finally {
    tar.destroy()
  }
}

async function collected(stream: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  for await (const part of stream) parts.push(part)
  return copied(Buffer.concat(parts))
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

/** Small buffers share their memory with others, which would be sent along. */
function copied(bytes: Buffer): Uint8Array {
  return new Uint8Array(bytes)
}
