import { type Static, Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'

const Holder = Type.Object(
  { namespace: Type.String(), name: Type.String(), flowId: Type.String() },
  { additionalProperties: false },
)

/** The flow has this name in its namespace from now on, and no other flow can have it. */
const FlowNameClaimed = defineEvent('workflows.flow-name.claimed', Holder)
/** The name is free again. */
const FlowNameReleased = defineEvent('workflows.flow-name.released', Holder)

const flowNameEvents = defineEvents(FlowNameClaimed, FlowNameReleased)
export type FlowNameFact = typeof flowNameEvents extends EventSet<infer F> ? F : never
type Place = Static<typeof Holder>

export interface FlowNameState {
  /** Null: the name is free. */
  readonly flowId: string | null
}

/**
 * Who has a name: it is decided here that no two flows of a namespace have the same one. Subject
 * `evt.workflows.flow-name.<namespace>/<name>`, stream `EVT_WORKFLOWS`, written with the flow in one batch.
 */
export const flowName: Aggregate<FlowNameState, FlowNameFact> = {
  events: flowNameEvents,
  initial: { flowId: null },
  evolve: (_state, { type, data }) => ({ flowId: type === 'workflows.flow-name.claimed' ? data.flowId : null }),
}

/** @throws {Rejected} `workflows/flow-exists` when another flow has the name. */
export function decideClaim({ flowId }: FlowNameState, place: Place): readonly FlowNameFact[] {
  if (flowId === place.flowId) return []
  if (flowId === null) return [FlowNameClaimed.of(place)]
  const { name, namespace } = place
  throw new Rejected('workflows/flow-exists', `The namespace ${namespace} has a flow ${name} already`, {
    details: { flowId },
  })
}

/** Nothing when the flow does not have the name. */
export function decideRelease({ flowId }: FlowNameState, place: Place): readonly FlowNameFact[] {
  return flowId === place.flowId ? [FlowNameReleased.of(place)] : []
}
