import { chmodSync, chownSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { MysqlControl, MysqlNode, MysqlStartOptions } from './mysql-node.ts'

/**
 * Runs a node for our own hands only: it listens in a closed socket folder, without network, passwords, replication and
 * events. The node is stopped at the end, however that comes.
 *
 * @throws {ServerStartFailed} as the controller does.
 */
export async function inClosedServer<T>(
  control: MysqlControl,
  node: MysqlNode,
  { settings, ...options }: MysqlStartOptions,
  work: (node: MysqlNode) => Promise<T>,
): Promise<T> {
  // Short: the path of a socket may have 107 bytes.
  const folder = mkdtempSync(join(tmpdir(), 'bb-'))
  chmodSync(folder, 0o700)
  if (node.runAs !== undefined) chownSync(folder, node.runAs.uid, node.runAs.gid)
  const closed: MysqlNode = { ...node, socketFolder: folder }
  try {
    const own = { skip_networking: null, skip_grant_tables: null, skip_slave_start: null, event_scheduler: 'DISABLED' }
    await control.start(closed, { ...options, settings: { ...own, ...settings } })
    return await work(closed)
  } finally {
    await control.stop(closed)
    rmSync(folder, { recursive: true, force: true })
  }
}
