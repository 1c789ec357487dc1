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
  /** What is on its way, by execution. */
  readonly #storing = new Map<string, Promise<void>>()
  #lines = 0
  #timer: NodeJS.Timeout | null = null

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
    if (lines.length >= maxBatchLines) void this.flush(executionId)
    else this.#timer ??= setTimeout(() => this.#flushAll(), flushMs)
  }

  /** Resolves when what was added, of one execution or of all, is stored or cannot be. */
  async flush(executionId?: string): Promise<void> {
    if (executionId === undefined) {
      await Promise.all([...this.#waiting.keys(), ...this.#storing.keys()].map((id) => this.flush(id)))
      return
    }
    const lines = this.#waiting.get(executionId)
    if (lines !== undefined) {
      this.#waiting.delete(executionId)
      this.#lines -= lines.length
      // One after the other, so that they lie in their order.
      const storing = (this.#storing.get(executionId) ?? Promise.resolve()).then(() => this.#store(executionId, lines))
      this.#storing.set(executionId, storing)
    }
    const storing = this.#storing.get(executionId)
    await storing
    if (this.#storing.get(executionId) === storing) this.#storing.delete(executionId)
  }

  #flushAll(): void {
    this.#timer = null
    void this.flush()
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
