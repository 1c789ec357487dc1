import type { Decision } from './execution-decision.ts'
import { IterationEnded, IterationStarted } from './execution-facts.ts'
import { childPrefix, isLive, type Run, rootKey } from './execution-state.ts'
import type { FlowPlan, OnFailure, TaskPlan } from './flow-plan.ts'
import type { Failure, Opening, Value } from './task-result.ts'

/** What has become of a block. */
export type Outcome = 'live' | 'success' | 'failed'

type BodyWalk = (blocks: TaskPlan['blocks']) => Outcome
type ItemsOpening = Extract<Opening, { kind: 'items' }>
type RoundOpening = Extract<Opening, { kind: 'round' }>

export const unknownFailure: Failure = { message: 'A task failed', kind: 'refused' }

/**
 * What follows within the blocks of an execution, from the outside in: tasks that can start, loops that have room, blocks that are
 * through, and what their failure or their end comes to for the control task around them.
 */
export class BlockWalk {
  readonly #decision: Decision
  /** Why a run that is still open in the state has failed; its end tells it. */
  readonly #failures = new Map<string, Failure>()

  constructor(decision: Decision) {
    this.#decision = decision
  }

  /** The blocks of the flow itself, in its run. */
  flow({ tasks, errors, finally: last }: FlowPlan): Outcome {
    return this.#phases(rootKey, { tasks, errors, finally: last }, 'tasks', (blocks) =>
      this.#block('', blocks.tasks ?? [], Number.POSITIVE_INFINITY, 'cancel'),
    )
  }

  /** Null when nothing in it has. */
  failureOf(key: string): Failure | null {
    return this.#failures.get(key) ?? this.#run(key)?.failure ?? null
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
      if (this.#decision.enter(key, errors, 'errors', failure)) return this.#phases(key, blocks, name, walk)
      if (this.#decision.enter(key, blocks.finally ?? [], 'finally', failure))
        return this.#phases(key, blocks, name, walk)
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
      if (this.#decision.enter(key, blocks.finally ?? [], 'finally', left)) return this.#phases(key, blocks, name, walk)
      if (left !== null) this.#failures.set(key, left)
      return left === null ? 'success' : 'failed'
    }
    const left = failure ?? run.failure
    if (left !== null) this.#failures.set(key, left)
    return left === null ? 'success' : 'failed'
  }

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
    if (stops && onFailure === 'cancel') for (const task of tasks) this.#decision.cancel(prefix + task.name, task)
    let live = this.#liveOf(prefix, tasks)
    for (let again = true; again; ) {
      again = false
      for (const task of tasks) {
        const key = prefix + task.name
        if (this.#run(key) !== undefined || stops) continue
        const needs = this.#needs(prefix, tasks, task)
        if (needs === 'waits') continue
        if (needs === 'unmet') {
          this.#decision.skip(key, task, 'A task that it depends on has failed')
          again = true
        } else if (this.#decision.state.stage === 'running' && live < concurrency && this.#decision.hasRoom) {
          this.#decision.schedule(key, task, 1)
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
    if (run.status === 'retrying' && run.at <= this.#decision.now && this.#decision.state.stage === 'running') {
      this.#decision.schedule(key, task, run.attempt + 1)
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
    const { now } = this.#decision
    if (run.answer !== null) {
      const { answer, by, comment } = run.answer
      if (answer === 'rejected') {
        this.#decision.fail(key, task, { message: `Rejected by ${by}${comment && `: ${comment}`}`, kind: 'refused' })
      } else this.#decision.succeed(key, task, { json: { decision: answer, by, comment } })
    } else if (until !== null && until <= now) {
      if (question === null) this.#decision.succeed(key, task, { json: { until: new Date(until).toISOString() } })
      else if (question.onTimeout === 'approve') {
        this.#decision.succeed(key, task, {
          json: { decision: 'approved', by: null, comment: 'Nobody decided in time' },
        })
      } else {
        const kind = question.onTimeout === 'fail' ? 'timeout' : 'refused'
        this.#decision.fail(key, task, { message: 'Nobody decided in time', kind })
      }
    } else this.#overdue(key, task, run)
  }

  #overdue(key: string, task: TaskPlan, run: Run): boolean {
    if (run.deadlineAt === null || run.deadlineAt > this.#decision.now) return false
    this.#decision.cancelUnder(childPrefix(key))
    this.#decision.cancelUnder(`${key}[`)
    this.#decision.fail(key, task, { message: `Not through after ${task.timeoutMs} ms`, kind: 'timeout' })
    return true
  }

  #open(key: string, task: TaskPlan, run: Run): void {
    const { opening } = run
    if (opening === null || opening.kind === 'pause' || this.#overdue(key, task, run)) return
    if (opening.kind === 'child') {
      this.#decision.succeed(key, task, { json: { executionId: opening.executionId } })
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
    if (outcome === 'success')
      this.#decision.succeed(key, task, this.#gave(key, opening.kind === 'block' ? block : null))
    if (outcome === 'failed') this.#decision.fail(key, task, this.failureOf(key) ?? unknownFailure)
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
      const room = live.length < opening.concurrency && this.#decision.state.stage === 'running'
      const left = again !== undefined || next < opening.count
      if (stops || !left || !room) {
        if (live.length > 0 || (!stops && left)) return 'live'
        return failed > 0 ? 'failed' : 'success'
      }
      const index = again === undefined ? next : Number(again)
      this.#decision.emit(IterationStarted.of({ run: key, index, at: this.#decision.now }))
      this.#iteration(key, tasks, index)
    }
  }

  #cancelIteration(key: string, index: number): void {
    this.#decision.cancelUnder(childPrefix(key, index))
    this.#decision.emit(IterationEnded.of({ run: key, index, failed: true, outputs: {}, at: this.#decision.now }))
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
    const at = this.#decision.now
    this.#decision.emit(IterationEnded.of({ run: key, index, failed, outputs, at, ...(failure && { failure }) }))
    return outcome
  }

  #round(key: string, task: TaskPlan, run: Run, { round, goOn }: RoundOpening): void {
    const tasks = task.blocks.tasks ?? []
    const walk: BodyWalk = () => {
      const { next, failed } = this.#run(key)!.loop!
      if (failed > 0) return 'failed'
      if (!goOn) return 'success'
      if (next <= round) {
        if (this.#decision.state.stage !== 'running') return 'live'
        this.#decision.emit(IterationStarted.of({ run: key, index: round, at: this.#decision.now }))
      }
      if (this.#run(key)!.loop!.live.length > 0 && this.#iteration(key, tasks, round) === 'live') return 'live'
      if (this.#run(key)!.loop!.failed > 0) return 'failed'
      if (this.#decision.state.stage !== 'running') return 'live'
      this.#decision.schedule(key, task, run.attempt, round + 1)
      return 'live'
    }
    const outcome = this.#phases(key, task.blocks, 'tasks', walk)
    if (outcome === 'success') this.#decision.succeed(key, task, this.#gave(key, null))
    if (outcome === 'failed') this.#decision.fail(key, task, this.failureOf(key) ?? unknownFailure)
  }

  #run(key: string): Run | undefined {
    return this.#decision.run(key)
  }
}
