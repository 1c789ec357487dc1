import { LRUCache } from 'lru-cache'
import { append } from '../../bus/append.ts'
import type { Bus } from '../../bus/connect.ts'
import { carrying, longerTrail, trailAfter } from '../../bus/decide.ts'
import { type Loaded, load, type Place } from '../../bus/load.ts'
import { newId, partsOf } from '../../bus/message.ts'
import { eventSubject } from '../../bus/subject.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import type { ExecutionFact } from '../../schemas/workflows/execution-facts.ts'
import { type ExecutionState, isEnded } from '../../schemas/workflows/execution-state.ts'

/** What an execution was when it was last read. */
export type Stored = Loaded<ExecutionState>

interface Decided {
  readonly facts: readonly ExecutionFact[]
  /** With the facts. */
  readonly state: ExecutionState
  /** Id of the message that led to them. */
  readonly causation: string
}

const maxKept = 64
const maxKeptBytes = 64 * 1024 ** 2

/** Where the events of an execution lie. */
export function executionPlace(executionId: string): Place {
  return { stream: 'EVT_EXECUTIONS', subject: eventSubject('executions', 'execution', executionId) }
}

/**
 * Reads executions, and stores what was decided on them. Large ones, whose last message does not carry their state, are kept as they
 * were last seen: then only what has come since is read, however long their history is.
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
    this.#keep(executionId, loaded)
    return loaded
  }

  /**
   * Stores facts behind what was read, in several messages where it has to be: whoever finds only some of them decides what follows
   * from those, which is the rest.
   * @throws {AppendConflict} when there is more by now; {BusUnavailable}
   */
  async append(executionId: string, before: Stored, { facts, state, causation }: Decided): Promise<Stored> {
    const place = executionPlace(executionId)
    const parts = partsOf(facts)
    let { sequence, trail } = before
    let id = ''
    for (const [index, part] of parts.entries()) {
      id = newId()
      const isLast = index === parts.length - 1
      const carried = isLast ? carrying(execution, state, { trail, facts: part }) : { trail: longerTrail(trail, part) }
      const message = { id, facts: part, actor: 'busbar', causation, ...carried }
      const appending = { ...place, expectedSequence: sequence, events: execution.events, message }
      ;({ sequence } = await append(this.#bus, appending))
      trail = trailAfter(carried, sequence)
    }
    const stored = { state, sequence, id, trail }
    this.#keep(executionId, stored)
    return stored
  }

  #keep(executionId: string, stored: Stored): void {
    const { state, sequence, trail } = stored
    if (isEnded(state.stage) || trail.base === sequence) this.#kept.delete(executionId)
    else if ((this.#kept.peek(executionId)?.sequence ?? 0) < sequence) this.#kept.set(executionId, stored)
  }
}
