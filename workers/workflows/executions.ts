import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import { type Loaded, load, type Place } from '../../bus/load.ts'
import { eventSubject } from '../../bus/subject.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { type ExecutionState, isEnded } from '../../schemas/workflows/execution-state.ts'

/** What an execution was when it was last read. */
export type Stored = Loaded<ExecutionState>

const maxKept = 64
const maxKeptBytes = 64 * 1024 ** 2

/** Where the events of an execution lie. */
export function executionPlace(executionId: string): Place {
  return { stream: 'EVT_EXECUTIONS', subject: eventSubject('executions', 'execution', executionId) }
}

/**
 * Reads executions. Large ones, whose last message does not carry their state, are kept as they were last seen: then only what has
 * come since is read, however long their history is.
 */
export class Executions {
  readonly #bus: Bus
  readonly #kept = new LRUCache<string, Stored>({
    max: maxKept,
    maxSize: maxKeptBytes,
    sizeCalculation: ({ trail }) => Math.max(1, trail.sizeBytes),
  })

  constructor(bus: Bus) {
    this.#bus = bus
  }

  /** @throws {BusUnavailable}; as `load` */
  async load(executionId: string): Promise<Stored> {
    const loaded = await load(this.#bus, execution, executionPlace(executionId), this.#kept.get(executionId))
    this.keep(executionId, loaded)
    return loaded
  }

  /** As it was just stored. */
  keep(executionId: string, stored: Stored): void {
    const { state, sequence, trail } = stored
    if (isEnded(state.stage) || trail.base === sequence) this.#kept.delete(executionId)
    else if ((this.#kept.peek(executionId)?.sequence ?? 0) < sequence) this.#kept.set(executionId, stored)
  }
}
