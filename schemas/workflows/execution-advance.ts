import { BlockWalk, type Outcome, unknownFailure } from './execution-blocks.ts'
import type { Decision } from './execution-decision.ts'
import {
  EndRequested,
  ExecutionEnded,
  ExecutionPaused,
  ExecutionStarted,
  SlaMissed,
  SlotRequested,
} from './execution-facts.ts'
import { isEnded, outputsKey, rootKey } from './execution-state.ts'
import type { FlowPlan, TaskPlan } from './flow-plan.ts'
import type { Failure } from './task-result.ts'

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

/** What is done first with an execution that has not begun. @param slot whether one of the flow's places has been granted */
export function begin(plan: FlowPlan, decision: Decision, slot: boolean): void {
  const { stage, slotRequested, startedAt, ending } = decision.state
  if (startedAt !== null || ending !== null || (stage !== 'queued' && stage !== 'paused')) return
  const { now } = decision
  const { concurrency, timeoutMs, slaMs } = plan
  if (concurrency !== null && !slot) {
    if (!slotRequested) decision.emit(SlotRequested.of({ at: now }))
    return
  }
  const deadlineAt = timeoutMs === null ? null : now + timeoutMs
  decision.emit(ExecutionStarted.of({ at: now, deadlineAt, ...(slaMs !== undefined && { slaAt: now + slaMs }) }))
  // One that was paused while it waited has its turn all the same, and starts nothing.
  if (stage === 'paused') decision.emit(ExecutionPaused.of({ by: 'busbar', at: now }))
}

/**
 * What follows from a state: times that have come, what is due in its blocks, the end. The facts are added to the decision as they
 * arise, until nothing more follows. Every timer is only a nudge to ask again, so one that fires late or twice does no harm.
 */
export function advance(plan: FlowPlan, decision: Decision): void {
  const { stage, startedAt, deadlineAt, ending, slaAt, slaMissed } = decision.state
  const { now } = decision
  if (stage === 'absent' || isEnded(stage)) return
  if (startedAt === null) {
    if (ending !== null) decision.emit(ExecutionEnded.of({ status: ending, at: now }))
    return
  }
  if (slaAt !== undefined && !slaMissed && now >= slaAt) decision.emit(SlaMissed.of({ at: now }))
  if (deadlineAt !== null && ending === null && now >= deadlineAt) {
    decision.emit(EndRequested.of({ status: 'timed-out', by: 'busbar', at: now }))
  }
  goOn(plan, decision)
}

function goOn(plan: FlowPlan, decision: Decision): void {
  const walk = new BlockWalk(decision)
  if (decision.state.ending !== null && decision.run(rootKey)!.phase !== 'finally') {
    decision.cancelUnder('')
    if (!decision.enter(rootKey, plan.finally, 'finally', null)) {
      conclude(plan, decision, 'failed', walk.failureOf(rootKey))
      return
    }
  }
  const outcome = walk.flow(plan)
  if (outcome !== 'live') conclude(plan, decision, outcome, walk.failureOf(rootKey))
}

function conclude(
  plan: FlowPlan,
  decision: Decision,
  outcome: Exclude<Outcome, 'live'>,
  failure: Failure | null,
): void {
  const { now } = decision
  const { ending } = decision.state
  if (ending !== null) {
    const why = failure ?? lateness(plan, ending)
    decision.emit(ExecutionEnded.of({ status: ending, at: now, ...(why && { failure: why }) }))
    return
  }
  if (outcome === 'failed') {
    fail(decision, failure)
    return
  }
  if (Object.keys(plan.outputs).length === 0) {
    decision.emit(ExecutionEnded.of({ status: 'success', at: now }))
    return
  }
  const rendered = decision.run(outputsKey)
  if (rendered === undefined) decision.schedule(outputsKey, outputsTask, 1)
  else if (rendered.status === 'success') {
    decision.emit(ExecutionEnded.of({ status: 'success', at: now, outputs: rendered.outputs! }))
  } else if (rendered.status === 'failed') fail(decision, rendered.failure)
}

function lateness({ timeoutMs }: FlowPlan, ending: 'cancelled' | 'timed-out'): Failure | null {
  return ending === 'cancelled'
    ? null
    : { message: `The execution was not through after ${timeoutMs} ms`, kind: 'timeout' }
}

function fail(decision: Decision, failure: Failure | null): void {
  decision.emit(ExecutionEnded.of({ status: 'failed', at: decision.now, failure: failure ?? unknownFailure }))
}
