import { type ChildProcess, spawn } from 'node:child_process'
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { endProcessesIn, workingFolder } from './processes.ts'
import type { KeepPolicy, Params, ServerEnded, ServerSpec, ServerStatus } from './protocol.ts'
import { tied } from './tied.ts'

const maxLogBytes = 64 * 1024 * 1024
const firstPauseMs = 100
const longestPauseMs = 10_000
/** Running this long a server counts as started, and the next pause is short again. */
const steadyMs = 30_000
/** How long an owner may take to decide on a server with the policy `ask`. */
const ownerlessMs = 5_000

interface Running {
  readonly spec: ServerSpec
  policy: KeepPolicy
  child: ChildProcess | null
  ended: Promise<void>
  lastEnd: string | null
  startedAt: number
  pauseMs: number
  /** A start to come. */
  timer: NodeJS.Timeout | null
  stopping: boolean
}

/** The server programs of a place, as children of this process. */
export class Servers {
  readonly #servers = new Map<string, Running>()
  readonly #onEnded: (ended: ServerEnded) => void
  /** One start or stop of a server at a time. */
  readonly #turns = new Map<string, Promise<unknown>>()

  constructor(onEnded: (ended: ServerEnded) => void) {
    this.#onEnded = onEnded
  }

  get size(): number {
    return this.#servers.size
  }

  list(): readonly ServerStatus[] {
    return [...this.#servers.values()].map(({ spec, child, policy, lastEnd: ended }) => {
      return { key: spec.key, pid: child?.pid, ended, policy }
    })
  }

  start({ spec }: Params<'start'>): Promise<{ readonly pid: number; readonly started: boolean }> {
    return this.#inTurn(spec.key, async () => {
      const known = this.#servers.get(spec.key)
      if (known?.child?.pid !== undefined) return { pid: known.child.pid, started: false }
      if (known?.timer != null) clearTimeout(known.timer)
      requireMarker(spec.marker)
      // What a killed supervisor has left ends by itself, as it was told to; whatever still holds the folder is ended.
      await endProcessesIn(spec.folder, { signal: spec.stopSignals.fast, patienceMs: 15_000 })
      const running: Running = {
        spec,
        policy: 'never',
        child: null,
        ended: Promise.resolve(),
        lastEnd: null,
        startedAt: 0,
        pauseMs: firstPauseMs,
        timer: null,
        stopping: false,
      }
      this.#servers.set(spec.key, running)
      return { pid: await this.#spawn(running), started: true }
    })
  }

  keep({ key, policy }: Params<'keep'>): null {
    const running = this.#servers.get(key)
    if (running === undefined) throw new Error(`${key} does not run`)
    running.policy = policy
    // It ended before this was said.
    if (running.child === null && running.timer === null) this.#afterEnd(running, 'ended before it was kept')
    return null
  }

  stop({ spec, mode, timeoutMs }: Params<'stop'>): Promise<null> {
    return this.#inTurn(spec.key, async () => {
      if (existsSync(spec.marker.file)) requireMarker(spec.marker)
      const running = this.#servers.get(spec.key)
      if (running?.timer != null) clearTimeout(running.timer)
      if (running !== undefined) running.stopping = true
      const child = running?.child ?? null
      if (mode !== 'kill') {
        const steps: readonly (readonly [NodeJS.Signals, number])[] = [
          ...(mode === 'fast' ? [[spec.stopSignals.fast, timeoutMs] as const] : []),
          [spec.stopSignals.immediate, mode === 'fast' ? 5_000 : timeoutMs],
        ]
        for (const [signal, patienceMs] of steps) {
          if (child === null || (await endsWithin(running!, signal, patienceMs))) break
        }
      }
      await endProcessesIn(spec.folder, { signal: 'SIGKILL', patienceMs: 10_000 })
      await running?.ended
      this.#servers.delete(spec.key)
      return null
    })
  }

  kill({ key }: Params<'kill'>): null {
    this.#servers.get(key)?.child?.kill('SIGKILL')
    return null
  }

  /** Logs that have grown too large are kept once beside themselves; the servers write on at their beginning. */
  trimLogs(): void {
    for (const { spec } of this.#servers.values()) {
      if (!existsSync(spec.logFile) || statSync(spec.logFile).size < maxLogBytes) continue
      copyFileSync(spec.logFile, `${spec.logFile}.1`)
      truncateSync(spec.logFile)
    }
  }

  /** Primaries end before their standbys when they were started first. */
  async stopAll(): Promise<void> {
    const all = [...this.#servers.values()]
    await Promise.all(all.map(({ spec }) => this.stop({ spec, mode: 'fast', timeoutMs: 20_000 })))
  }

  #inTurn<T>(key: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(key) ?? Promise.resolve()).then(work, work)
    this.#turns.set(
      key,
      turn.catch(() => undefined),
    )
    return turn
  }

  async #spawn(running: Running): Promise<number> {
    dropForeignPid(running.spec)
    const child = spawnTied(running.spec)
    running.child = child
    running.startedAt = performance.now()
    running.ended = new Promise((resolve) => {
      const end = (reason: string) => {
        if (running.child !== child) return
        running.child = null
        running.lastEnd = reason
        resolve()
        if (!running.stopping) this.#afterEnd(running, reason)
      }
      child.once('error', (error) => end(error.message))
      child.once('exit', (code, signal) => end(signal ?? `exit code ${code}`))
    })
    if (child.pid === undefined) throw new Error(`${running.spec.command} cannot be started`)
    return child.pid
  }

  #afterEnd(running: Running, reason: string): void {
    const { spec, policy } = running
    this.#onEnded({ event: 'ended', key: spec.key, reason })
    if (policy === 'never') return
    if (performance.now() - running.startedAt > steadyMs) running.pauseMs = firstPauseMs
    const pauseMs = policy === 'ask' ? Math.max(ownerlessMs, running.pauseMs) : running.pauseMs
    running.pauseMs = Math.min(longestPauseMs, running.pauseMs * 2)
    running.timer = setTimeout(() => {
      running.timer = null
      void this.#inTurn(spec.key, async () => {
        if (running.stopping || running.child !== null || this.#servers.get(spec.key) !== running) return
        try {
          requireMarker(spec.marker)
          // Backends of the dead server must be gone: they would write beside the new one.
          await endProcessesIn(spec.folder, { signal: 'SIGKILL', patienceMs: 10_000 })
          await this.#spawn(running)
        } catch (error) {
          this.#afterEnd(running, (error as Error).message)
        }
      })
    }, pauseMs)
  }
}

async function endsWithin(running: Running, signal: NodeJS.Signals, patienceMs: number): Promise<boolean> {
  running.child?.kill(signal)
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, patienceMs, false)
  })
  const ended = await Promise.race([running.ended.then(() => true as const), late])
  clearTimeout(timer)
  return ended
}

/** @throws {Error} when the folder is not that of the instance. */
function requireMarker({ file, uid }: ServerSpec['marker']): void {
  const found = JSON.parse(readFileSync(file, 'utf8')) as { readonly uid?: unknown }
  if (found.uid !== uid) throw new Error(`The folder does not belong to the instance ${uid}`)
}

/** No process works in the folder any more: whoever has the number now is somebody else. */
function dropForeignPid({ folder, pidFile }: ServerSpec): void {
  if (pidFile === undefined || !existsSync(pidFile)) return
  const at = workingFolder(Number(readFileSync(pidFile, 'utf8').split('\n')[0]))
  if (at !== undefined && at !== realpathSync(folder)) rmSync(pidFile, { force: true })
}

function spawnTied({ command, args, folder, logFile, environment, runAs, stopSignals }: ServerSpec): ChildProcess {
  mkdirSync(dirname(logFile), { recursive: true })
  const log = openSync(logFile, 'a', 0o600)
  try {
    return spawn(...tied(command, args, stopSignals.fast), {
      detached: true,
      stdio: ['ignore', log, log],
      cwd: folder,
      env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin', ...environment },
      ...runAs,
    })
  } finally {
    closeSync(log)
  }
}
