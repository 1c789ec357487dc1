import type { Aggregate, Fact } from '../../bus/message.ts'
import type { TriggerState } from './trigger.ts'
import { webhookKey, webhookKeyChanges } from './trigger-key.ts'
import { triggerRoll, triggerRollChange } from './trigger-roll.ts'

/** How whoever decides takes in a decision on another aggregate of the stream `EVT_WORKFLOWS`. */
type Also<T> = <State, F extends Fact>(
  entity: string,
  id: string,
  aggregate: Aggregate<State, F>,
  decide: (state: State) => readonly F[],
) => T

/** What is decided together with a trigger that becomes another: the key of its webhook, and its place among those of its flow. */
export function decidedWithTrigger<T>(
  triggerId: string,
  before: TriggerState,
  after: TriggerState,
  also: Also<T>,
): readonly T[] {
  const roll = triggerRollChange(triggerId, before, after)
  return [
    ...webhookKeyChanges(triggerId, before, after).map(({ keyId, decide }) =>
      also('webhook-key', keyId, webhookKey, decide),
    ),
    ...(roll === null ? [] : [also('trigger-roll', roll.flowId, triggerRoll, roll.decide)]),
  ]
}
