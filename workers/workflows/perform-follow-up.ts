import type { Bus } from '../../bus/connect.ts'
import { nextDepth } from '../../schemas/workflows/chain.ts'
import { type Ending, type ExecutionState, isEnded } from '../../schemas/workflows/execution-state.ts'
import type { ListenedTo } from '../../schemas/workflows/flow-plan.ts'
import type { Value } from '../../schemas/workflows/task-result.ts'
import type { Executions, Stored } from './executions.ts'
import { findFlow } from './find-flow.ts'
import type { FlowPlans } from './flow-plans.ts'
import {
  announceAbort,
  announceEnd,
  cancelDeadline,
  cancelSla,
  type FollowUp,
  sendCommand,
  setExecutionTimer,
} from './follow-ups.ts'
import { startListeners } from './listeners.ts'
import { hasResults } from './lost-leases.ts'
import type { ScopeSources } from './scope.ts'
import { releaseSlot, requestSlot } from './slots.ts'
import { startExecution } from './start-execution.ts'
import { stopChild } from './stop-child.ts'
import { queueTask } from './task-queue.ts'

/** What is needed to do what follows. */
export interface Performer {
  readonly bus: Bus
  readonly executions: Executions
  readonly plans: FlowPlans
  readonly now: () => number
  /** For the inputs of listeners. */
  readonly sources: ScopeSources
  /** An execution that was to be started could not be. @param executionId of the child, or of the execution that is listened to */
  readonly refused: (executionId: string, error: unknown) => void
}

/**
 * Does one thing that follows from what was stored; once more does no harm.
 * @param again nobody knows whether it was done before
 * @throws {BusUnavailable}
 */
export async function performFollowUp(
  performer: Performer,
  stored: Stored,
  followUp: FollowUp,
  again: boolean,
): Promise<void> {
  const { bus, plans, now } = performer
  const { state } = stored
  const { executionId, flowId } = state.created!
  switch (followUp.type) {
    case 'queue': {
      const { run, turn, group, anew = false } = followUp
      if (anew && (await hasResults(bus, executionId))) return
      const queueing = { flowId, group, again: anew ? ('anew' as const) : again }
      return await queueTask(bus, { executionId, run, ...turn }, queueing)
    }
    case 'timer':
      return await setExecutionTimer(bus, executionId, followUp.id, followUp.at)
    case 'abort':
      announceAbort(bus, executionId)
      return
    case 'slot': {
      const { concurrency } = await plans.get(state.created!)
      if (concurrency === null) return
      return await requestSlot(bus, { flowId, executionId, concurrency, again })
    }
    case 'child':
      return await startChild(performer, state, followUp, again)
    case 'stop-child':
      return await stopChild(bus, followUp.executionId, now())
    case 'ended':
      return await end(performer, stored)
    case 'sla-missed':
      return await listen(performer, state, 'SLA_MISSED')
    default:
      followUp satisfies never
  }
}

async function startChild(
  { bus, executions, now, refused }: Performer,
  state: ExecutionState,
  { run, opening }: Extract<FollowUp, { type: 'child' }>,
  again: boolean,
): Promise<void> {
  const { executionId, actor, namespace, trigger } = state.created!
  try {
    const depth = nextDepth(trigger)
    const flowId = await findFlow(bus, opening.namespace ?? namespace, opening.flowId)
    await startExecution(bus, flowId, {
      executionId: opening.executionId,
      inputs: opening.inputs,
      trigger: { type: 'subflow', executionId, run, depth },
      actor,
      at: now(),
      ...(opening.wait && { parent: { executionId, run } }),
    })
    if (!opening.wait) return
    // Whoever cancels in this moment finds nothing yet that could be stopped.
    const { runs } = (await executions.load(executionId)).state
    if (runs[run]?.status !== 'waiting') return await stopChild(bus, opening.executionId, now())
    if (!again) return
    // It may have ended, and what it told was lost.
    const child = await executions.load(opening.executionId)
    if (isEnded(child.state.stage)) await tellParent(bus, child.state)
  } catch (error) {
    if ((error as Error).name !== 'Rejected') throw error
    refused(opening.executionId, error)
    const failure = { message: (error as Error).message, kind: 'refused' } as const
    const outputs: Value = { json: {} }
    const { executionId: child } = opening
    await sendCommand(
      bus,
      executionId,
      { type: 'child', run, executionId: child, status: 'failed', outputs, failure },
      `${child}/refused`,
    )
  }
}

async function end(performer: Performer, stored: Stored): Promise<void> {
  const { bus, plans } = performer
  const { state } = stored
  const { created, slotRequested } = state
  const { executionId, flowId, parent } = created!
  announceEnd(bus, stored)
  const plan = await plans.get(created!)
  if (plan.timeoutMs !== null) await cancelDeadline(bus, executionId)
  if (plan.slaMs !== undefined) await cancelSla(bus, executionId)
  await listen(performer, state, endings[state.stage as Ending])
  if (slotRequested) await releaseSlot(bus, flowId, executionId, plan.concurrency?.limit ?? 1)
  if (parent !== undefined) await tellParent(bus, state)
}

const endings = {
  success: 'SUCCESS',
  failed: 'FAILED',
  cancelled: 'CANCELLED',
  'timed-out': 'TIMED_OUT',
} as const satisfies Record<Ending, ListenedTo>

async function listen(
  { bus, plans, now, sources, refused }: Performer,
  state: ExecutionState,
  to: ListenedTo,
): Promise<void> {
  const plan = await plans.get(state.created!)
  const { executionId } = state.created!
  await startListeners(bus, { plan, state, to, sources, at: now() }, (error) => refused(executionId, error))
}

async function tellParent(bus: Bus, { created, stage, outputs, failure }: ExecutionState): Promise<void> {
  const { executionId, parent } = created!
  if (parent === undefined) return
  const status = stage as Ending
  await sendCommand(
    bus,
    parent.executionId,
    { type: 'child', run: parent.run, executionId, status, outputs: outputs ?? { json: {} }, failure },
    `${executionId}/ended`,
  )
}
