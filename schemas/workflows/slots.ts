import { Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'

const closed = { additionalProperties: false } as const
const execution = { executionId: Type.String() }

/** An execution has one of the places of its flow. */
const SlotGranted = defineEvent('workflows.slots.granted', Type.Object(execution, closed))
/** It needs it no more. */
const SlotReleased = defineEvent('workflows.slots.released', Type.Object(execution, closed))

const slotEvents = defineEvents(SlotGranted, SlotReleased)
type SlotFact = typeof slotEvents extends EventSet<infer F> ? F : never

/** Who runs: members, never a number, so that nothing can leak. Those that wait are a queue beside it, which may grow long. */
export interface SlotsState {
  readonly holders: readonly string[]
}

/** The places of a flow with limited concurrency. Subject `evt.workflows.slots.<flow>`, stream `EVT_WORKFLOWS`. */
export const slots: Aggregate<SlotsState, SlotFact> = {
  events: slotEvents,
  stateVersion: 2,
  initial: { holders: [] },
  evolve({ holders }, { type, data: { executionId } }) {
    const others = holders.filter((each) => each !== executionId)
    return { holders: type === 'workflows.slots.granted' ? [...others, executionId] : others }
  },
}

/** Nothing when it has one, or none is free. */
export function decideGrant({ holders }: SlotsState, executionId: string, limit: number): readonly SlotFact[] {
  return holders.includes(executionId) || holders.length >= limit ? [] : [SlotGranted.of({ executionId })]
}

export function decideRelease({ holders }: SlotsState, executionIds: readonly string[]): readonly SlotFact[] {
  return executionIds.filter((each) => holders.includes(each)).map((executionId) => SlotReleased.of({ executionId }))
}
