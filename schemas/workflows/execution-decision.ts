import { Draft } from './execution.ts'
import {
  type ExecutionFact,
  TaskCancelled,
  TaskEntered,
  TaskFailed,
  TaskScheduled,
  TaskSkipped,
  TaskSucceeded,
} from './execution-facts.ts'
import { childPrefix, type ExecutionState, isLive, type Run, rootKey } from './execution-state.ts'
import type { TaskPlan } from './flow-plan.ts'
import { retryTime } from './retry-time.ts'
import type { Failure, Value } from './task-result.ts'

/** What a decision takes from outside. */
export interface Surroundings {
  /** Epoch ms. */
  readonly now: number
  /** The message whose handler runs a task; null puts it on the queue. `live`: how many run already. */
  readonly lease: (task: TaskPlan, live: number) => string | null
}

/** Of an execution, on the queue or in workers' hands at a time: more are started as these come back. */
const maxScheduled = 1_000

/** A decision in the making: facts are added to a copy of the state as they arise, so what is decided next is decided on them. Pure. */
export class Decision {
  readonly facts: ExecutionFact[] = []
  /** Epoch ms. */
  readonly now: number
  readonly #draft: Draft
  readonly #lease: Surroundings['lease']
  /** Of this execution, so that no more are scheduled than a block allows. */
  #scheduledLive: number
  /** At this moment. */
  #scheduled: number

  constructor(state: ExecutionState, { now, lease }: Surroundings) {
    this.now = now
    this.#draft = new Draft(state)
    this.#lease = lease
    this.#scheduledLive = Object.values(state.runs).filter((run) => run.status === 'scheduled').length
    this.#scheduled = this.#scheduledLive
  }

  get state(): ExecutionState {
    return this.#draft.state
  }

  run(key: string): Run | undefined {
    return this.state.runs[key]
  }

  /** Whether one more task may be scheduled. */
  get hasRoom(): boolean {
    return this.#scheduled < maxScheduled
  }

  emit(fact: ExecutionFact): void {
    const { run } = fact.data as { readonly run?: string }
    const before = run === undefined ? 0 : this.#isScheduled(run)
    this.#draft.apply(fact)
    this.facts.push(fact)
    if (run !== undefined) this.#scheduled += this.#isScheduled(run) - before
  }

  #isScheduled(key: string): 0 | 1 {
    return this.state.runs[key]?.status === 'scheduled' ? 1 : 0
  }

  /** A control task, or the flow, goes on with its `errors` or its `finally`. False when there is nothing to enter. */
  enter(key: string, tasks: readonly TaskPlan[], phase: 'errors' | 'finally', failure: Failure | null): boolean {
    if (tasks.length === 0) return false
    this.emit(TaskEntered.of({ run: key, phase, at: this.now, ...(failure && { failure }) }))
    return true
  }

  schedule(key: string, task: TaskPlan, attempt: number, round?: number): void {
    const lease = this.#lease(task, this.#scheduledLive)
    this.#scheduledLive++
    const { name, type } = task
    const at = this.now
    this.emit(
      TaskScheduled.of({ run: key, attempt, task: name, type, at, lease, ...(round !== undefined && { round }) }),
    )
  }

  skip(key: string, { name, type }: TaskPlan, reason: string): void {
    this.emit(TaskSkipped.of({ run: key, task: name, type, reason, at: this.now }))
  }

  succeed(key: string, { name }: TaskPlan, outputs: Value): void {
    const { attempt, firstAt } = this.run(key)!
    this.emit(TaskSucceeded.of({ run: key, attempt, task: name, outputs, startedAt: firstAt, at: this.now }))
  }

  /** A failed attempt: tried again where the task's retries allow it. */
  fail(key: string, task: TaskPlan, failure: Failure): void {
    const { attempt, firstAt } = this.run(key)!
    const retryAt = retryTime(task.retry, { key, attempt, failure, now: this.now })
    this.emit(TaskFailed.of({ run: key, attempt, task: task.name, failure, startedAt: firstAt, at: this.now, retryAt }))
  }

  /** From the outside in: when only some of it gets stored, the rest can be seen to be due, and nothing looks as if it were through. */
  cancel(key: string, { blocks }: TaskPlan): void {
    const run = this.run(key)
    if (run === undefined) return
    if (isLive(run)) this.emit(TaskCancelled.of({ run: key, at: this.now }))
    if (Object.keys(blocks).length === 0) return
    this.cancelUnder(childPrefix(key))
    this.cancelUnder(`${key}[`)
  }

  cancelUnder(prefix: string): void {
    for (const [key, run] of Object.entries(this.state.runs)) {
      if (key !== rootKey && key.startsWith(prefix) && isLive(run)) {
        this.emit(TaskCancelled.of({ run: key, at: this.now }))
      }
    }
  }
}
