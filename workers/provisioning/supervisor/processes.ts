import { readdirSync, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Processes of the folder's owner whose working folder it is: a database server and all its children, not the shell of an administrator
 * who looks around in it. Linux alone can say; elsewhere none.
 */
export function processesIn(folder: string): readonly number[] {
  let path: string
  let owner: number
  try {
    path = realpathSync(folder)
    owner = statSync(path).uid
  } catch {
    return []
  }
  return numbers().filter((pid) => workingFolder(pid) === path && userOf(pid) === owner)
}

/** Undefined when it has ended, or is another's and we may not know. */
export function workingFolder(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return undefined
  }
}

/** In clock ticks since the machine's start; empty when there is no such process. */
export function startTime(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name before it may hold spaces and parentheses. Source: proc(5), field 22.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return ''
  }
}

/** Whom it runs as. */
function userOf(pid: number): number | undefined {
  try {
    const [, effective] = /^Uid:\s+\d+\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(effective)
  } catch {
    return undefined
  }
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
