import type { ExecutionState } from '../../schemas/workflows/execution.ts'

interface Running {
  readonly attempt: number
  readonly round: number
  readonly controller: AbortController
}

/** What this process runs at the moment, so that it can be stopped when it is not wanted any more. */
export class RunningTasks {
  readonly #byExecution = new Map<string, Map<string, Running>>()

  has(executionId: string, run: string): boolean {
    return this.#byExecution.get(executionId)?.has(run) ?? false
  }

  isEmpty(executionId: string): boolean {
    return !this.#byExecution.has(executionId)
  }

  /** Its signal is aborted by `stopUnwanted` and `stopAll`; `end` when it is through. */
  begin(executionId: string, run: string, attempt: number, round: number): { signal: AbortSignal; end: () => void } {
    const runs = this.#byExecution.get(executionId) ?? new Map<string, Running>()
    const running = { attempt, round, controller: new AbortController() }
    this.#byExecution.set(executionId, runs.set(run, running))
    const end = () => {
      if (runs.get(run) === running) runs.delete(run)
      if (runs.size === 0) this.#byExecution.delete(executionId)
    }
    return { signal: running.controller.signal, end }
  }

  /** Stops what the execution does not wait for any more. */
  stopUnwanted(executionId: string, state: ExecutionState): void {
    for (const [key, { attempt, round, controller }] of this.#byExecution.get(executionId) ?? []) {
      const run = state.runs[key]
      const wanted = run?.status === 'scheduled' && run.attempt === attempt && run.round === round
      if (!wanted) controller.abort(new Error('The task was cancelled'))
    }
  }

  stopAll(): void {
    for (const runs of this.#byExecution.values()) {
      for (const { controller } of runs.values()) controller.abort(new Error('The worker stops'))
    }
  }
}
