import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { TaskFailure } from '../../plugin.ts'

export interface ScriptLimits {
  readonly cpuSeconds: number
  readonly memoryMb: number
  readonly processes: number
  readonly fileMb: number
}

export interface Cage {
  /** The program that runs the script in its limits, and what comes before the script's own command. */
  readonly command: readonly string[]
  /** Whether the end of that program is the end of all that it has started. */
  readonly endsAll: boolean
}

interface CageOptions {
  /** Null: as this process. */
  readonly account: number | null
  readonly limits: ScriptLimits
  /** What is limited: address space, or data for programs that set aside much more than they use. */
  readonly memoryOf: 'addresses' | 'data'
  readonly network: boolean
  /** A shell file with the script's environment, removed once read: an environment in arguments would show in lists of processes. */
  readonly environment: string
}

const setpriv = '/usr/bin/setpriv'
const unshare = '/usr/bin/unshare'
const probeMs = 5_000

/**
 * What a script is started with: the kernel's namespaces where this machine has them (no other processes, and no network unless
 * wanted), a user of its own, and limits.
 *
 * @throws {TaskFailure} `refused` when the network cannot be taken away
 */
export async function cageOf({ account, limits, memoryOf, network, environment }: CageOptions): Promise<Cage> {
  const namespaces = await namespacesHere()
  if (namespaces === null && !network) {
    throw new TaskFailure('refused', 'On this machine the network cannot be taken from a script: set network to true')
  }
  const tied = existsSync(setpriv) ? [setpriv, '--pdeathsig', 'KILL', '--'] : []
  const apart = namespaces === null ? [] : [unshare, ...namespaces, ...(network ? [] : ['--net']), '--', ...init]
  const user = account === null ? [] : [`--reuid=${account}`, `--regid=${account}`, '--clear-groups']
  const lowered = existsSync(setpriv) ? [setpriv, ...user, '--no-new-privs', '--pdeathsig', 'KILL', '--'] : []
  const limiting = [...clean, '/bin/sh', '-c', await limitsText(limits, memoryOf, account), 'sh', environment]
  return { command: [...tied, ...apart, ...lowered, ...limiting], endsAll: namespaces !== null }
}

const clean = ['/usr/bin/env', '-i']
/** The first process of a namespace, whose end ends all others in it: it stays while the script runs, as it was made. */
const init = ['/bin/sh', '-c', '"$@"; exit $?', 'sh']

/** Ends all processes of a user. */
export async function endAllOf(account: number): Promise<void> {
  for (let found = true; found; ) {
    found = false
    for (const pid of await processesOf(account)) {
      found = true
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has ended.
      }
    }
  }
}

async function processesOf(account: number): Promise<readonly number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const owners = await Promise.all(pids.map(async (pid) => [Number(pid), await liveOwner(pid)] as const))
  return owners.filter(([, owner]) => owner === account).map(([pid]) => pid)
}

/** Null for what has ended and only waits for its parent to notice. */
async function liveOwner(pid: string): Promise<number | null> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => '')
  const [, state, owner] = /^State:\s*(\S)[\s\S]*?^Uid:\s*(\d+)/m.exec(status) ?? []
  return state === undefined || state === 'Z' || state === 'X' ? null : Number(owner)
}

/** Limits of the system, then the environment, then the program. A limit that this system does not know is left out. */
async function limitsText(limits: ScriptLimits, memoryOf: 'addresses' | 'data', account: number | null) {
  const { cpuSeconds, memoryMb, processes, fileMb } = limits
  const tasks = processes + (account === null ? await ownTasks() : 0)
  const set = [
    '-c 0',
    `-t ${cpuSeconds}`,
    `-${memoryOf === 'data' ? 'd' : 'v'} ${memoryMb * 1024}`,
    // In blocks of 512 bytes.
    `-f ${fileMb * 2048}`,
    '-n 256',
  ].map((each) => `ulimit ${each} 2>/dev/null`)
  // Shells do not agree on its letter.
  const tasksText = `ulimit -u ${tasks} 2>/dev/null || ulimit -p ${tasks} 2>/dev/null`
  return `${set.join('; ')}; ${tasksText}; . "$1"; /bin/rm -f "$1"; shift; exec "$@"`
}

/** Threads of all processes of this user: the system counts them all. */
async function ownTasks(): Promise<number> {
  if (!existsSync('/proc/self/status')) return 100_000
  const own = process.getuid?.() ?? -1
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const counts = await Promise.all(
    pids.map(async (pid) => {
      const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => '')
      const [, owner] = /^Uid:\s*(\d+)/m.exec(status) ?? []
      return Number(owner) === own ? Number(/^Threads:\s*(\d+)/m.exec(status)?.[1] ?? 1) : 0
    }),
  )
  return counts.reduce((sum, count) => sum + count, 0)
}

let known: Promise<readonly string[] | null> | null = null

/** Flags of unshare that work here; null when none do. Asked once. */
function namespacesHere(): Promise<readonly string[] | null> {
  known ??= probe()
  return known
}

async function probe(): Promise<readonly string[] | null> {
  if (process.platform !== 'linux' || !existsSync(unshare) || !existsSync(setpriv)) return null
  const user = process.getuid?.() === 0 ? [] : ['--user', '--map-current-user']
  const flags = [...user, '--pid', '--fork', '--kill-child', '--mount-proc', '--ipc']
  try {
    await promisify(execFile)(unshare, [...flags, '--net', '--', '/bin/sh', '-c', 'exit 0'], {
      timeout: probeMs,
      env: {},
    })
    return flags
  } catch {
    return null
  }
}
