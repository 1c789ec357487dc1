import { chownSync, existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'

export interface Account {
  readonly uid: number
  readonly gid: number
}

/** The usual ids of `nobody`, for a machine without /etc/passwd. */
const nobody: Account = { uid: 65534, gid: 65534 }

/**
 * PostgreSQL refuses to run as root. Root lends it the account that owns the existing data, else `postgres`, else `nobody`.
 * Undefined when we are not root: the server then runs as ourselves.
 */
export function unprivilegedAccount(dataDir: string): Account | undefined {
  if (process.getuid?.() !== 0) return undefined
  if (existsSync(dataDir)) {
    const { uid, gid } = statSync(dataDir)
    if (uid !== 0) return { uid, gid }
  }
  const accounts = existsSync('/etc/passwd') ? readFileSync('/etc/passwd', 'utf8').split('\n') : []
  for (const name of ['postgres', 'nobody']) {
    const [, , uid, gid] = accounts.find((line) => line.startsWith(`${name}:`))?.split(':') ?? []
    if (Number(uid) > 0) return { uid: Number(uid), gid: Number(gid) }
  }
  return nobody
}

/** Whether the account may walk through every folder on the way to `path` (the last one included, when it exists). */
export function canReach(path: string, account: Account | undefined): boolean {
  if (account === undefined) return true
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    if (existsSync(folder) && !maySearch(folder, account)) return false
    if (folder === dirname(folder)) return true
  }
}

function maySearch(folder: string, { uid, gid }: Account): boolean {
  const status = statSync(folder)
  const bits = status.uid === uid ? 0o100 : status.gid === gid ? 0o010 : 0o001
  return (status.mode & bits) !== 0
}

/** Creates a folder (mode 0700) that belongs to the account. */
export function makeOwnFolder(path: string, account: Account | undefined): void {
  if (!existsSync(path)) mkdirSync(path, { recursive: true, mode: 0o700 })
  if (account !== undefined) chownSync(path, account.uid, account.gid)
}
