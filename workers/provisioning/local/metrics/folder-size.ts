import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** Bytes on the disk of all files below a folder; files that go meanwhile count nothing, a missing folder is 0. */
export async function folderBytes(folder: string): Promise<number> {
  let sum = 0
  const waiting = [folder]
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const entries = await readdir(next, { withFileTypes: true }).catch(() => [])
    for (const entry of entries) {
      const path = join(next, entry.name)
      if (entry.isDirectory()) waiting.push(path)
      else sum += (await lstat(path).catch(() => null))?.blocks ?? 0
    }
  }
  return sum * 512
}
