import type { Static } from 'typebox'
import type { Aggregate } from '../../bus/message.ts'
import {
  type BegunLoop,
  type Carried,
  type Due,
  type ExecutionCreated,
  type ExecutionFact,
  executionEvents,
} from './execution-facts.ts'
import type { Failure, Opening, Value } from './task-result.ts'

type Created = Static<(typeof ExecutionCreated)['schema']>

export type Ending = 'success' | 'failed' | 'cancelled' | 'timed-out'
export type Stage = 'absent' | 'queued' | 'running' | 'paused' | Ending

/** What an execution has come to. Iterations that are through are folded into their loop, so its size follows what is live. */
export interface ExecutionState {
  readonly stage: Stage
  /** Null only while absent. */
  readonly created: Created | null
  readonly startedAt: number | null
  readonly endedAt: number | null
  /** When it times out. */
  readonly deadlineAt: number | null
  /** When it will have taken longer than it should; absent: it has not such a time. */
  readonly slaAt?: number
  readonly slaMissed?: true
  /** Whether one of the flow's places has been asked for. */
  readonly slotRequested: boolean
  /** How it will end once its `finally` is through. */
  readonly ending: 'cancelled' | 'timed-out' | null
  readonly failure: Failure | null
  readonly outputs: Value | null
  /** By key; the whole flow is the run with the empty key. */
  readonly runs: Readonly<Record<string, Run>>
  /** Names of tasks that have run to an end: their number is `tasksExecuted`. */
  readonly executed: Readonly<Record<string, true>>
  /** Loops that the execution this one repeats has begun, by key, until they are opened here. Absent: none. */
  readonly begun?: Readonly<Record<string, BegunLoop>>
  /** How often a control task began again, with nothing under it: the generation of runs that begin now. Absent: 0. */
  readonly generation?: number
}

/** One task of an execution; in a loop, of one iteration. */
export interface Run {
  readonly task: string
  readonly type: string
  /**
   * `scheduled`: on a queue or in a worker's hands. `retrying`: waits for `at`. `open`: a control task with something under it.
   * `waiting`: for a time, a person or another execution.
   */
  readonly status: 'scheduled' | 'retrying' | 'open' | 'waiting' | 'success' | 'failed' | 'skipped' | 'cancelled'
  readonly attempt: number
  /** How often the condition of a loop has been asked in this attempt. */
  readonly round: number
  /** Keeps it apart from runs of the same key in an earlier attempt of a control task around it. Absent: 0. */
  readonly generation?: number
  /** When the status began; of `retrying`, when it ends. */
  readonly at: number
  readonly firstAt: number
  /** The message whose handler runs it; null: it is on the queue of tasks. */
  readonly lease: string | null
  /** The worker that runs it and must not be followed by another. */
  readonly claimedBy: string | null
  readonly outputs: Value | null
  readonly failure: Failure | null
  readonly opening: Opening | null
  /** When the open or waiting run times out. */
  readonly deadlineAt: number | null
  readonly phase: 'body' | 'errors' | 'finally'
  readonly loop: Loop | null
  readonly answer: { readonly answer: 'approved' | 'rejected'; readonly by: string; readonly comment: string } | null
}

export interface Loop {
  /** The next item, or round, to be started. */
  readonly next: number
  readonly live: readonly number[]
  readonly failed: number
  /** By index: what the tasks of an iteration have given, by task. */
  readonly results: readonly (Readonly<Record<string, Value>> | null)[]
  /** Iterations before `next` that are to be started again, with what is done in them. Absent: none. */
  readonly due?: Due
  /** Those that have failed, with what was done in them, for whoever repeats the execution. Absent: none. */
  readonly broken?: Due
}

export const rootKey = ''
/** The run that renders the outputs of the flow. */
export const outputsKey = '$outputs'

export const initialExecution: ExecutionState = {
  stage: 'absent',
  created: null,
  startedAt: null,
  endedAt: null,
  deadlineAt: null,
  slotRequested: false,
  ending: null,
  failure: null,
  outputs: null,
  runs: {},
  executed: {},
}

export function isEnded(stage: Stage): stage is Ending {
  return stage === 'success' || stage === 'failed' || stage === 'cancelled' || stage === 'timed-out'
}

export function isLive(run: Run): boolean {
  return run.status === 'scheduled' || run.status === 'retrying' || run.status === 'open' || run.status === 'waiting'
}

/** What stands before the names of the tasks of a block: of the whole flow nothing. */
export function childPrefix(key: string, iteration?: number): string {
  if (iteration !== undefined) return `${key}[${iteration}].`
  return key === rootKey ? '' : `${key}.`
}

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

  #create(created: Created): void {
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

/**
 * What is done below a prefix, by key behind it, for an execution that goes on from there: runs that have succeeded, and loops that are
 * not through. What was skipped is asked again.
 */
export function doneUnder(runs: Readonly<Record<string, Run>>, prefix: string): Readonly<Record<string, Carried>> {
  const done: Record<string, Carried> = {}
  for (const [key, run] of Object.entries(runs)) {
    if (!key.startsWith(prefix) || key.includes('[', prefix.length)) continue
    const carried = run.status === 'success' ? throughRun(run, 'success') : begunLoop(runs, key)
    if (carried !== null) done[key.slice(prefix.length)] = carried
  }
  return done
}

/** A run that need not be run again. */
export function throughRun({ outputs, loop }: Run, status: 'success' | 'skipped'): Carried {
  // What failed in a loop was allowed to; a hole is what nobody has come to.
  const iterations = loop && Array.from(loop.results, (each) => each ?? null)
  return { status, ...(outputs && { outputs }), ...(iterations && { iterations }) }
}

/** How far a loop has come that is not through; null for what is none, or has not begun. */
export function begunLoop(runs: Readonly<Record<string, Run>>, key: string): BegunLoop | null {
  const { opening, loop, status } = runs[key] ?? {}
  if (!loop || status === 'success' || (opening?.kind !== 'items' && opening?.kind !== 'round')) return null
  // Folded when it was not kept which have failed.
  if (loop.failed > Object.keys(loop.broken ?? {}).length) return null
  const due: Record<string, Readonly<Record<string, Carried>>> = { ...loop.due, ...loop.broken }
  for (const index of loop.live) due[index] = doneUnder(runs, childPrefix(key, index))
  const iterations = Array.from(loop.results, (each, index) => (due[index] === undefined ? (each ?? null) : null))
  if (opening.kind === 'items') return { status: 'begun', opening, next: loop.next, iterations, due }
  // Of rounds there is one at a time; behind one that is through its condition is asked again.
  const next = due[opening.round] === undefined ? loop.next : opening.round
  return { status: 'begun', opening: { ...opening, goOn: true }, next, iterations, due }
}

function newRun(known: Pick<Run, 'task' | 'type' | 'at' | 'lease'>): Run {
  return {
    ...known,
    status: 'scheduled',
    attempt: 1,
    round: 0,
    firstAt: known.at,
    claimedBy: null,
    outputs: null,
    failure: null,
    opening: null,
    deadlineAt: null,
    phase: 'body',
    loop: null,
    answer: null,
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
