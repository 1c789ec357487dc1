import { createHash } from 'node:crypto'
import { lstatSync, mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/** Of a socket's path, everywhere. */
const maxPathBytes = 100

/**
 * Where the supervisor of a place listens: in its folder, or, where that path is too long for a socket, in one beside it.
 * @throws {Error} when somebody else made that folder: who listens there could be anybody
 */
export function supervisorSocket(home: string): string {
  const inside = join(resolve(home), 'supervisor.sock')
  if (Buffer.byteLength(inside) <= maxPathBytes) return inside
  const digest = createHash('sha256').update(resolve(home)).digest('hex').slice(0, 16)
  const folder = join(tmpdir(), `busbar-${process.getuid?.() ?? 0}-${digest}`)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const found = lstatSync(folder)
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & 0o077) !== 0) {
    throw new Error(`${folder} is not ours alone`)
  }
  return join(folder, 'supervisor.sock')
}
