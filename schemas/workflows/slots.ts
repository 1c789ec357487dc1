import { Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import type { ConcurrencyPlan } from './flow-plan.ts'

const closed = { additionalProperties: false } as const
const execution = { executionId: Type.String() }

/** An execution has one of the places of its flow. */
const SlotGranted = defineEvent('workflows.slots.granted', Type.Object(execution, closed))
/** It waits for one, behind those that wait already. */
const SlotQueued = defineEvent('workflows.slots.queued', Type.Object(execution, closed))
/** It needs none any more. */
const SlotReleased = defineEvent('workflows.slots.released', Type.Object(execution, closed))

const slotEvents = defineEvents(SlotGranted, SlotQueued, SlotReleased)
type SlotFact = typeof slotEvents extends EventSet<infer F> ? F : never

/** Who runs and who waits: members, never a number, so that nothing can leak. */
export interface SlotsState {
  readonly holders: readonly string[]
  readonly waiting: readonly string[]
  /** Holders that got their place from a release: told again with every further one. */
  readonly unheard: readonly string[]
}

/** The places of a flow with limited concurrency. Subject `evt.workflows.slots.<flow>`, stream `EVT_WORKFLOWS`. */
export const slots: Aggregate<SlotsState, SlotFact> = {
  events: slotEvents,
  initial: { holders: [], waiting: [], unheard: [] },
  evolve({ holders, waiting, unheard }, { type, data: { executionId } }) {
    const without = (list: readonly string[]) => list.filter((each) => each !== executionId)
    switch (type) {
      case 'workflows.slots.granted':
        return {
          holders: [...holders, executionId],
          waiting: without(waiting),
          unheard: waiting.includes(executionId) ? [...unheard, executionId] : unheard,
        }
      case 'workflows.slots.queued':
        return { holders, waiting: [...waiting, executionId], unheard }
      case 'workflows.slots.released':
        return { holders: without(holders), waiting: without(waiting), unheard: without(unheard) }
    }
  },
}

/** Nothing when it has its answer already, or is refused. */
export function decideRequest(state: SlotsState, executionId: string, plan: ConcurrencyPlan): readonly SlotFact[] {
  if (state.holders.includes(executionId) || state.waiting.includes(executionId)) return []
  if (state.holders.length < plan.limit && state.waiting.length === 0) return [SlotGranted.of({ executionId })]
  return plan.behavior === 'queue' ? [SlotQueued.of({ executionId })] : []
}

/** Whoever has waited longest comes next. */
export function decideRelease(state: SlotsState, executionId: string, limit: number): readonly SlotFact[] {
  const held = state.holders.includes(executionId)
  if (!held && !state.waiting.includes(executionId)) return []
  const free = limit - (state.holders.length - (held ? 1 : 0))
  const next = state.waiting.filter((each) => each !== executionId).slice(0, Math.max(0, free))
  return [SlotReleased.of({ executionId }), ...next.map((each) => SlotGranted.of({ executionId: each }))]
}
