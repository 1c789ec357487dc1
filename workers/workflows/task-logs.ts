import type { Bus } from '../../bus/connect.ts'
import { publish } from '../../bus/publish.ts'
import { logSubject } from '../../bus/subject.ts'
import type { ExecutionLogBatch, ExecutionLogLine } from '../../schemas/workflows/execution-log.ts'

const flushMs = 100
const maxBatchLines = 500
const maxLineLength = 16 * 1024
const maxWaitingLines = 50_000

export type TaskLogObservation = {
  readonly type: 'logs-not-stored'
  readonly executionId: string
  readonly error: unknown
}

/** Log lines of executions, stored in batches: one message holds what an execution has said in a tenth of a second. */
export class TaskLogs {
  readonly #bus: Bus
  readonly #onObservation: (observation: TaskLogObservation) => void
  readonly #waiting = new Map<string, ExecutionLogLine[]>()
  #lines = 0
  #timer: NodeJS.Timeout | null = null
  #flushing: Promise<void> = Promise.resolve()

  constructor(bus: Bus, onObservation: (observation: TaskLogObservation) => void) {
    this.#bus = bus
    this.#onObservation = onObservation
  }

  add(executionId: string, line: ExecutionLogLine): void {
    if (this.#lines >= maxWaitingLines) return
    const lines = this.#waiting.get(executionId) ?? []
    const { message } = line
    lines.push(message.length > maxLineLength ? { ...line, message: `${message.slice(0, maxLineLength)}…` } : line)
    this.#lines++
    this.#waiting.set(executionId, lines)
    if (lines.length >= maxBatchLines) void this.flush()
    else this.#timer ??= setTimeout(() => void this.flush(), flushMs)
  }

  /** Resolves when all that was added is stored, or cannot be. */
  async flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    const batches = [...this.#waiting]
    this.#waiting.clear()
    this.#lines = 0
    const before = this.#flushing
    this.#flushing = before.then(async () => {
      await Promise.all(batches.map(([executionId, lines]) => this.#store(executionId, lines)))
    })
    await this.#flushing
  }

  async #store(executionId: string, lines: readonly ExecutionLogLine[]): Promise<void> {
    const batch: ExecutionLogBatch = { lines: [...lines] }
    try {
      await publish(this.#bus, { subject: logSubject('execution', executionId), body: JSON.stringify(batch) })
    } catch (error) {
      this.#onObservation({ type: 'logs-not-stored', executionId, error })
    }
  }
}
