import { lstat, mkdtemp, readdir, rm } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { isScriptAccount } from './plugins/core/script-account.ts'

/** Containers that share a folder do not share their process ids. */
const prefix = `busbar-task-${hostname().replace(/[^A-Za-z0-9-]/g, '_')}-`

/** An empty folder for one attempt of a task. */
export async function makeScratch(): Promise<string> {
  return await mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`))
}

let cleared: Promise<void> | null = null

/** Takes away what killed workers have left, once in a process: there are scripts in it, with the credentials that they were given. */
export function clearScratch(): Promise<void> {
  cleared ??= clearAll()
  return cleared
}

async function clearAll(): Promise<void> {
  const names = (await readdir(tmpdir())).filter((name) => name.startsWith(prefix))
  for (const name of names) {
    const pid = Number.parseInt(name.slice(prefix.length), 10)
    const path = join(tmpdir(), name)
    // This process is new: what has its id is of one before.
    if (pid !== process.pid && isAlive(pid)) continue
    if (await isOurs(path)) await rm(path, { recursive: true, force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Anybody may make folders here, and lead whoever removes them elsewhere. */
async function isOurs(path: string): Promise<boolean> {
  const status = await lstat(path).catch(() => null)
  const own = process.getuid?.() ?? -1
  return status?.isDirectory() === true && (status.uid === own || (own === 0 && isScriptAccount(status.uid)))
}
