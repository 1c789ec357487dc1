import { randomBytes } from 'node:crypto'
import type { Bus } from '../../bus/connect.ts'
import { type ConsumeObservation, consume } from '../../bus/consume.ts'
import { load } from '../../bus/load.ts'
import { eventSubject, unescapeToken } from '../../bus/subject.ts'
import { also, decideTogether } from '../../bus/together.ts'
import { derivedId } from '../../schemas/workflows/derived-id.ts'
import { type FlowState, flow } from '../../schemas/workflows/flow.ts'
import {
  decideDeleteTrigger,
  decideSaveTrigger,
  type TriggerFact,
  type TriggerState,
  trigger,
} from '../../schemas/workflows/trigger.ts'
import type { TriggerPlan } from '../../schemas/workflows/trigger-plan.ts'
import { decidedWithTrigger } from '../../schemas/workflows/trigger-together.ts'
import type { RefusedObservation } from './fire.ts'
import { type TriggerView, triggerPlace, triggerStream } from './trigger-view.ts'

/** Keeps the triggers that flows declare what their YAML says, and takes those of deleted flows away. */
export async function serveDeclared(
  bus: Bus,
  view: TriggerView,
  onObservation: (observation: ConsumeObservation | RefusedObservation) => void,
  signal: AbortSignal,
): Promise<void> {
  await consume(
    bus,
    {
      stream: triggerStream,
      consumer: 'workers-scheduler-flows',
      subjects: ['evt.workflows.flow.*'],
      handle: async ({ subject }) => {
        const flowId = unescapeToken(subject.slice(subject.lastIndexOf('.') + 1))
        // By the newest state, whatever message is being handled.
        const place = { stream: triggerStream, subject: eventSubject('workflows', 'flow', flowId) }
        const { state } = await load(bus, flow, place)
        await view.caughtUp()
        await reconcile(bus, { flowId, state, view, onObservation })
      },
      onObservation,
    },
    signal,
  )
}

interface Reconciled {
  readonly flowId: string
  readonly state: FlowState
  readonly view: TriggerView
  readonly onObservation: (observation: RefusedObservation) => void
}

async function reconcile(bus: Bus, { flowId, state, view, onObservation }: Reconciled): Promise<void> {
  const wanted = state.stage === 'saved' ? (state.latest.plan.triggers ?? []) : []
  const by = state.stage === 'saved' ? state.latest.by : 'busbar'
  const ids = new Map(wanted.map((plan) => [derivedId(`trigger/${flowId}/${plan.name}`), plan]))
  const at = Date.now()
  // First what goes: a key may move from one to the other.
  for (const { saved } of [...view.triggers.values()]) {
    const goes = saved.flowId === flowId && (state.stage !== 'saved' || (saved.declared && !ids.has(saved.triggerId)))
    if (!goes) continue
    await change(bus, saved.triggerId, (before) => {
      return before.stage === 'saved' ? decideDeleteTrigger(before, true, { by, at }) : []
    })
  }
  for (const [triggerId, plan] of ids) {
    try {
      await change(bus, triggerId, (before) => {
        const { name, type, enabled, inputs } = plan
        const config = configOf(plan, before)
        return decideSaveTrigger(before, {
          triggerId,
          flowId,
          name,
          type,
          enabled,
          config,
          inputs,
          declared: true,
          by,
          at,
        })
      })
    } catch (error) {
      if ((error as Error).name !== 'Rejected') throw error
      onObservation({ type: 'trigger-refused', triggerId, flowId, error })
    }
  }
}

/** A key that was made up once stays. */
function configOf({ type, config }: TriggerPlan, before: TriggerState): Readonly<Record<string, unknown>> {
  if (type !== 'webhook' || config.key !== undefined) return config
  const known = before.stage === 'saved' && before.saved.type === 'webhook' ? before.saved.config.key : undefined
  return { ...config, key: known ?? randomBytes(32).toString('base64url') }
}

async function change(
  bus: Bus,
  triggerId: string,
  decide: (before: TriggerState) => readonly TriggerFact[],
): Promise<void> {
  const decision = { ...triggerPlace(triggerId), aggregate: trigger, actor: 'busbar', decide }
  await decideTogether(bus, decision, (before, after) =>
    decidedWithTrigger(triggerId, before, after, (entity, id, aggregate, decide) =>
      also(eventSubject('workflows', entity, id), aggregate, decide),
    ),
  )
}
