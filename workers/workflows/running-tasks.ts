import { LRUCache } from 'lru-cache'
import type { ExecutionState } from '../../schemas/workflows/execution-state.ts'
import { awaits, type Turn } from '../../schemas/workflows/turn.ts'

interface Running {
  readonly turn: Turn
  /** Counts what has begun here. */
  readonly number: number
  readonly controller: AbortController
  readonly ended: PromiseWithResolvers<void>
}

const unwanted = new Error('The task was cancelled')
/** At most, between the reading of a state and the beginning of the tasks that it asks for. */
const doubtMs = 10_000
const maxRemembered = 10_000

/** What this process runs at the moment, so that it can be stopped when it is not wanted any more. */
export class RunningTasks {
  readonly #byExecution = new Map<string, Map<string, Running>>()
  readonly #look: (executionId: string) => void
  readonly #told = new LRUCache<string, true>({ max: maxRemembered, ttl: doubtMs })
  #deafUntil = Number.NEGATIVE_INFINITY
  #begun = 0

  /** @param look reads what an execution has come to, and calls `stopUnwanted` */
  constructor(look: (executionId: string) => void) {
    this.#look = look
  }

  /** Somebody says that not all is wanted any more: of what runs, and of what is about to begin on the state of a moment ago. */
  tell(executionId: string): void {
    this.#told.set(executionId, true)
    if (!this.isEmpty(executionId)) this.#look(executionId)
  }

  /** For a time nothing could be heard. */
  tellMissed(): void {
    this.#deafUntil = performance.now()
    for (const executionId of this.#byExecution.keys()) this.#look(executionId)
  }

  has(executionId: string, run: string, { attempt, round, generation }: Turn): boolean {
    const turn = this.#byExecution.get(executionId)?.get(run)?.turn
    return turn?.attempt === attempt && turn.round === round && turn.generation === generation
  }

  /** Resolves when it is through; undefined when it does not run here. */
  ending(executionId: string, run: string, turn: Turn): Promise<void> | undefined {
    if (!this.has(executionId, run, turn)) return undefined
    return this.#byExecution.get(executionId)?.get(run)?.ended.promise
  }

  isEmpty(executionId: string): boolean {
    return !this.#byExecution.has(executionId)
  }

  /** Its signal is aborted by `stopUnwanted` and `stopAll`; `end` when it is through. */
  begin(executionId: string, run: string, turn: Turn): { signal: AbortSignal; end: () => void } {
    const runs = this.#byExecution.get(executionId) ?? new Map<string, Running>()
    // Whatever runs under this key is of an earlier turn.
    runs.get(run)?.controller.abort(unwanted)
    const running = {
      turn,
      number: ++this.#begun,
      controller: new AbortController(),
      ended: Promise.withResolvers<void>(),
    }
    this.#byExecution.set(executionId, runs.set(run, running))
    if (this.#told.has(executionId) || performance.now() < this.#deafUntil + doubtMs) this.#look(executionId)
    const end = () => {
      running.ended.resolve()
      if (runs.get(run) === running) runs.delete(run)
      if (runs.size === 0) this.#byExecution.delete(executionId)
    }
    return { signal: running.controller.signal, end }
  }

  /** Of what has begun so far; to be asked before a state is read that says what is to be stopped. */
  get begun(): number {
    return this.#begun
  }

  /**
   * Stops what the execution does not wait for any more.
   * @param begun nothing that began later, for the state may be older. Default: all
   */
  stopUnwanted(executionId: string, state: ExecutionState, begun = Number.POSITIVE_INFINITY): void {
    for (const [key, { turn, number, controller }] of this.#byExecution.get(executionId) ?? []) {
      if (number <= begun && !awaits(state.runs[key], turn)) controller.abort(unwanted)
    }
  }

  stopAll(): void {
    for (const runs of this.#byExecution.values()) {
      for (const { controller } of runs.values()) controller.abort(new Error('The worker stops'))
    }
  }
}
