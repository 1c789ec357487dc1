import { createHash } from 'node:crypto'
import { chownSync, mkdirSync, rmSync } from 'node:fs'
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
  const folder = socketFolderOf(node)
  // Of a predecessor that was killed.
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { mode: 0o700 })
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

/** Short, for the path of a socket may have 107 bytes; the same for whoever comes after us. */
function socketFolderOf({ dataFolder }: MysqlNode): string {
  return join(tmpdir(), `bb-${createHash('sha256').update(dataFolder).digest('hex').slice(0, 16)}`)
}

/** The node whose data is being made, beside the place where it will be: whoever makes it was perhaps killed there. */
export function unfinishedNode(node: MysqlNode): MysqlNode {
  return { ...node, dataFolder: `${node.dataFolder}.new` }
}

/** Ends the server of a node that is to be removed, and one that was left in the making. */
export async function endMysqlNode(control: Pick<MysqlControl, 'stop'>, node: MysqlNode): Promise<void> {
  const unfinished = unfinishedNode(node)
  await control.stop(node, { mode: 'immediate' })
  await control.stop(unfinished, { mode: 'immediate' })
  rmSync(socketFolderOf(unfinished), { recursive: true, force: true })
}
