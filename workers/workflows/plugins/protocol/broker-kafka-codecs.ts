import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import type { compressionsAlgorithms as codecs } from '@platformatic/kafka'
import { TaskFailure } from '../../plugin.ts'

/** Of a batch of records, once it is unpacked. */
const maxBatchBytes = 64 * 1024 ** 2
/** Of one whose size nobody knows before: it becomes 255 times as large at most. */
const maxPackedBytes = 2 * 1024 ** 2

type Packed = Buffer | { readonly buffer: Buffer }
type Codec = { decompressSync(data: Packed): Buffer }

const bounded = new WeakSet<object>()

/** The driver's own unpack whatever there is: a small message would fill the memory. Done once for all tasks. */
export function boundCodecs(all: typeof codecs): void {
  if (bounded.has(all)) return
  bounded.add(all)
  const own = all as unknown as Readonly<Record<'gzip' | 'zstd' | 'snappy' | 'lz4', Codec>>
  own.gzip.decompressSync = (data) => gunzipSync(bytesOf(data), { maxOutputLength: maxBatchBytes })
  own.zstd.decompressSync = (data) => zstdDecompressSync(bytesOf(data), { maxOutputLength: maxBatchBytes })
  for (const codec of [own.snappy, own.lz4]) {
    const unpack = codec.decompressSync.bind(codec)
    codec.decompressSync = (data) => {
      const bytes = bytesOf(data)
      if (bytes.length <= maxPackedBytes) return unpack(bytes)
      throw new TaskFailure('refused', `A batch of messages is packed into more than ${maxPackedBytes} bytes`)
    }
  }
}

function bytesOf(data: Packed): Buffer {
  return Buffer.isBuffer(data) ? data : data.buffer
}
