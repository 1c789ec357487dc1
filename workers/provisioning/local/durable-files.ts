import { execFile } from 'node:child_process'
import { lchown, open, readdir, rename, rm, statfs } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { tied } from '../supervisor/tied.ts'
import { CareFailure } from './care-failure.ts'
import type { NodeAccount } from './postgres-node.ts'

/** Puts a whole file in place: readers see the old content or the new, also after a power cut. Mode 0600, of `owner`. */
export async function writeDurably(path: string, content: string | Buffer, owner?: NodeAccount): Promise<void> {
  await dropUnfinished(path)
  const unfinished = join(dirname(path), `.${basename(path)}.${process.pid}.tmp`)
  const file = await open(unfinished, 'w', 0o600)
  try {
    if (owner !== undefined) await file.chown(owner.uid, owner.gid)
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(unfinished, path)
  await syncFolder(dirname(path))
}

/** What killed predecessors were writing in that place. */
async function dropUnfinished(path: string): Promise<void> {
  const before = `.${basename(path)}.`
  for (const name of await readdir(dirname(path))) {
    if (!name.startsWith(before) || !name.endsWith('.tmp')) continue
    const pid = Number(name.slice(before.length, -'.tmp'.length))
    if (Number.isInteger(pid) && !isAlive(pid)) await rm(join(dirname(path), name), { force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** Makes the names in a folder, or the content of a file, survive a power cut. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Flushes every file and folder below a folder, a few at a time; what others wrote to the same disk is not waited for. */
export async function syncTree(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const waiting = entries
    .filter((entry) => entry.isFile() || entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name))
  const worker = async () => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) await syncFolder(next)
  }
  await Promise.all(Array.from({ length: 8 }, worker))
  await syncFolder(folder)
}

/** Gives a folder and all in it to an account; links are not followed. */
export async function giveTree(folder: string, account: NodeAccount | undefined): Promise<void> {
  if (account === undefined) return
  await lchown(folder, account.uid, account.gid)
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    await lchown(join(entry.parentPath, entry.name), account.uid, account.gid)
  }
}

/** Copies a folder; on a file system that can, the blocks are shared until they change. */
export async function copyTree(from: string, to: string, signal?: AbortSignal): Promise<void> {
  const reflink = process.platform === 'linux' ? ['--reflink=auto'] : []
  try {
    await promisify(execFile)(...tied('/bin/cp', ['-R', '-p', ...reflink, from, to]), {
      env: { PATH: '/usr/bin:/bin' },
      ...(signal === undefined ? {} : { signal }),
    })
  } catch (error) {
    await rm(to, { recursive: true, force: true })
    signal?.throwIfAborted()
    throw new CareFailure('failed', 'The data could not be copied: the disk may be full.', { cause: error })
  }
}

/** @throws {CareFailure} `failed` (507) when the file system of `folder` has less room than this. */
export async function requireRoom(folder: string, bytes: number, what: string): Promise<void> {
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  if (free >= bytes) return
  throw new CareFailure('failed', `There is not enough disk space for ${what}.`, {
    status: 507,
    details: { neededBytes: bytes, freeBytes: free },
  })
}
