import type { Bus } from '../../bus/connect.ts'
import type { Loaded } from '../../bus/load.ts'
import { publish } from '../../bus/publish.ts'
import { abortSubject, endedSubject, executionSubject } from '../../bus/subject.ts'
import { cancelTimer, setTimer } from '../../bus/timers.ts'
import { type ExecutionCommand, findTask } from '../../schemas/workflows/execution-decide.ts'
import { endMessage } from '../../schemas/workflows/execution-end.ts'
import type { ExecutionFact } from '../../schemas/workflows/execution-facts.ts'
import { type ExecutionState, isEnded, isLive, type Run } from '../../schemas/workflows/execution-state.ts'
import type { FlowPlan } from '../../schemas/workflows/flow-plan.ts'
import type { Opening } from '../../schemas/workflows/task-result.ts'
import { type Turn, turnOf } from '../../schemas/workflows/turn.ts'

/** What is to be done about facts once they are stored. Each can be done again without harm. */
export type FollowUp =
  | {
      readonly type: 'queue'
      readonly run: string
      readonly turn: Turn
      readonly group: string
      /** Nothing was heard of it for long. */
      readonly anew?: boolean
    }
  | { readonly type: 'timer'; readonly id: string; readonly at: number }
  | { readonly type: 'child'; readonly run: string; readonly opening: Extract<Opening, { kind: 'child' }> }
  /** An execution of a sub-flow is not waited for any more. */
  | { readonly type: 'stop-child'; readonly executionId: string }
  | { readonly type: 'slot' }
  | { readonly type: 'abort' }
  | { readonly type: 'ended' }
  | { readonly type: 'sla-missed' }

export const defaultGroup = 'default'
const timerPurpose = 'executions'
const deadlineTimer = 'deadline'
const slaTimer = 'sla'

/**
 * What facts that were just decided call for.
 * @param before the runs as they were: those of an iteration that is through are gone
 */
export function followUpsOf(
  plan: FlowPlan,
  facts: readonly ExecutionFact[],
  { runs }: ExecutionState,
  before: ExecutionState['runs'],
): readonly FollowUp[] {
  return facts.flatMap((fact): readonly FollowUp[] => {
    switch (fact.type) {
      case 'executions.execution.started':
        return [...timer(deadlineTimer, fact.data.deadlineAt), ...timer(slaTimer, fact.data.slaAt ?? null)]
      case 'executions.execution.sla-missed':
        return [{ type: 'sla-missed' }]
      case 'executions.execution.slot-requested':
        return [{ type: 'slot' }]
      case 'executions.execution.ended':
        return [{ type: 'abort' }, { type: 'ended' }, ...leftChildren(runs)]
      case 'executions.task.scheduled': {
        const { run, attempt, round = 0, lease, task } = fact.data
        const scheduled = runs[run]
        // What more has become of it in the same decision leaves nothing to be run.
        if (lease !== null || scheduled === undefined) return []
        return [{ type: 'queue', run, turn: turnOf({ ...scheduled, attempt, round }), group: groupOf(plan, task) }]
      }
      case 'executions.task.failed': {
        const { run, attempt, retryAt, failure } = fact.data
        const left = failure.kind === 'timeout' ? stopChild(before[run]) : []
        return [...timer(`${run}/${attempt}/retry`, retryAt), ...left]
      }
      case 'executions.task.opened': {
        const { run, attempt, opening, deadlineAt } = fact.data
        return [...timer(`${run}/${attempt}/deadline`, deadlineAt), ...opened(run, attempt, opening)]
      }
      case 'executions.task.cancelled':
        return [{ type: 'abort' }, ...stopChild(before[fact.data.run])]
      default:
        return []
    }
  })
}

/**
 * What a state still waits for: done again when nobody knows whether it was done.
 * @param left `lost`: messages that nobody has in hand: what hangs on them goes to the queue; `anew`: nothing was heard of it for long
 */
export function outstanding(
  plan: FlowPlan,
  state: ExecutionState,
  { lost, anew }: { readonly lost: ReadonlySet<string>; readonly anew: boolean },
): readonly FollowUp[] {
  if (isEnded(state.stage)) return [{ type: 'ended' }, ...leftChildren(state.runs)]
  const found: FollowUp[] = [...timer(deadlineTimer, state.deadlineAt)]
  if (state.slaMissed) found.push({ type: 'sla-missed' })
  else found.push(...timer(slaTimer, state.slaAt ?? null))
  if (state.startedAt === null && state.slotRequested) found.push({ type: 'slot' })
  for (const [key, run] of Object.entries(state.runs)) found.push(...outstandingOf(plan, key, run, { lost, anew }))
  return found
}

function outstandingOf(
  plan: FlowPlan,
  key: string,
  run: Run,
  { lost, anew }: Parameters<typeof outstanding>[2],
): readonly FollowUp[] {
  const { status, attempt, lease, task, at, opening, deadlineAt } = run
  if (!isLive(run)) return status === 'cancelled' || run.failure?.kind === 'timeout' ? stopChild(run) : []
  if (status === 'scheduled') {
    const queued = lease === null || lost.has(lease)
    return queued ? [{ type: 'queue', run: key, turn: turnOf(run), group: groupOf(plan, task), anew }] : []
  }
  if (status === 'retrying') return timer(`${key}/${attempt}/retry`, at)
  const own = opening === null ? [] : opened(key, attempt, opening)
  return [...timer(`${key}/${attempt}/deadline`, deadlineAt), ...own]
}

function opened(run: string, attempt: number, opening: Opening): readonly FollowUp[] {
  if (opening.kind === 'child') return [{ type: 'child', run, opening }]
  return opening.kind === 'pause' ? timer(`${run}/${attempt}/pause`, opening.until) : []
}

/** Of those that were waited for when the execution ended. */
function leftChildren(runs: ExecutionState['runs']): readonly FollowUp[] {
  return Object.values(runs).flatMap((run) => (run.status === 'cancelled' ? stopChild(run) : []))
}

function stopChild(run: Run | undefined): readonly FollowUp[] {
  if (run?.opening?.kind !== 'child' || !run.opening.wait) return []
  return [{ type: 'stop-child', executionId: run.opening.executionId }]
}

function timer(id: string, at: number | null): readonly FollowUp[] {
  return at === null ? [] : [{ type: 'timer', id, at }]
}

function groupOf(plan: FlowPlan, task: string): string {
  return findTask(plan, { task }).workerGroup ?? defaultGroup
}

/** @throws {BusUnavailable} */
export async function sendCommand(bus: Bus, executionId: string, command: ExecutionCommand, id: string): Promise<void> {
  const headers = { 'Nats-Msg-Id': id }
  await publish(bus, { subject: executionSubject(executionId), body: JSON.stringify(command), headers })
}

/** What lies in a timer. */
export interface ExecutionTimer {
  readonly executionId: string
  /** Epoch ms. Absent: not told. */
  readonly at?: number
}

/** @throws {BusUnavailable} */
export async function setExecutionTimer(bus: Bus, executionId: string, id: string, at: number): Promise<void> {
  const body: ExecutionTimer = { executionId, at }
  await setTimer(bus, { purpose: timerPurpose, id: `${executionId}/${id}`, at, body })
}

/** @throws {BusUnavailable} */
export async function cancelSla(bus: Bus, executionId: string): Promise<void> {
  await cancelTimer(bus, timerPurpose, `${executionId}/${slaTimer}`)
}

/** @throws {BusUnavailable} */
export async function cancelDeadline(bus: Bus, executionId: string): Promise<void> {
  await cancelTimer(bus, timerPurpose, `${executionId}/${deadlineTimer}`)
}

/** Tells all workers at once; one that does not hear it finds out when it hands in its result. */
export function announceAbort(bus: Bus, executionId: string): void {
  if (bus.connected) bus.connection.publish(abortSubject(executionId))
}

/** Tells those who wait for its end; one that does not hear it looks by itself after a while. */
export function announceEnd(bus: Bus, { state, sequence }: Pick<Loaded<ExecutionState>, 'state' | 'sequence'>): void {
  if (bus.connected) bus.connection.publish(endedSubject(state.created!.executionId), endMessage(state, sequence))
}
