import { type FrameWriter, fromHost } from './frames.ts'
import type { LogLine } from './operations-log.ts'

/** One line that a function wrote: the body of a frame of logs is a JSON array of them. */
export interface LogEntry extends LogLine {
  readonly fn: string
  readonly rev: number
}

/** Lines of the functions on their way to the supervisor, some at a time. */
export class LogBook {
  readonly #writer: FrameWriter
  #lines: LogEntry[] = []
  #scheduled = false

  constructor(writer: FrameWriter) {
    this.#writer = writer
  }

  add(entry: LogEntry): void {
    this.#lines.push(entry)
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.flush())
  }

  mark(): number {
    return this.#lines.length
  }

  /** Takes back the lines since the mark: their call begins anew. */
  drop(mark: number): void {
    this.#lines.length = Math.min(this.#lines.length, mark)
  }

  flush(): void {
    this.#scheduled = false
    if (this.#lines.length === 0) return
    this.#writer.send(fromHost.logs, 0, '', JSON.stringify(this.#lines))
    this.#lines = []
  }
}
