import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { writeDurably } from './durable-files.ts'
import type { NodeAccount } from './postgres-node.ts'

/** Where everything of an instance lies: `instances/<uid>` of the place. */
export interface InstanceFolders {
  readonly root: string
  /** Says whose folder it is. */
  readonly marker: string
  readonly members: string
  readonly archive: string
  readonly backups: string
  readonly snapshots: string
  readonly hba: string
}

const uidPattern = /^[0-9a-f-]{36}$/

/**
 * @param major what only servers of one major version can read lies in folders of their own
 * @throws {Error} for a uid that cannot be a folder's name
 */
export function instanceFolders(home: string, uid: string, major: string): InstanceFolders {
  if (!uidPattern.test(uid)) throw new Error(`${uid} is no uid`)
  const root = join(home, 'instances', uid)
  return {
    root,
    marker: join(root, 'instance.json'),
    members: join(root, 'members'),
    archive: join(root, `archive-${major}`),
    backups: join(root, `backups-${major}`),
    snapshots: join(root, 'snapshots'),
    hba: join(root, 'hba.conf'),
  }
}

/** Makes the folder of an instance, marked, 0700 and of the servers' account. Idempotent. @throws {Error} when it is another's */
export async function makeInstanceFolder(
  folders: InstanceFolders,
  owner: { readonly uid: string; readonly projectName: string },
  account: NodeAccount | undefined,
): Promise<void> {
  for (const folder of [folders.root, folders.members, folders.backups, folders.snapshots]) ownFolder(folder, account)
  if (!existsSync(folders.marker)) await writeDurably(folders.marker, `${JSON.stringify(owner)}\n`)
  requireMarked(folders, owner.uid)
}

/** A folder of mode 0700 that belongs to the account. */
export function ownFolder(path: string, account: NodeAccount | undefined): void {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  chmodSync(path, 0o700)
  if (account !== undefined) chownSync(path, account.uid, account.gid)
}

/** But for folders. */
function isEmpty(folder: string): boolean {
  return readdirSync(folder, { recursive: true, withFileTypes: true }).every((entry) => entry.isDirectory())
}

/** @throws {Error} when the folder does not carry the uid */
function requireMarked({ marker }: InstanceFolders, uid: string): void {
  const found = JSON.parse(readFileSync(marker, 'utf8')) as { readonly uid?: unknown }
  if (found.uid !== uid) throw new Error(`The folder does not carry the uid ${uid}`)
}

/**
 * Removes all of an instance, out of the way first: half of one is never taken for an instance. Idempotent.
 * @throws {Error} when the folder does not carry the uid
 */
export function removeInstanceFolder(folders: InstanceFolders, uid: string): void {
  const trash = join(dirname(folders.root), `.trash-${uid}`)
  if (existsSync(folders.root)) {
    // Made in the very moment of a kill, it has no mark, and nothing in it either.
    if (existsSync(folders.marker) || !isEmpty(folders.root)) requireMarked(folders, uid)
    rmSync(trash, { recursive: true, force: true })
    renameSync(folders.root, trash)
  }
  rmSync(trash, { recursive: true, force: true })
}
