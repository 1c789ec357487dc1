import type { ExecutionState } from '../../schemas/workflows/execution.ts'
import { awaits, type Turn } from '../../schemas/workflows/turn.ts'

interface Running {
  readonly turn: Turn
  readonly controller: AbortController
}

const unwanted = new Error('The task was cancelled')

/** What this process runs at the moment, so that it can be stopped when it is not wanted any more. */
export class RunningTasks {
  readonly #byExecution = new Map<string, Map<string, Running>>()

  has(executionId: string, run: string, { attempt, round, generation }: Turn): boolean {
    const turn = this.#byExecution.get(executionId)?.get(run)?.turn
    return turn?.attempt === attempt && turn.round === round && turn.generation === generation
  }

  isEmpty(executionId: string): boolean {
    return !this.#byExecution.has(executionId)
  }

  /** Its signal is aborted by `stopUnwanted` and `stopAll`; `end` when it is through. */
  begin(executionId: string, run: string, turn: Turn): { signal: AbortSignal; end: () => void } {
    const runs = this.#byExecution.get(executionId) ?? new Map<string, Running>()
    // Whatever runs under this key is of an earlier turn.
    runs.get(run)?.controller.abort(unwanted)
    const running = { turn, controller: new AbortController() }
    this.#byExecution.set(executionId, runs.set(run, running))
    const end = () => {
      if (runs.get(run) === running) runs.delete(run)
      if (runs.size === 0) this.#byExecution.delete(executionId)
    }
    return { signal: running.controller.signal, end }
  }

  /** Stops what the execution does not wait for any more. */
  stopUnwanted(executionId: string, state: ExecutionState): void {
    for (const [key, { turn, controller }] of this.#byExecution.get(executionId) ?? []) {
      if (!awaits(state.runs[key], turn)) controller.abort(unwanted)
    }
  }

  stopAll(): void {
    for (const runs of this.#byExecution.values()) {
      for (const { controller } of runs.values()) controller.abort(new Error('The worker stops'))
    }
  }
}
