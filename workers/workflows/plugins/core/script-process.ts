import { spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import type { TaskLog } from '../../plugin.ts'
import { type Cage, endAllOf } from './script-cage.ts'
import { type ScriptEnd, ScriptOutputs } from './script-output.ts'

export interface ScriptProcess {
  readonly cage: Cage
  readonly account: number | null
  readonly command: readonly string[]
  readonly folder: string
  readonly stdin: string
  readonly signal: AbortSignal
  readonly log: TaskLog
}

/** Runs a command to its end, and ends with it whatever it has started. @throws the signal's reason */
export async function runProcess(job: ScriptProcess): Promise<ScriptEnd> {
  const { cage, account, command, folder, stdin, signal, log } = job
  signal.throwIfAborted()
  const [program, ...given] = [...cage.command, ...command]
  // A group of its own, so that it can be ended whole; nothing of our environment, not even for what comes before the script.
  const child = spawn(program!, given, { cwd: folder, env: {}, detached: true, stdio: ['pipe', 'pipe', 'pipe'] })
  const ended = Promise.withResolvers<number>()
  const closed = Promise.withResolvers<void>()
  child.once('error', ended.reject)
  child.once('exit', (code, by) => ended.resolve(code ?? 128 + signalNumber(by)))
  child.once('close', () => closed.resolve())
  const endGroup = () => {
    if (child.pid !== undefined) killGroup(child.pid)
  }
  signal.addEventListener('abort', endGroup, { once: true })
  const outputs = new ScriptOutputs(log)
  collect(child.stdout, outputs.stdout)
  collect(child.stderr, outputs.stderr)
  child.stdin.on('error', () => undefined)
  child.stdin.end(stdin)
  try {
    const exitCode = await ended.promise
    endGroup()
    if (account !== null && !cage.endsAll) await endAllOf(account)
    await closed.promise
    signal.throwIfAborted()
    return outputs.ended(exitCode)
  } finally {
    signal.removeEventListener('abort', endGroup)
    child.stdout.destroy()
    child.stderr.destroy()
  }
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // All of it has ended.
  }
}

const signals: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGKILL: 9,
  SIGTERM: 15,
  SIGXCPU: 24,
  SIGXFSZ: 25,
}

function signalNumber(name: NodeJS.Signals | null): number {
  return signals[name ?? ''] ?? 1
}

function collect(stream: Readable, kept: ScriptOutputs['stdout']): void {
  stream.on('error', () => undefined)
  stream.on('data', (chunk: Buffer) => kept.add(chunk))
  stream.on('end', () => kept.end())
}
