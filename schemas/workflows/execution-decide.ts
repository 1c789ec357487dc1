import { MessageMalformed } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import { advance, begin, outputsTask } from './execution-advance.ts'
import { Decision, type Surroundings } from './execution-decision.ts'
import {
  EndRequested,
  ExecutionEnded,
  type ExecutionFact,
  ExecutionPaused,
  ExecutionResumed,
  LateResult,
  QuestionAnswered,
  TaskClaimed,
  TaskFailed,
  TaskOpened,
  TaskSkipped,
  TaskSucceeded,
} from './execution-facts.ts'
import { type ExecutionState, isEnded, isLive, type Run } from './execution-state.ts'
import { type FlowPlan, type TaskPlan, tasksOf } from './flow-plan.ts'
import { retryTime } from './retry-time.ts'
import type { Failure, TaskResult, Value } from './task-result.ts'
import { awaits, isTurn, type Turn, turnOf } from './turn.ts'

/** What reaches an execution from the engine itself; none of them can be refused. */
export type ExecutionCommand =
  /** Begin, or look whether a time has come or something was lost. */
  | {
      readonly type: 'nudge'
      /** Nothing was heard of it for a time: what may have been lost is done again. */
      readonly sweep?: true
    }
  /** One of the flow's places was given to it, or refused. */
  | { readonly type: 'slot'; readonly granted: boolean }
  | {
      readonly type: 'result'
      readonly run: string
      readonly attempt: number
      /** Of the run when it was scheduled. */
      readonly round: number
      /** Absent: 0. */
      readonly generation?: number
      readonly startedAt: number
      readonly worker: string
      readonly result: TaskResult
    }
  /** An execution it has started has ended. */
  | {
      readonly type: 'child'
      readonly run: string
      readonly executionId: string
      readonly status: 'success' | 'failed' | 'cancelled' | 'timed-out'
      readonly outputs: Value
      readonly failure: Failure | null
    }

const commandTypes: Readonly<Record<ExecutionCommand['type'], true>> = {
  nudge: true,
  slot: true,
  result: true,
  child: true,
}

/** @throws {MessageMalformed} for what is no command; {TypeError} for one that only a newer program may know. */
export function knownCommand(body: unknown): ExecutionCommand {
  const { type } = (body ?? {}) as { readonly type?: unknown }
  if (typeof type !== 'string') throw new MessageMalformed('The command has no type')
  if (!Object.hasOwn(commandTypes, type)) throw new TypeError(`${type} is no command known here`)
  return body as ExecutionCommand
}

/** What commands that meet on one execution come to, with all that follows from them. */
export function decideCommands(
  plan: FlowPlan,
  state: ExecutionState,
  commands: readonly ExecutionCommand[],
  around: Surroundings,
): { readonly facts: readonly ExecutionFact[]; readonly state: ExecutionState } {
  const decision = new Decision(state, around)
  for (const command of commands) {
    if (command.type === 'result') acceptResult(plan, decision, command)
    else if (command.type === 'child') acceptChild(plan, decision, command)
    else acceptSlot(plan, decision, command)
  }
  advance(plan, decision)
  return { facts: decision.facts, state: decision.state }
}

type Slot = Extract<ExecutionCommand, { type: 'slot' | 'nudge' }>

function acceptSlot(plan: FlowPlan, decision: Decision, command: Slot): void {
  if (command.type === 'nudge' || command.granted) {
    begin(plan, decision, command.type === 'slot')
    return
  }
  if (isEnded(decision.state.stage) || decision.state.startedAt !== null) return
  const cancels = plan.concurrency?.behavior === 'cancel'
  const failure: Failure = { message: `The flow runs ${plan.concurrency?.limit} times already`, kind: 'refused' }
  decision.emit(ExecutionEnded.of({ status: cancels ? 'cancelled' : 'failed', at: decision.now, failure }))
}

type Result = Extract<ExecutionCommand, { type: 'result' }>

function acceptResult(plan: FlowPlan, decision: Decision, command: Result): void {
  const { run: key, attempt, startedAt, worker, result } = command
  const { now } = decision
  const run = decision.state.runs[key]
  const turn = turnOf(command)
  if (isEnded(decision.state.stage) || !awaits(run, turn)) {
    // The very same result once more is no news.
    const known = run !== undefined && isTurn(run, { ...turn, round: run.round }) && run.status !== 'cancelled'
    if (!known && run !== undefined) decision.emit(LateResult.of({ run: key, attempt, outcome: result.kind, at: now }))
    return
  }
  const task = findTask(plan, run)
  const detail = { run: key, attempt, task: run.task, startedAt, at: now, worker }
  if (result.kind === 'success') decision.emit(TaskSucceeded.of({ ...detail, outputs: result.outputs }))
  else if (result.kind === 'skip') {
    decision.emit(TaskSkipped.of({ run: key, task: run.task, type: run.type, reason: result.reason, at: now }))
  } else if (result.kind === 'opening') {
    const deadlineAt = task.timeoutMs === null ? null : now + task.timeoutMs
    decision.emit(TaskOpened.of({ run: key, attempt, opening: result.opening, startedAt, at: now, deadlineAt }))
  } else {
    const { failure } = result
    decision.emit(TaskFailed.of({ ...detail, failure, retryAt: retryTime(task.retry, { key, attempt, failure, now }) }))
  }
}

type Child = Extract<ExecutionCommand, { type: 'child' }>

function acceptChild(plan: FlowPlan, decision: Decision, command: Child): void {
  const run = decision.state.runs[command.run]
  const { opening } = run ?? {}
  if (run?.status !== 'waiting' || opening?.kind !== 'child' || opening.executionId !== command.executionId) return
  const { attempt, firstAt: startedAt, task } = run
  const { now } = decision
  const detail = { run: command.run, attempt, task, startedAt, at: now }
  if (command.status === 'success') {
    decision.emit(TaskSucceeded.of({ ...detail, outputs: command.outputs }))
    return
  }
  const why = command.failure === null ? '' : `: ${command.failure.message}`
  const failure: Failure = {
    message: `The execution ${command.executionId} ended ${command.status}${why}`,
    kind: 'refused',
  }
  const retryAt = retryTime(findTask(plan, run).retry, { key: command.run, attempt, failure, now })
  decision.emit(TaskFailed.of({ ...detail, failure, retryAt }))
}

const tasksByName = new WeakMap<FlowPlan, ReadonlyMap<string, TaskPlan>>()

/** The plan of a run. @throws {Error} when the flow has no such task, which a pinned flow cannot bring about. */
export function findTask(plan: FlowPlan, { task: name }: Pick<Run, 'task'>): TaskPlan {
  if (name === outputsTask.name) return outputsTask
  let byName = tasksByName.get(plan)
  if (byName === undefined) {
    byName = new Map([...tasksOf(plan.tasks, plan.errors, plan.finally)].map((task) => [task.name, task]))
    tasksByName.set(plan, byName)
  }
  const task = byName.get(name)
  if (task === undefined) throw new Error(`The flow has no task ${name}`)
  return task
}

/** A task that must not run twice is claimed before it runs: empty when this attempt is claimed by somebody. */
export function decideClaim(
  state: ExecutionState,
  { run: key, turn, worker, now }: { run: string; turn: Turn; worker: string; now: number },
): readonly ExecutionFact[] {
  const run = state.runs[key]
  if (isEnded(state.stage) || !awaits(run, turn) || run.claimedBy !== null) return []
  return [TaskClaimed.of({ run: key, attempt: turn.attempt, worker, at: now })]
}

/**
 * Cancels what has not ended. With `kill`, or without a `finally` in the flow, it has ended with this.
 * @throws {Rejected} `workflows/execution-not-found`; `workflows/execution-ended`.
 */
export function decideCancel(
  state: ExecutionState,
  { by, now, kill }: { readonly by: string; readonly now: number; readonly kill: boolean },
): readonly ExecutionFact[] {
  requireUnended(state, 'cancelled')
  const ends = kill || state.created?.hasFinally !== true || state.startedAt === null
  if (ends) return [ExecutionEnded.of({ status: 'cancelled', at: now, by })]
  return state.ending === null ? [EndRequested.of({ status: 'cancelled', by, at: now })] : []
}

/** @throws {Rejected} `workflows/execution-not-found`; `workflows/execution-ended`; `workflows/execution-state`. */
export function decidePause(state: ExecutionState, by: string, now: number): readonly ExecutionFact[] {
  requireUnended(state, 'paused')
  if (state.stage === 'paused') return []
  if (state.ending !== null) throw new Rejected('workflows/execution-state', 'The execution is being cancelled')
  return [ExecutionPaused.of({ by, at: now })]
}

/** @throws {Rejected} `workflows/execution-not-found`; `workflows/execution-ended`; `workflows/execution-state`. */
export function decideResume(state: ExecutionState, by: string, now: number): readonly ExecutionFact[] {
  requireUnended(state, 'resumed')
  if (state.stage !== 'paused') throw new Rejected('workflows/execution-state', 'The execution is not paused')
  return [ExecutionResumed.of({ by, at: now })]
}

export interface Answer {
  readonly run: string
  readonly answer: 'approved' | 'rejected'
  readonly by: string
  readonly comment: string
}

/** @throws {Rejected} `workflows/approval-not-found`; `workflows/approval-decided` when it was answered, or is not waited for any more. */
export function decideAnswer(state: ExecutionState, answer: Answer, now: number): readonly ExecutionFact[] {
  const run = state.runs[answer.run]
  if (run === undefined || run.opening?.kind !== 'pause' || run.opening.question === null) {
    throw new Rejected('workflows/approval-not-found', 'There is no such approval')
  }
  const { until } = run.opening
  const late = until !== null && until <= now
  if (run.answer !== null || late || !isLive(run) || isEnded(state.stage)) {
    throw new Rejected('workflows/approval-decided', `The approval is ${run.answer?.answer ?? 'expired'} already`)
  }
  return [QuestionAnswered.of({ ...answer, at: now })]
}

function requireUnended(state: ExecutionState, verb: string): void {
  if (state.stage === 'absent') throw new Rejected('workflows/execution-not-found', 'There is no such execution')
  if (isEnded(state.stage)) {
    throw new Rejected('workflows/execution-ended', `The execution has ended and cannot be ${verb}`, {
      details: { status: state.stage.toUpperCase().replace('-', '_') },
    })
  }
}
