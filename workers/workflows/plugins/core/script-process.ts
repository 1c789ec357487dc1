import { spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import type { TaskLog } from '../../plugin.ts'
import { type Cage, endAllOf } from './script-cage.ts'

export interface ScriptProcess {
  readonly cage: Cage
  readonly account: number | null
  readonly command: readonly string[]
  readonly folder: string
  readonly stdin: string
  readonly signal: AbortSignal
  readonly log: TaskLog
}

export interface ScriptEnd {
  /** As shells tell it: 128 + n when signal n has ended it. */
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
  /** Whether it has written more than is kept. */
  readonly truncated: boolean
}

const maxKeptBytes = 1024 * 1024
const maxLines = 10_000
const maxLineLength = 8 * 1024

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
  const lines = { left: maxLines }
  const stdout = collect(child.stdout, (line) => tell(log, 'info', line, lines))
  const stderr = collect(child.stderr, (line) => tell(log, 'warn', line, lines))
  child.stdin.on('error', () => undefined)
  child.stdin.end(stdin)
  try {
    const exitCode = await ended.promise
    endGroup()
    if (account !== null && !cage.endsAll) await endAllOf(account)
    await closed.promise
    signal.throwIfAborted()
    return { exitCode, stdout: stdout.text(), stderr: stderr.text(), truncated: stdout.isCut() || stderr.isCut() }
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

/** Keeps the beginning of what is written, and gives its lines as they come. */
function collect(stream: Readable, onLine: (line: string) => void) {
  const kept: Buffer[] = []
  const decoder = new StringDecoder('utf8')
  let keptBytes = 0
  let cut = false
  let rest = ''
  stream.on('error', () => undefined)
  stream.on('data', (chunk: Buffer) => {
    const part = chunk.subarray(0, maxKeptBytes - keptBytes)
    cut ||= part.length < chunk.length
    keptBytes += part.length
    if (part.length > 0) kept.push(part)
    const pieces = (rest + decoder.write(chunk)).split('\n')
    // A line without an end is not kept whole either.
    rest = pieces.pop()!.slice(0, maxLineLength)
    for (const line of pieces) onLine(line)
  })
  stream.on('end', () => {
    if (rest !== '') onLine(rest)
  })
  return { text: () => Buffer.concat(kept).toString('utf8'), isCut: () => cut }
}

function tell(log: TaskLog, level: 'info' | 'warn', line: string, lines: { left: number }): void {
  if (lines.left < 0) return
  lines.left--
  if (lines.left < 0) log.warn(`No more than ${maxLines} lines are logged`)
  else log[level](line.length > maxLineLength ? `${line.slice(0, maxLineLength)}…` : line)
}
