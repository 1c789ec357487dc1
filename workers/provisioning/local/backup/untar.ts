import { type FileHandle, mkdir, open, symlink } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { CareFailure } from '../care-failure.ts'

/** Where a stream's bytes go, piece by piece; a piece is done with when `write` resolves. */
export interface ByteTarget {
  write(bytes: Buffer): Promise<void>
  /** @throws {CareFailure} `failed` when the stream was not whole. */
  end(): Promise<void>
  /** Lets go of what is open; what was written stays. */
  drop(): Promise<void>
}

const blockBytes = 512
type Entry = { readonly path: string; readonly type: string; readonly size: number; readonly link: string }

/**
 * Unpacks a tar stream as PostgreSQL's base backup sends it (plain ustar headers) into a folder: files 0600, folders 0700,
 * nothing outside it, nothing overwritten.
 */
export function untar(folder: string): ByteTarget {
  let header = Buffer.alloc(0)
  let file: FileHandle | undefined
  let missing = 0
  let padding = 0
  let over = false

  const close = async () => {
    await file?.close()
    file = undefined
  }
  const begin = async (block: Buffer) => {
    if (block.every((byte) => byte === 0)) {
      over = true
      return
    }
    const entry = readHeader(block, folder)
    missing = entry.size
    padding = (blockBytes - (entry.size % blockBytes)) % blockBytes
    if (entry.type === '5') await mkdir(entry.path, { recursive: true, mode: 0o700 })
    else if (entry.type === '2') await symlink(entry.link, entry.path)
    else {
      await mkdir(dirname(entry.path), { recursive: true, mode: 0o700 })
      file = await open(entry.path, 'wx', 0o600)
      if (missing === 0) await close()
    }
  }
  /** Takes what it can from the front of `bytes`; answers how many. */
  const take = async (bytes: Buffer): Promise<number> => {
    if (missing > 0) {
      const part = bytes.subarray(0, missing)
      await file?.write(part)
      missing -= part.length
      if (missing === 0) await close()
      return part.length
    }
    if (padding > 0) {
      const skipped = Math.min(padding, bytes.length)
      padding -= skipped
      return skipped
    }
    const part = bytes.subarray(0, blockBytes - header.length)
    header = Buffer.concat([header, part])
    if (header.length < blockBytes) return part.length
    const block = header
    header = Buffer.alloc(0)
    await begin(block)
    return part.length
  }
  return {
    async write(bytes) {
      for (let at = 0; at < bytes.length && !over; ) at += await take(bytes.subarray(at))
    },
    async end() {
      if (!over || file !== undefined) throw new CareFailure('failed', 'The server ended the backup early.')
    },
    drop: close,
  }
}

/** Source: https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html (ustar interchange format) */
function readHeader(block: Buffer, folder: string): Entry {
  const text = (from: number, length: number) => block.toString('utf8', from, from + length).replace(/\0.*$/s, '')
  const sum = block.reduce((total, byte, index) => total + (index >= 148 && index < 156 ? 0x20 : byte), 0)
  if (Number.parseInt(text(148, 8).trim(), 8) !== sum) throw new CareFailure('failed', 'The backup arrived damaged.')
  const path = join(folder, text(0, 100))
  if (path !== folder && !path.startsWith(folder + sep)) {
    throw new CareFailure('failed', 'The backup has a file outside its folder.')
  }
  return { path: path.replace(/\/$/, ''), type: text(156, 1), size: sizeOf(block), link: text(157, 100) }
}

/** Octal digits, or for 8 GB and more a binary number marked by the highest bit. */
function sizeOf(block: Buffer): number {
  if ((block[124]! & 0x80) === 0) return Number.parseInt(block.toString('latin1', 124, 136), 8)
  return Number(block.readBigUInt64BE(128))
}
