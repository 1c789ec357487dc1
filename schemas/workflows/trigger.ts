import { type Static, Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import type { TriggerType } from './trigger-plan.ts'

const closed = { additionalProperties: false } as const
const Time = Type.Integer({ description: 'epoch ms' })
const Sealed = Type.Object({
  keyId: Type.String(),
  nonce: Type.String(),
  ciphertext: Type.String(),
  context: Type.String(),
})
const own = { triggerId: Type.String(), by: Type.String(), at: Time }

/** The trigger is this from now on. */
export const TriggerSaved = defineEvent(
  'workflows.trigger.saved',
  Type.Object(
    {
      ...own,
      flowId: Type.String(),
      name: Type.String(),
      type: Type.Unsafe<TriggerType>(Type.String()),
      enabled: Type.Boolean(),
      config: Type.Record(Type.String(), Type.Unknown(), { description: 'see trigger-plan.ts' }),
      inputs: Type.Record(Type.String(), Type.Unknown(), { description: 'templates over `trigger`' }),
      declared: Type.Boolean({ description: "whether the flow's YAML says so" }),
      secret: Type.Optional(Sealed),
    },
    closed,
  ),
)
/** A disabled trigger starts nothing. */
export const TriggerEnabled = defineEvent(
  'workflows.trigger.enabled',
  Type.Object({ ...own, enabled: Type.Boolean() }, closed),
)
const TriggerDeleted = defineEvent('workflows.trigger.deleted', Type.Object(own, closed))
/** Its ticks up to this one are dealt with. */
const TriggerFired = defineEvent(
  'workflows.trigger.fired',
  Type.Object(
    {
      triggerId: Type.String(),
      tick: Time,
      executionId: Type.Union([Type.String(), Type.Null()], { description: 'of the last tick; null: it was skipped' }),
      at: Time,
    },
    closed,
  ),
)

/** It wanted to start an execution and could not. */
const TriggerRefused = defineEvent(
  'workflows.trigger.refused',
  Type.Object({ triggerId: Type.String(), code: Type.String(), message: Type.String(), at: Time }, closed),
)

/** The same secret lies under another key. */
const TriggerResealed = defineEvent(
  'workflows.trigger.resealed',
  Type.Object({ triggerId: Type.String(), secret: Sealed, at: Time }, closed),
)

export const triggerEvents = defineEvents(
  TriggerSaved,
  TriggerEnabled,
  TriggerDeleted,
  TriggerFired,
  TriggerRefused,
  TriggerResealed,
)
export type TriggerFact = typeof triggerEvents extends EventSet<infer F> ? F : never
export type Saved = Static<(typeof TriggerSaved)['schema']>
/** Why a trigger could not start an execution. */
export type Refusal = Omit<Static<(typeof TriggerRefused)['schema']>, 'triggerId'>

export type TriggerState =
  | { readonly stage: 'absent' | 'deleted'; readonly version: number }
  | {
      readonly stage: 'saved'
      /** Raised whenever its times may have changed: a timer of an older one is void. */
      readonly version: number
      readonly enabled: boolean
      readonly saved: Saved
      readonly createdAt: number
      readonly updatedAt: number
      /** Nothing from before this time starts anything, epoch ms. */
      readonly since: number
      readonly lastTick: number | null
      /** Absent: it never was. */
      readonly lastRefusal?: Refusal
    }
export type SavedTrigger = Extract<TriggerState, { stage: 'saved' }>

/** What starts executions of a flow by itself. Subject `evt.workflows.trigger.<id>`, stream `EVT_WORKFLOWS`. */
export const trigger: Aggregate<TriggerState, TriggerFact> = {
  events: triggerEvents,
  initial: { stage: 'absent', version: 0 },
  evolve(state, fact) {
    switch (fact.type) {
      case 'workflows.trigger.saved':
        return evolveSaved(state, fact.data)
      case 'workflows.trigger.enabled': {
        if (state.stage !== 'saved') return state
        const { enabled, at } = fact.data
        return { ...state, enabled, version: state.version + 1, since: at, updatedAt: at }
      }
      case 'workflows.trigger.deleted':
        return { stage: 'deleted', version: state.version + 1 }
      case 'workflows.trigger.fired':
        return state.stage === 'saved' ? { ...state, lastTick: fact.data.tick } : state
      case 'workflows.trigger.refused': {
        const { triggerId: _, ...lastRefusal } = fact.data
        return state.stage === 'saved' ? { ...state, lastRefusal } : state
      }
      case 'workflows.trigger.resealed':
        return state.stage === 'saved' ? { ...state, saved: { ...state.saved, secret: fact.data.secret } } : state
    }
  },
}

function evolveSaved(state: TriggerState, saved: Saved): TriggerState {
  const { at, enabled } = saved
  const known = { stage: 'saved', version: state.version + 1, enabled, saved, updatedAt: at } as const
  if (state.stage !== 'saved') return { ...known, createdAt: at, since: at, lastTick: null }
  const { createdAt, since, lastTick, lastRefusal } = state
  const sameTimes = state.enabled === enabled && same(timesOf(state.saved), timesOf(saved))
  const kept = { createdAt, ...(lastRefusal && { lastRefusal }) }
  return { ...known, ...kept, since: sameTimes ? since : at, lastTick: sameTimes ? lastTick : null }
}

function timesOf({ type, config }: Saved): unknown {
  return [type, config]
}

/** Nothing when that is what was saved last. @throws {Rejected} `workflows/trigger-declared` */
export function decideSaveTrigger(state: TriggerState, saved: Saved): readonly TriggerFact[] {
  if (state.stage === 'saved') {
    requireChangeable(state, saved.declared)
    const { by: _, at: __, ...before } = state.saved
    const { by: ___, at: ____, ...after } = saved
    if (same(before, after) && (saved.declared || state.enabled === saved.enabled)) return []
  }
  return [TriggerSaved.of(saved)]
}

interface By {
  readonly by: string
  readonly at: number
}

/** @throws {Rejected} `workflows/trigger-not-found` */
export function decideEnableTrigger(state: TriggerState, enabled: boolean, { by, at }: By): readonly TriggerFact[] {
  const found = requireTrigger(state)
  if (found.enabled === enabled) return []
  return [TriggerEnabled.of({ triggerId: found.saved.triggerId, enabled, by, at })]
}

/** @param declared whether its flow has it no longer @throws {Rejected} `workflows/trigger-not-found`, `workflows/trigger-declared` */
export function decideDeleteTrigger(state: TriggerState, declared: boolean, { by, at }: By): readonly TriggerFact[] {
  const found = requireTrigger(state)
  requireChangeable(found, declared)
  return [TriggerDeleted.of({ triggerId: found.saved.triggerId, by, at })]
}

/** Nothing when they are dealt with, or the trigger has changed since. */
export function decideFired(
  state: TriggerState,
  { version, tick, executionId, at }: { version: number; tick: number; executionId: string | null; at: number },
): readonly TriggerFact[] {
  if (state.stage !== 'saved' || state.version !== version || (state.lastTick ?? 0) >= tick) return []
  return [TriggerFired.of({ triggerId: state.saved.triggerId, tick, executionId, at })]
}

/** Of refusals for the same reason one a minute is told: whoever calls a webhook must not fill the disk. */
const refusalEveryMs = 60_000
const maxRefusalLength = 1_000

/** Nothing when the same was told a moment ago, or there is no such trigger any more. */
export function decideRefused(state: TriggerState, { code, message, at }: Refusal): readonly TriggerFact[] {
  if (state.stage !== 'saved') return []
  const { lastRefusal: last, saved } = state
  if (last?.code === code && at - last.at < refusalEveryMs) return []
  return [TriggerRefused.of({ triggerId: saved.triggerId, code, message: message.slice(0, maxRefusalLength), at })]
}

/** Nothing when it has no secret, or one that need not be sealed anew. */
export function decideResealTrigger(
  state: TriggerState,
  reseal: (secret: Static<typeof Sealed>) => Static<typeof Sealed> | null,
  at: number,
): readonly TriggerFact[] {
  if (state.stage !== 'saved' || state.saved.secret === undefined) return []
  const secret = reseal(state.saved.secret)
  return secret === null ? [] : [TriggerResealed.of({ triggerId: state.saved.triggerId, secret, at })]
}

/** @throws {Rejected} `workflows/trigger-not-found` */
export function requireTrigger(state: TriggerState): SavedTrigger {
  if (state.stage === 'saved') return state
  throw new Rejected('workflows/trigger-not-found', 'There is no such trigger')
}

function requireChangeable({ saved }: SavedTrigger, declared: boolean): void {
  if (!saved.declared || declared) return
  throw new Rejected(
    'workflows/trigger-declared',
    `The trigger ${saved.name} is written in its flow: change it there`,
    {
      details: { flowId: saved.flowId },
    },
  )
}

function same(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right)
}
