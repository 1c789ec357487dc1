import { createHash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/** Of a socket's path, everywhere. */
const maxPathBytes = 100

/** Where the supervisor of a place listens: in its folder, or, where that path is too long for a socket, in one beside it. */
export function supervisorSocket(home: string): string {
  const inside = join(resolve(home), 'supervisor.sock')
  if (Buffer.byteLength(inside) <= maxPathBytes) return inside
  const digest = createHash('sha256').update(resolve(home)).digest('hex').slice(0, 16)
  const folder = join(tmpdir(), `busbar-${process.getuid?.() ?? 0}-${digest}`)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return join(folder, 'supervisor.sock')
}
