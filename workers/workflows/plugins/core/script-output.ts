import { StringDecoder } from 'node:string_decoder'
import type { TaskLog } from '../../plugin.ts'

export interface ScriptEnd {
  /** As shells tell it: 128 + n when signal n has ended it. */
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
  /** Whether it has written more than is kept. */
  readonly truncated: boolean
}

export const maxKeptBytes = 1024 * 1024
const maxLines = 10_000
const maxLineLength = 8 * 1024

/** What a script writes: its beginning is kept, and its lines are logged as they come. */
export class ScriptOutputs {
  readonly stdout: Kept
  readonly stderr: Kept
  #linesLeft = maxLines

  constructor(log: TaskLog) {
    this.stdout = new Kept((line) => this.#tell(log, 'info', line))
    this.stderr = new Kept((line) => this.#tell(log, 'warn', line))
  }

  ended(exitCode: number): ScriptEnd {
    const { stdout, stderr } = this
    return { exitCode, stdout: stdout.text, stderr: stderr.text, truncated: stdout.isCut || stderr.isCut }
  }

  #tell(log: TaskLog, level: 'info' | 'warn', line: string): void {
    if (this.#linesLeft < 0) return
    this.#linesLeft--
    if (this.#linesLeft < 0) log.warn(`No more than ${maxLines} lines are logged`)
    else log[level](line.length > maxLineLength ? `${line.slice(0, maxLineLength)}…` : line)
  }
}

class Kept {
  readonly #kept: Buffer[] = []
  readonly #decoder = new StringDecoder('utf8')
  readonly #onLine: (line: string) => void
  #keptBytes = 0
  #rest = ''
  isCut = false

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine
  }

  get text(): string {
    return Buffer.concat(this.#kept).toString('utf8')
  }

  add(chunk: Buffer): void {
    const part = chunk.subarray(0, maxKeptBytes - this.#keptBytes)
    this.isCut ||= part.length < chunk.length
    this.#keptBytes += part.length
    if (part.length > 0) this.#kept.push(part)
    const pieces = (this.#rest + this.#decoder.write(chunk)).split('\n')
    // A line without an end is not kept whole either.
    this.#rest = pieces.pop()!.slice(0, maxLineLength)
    for (const line of pieces) this.#onLine(line)
  }

  end(): void {
    if (this.#rest !== '') this.#onLine(this.#rest)
    this.#rest = ''
  }
}
