import type { Static } from 'typebox'
import type { BegunLoop, Due, ExecutionCreated } from './execution-facts.ts'
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

/** As it begins: in its first attempt, with nothing found out. */
export function newRun(known: Pick<Run, 'task' | 'type' | 'at' | 'lease'>): Run {
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
