import { type ExecutionCommand, findTask } from '../../schemas/workflows/execution-decide.ts'
import type { ExecutionFact } from '../../schemas/workflows/execution-facts.ts'
import { type ExecutionState, isEnded } from '../../schemas/workflows/execution-state.ts'
import type { FlowPlan, TaskPlan } from '../../schemas/workflows/flow-plan.ts'
import type { Stored } from './executions.ts'
import { followUpsOf } from './follow-ups.ts'

/** A message in the hands of an actor. */
export interface Waiting {
  readonly command: ExecutionCommand
  /** Id of the message that brought it, or whose task it is the result of. */
  readonly lease: string
  /** Nobody knows what became of an earlier delivery. */
  readonly again: boolean
  /** Whether tasks may hang on its message; those that cannot hang on any go to the queue. */
  readonly bears: boolean
  /** What time it is at least: the bus's clock may be ahead of ours. */
  readonly at: number
  /** Null for the result of a task that runs here. */
  readonly handled: PromiseWithResolvers<void> | null
}

/** What an actor has decided and not stored. */
export interface Unsaved {
  readonly facts: ExecutionFact[]
  readonly taken: Waiting[]
  state: ExecutionState
  /** What it was decided on. */
  readonly stored: Stored
  readonly since: number
}

/** Pure steps are recorded together up to this many facts, or after this time. */
const maxFacts = 100
export const maxUnsavedMs = 50

export function isOverdue({ since }: Unsaved): boolean {
  return performance.now() - since > maxUnsavedMs
}

/** Unless all that comes next is pure and runs here: that can be done again, and is recorded with what follows. */
export function mustBeStored(plan: FlowPlan, unsaved: Unsaved, isPure: (task: TaskPlan) => boolean): boolean {
  const { facts, taken, state } = unsaved
  if (facts.length > maxFacts || isOverdue(unsaved)) return true
  if (taken.some(({ again }) => again)) return true
  const next = Object.values(state.runs).filter(({ status }) => status === 'scheduled')
  if (next.length === 0) return true
  if (followUpsOf(plan, facts, state, {}).some(({ type }) => type !== 'timer')) return true
  return !next.every((run) => run.lease !== null && isPure(findTask(plan, run)))
}

/** What the messages leave open about all that was stored before. */
export function doubtsOf({ facts, taken, state }: Unsaved) {
  // Whoever cancels from outside stores the end, and leaves what follows to us.
  const asks = taken.some(({ command, handled }) => {
    return handled !== null && (command.type === 'nudge' || command.type === 'slot')
  })
  return {
    /** Nobody knows whether what follows from it was done. */
    again: taken.some((each) => each.again),
    /** Nothing was heard of it for a time. */
    swept: taken.some(({ command }) => command.type === 'nudge' && command.sweep === true),
    endedOutside: facts.length === 0 && isEnded(state.stage) && asks,
  }
}
