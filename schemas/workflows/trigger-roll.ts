import { Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import type { TriggerState } from './trigger.ts'

const Entry = Type.Object({ triggerId: Type.String() }, { additionalProperties: false })
const Entered = defineEvent('workflows.trigger-roll.entered', Entry)
const Left = defineEvent('workflows.trigger-roll.left', Entry)

const rollEvents = defineEvents(Entered, Left)
type RollFact = typeof rollEvents extends EventSet<infer F> ? F : never

interface TriggerRoll {
  readonly triggerIds: readonly string[]
}

/**
 * Which triggers a flow has, so that those which are made at once cannot pass the limit together. Subject
 * `evt.workflows.trigger-roll.<flow>`, stream `EVT_WORKFLOWS`, written with the trigger in one batch.
 */
export const triggerRoll: Aggregate<TriggerRoll, RollFact> = {
  events: rollEvents,
  initial: { triggerIds: [] },
  evolve({ triggerIds }, { type, data }) {
    const others = triggerIds.filter((id) => id !== data.triggerId)
    return { triggerIds: type === 'workflows.trigger-roll.entered' ? [...others, data.triggerId] : others }
  },
}

const maxOfFlow = 100

export interface TriggerRollChange {
  readonly flowId: string
  /** @throws {Rejected} `workflows/trigger-limit` */
  readonly decide: (roll: TriggerRoll) => readonly RollFact[]
}

/** What becomes of the roll of its flow when a trigger becomes another; null: nothing. What a flow declares is bounded by its text. */
export function triggerRollChange(
  triggerId: string,
  before: TriggerState,
  after: TriggerState,
): TriggerRollChange | null {
  if (before.stage !== 'saved' && after.stage === 'saved') {
    const { flowId, declared } = after.saved
    return { flowId, decide: (roll) => decideEnter(roll, triggerId, declared) }
  }
  if (before.stage !== 'saved' || after.stage === 'saved') return null
  const decide = ({ triggerIds }: TriggerRoll) => (triggerIds.includes(triggerId) ? [Left.of({ triggerId })] : [])
  return { flowId: before.saved.flowId, decide }
}

function decideEnter({ triggerIds }: TriggerRoll, triggerId: string, declared: boolean): readonly RollFact[] {
  if (triggerIds.includes(triggerId)) return []
  if (declared || triggerIds.length < maxOfFlow) return [Entered.of({ triggerId })]
  const reason = `is of a flow that has ${maxOfFlow} triggers, and may have no more`
  throw new Rejected('workflows/trigger-limit', `flowId ${reason}`, { details: { field: 'flowId', reason } })
}
