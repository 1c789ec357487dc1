import { type Static, Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import type { FlowPlan } from './flow-plan.ts'

const closed = { additionalProperties: false } as const
const Time = Type.Integer({ description: 'epoch ms' })

/** The flow has this text from now on; executions that are under way keep theirs. */
export const FlowRevised = defineEvent(
  'workflows.flow.revised',
  Type.Object(
    {
      flowId: Type.String(),
      name: Type.String(),
      namespace: Type.String(),
      revision: Type.Integer({ minimum: 1, description: '1 at first, one more with each change of the text' }),
      yamlContent: Type.String(),
      plan: Type.Unsafe<FlowPlan>(Type.Object({}, { description: 'see flow-plan.ts' })),
      by: Type.String(),
      at: Time,
      restoredFrom: Type.Optional(Type.Integer({ description: 'the revision whose text this is' })),
    },
    closed,
  ),
)
/** A disabled flow starts no executions. */
const FlowEnabled = defineEvent(
  'workflows.flow.enabled',
  Type.Object({ flowId: Type.String(), enabled: Type.Boolean(), by: Type.String(), at: Time }, closed),
)
const FlowDeleted = defineEvent(
  'workflows.flow.deleted',
  Type.Object({ flowId: Type.String(), by: Type.String(), at: Time }, closed),
)

export const flowEvents = defineEvents(FlowRevised, FlowEnabled, FlowDeleted)
export type FlowFact = typeof flowEvents extends EventSet<infer F> ? F : never
type Revised = Static<(typeof FlowRevised)['schema']>

export type FlowState =
  | { readonly stage: 'absent' }
  | { readonly stage: 'deleted'; readonly revision: number }
  | {
      readonly stage: 'saved'
      readonly enabled: boolean
      readonly createdAt: number
      readonly createdBy: string
      readonly latest: Revised
    }

/** A flow. Subject `evt.workflows.flow.<id>`, stream `EVT_WORKFLOWS`. */
export const flow: Aggregate<FlowState, FlowFact> = {
  events: flowEvents,
  initial: { stage: 'absent' },
  evolve(state, fact) {
    switch (fact.type) {
      case 'workflows.flow.revised': {
        const { data } = fact
        if (state.stage === 'saved') return { ...state, latest: data }
        return { stage: 'saved', enabled: true, createdAt: data.at, createdBy: data.by, latest: data }
      }
      case 'workflows.flow.enabled':
        return state.stage === 'saved' ? { ...state, enabled: fact.data.enabled } : state
      case 'workflows.flow.deleted':
        return { stage: 'deleted', revision: revisionOf(state) }
    }
  },
}

export interface FlowText {
  readonly flowId: string
  readonly name: string
  readonly namespace: string
  readonly yamlContent: string
  readonly plan: FlowPlan
  readonly by: string
  readonly at: number
  readonly restoredFrom?: number
}

/** Nothing when the flow has this very text and place already. */
export function decideRevise(state: FlowState, text: FlowText): readonly FlowFact[] {
  if (state.stage === 'saved') {
    const { name, namespace, yamlContent } = state.latest
    const same = name === text.name && namespace === text.namespace && yamlContent === text.yamlContent
    if (same) return []
  }
  return [FlowRevised.of({ ...text, revision: revisionOf(state) + 1 })]
}

/** @throws {Rejected} `workflows/flow-not-found` */
export function decideEnable(state: FlowState, enabled: boolean, by: string, at: number): readonly FlowFact[] {
  const saved = requireFlow(state)
  return saved.enabled === enabled ? [] : [FlowEnabled.of({ flowId: saved.latest.flowId, enabled, by, at })]
}

/** @throws {Rejected} `workflows/flow-not-found` */
export function decideDelete(state: FlowState, by: string, at: number): readonly FlowFact[] {
  return [FlowDeleted.of({ flowId: requireFlow(state).latest.flowId, by, at })]
}

/** @throws {Rejected} `workflows/flow-not-found` */
export function requireFlow(state: FlowState): Extract<FlowState, { stage: 'saved' }> {
  if (state.stage === 'saved') return state
  throw new Rejected('workflows/flow-not-found', 'There is no such flow')
}

function revisionOf(state: FlowState): number {
  if (state.stage === 'absent') return 0
  return state.stage === 'deleted' ? state.revision : state.latest.revision
}
