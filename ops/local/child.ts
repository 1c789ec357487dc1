import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname } from 'node:path'
import { OperatorError } from './operator-error.ts'

/** util-linux; Linux alone can tie a child's life to its parent's without a helper process. */
const setpriv = '/usr/bin/setpriv'

const logSizeLimitBytes = 16 * 1024 * 1024

export interface ChildOptions {
  readonly command: string
  readonly args: readonly string[]
  /** Standard output and error are appended here; an overgrown file is kept once as `<file>.1`. */
  readonly logFile: string
  readonly cwd?: string
  readonly uid?: number
  readonly gid?: number
  /** The signal that ends the child when this process dies without a goodbye (Linux only). */
  readonly deathSignal: 'INT' | 'TERM'
  /** What runs the command, and its own arguments. Default: nothing does. */
  readonly wrapper?: readonly string[]
  /** Variables on top of the few that every server gets. */
  readonly env?: Readonly<Record<string, string>>
}

/**
 * Starts a server as a child in a session of its own: Ctrl-C on the terminal reaches only us, so that the children can be
 * stopped in order. On Linux the kernel ends the child when this process is killed.
 */
export function spawnServer(options: ChildOptions): ChildProcess {
  const { command, args, logFile, cwd, uid, gid, deathSignal, wrapper = [], env } = options
  mkdirSync(dirname(logFile), { recursive: true })
  if (existsSync(logFile) && statSync(logFile).size > logSizeLimitBytes) renameSync(logFile, `${logFile}.1`)
  const log = openSync(logFile, 'a', 0o640)
  const tied = process.platform === 'linux' && existsSync(setpriv)
  const tie = tied ? [setpriv, '--pdeathsig', deathSignal, '--'] : []
  const [first, ...rest] = [...tie, ...wrapper, command, ...args]
  try {
    return spawn(first!, rest, {
      detached: true,
      stdio: ['ignore', log, log],
      env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin', ...env },
      ...(cwd === undefined ? {} : { cwd }),
      ...(uid === undefined ? {} : { uid }),
      ...(gid === undefined ? {} : { gid }),
    })
  } finally {
    closeSync(log)
  }
}

/** Resolves when the process is gone, at once when it already is. */
export function exited(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return Promise.resolve()
  return new Promise((resolve) => child.once('exit', () => resolve()))
}

/** Sends the signals one after the other, each after its patience in ms, until the process is gone. */
export async function endProcess(child: ChildProcess, steps: readonly (readonly [NodeJS.Signals, number])[]) {
  for (const [signal, patienceMs] of steps) {
    child.kill(signal)
    const gone = await Promise.race([exited(child).then(() => true), delay(patienceMs).then(() => false)])
    if (gone) return
  }
  await exited(child)
}

/** A timer that does not keep the process alive. */
function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}

/** A port on 127.0.0.1 that was free a moment ago. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries++) {
    const port = randomInt(firstFreePort, lastFreePort)
    if (await isFree(port)) return port
  }
  throw new Error('no port is free')
}

/** Below those that the system gives to connections: such a one could be taken before it is used. */
const firstFreePort = 10_100
const lastFreePort = 32_700

function isFree(port: number): Promise<boolean> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/** The command line of a running process, undefined when there is none of that number. */
export function commandOf(pid: number): string | undefined {
  if (!Number.isInteger(pid) || pid <= 1) return undefined
  try {
    if (process.platform === 'linux')
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ') || undefined
    return execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' })
  } catch {
    return undefined
  }
}

/** Ends a server that an earlier, killed start left on the same folder, and waits until it is gone. */
export async function endLeftover(pid: number, folder: string, signal: NodeJS.Signals): Promise<void> {
  for (let attempt = 0; commandOf(pid)?.includes(folder); attempt++) {
    if (attempt > 400) throw new OperatorError(`The process ${pid} still uses ${folder}: end it and start again.`)
    if (attempt % 100 === 0) process.kill(pid, signal)
    await new Promise((again) => setTimeout(again, 50))
  }
}
