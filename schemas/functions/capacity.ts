import { Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type FactOf } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import { FunctionId } from './function.ts'

const Slot = Type.Object({ functionId: FunctionId }, { additionalProperties: false })

/** A function came to be: one slot fewer is free. Appended together with its `functions.function.deployed`, or not at all. */
const SlotTaken = defineEvent('functions.capacity.taken', Slot)
/** A function was deleted. Appended together with its `functions.function.deleted`, or not at all. */
const SlotFreed = defineEvent('functions.capacity.freed', Slot)

export type CapacityFact = FactOf<typeof SlotTaken | typeof SlotFreed>

export interface CapacityState {
  readonly taken: number
}

/** How many functions there are: one subject for all, so that deploys which meet cannot pass the limit together. */
export const capacity: Aggregate<CapacityState, CapacityFact> = {
  events: defineEvents(SlotTaken, SlotFreed),
  initial: { taken: 0 },
  evolve: ({ taken }, { type }) => ({ taken: type === 'functions.capacity.taken' ? taken + 1 : taken - 1 }),
}

/** @throws {Rejected} `functions/limit-reached` */
export function decideTake({ taken }: CapacityState, functionId: string, max: number): CapacityFact[] {
  if (taken >= max) throw new Rejected('functions/limit-reached', `Max scripts limit reached (${max})`)
  return [SlotTaken.of({ functionId })]
}

export function decideFree(functionId: string): CapacityFact[] {
  return [SlotFreed.of({ functionId })]
}
