import type { Aggregate } from '../../bus/message.ts'
import { doneUnder } from './execution-carried.ts'
import { type Carried, type ExecutionFact, executionEvents } from './execution-facts.ts'
import {
  childPrefix,
  type ExecutionState,
  initialExecution,
  isLive,
  type Loop,
  newRun,
  type Run,
  rootKey,
} from './execution-state.ts'
import type { Opening, Value } from './task-result.ts'

/** An execution. Subject `evt.executions.execution.<id>`. */
export const execution: Aggregate<ExecutionState, ExecutionFact> = {
  events: executionEvents,
  initial: initialExecution,
  evolve: (state, fact) => evolveAll(state, [fact]),
  evolveAll,
}

/** As `evolve` for one after the other; what is copied is copied once. */
export function evolveAll(state: ExecutionState, facts: readonly ExecutionFact[]): ExecutionState {
  if (facts.length === 0) return state
  const draft = new Draft(state)
  for (const fact of facts) draft.apply(fact)
  return draft.state
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }
type MutableLoop = Omit<Mutable<Loop>, 'live' | 'results'> & {
  live: number[]
  results: (Readonly<Record<string, Value>> | null)[]
}

/** A state that facts are added to. The state it began with stays as it was. */
export class Draft {
  readonly state: Mutable<ExecutionState>
  readonly #runs: Record<string, Run>
  /** Runs, and their loops, that are copies already. */
  readonly #ownRuns = new Set<string>()
  readonly #ownLoops = new Set<string>()

  constructor(state: ExecutionState) {
    this.#runs = { ...state.runs }
    this.state = { ...state, runs: this.#runs, executed: { ...state.executed } }
  }

  apply(fact: ExecutionFact): void {
    const { state } = this
    switch (fact.type) {
      case 'executions.execution.created':
        this.#create(fact.data)
        return
      case 'executions.execution.slot-requested':
        state.slotRequested = true
        return
      case 'executions.execution.started':
        state.stage = 'running'
        state.startedAt = fact.data.at
        state.deadlineAt = fact.data.deadlineAt
        if (fact.data.slaAt !== undefined) state.slaAt = fact.data.slaAt
        this.#runs[rootKey] = opened(newRun({ task: '', type: '', at: fact.data.at, lease: null }), {
          at: fact.data.at,
          deadlineAt: null,
          opening: { kind: 'block', block: 'tasks', concurrency: 1, onFailure: 'cancel' },
        })
        return
      case 'executions.execution.sla-missed':
        state.slaMissed = true
        return
      case 'executions.execution.paused':
        state.stage = 'paused'
        return
      case 'executions.execution.resumed':
        state.stage = state.startedAt === null ? 'queued' : 'running'
        return
      case 'executions.execution.end-requested':
        state.ending = fact.data.status
        if (state.stage === 'paused') state.stage = state.startedAt === null ? 'queued' : 'running'
        return
      case 'executions.execution.ended':
        this.#end(fact.data)
        return
      case 'executions.task.scheduled':
        this.#schedule(fact.data)
        return
      case 'executions.task.claimed':
        this.#change(fact.data.run, { claimedBy: fact.data.worker })
        return
      case 'executions.task.opened':
        this.#open(fact.data)
        return
      case 'executions.task.entered':
        this.#change(fact.data.run, { phase: fact.data.phase, failure: fact.data.failure ?? null })
        return
      case 'executions.task.iteration-started':
        this.#startIteration(fact.data.run, fact.data.index)
        return
      case 'executions.task.iteration-ended':
        this.#endIteration(fact.data)
        return
      case 'executions.task.succeeded': {
        const { run, outputs, at, task } = fact.data
        this.#change(run, { status: 'success', outputs, at, failure: null, deadlineAt: null })
        this.#executed(task)
        return
      }
      case 'executions.task.failed': {
        const { run, failure, at, retryAt, task } = fact.data
        const status = retryAt === null ? 'failed' : 'retrying'
        this.#change(run, { status, failure, at: retryAt ?? at, deadlineAt: null, claimedBy: null })
        if (retryAt === null) this.#executed(task)
        return
      }
      case 'executions.task.skipped': {
        const { run, task, type, at } = fact.data
        const known = this.#runs[run] ?? newRun({ task, type, at, lease: null })
        this.#put(run, { ...known, status: 'skipped', at })
        return
      }
      case 'executions.task.cancelled':
        this.#change(fact.data.run, { status: 'cancelled', at: fact.data.at, deadlineAt: null })
        return
      case 'executions.task.question-answered': {
        const { run, answer, by, comment } = fact.data
        this.#change(run, { answer: { answer, by, comment } })
        return
      }
      case 'executions.task.late-result':
        return
      default:
        fact satisfies never
    }
  }

  #create(created: NonNullable<ExecutionState['created']>): void {
    this.state.stage = 'queued'
    this.state.created = created
    for (const [key, carried] of Object.entries(created.carried ?? {})) this.#carry(key, carried, created.at)
  }

  #carry(key: string, carried: Carried, at: number): void {
    for (const results of carried.iterations ?? []) for (const each of Object.keys(results ?? {})) this.#executed(each)
    if (carried.status === 'begun') {
      this.state.begun = { ...this.state.begun, [key]: carried }
      return
    }
    const { status, outputs, iterations } = carried
    const task = key.slice(key.lastIndexOf('.') + 1)
    const loop = iterations && { next: iterations.length, live: [], failed: 0, results: iterations }
    const run = newRun({ task, type: '', at, lease: null })
    this.#put(key, { ...run, status, outputs: outputs ?? null, loop: loop ?? null })
    if (status === 'success') this.#executed(task)
  }

  #end({ status, at, outputs, failure }: Extract<ExecutionFact, { type: 'executions.execution.ended' }>['data']): void {
    this.state.stage = status
    this.state.endedAt = at
    this.state.outputs = outputs ?? null
    this.state.failure = failure ?? null
    this.state.deadlineAt = null
    for (const [key, run] of Object.entries(this.#runs)) {
      if (key !== rootKey && isLive(run)) this.#change(key, { status: 'cancelled', at, deadlineAt: null })
    }
  }

  #schedule(data: Extract<ExecutionFact, { type: 'executions.task.scheduled' }>['data']): void {
    const { run: key, attempt, task, type, at, lease, round } = data
    const known = this.#runs[key]
    if (known === undefined) {
      const { generation } = this.state
      this.#put(key, { ...newRun({ task, type, at, lease }), ...(generation && { generation }) })
      return
    }
    if (round === undefined && known.opening !== null) {
      // Another attempt of a control task begins with nothing under it.
      this.#forget(childPrefix(key))
      this.#forget(`${key}[`)
      this.state.generation = (this.state.generation ?? 0) + 1
    }
    const again = round === undefined ? { loop: null, opening: null, phase: 'body' as const, answer: null } : {}
    this.#put(key, {
      ...known,
      ...again,
      status: 'scheduled',
      attempt,
      round: round ?? 0,
      at,
      lease,
      claimedBy: null,
      failure: null,
    })
    if (round === undefined) this.#ownLoops.delete(key)
  }

  #open({ run: key, opening, at, deadlineAt }: Extract<ExecutionFact, { type: 'executions.task.opened' }>['data']) {
    const run = this.#runs[key]
    if (run === undefined) return
    const begun = this.state.begun?.[key]
    if (begun === undefined || begun.opening.kind !== opening.kind) {
      this.#put(key, opened(run, { opening, at, deadlineAt: run.deadlineAt ?? deadlineAt }))
      return
    }
    // It goes on with the items that it has begun, whatever they are by now.
    const { [key]: _, ...others } = this.state.begun!
    this.state.begun = others
    const { next, iterations: results, due } = begun
    this.#put(key, {
      ...opened(run, { opening: begun.opening, at, deadlineAt: run.deadlineAt ?? deadlineAt }),
      loop: { next, live: [], failed: 0, results, due },
    })
  }

  #startIteration(key: string, index: number): void {
    const loop = this.#loop(key)
    loop.live.push(index)
    loop.next = Math.max(loop.next, index + 1)
    const done = loop.due?.[index]
    if (done === undefined) return
    const { [index]: _, ...due } = loop.due!
    loop.due = due
    const { at } = this.#runs[key]!
    for (const [inner, carried] of Object.entries(done)) this.#carry(childPrefix(key, index) + inner, carried, at)
  }

  #endIteration(data: Extract<ExecutionFact, { type: 'executions.task.iteration-ended' }>['data']): void {
    const { run: key, index, failed, outputs, failure } = data
    const loop = this.#loop(key)
    loop.live = loop.live.filter((each) => each !== index)
    loop.results[index] = outputs
    if (failed) {
      loop.failed++
      loop.broken = { ...loop.broken, [index]: doneUnder(this.#runs, childPrefix(key, index)) }
    }
    // The first failure is the one that is told.
    if (failed && failure !== undefined && this.#runs[key]!.failure === null) this.#change(key, { failure })
    this.#forget(childPrefix(key, index))
  }

  #executed(task: string): void {
    if (task !== '' && !task.startsWith('$')) (this.state.executed as Record<string, true>)[task] = true
  }

  #put(key: string, run: Run): void {
    this.#runs[key] = run
    this.#ownRuns.add(key)
  }

  #change(key: string, change: Partial<Run>): void {
    const run = this.#runs[key]
    if (run === undefined) return
    if (!this.#ownRuns.has(key)) this.#put(key, { ...run })
    Object.assign(this.#runs[key]!, change)
  }

  #loop(key: string): MutableLoop {
    const run = this.#runs[key]!
    if (!this.#ownLoops.has(key)) {
      const loop = run.loop ?? { next: 0, live: [], failed: 0, results: [] }
      this.#change(key, { loop: { ...loop, live: [...loop.live], results: [...loop.results] } })
      this.#ownLoops.add(key)
    }
    return this.#runs[key]!.loop as MutableLoop
  }

  #forget(prefix: string): void {
    for (const key of Object.keys(this.#runs)) {
      if (key !== rootKey && key.startsWith(prefix)) delete this.#runs[key]
    }
  }
}

function opened(run: Run, { opening, at, deadlineAt }: Pick<Run, 'at' | 'deadlineAt'> & { opening: Opening }): Run {
  const waits = opening.kind === 'pause' || (opening.kind === 'child' && opening.wait)
  const loops = opening.kind === 'items' || opening.kind === 'round'
  return {
    ...run,
    status: waits ? 'waiting' : 'open',
    opening,
    at,
    deadlineAt,
    loop: loops ? (run.loop ?? { next: 0, live: [], failed: 0, results: [] }) : null,
  }
}
