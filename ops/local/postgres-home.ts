import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { sharedRoot } from './postgres-binaries.ts'
import { canReach, unprivilegedAccount } from './unprivileged.ts'

/**
 * PostgreSQL's part of a data folder: inside it, or, for root whose unprivileged server may not enter it (a checkout under
 * /root), in a folder of its own under {@link sharedRoot}, always the same for the same data folder.
 */
export function postgresHome(folder: string): string {
  const inside = join(folder, 'postgres')
  if (canReach(folder, unprivilegedAccount(inside))) return inside
  mkdirSync(sharedRoot, { recursive: true })
  chmodSync(sharedRoot, 0o755)
  return join(sharedRoot, `data-${createHash('sha256').update(folder).digest('hex').slice(0, 12)}`)
}
