import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { NodeControl, PostgresNode, StartOptions } from './postgres-node.ts'

/** Trust inside a folder of mode 0700: whoever can reach the socket owns the files anyway. */
const trust = 'local all all trust\n'

/**
 * Runs a node for our own hands only: it listens in a closed socket folder, without network, archive, replicas or passwords.
 * The node is stopped at the end, however that comes.
 *
 * @throws {ServerStartFailed} as the controller does.
 */
export async function inMaintenance<T>(
  control: NodeControl,
  node: PostgresNode,
  { settings, ...options }: StartOptions,
  work: (node: PostgresNode) => Promise<T>,
): Promise<T> {
  // Short: the path of a socket may have 107 bytes.
  const folder = mkdtempSync(join(tmpdir(), 'bb-'))
  const closed: PostgresNode = { ...node, socketFolder: folder }
  try {
    chmodSync(folder, 0o700)
    writeFileSync(join(folder, 'hba.conf'), trust, { mode: 0o600 })
    if (node.runAs !== undefined) {
      for (const path of [folder, join(folder, 'hba.conf')]) chownSync(path, node.runAs.uid, node.runAs.gid)
    }
    const own = {
      listen_addresses: '',
      unix_socket_directories: folder,
      hba_file: join(folder, 'hba.conf'),
      archive_mode: 'off',
      synchronous_standby_names: '',
    }
    await control.start(closed, { ...options, settings: { ...own, ...settings } })
    return await work(closed)
  } finally {
    await control.stop(closed)
    rmSync(folder, { recursive: true, force: true })
  }
}
