import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { pack } from 'tar-stream'
import { untar } from '../backup/untar.ts'

/** Writes the files of a flat folder as a tar archive at the file's position; the file stays open. */
export async function packFolder(folder: string, into: FileHandle): Promise<void> {
  const archive = pack()
  const written = (async () => {
    for await (const chunk of archive as AsyncIterable<Buffer>) await into.write(chunk)
  })()
  for (const name of (await readdir(folder)).sort()) {
    const { size } = await stat(join(folder, name))
    await pipeline(createReadStream(join(folder, name)), archive.entry({ name, size, mode: 0o600 }))
  }
  archive.finalize()
  await written
}

/** Unpacks what {@link packFolder} wrote into a new folder. */
export async function unpackFolder(file: string, folder: string): Promise<void> {
  await mkdir(folder, { mode: 0o700 })
  const target = untar(folder)
  const source = await open(file, 'r')
  try {
    for await (const chunk of source.createReadStream({ autoClose: false })) await target.write(chunk as Buffer)
    await target.end()
  } finally {
    await target.drop()
    await source.close()
  }
}
