import { Draft } from './execution.ts'
import {
  EndRequested,
  ExecutionEnded,
  type ExecutionFact,
  ExecutionPaused,
  ExecutionStarted,
  IterationEnded,
  IterationStarted,
  SlaMissed,
  SlotRequested,
  TaskCancelled,
  TaskEntered,
  TaskFailed,
  TaskScheduled,
  TaskSkipped,
  TaskSucceeded,
} from './execution-facts.ts'
import { childPrefix, type ExecutionState, isEnded, isLive, outputsKey, type Run, rootKey } from './execution-state.ts'
import type { FlowPlan, OnFailure, RetryPlan, TaskPlan } from './flow-plan.ts'
import type { Failure, Value } from './task-result.ts'

export interface Surroundings {
  /** Epoch ms. */
  readonly now: number
  /** The message whose handler runs a task; null puts it on the queue. `live`: how many run already. */
  readonly lease: (task: TaskPlan, live: number) => string | null
}

/** The task that renders the outputs of the flow. */
export const outputsTask: TaskPlan = {
  name: outputsKey,
  type: '$outputs',
  properties: {},
  needs: [],
  runIf: null,
  retry: null,
  timeoutMs: null,
  allowFailure: false,
  idempotencyKey: null,
  workerGroup: null,
  blocks: {},
}

/** Of an execution, on the queue or in workers' hands at a time: more are started as these come back. */
const maxScheduled = 1_000

type Outcome = 'live' | 'success' | 'failed'

/**
 * What follows from a state: tasks that can start, blocks and loops that are through, times that have come, the end. Pure: the facts
 * are added to a copy of the state as they arise, until nothing more follows. Every timer is only a nudge to ask again, so one that
 * fires late or twice does no harm.
 */
export class Advance {
  readonly facts: ExecutionFact[] = []
  readonly #plan: FlowPlan
  readonly #draft: Draft
  readonly #around: Surroundings
  /** Of this execution, so that no more are scheduled than a block allows. */
  #scheduledLive: number
  /** At this moment. */
  #scheduled: number

  constructor(plan: FlowPlan, state: ExecutionState, around: Surroundings) {
    this.#plan = plan
    this.#draft = new Draft(state)
    this.#around = around
    this.#scheduledLive = Object.values(state.runs).filter((run) => run.status === 'scheduled').length
    this.#scheduled = this.#scheduledLive
  }

  get state(): ExecutionState {
    return this.#draft.state
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

  /** @param slot whether one of the flow's places has been granted */
  begin(slot: boolean): void {
    const { stage, slotRequested, startedAt, ending } = this.state
    if (startedAt !== null || ending !== null || (stage !== 'queued' && stage !== 'paused')) return
    const { now } = this.#around
    const { concurrency, timeoutMs, slaMs } = this.#plan
    if (concurrency !== null && !slot) {
      if (!slotRequested) this.emit(SlotRequested.of({ at: now }))
      return
    }
    const deadlineAt = timeoutMs === null ? null : now + timeoutMs
    this.emit(ExecutionStarted.of({ at: now, deadlineAt, ...(slaMs !== undefined && { slaAt: now + slaMs }) }))
    // One that was paused while it waited has its turn all the same, and starts nothing.
    if (stage === 'paused') this.emit(ExecutionPaused.of({ by: 'busbar', at: now }))
  }

  run(): void {
    const { stage, startedAt, deadlineAt, ending, slaAt, slaMissed } = this.state
    if (stage === 'absent' || isEnded(stage)) return
    if (startedAt === null) {
      if (ending !== null) this.emit(ExecutionEnded.of({ status: ending, at: this.#around.now }))
      return
    }
    if (slaAt !== undefined && !slaMissed && this.#around.now >= slaAt)
      this.emit(SlaMissed.of({ at: this.#around.now }))
    if (deadlineAt !== null && ending === null && this.#around.now >= deadlineAt) {
      this.emit(EndRequested.of({ status: 'timed-out', by: 'busbar', at: this.#around.now }))
    }
    this.#root()
  }

  #root(): void {
    const run = this.#run(rootKey)!
    if (this.state.ending !== null && run.phase !== 'finally') {
      this.#cancelUnder('')
      if (!this.#enter(rootKey, this.#plan.finally, 'finally', null)) {
        this.#conclude('failed')
        return
      }
    }
    const outcome = this.#phases(rootKey, { tasks: this.#plan.tasks, ...this.#ends() }, 'tasks', this.#body('tasks'))
    if (outcome !== 'live') this.#conclude(outcome)
  }

  #ends() {
    return { errors: this.#plan.errors, finally: this.#plan.finally }
  }

  #body(block: string): BodyWalk {
    return (blocks) => this.#block('', blocks[block] ?? [], Number.POSITIVE_INFINITY, 'cancel')
  }

  #conclude(outcome: Exclude<Outcome, 'live'>): void {
    const { now } = this.#around
    const { ending } = this.state
    const root = this.#run(rootKey)!
    if (ending !== null) {
      const failure = this.#failures.get(rootKey) ?? root.failure ?? this.#lateness(ending)
      this.emit(ExecutionEnded.of({ status: ending, at: now, ...(failure && { failure }) }))
      return
    }
    if (outcome === 'failed') {
      this.#fail(this.#failures.get(rootKey) ?? root.failure)
      return
    }
    if (Object.keys(this.#plan.outputs).length === 0) {
      this.emit(ExecutionEnded.of({ status: 'success', at: now }))
      return
    }
    const rendered = this.#run(outputsKey)
    if (rendered === undefined) this.#schedule(outputsKey, outputsTask, 1)
    else if (rendered.status === 'success') {
      this.emit(ExecutionEnded.of({ status: 'success', at: now, outputs: rendered.outputs! }))
    } else if (rendered.status === 'failed') this.#fail(rendered.failure)
  }

  #lateness(ending: 'cancelled' | 'timed-out'): Failure | null {
    return ending === 'cancelled'
      ? null
      : { message: `The execution was not through after ${this.#plan.timeoutMs} ms`, kind: 'timeout' }
  }

  #fail(failure: Failure | null): void {
    this.emit(ExecutionEnded.of({ status: 'failed', at: this.#around.now, failure: failure ?? unknownFailure }))
  }

  /** Body, then `errors` when that failed, then `finally`: of the flow and of every control task with blocks. */
  #phases(key: string, blocks: TaskPlan['blocks'], name: string, walk: BodyWalk): Outcome {
    const prefix = childPrefix(key)
    const run = this.#run(key)!
    if (run.phase === 'body') {
      const outcome = walk(blocks)
      if (outcome === 'live') return 'live'
      const failure = outcome === 'failed' ? this.#failureUnder(key, blocks[name] ?? []) : null
      const errors = failure === null ? [] : (blocks.errors ?? [])
      if (this.#enter(key, errors, 'errors', failure)) return this.#phases(key, blocks, name, walk)
      if (this.#enter(key, blocks.finally ?? [], 'finally', failure)) return this.#phases(key, blocks, name, walk)
      if (failure !== null) this.#failures.set(key, failure)
      return outcome
    }
    const tasks = blocks[run.phase] ?? []
    const outcome = this.#block(prefix, tasks, Number.POSITIVE_INFINITY, 'cancel')
    if (outcome === 'live') return 'live'
    const failure = outcome === 'failed' ? this.#failureUnder(key, tasks) : null
    if (run.phase === 'errors') {
      // A control task whose failure was dealt with has succeeded; a flow has failed nonetheless.
      const left = failure ?? (key === rootKey ? run.failure : null)
      if (this.#enter(key, blocks.finally ?? [], 'finally', left)) return this.#phases(key, blocks, name, walk)
      if (left !== null) this.#failures.set(key, left)
      return left === null ? 'success' : 'failed'
    }
    const left = failure ?? run.failure
    if (left !== null) this.#failures.set(key, left)
    return left === null ? 'success' : 'failed'
  }

  /** False when there is nothing to enter. */
  #enter(key: string, tasks: readonly TaskPlan[], phase: 'errors' | 'finally', failure: Failure | null): boolean {
    if (tasks.length === 0) return false
    const at = this.#around.now
    this.emit(TaskEntered.of({ run: key, phase, at, ...(failure && { failure }) }))
    return true
  }

  /** Why a run that is still open in the state has failed; its end tells it. */
  readonly #failures = new Map<string, Failure>()

  #failureUnder(key: string, tasks: readonly TaskPlan[]): Failure {
    const failed = tasks
      .map((task) => ({ task, run: this.#run(childPrefix(key) + task.name) }))
      .filter(({ task, run }) => run?.status === 'failed' && !task.allowFailure)
    const first = failed.sort((left, right) => left.run!.at - right.run!.at)[0]
    if (first === undefined) return this.#run(key)?.failure ?? unknownFailure
    return { task: first.task.name, ...first.run!.failure! }
  }

  /** A list of tasks in the order of their needs, as many at a time as is allowed. */
  #block(prefix: string, tasks: readonly TaskPlan[], concurrency: number, onFailure: OnFailure): Outcome {
    let failed = false
    for (const task of tasks) failed = this.#task(prefix + task.name, task) === 'failed' || failed
    const stops = failed && onFailure !== 'continue'
    if (stops && onFailure === 'cancel') for (const task of tasks) this.#cancel(prefix + task.name, task)
    let live = this.#liveOf(prefix, tasks)
    for (let again = true; again; ) {
      again = false
      for (const task of tasks) {
        const key = prefix + task.name
        if (this.#run(key) !== undefined || stops) continue
        const needs = this.#needs(prefix, tasks, task)
        if (needs === 'waits') continue
        if (needs === 'unmet') {
          this.#skip(key, task, 'A task that it depends on has failed')
          again = true
        } else if (this.state.stage === 'running' && live < concurrency && this.#scheduled < maxScheduled) {
          this.#schedule(key, task, 1)
          live++
        }
      }
    }
    const open = tasks.some((task) => {
      const run = this.#run(prefix + task.name)
      return run === undefined ? !stops : isLive(run)
    })
    if (open) return 'live'
    return failed ? 'failed' : 'success'
  }

  #needs(prefix: string, tasks: readonly TaskPlan[], { needs }: TaskPlan): 'met' | 'waits' | 'unmet' {
    let unmet = false
    for (const name of needs) {
      const run = this.#run(prefix + name)
      if (run === undefined || isLive(run)) return 'waits'
      const allowed = tasks.find((task) => task.name === name)?.allowFailure === true
      if ((run.status === 'failed' && !allowed) || run.status === 'cancelled') unmet = true
    }
    return unmet ? 'unmet' : 'met'
  }

  #liveOf(prefix: string, tasks: readonly TaskPlan[]): number {
    return tasks.filter((task) => {
      const run = this.#run(prefix + task.name)
      return run !== undefined && isLive(run)
    }).length
  }

  /** Whether a task of a block has failed the block. */
  #task(key: string, task: TaskPlan): Outcome {
    const run = this.#run(key)
    if (run === undefined) return 'live'
    if (run.status === 'retrying' && run.at <= this.#around.now && this.state.stage === 'running') {
      this.#schedule(key, task, run.attempt + 1)
    } else if (run.status === 'waiting') this.#waiting(key, task, run)
    else if (run.status === 'open') this.#open(key, task, run)
    const { status } = this.#run(key)!
    if (status === 'failed') return task.allowFailure ? 'success' : 'failed'
    return isLive(this.#run(key)!) ? 'live' : 'success'
  }

  #waiting(key: string, task: TaskPlan, run: Run): void {
    if (run.opening?.kind !== 'pause') {
      this.#overdue(key, task, run)
      return
    }
    const { until, question } = run.opening
    const { now } = this.#around
    if (run.answer !== null) {
      const { answer, by, comment } = run.answer
      if (answer === 'rejected') {
        this.#end(key, task, { message: `Rejected by ${by}${comment && `: ${comment}`}`, kind: 'refused' })
      } else this.#succeed(key, task, { json: { decision: answer, by, comment } })
    } else if (until !== null && until <= now) {
      if (question === null) this.#succeed(key, task, { json: { until: new Date(until).toISOString() } })
      else if (question.onTimeout === 'approve') {
        this.#succeed(key, task, { json: { decision: 'approved', by: null, comment: 'Nobody decided in time' } })
      } else {
        const kind = question.onTimeout === 'fail' ? 'timeout' : 'refused'
        this.#end(key, task, { message: 'Nobody decided in time', kind })
      }
    } else this.#overdue(key, task, run)
  }

  #overdue(key: string, task: TaskPlan, run: Run): boolean {
    if (run.deadlineAt === null || run.deadlineAt > this.#around.now) return false
    this.#cancelUnder(childPrefix(key))
    this.#cancelUnder(`${key}[`)
    this.#end(key, task, { message: `Not through after ${task.timeoutMs} ms`, kind: 'timeout' })
    return true
  }

  #open(key: string, task: TaskPlan, run: Run): void {
    const { opening } = run
    if (opening === null || opening.kind === 'pause' || this.#overdue(key, task, run)) return
    if (opening.kind === 'child') {
      this.#succeed(key, task, { json: { executionId: opening.executionId } })
      return
    }
    if (opening.kind === 'round') {
      this.#round(key, task, run, opening)
      return
    }
    const block = opening.kind === 'block' ? opening.block : 'tasks'
    const walk: BodyWalk =
      opening.kind === 'items'
        ? (blocks) => this.#items(key, blocks.tasks ?? [], opening)
        : (blocks) => this.#block(childPrefix(key), blocks[block] ?? [], opening.concurrency, opening.onFailure)
    const outcome = this.#phases(key, task.blocks, block, walk)
    if (outcome === 'success') this.#succeed(key, task, this.#gave(key, opening.kind === 'block' ? block : null))
    if (outcome === 'failed') this.#end(key, task, this.#failures.get(key) ?? this.#run(key)?.failure ?? unknownFailure)
  }

  #gave(key: string, block: string | null): Value {
    if (block !== null) return { json: { branch: block === '' ? null : block } }
    const { loop } = this.#run(key)!
    return { json: { count: loop?.results.length ?? 0 } }
  }

  #items(key: string, tasks: readonly TaskPlan[], opening: ItemsOpening): Outcome {
    for (const index of [...this.#run(key)!.loop!.live]) this.#iteration(key, tasks, index)
    for (;;) {
      const { next, live, failed, due } = this.#run(key)!.loop!
      const [again] = Object.keys(due ?? {})
      const stops = failed > 0 && opening.onFailure !== 'continue'
      if (stops && opening.onFailure === 'cancel' && live.length > 0) {
        for (const index of live) this.#cancelIteration(key, index)
        continue
      }
      const room = live.length < opening.concurrency && this.state.stage === 'running'
      const left = again !== undefined || next < opening.count
      if (stops || !left || !room) {
        if (live.length > 0 || (!stops && left)) return 'live'
        return failed > 0 ? 'failed' : 'success'
      }
      const index = again === undefined ? next : Number(again)
      this.emit(IterationStarted.of({ run: key, index, at: this.#around.now }))
      this.#iteration(key, tasks, index)
    }
  }

  #cancelIteration(key: string, index: number): void {
    this.#cancelUnder(childPrefix(key, index))
    this.emit(IterationEnded.of({ run: key, index, failed: true, outputs: {}, at: this.#around.now }))
  }

  #iteration(key: string, tasks: readonly TaskPlan[], index: number): Outcome {
    const prefix = childPrefix(key, index)
    const outcome = this.#block(prefix, tasks, Number.POSITIVE_INFINITY, 'cancel')
    if (outcome === 'live') return 'live'
    const failed = outcome === 'failed'
    if (!failed && tasks.some((task) => this.#run(prefix + task.name)?.status === 'cancelled')) {
      // Somebody died while it was being cancelled.
      this.#cancelIteration(key, index)
      return 'failed'
    }
    const outputs: Record<string, Value> = {}
    let failure: Failure | undefined
    for (const task of tasks) {
      const run = this.#run(prefix + task.name)
      if (run?.status === 'success' && run.outputs !== null) outputs[task.name] = run.outputs
      if (run?.status === 'failed' && !task.allowFailure) failure ??= { task: task.name, ...run.failure! }
    }
    const at = this.#around.now
    this.emit(IterationEnded.of({ run: key, index, failed, outputs, at, ...(failure && { failure }) }))
    return outcome
  }

  #round(key: string, task: TaskPlan, run: Run, { round, goOn }: RoundOpening): void {
    const tasks = task.blocks.tasks ?? []
    const walk: BodyWalk = () => {
      const { next, failed } = this.#run(key)!.loop!
      if (failed > 0) return 'failed'
      if (!goOn) return 'success'
      if (next <= round) {
        if (this.state.stage !== 'running') return 'live'
        this.emit(IterationStarted.of({ run: key, index: round, at: this.#around.now }))
      }
      if (this.#run(key)!.loop!.live.length > 0 && this.#iteration(key, tasks, round) === 'live') return 'live'
      if (this.#run(key)!.loop!.failed > 0) return 'failed'
      if (this.state.stage !== 'running') return 'live'
      this.#schedule(key, task, run.attempt, round + 1)
      return 'live'
    }
    const outcome = this.#phases(key, task.blocks, 'tasks', walk)
    if (outcome === 'success') this.#succeed(key, task, this.#gave(key, null))
    if (outcome === 'failed') this.#end(key, task, this.#failures.get(key) ?? this.#run(key)?.failure ?? unknownFailure)
  }

  #schedule(key: string, task: TaskPlan, attempt: number, round?: number): void {
    const lease = this.#around.lease(task, this.#scheduledLive)
    this.#scheduledLive++
    const at = this.#around.now
    const { name, type } = task
    this.emit(
      TaskScheduled.of({ run: key, attempt, task: name, type, at, lease, ...(round !== undefined && { round }) }),
    )
  }

  #skip(key: string, { name, type }: TaskPlan, reason: string): void {
    this.emit(TaskSkipped.of({ run: key, task: name, type, reason, at: this.#around.now }))
  }

  #succeed(key: string, { name }: TaskPlan, outputs: Value): void {
    const { attempt, firstAt } = this.#run(key)!
    this.emit(TaskSucceeded.of({ run: key, attempt, task: name, outputs, startedAt: firstAt, at: this.#around.now }))
  }

  /** A failed attempt: tried again where the task's retries allow it. */
  #end(key: string, task: TaskPlan, failure: Failure): void {
    const { attempt, firstAt } = this.#run(key)!
    const { now } = this.#around
    const retryAt = retryTime(task.retry, { key, attempt, failure, now })
    this.emit(TaskFailed.of({ run: key, attempt, task: task.name, failure, startedAt: firstAt, at: now, retryAt }))
  }

  /** From the outside in: when only some of it gets stored, the rest can be seen to be due, and nothing looks as if it were through. */
  #cancel(key: string, { blocks }: TaskPlan): void {
    const run = this.#run(key)
    if (run === undefined) return
    if (isLive(run)) this.emit(TaskCancelled.of({ run: key, at: this.#around.now }))
    if (Object.keys(blocks).length === 0) return
    this.#cancelUnder(childPrefix(key))
    this.#cancelUnder(`${key}[`)
  }

  #cancelUnder(prefix: string): void {
    for (const [key, run] of Object.entries(this.state.runs)) {
      if (key !== rootKey && key.startsWith(prefix) && isLive(run)) {
        this.emit(TaskCancelled.of({ run: key, at: this.#around.now }))
      }
    }
  }

  #run(key: string): Run | undefined {
    return this.state.runs[key]
  }
}

type BodyWalk = (blocks: TaskPlan['blocks']) => Outcome
type Opening = NonNullable<Run['opening']>
type ItemsOpening = Extract<Opening, { kind: 'items' }>
type RoundOpening = Extract<Opening, { kind: 'round' }>

const unknownFailure: Failure = { message: 'A task failed', kind: 'refused' }

/** When a failed attempt is followed by another; null when it is not. The chance in it is derived from what failed. */
export function retryTime(
  retry: RetryPlan | null,
  { key, attempt, failure, now }: { key: string; attempt: number; failure: Failure; now: number },
): number | null {
  if (retry === null || attempt >= retry.maxAttempts || failure.kind === 'refused' || failure.kind === 'lost')
    return null
  const grown = retry.backoff === 'constant' ? retry.delayMs : retry.delayMs * retry.factor ** (attempt - 1)
  const delay = Math.min(grown, retry.maxDelayMs)
  return Math.round(now + delay * (1 - retry.jitter * fraction(`${key}/${attempt}/${now}`)))
}

/** 0 to 1, the same for the same text. FNV-1a. */
function fraction(text: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  }
  return (hash >>> 0) / 2 ** 32
}
