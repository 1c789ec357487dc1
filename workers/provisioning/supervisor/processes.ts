import { readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** Processes whose working folder this is: a database server and all its children. Linux alone can say; elsewhere none. */
export function processesIn(folder: string): readonly number[] {
  let path: string
  try {
    path = realpathSync(folder)
  } catch {
    return []
  }
  return numbers().filter((pid) => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`) === path
    } catch {
      return false
    }
  })
}

function numbers(): readonly number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
  } catch {
    return []
  }
}

/**
 * Sends the signal to whatever works in the folder and waits; what is left after that is killed.
 * @throws {Error} when something is left even then.
 */
export async function endProcessesIn(
  folder: string,
  { signal, patienceMs }: { readonly signal: NodeJS.Signals; readonly patienceMs: number },
): Promise<void> {
  let told = false
  for (const end = performance.now() + patienceMs; ; ) {
    const left = processesIn(folder)
    if (left.length === 0) return
    const late = performance.now() > end
    if (performance.now() > end + 5_000) throw new Error(`Processes in the folder cannot be ended: ${left.join(', ')}`)
    if (!told || late || signal === 'SIGKILL') for (const pid of left) kill(pid, late ? 'SIGKILL' : signal)
    told = true
    await sleep(20)
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
