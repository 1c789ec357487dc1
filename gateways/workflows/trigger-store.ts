import type { Bus } from '../../bus/connect.ts'
import { type Loaded, load } from '../../bus/load.ts'
import { eventSubject } from '../../bus/subject.ts'
import { also, decideTogether } from '../../bus/together.ts'
import type { Rejected } from '../../schemas/failure.ts'
import {
  decideRefused,
  requireTrigger,
  type Saved,
  type SavedTrigger,
  type TriggerFact,
  type TriggerState,
  trigger,
} from '../../schemas/workflows/trigger.ts'
import { webhookKey, webhookKeyId } from '../../schemas/workflows/trigger-key.ts'
import { decidedWithTrigger } from '../../schemas/workflows/trigger-together.ts'

const stream = 'EVT_WORKFLOWS'

function triggerPlace(triggerId: string) {
  return { stream, subject: eventSubject('workflows', 'trigger', triggerId) }
}

/** @throws {BusUnavailable} */
export async function loadTrigger(bus: Bus, triggerId: string): Promise<Loaded<TriggerState>> {
  return await load(bus, trigger, triggerPlace(triggerId))
}

/** @throws {Rejected} `workflows/trigger-not-found`; {BusUnavailable} */
export async function savedTrigger(bus: Bus, triggerId: string): Promise<SavedTrigger> {
  return requireTrigger((await loadTrigger(bus, triggerId)).state)
}

/** Which trigger a webhook's key leads to; null when it leads nowhere. @throws {BusUnavailable} */
export async function triggerOfKey(bus: Bus, key: string): Promise<string | null> {
  const place = { stream, subject: eventSubject('workflows', 'webhook-key', webhookKeyId(key)) }
  return (await load(bus, webhookKey, place)).state.triggerId
}

/**
 * Decides on a trigger; the key of a webhook goes with it, and its place among those of the flow.
 * @throws {Rejected} of the decision, `workflows/trigger-exists`, `workflows/trigger-limit`; {AppendConflict} after too many; {BusUnavailable}
 */
export async function changeTrigger(
  bus: Bus,
  triggerId: string,
  actor: string,
  decide: (before: TriggerState) => readonly TriggerFact[],
) {
  const decision = { ...triggerPlace(triggerId), aggregate: trigger, actor, decide }
  return await decideTogether(bus, decision, (before, after) =>
    decidedWithTrigger(triggerId, before, after, (entity, id, aggregate, decide) =>
      also(eventSubject('workflows', entity, id), aggregate, decide),
    ),
  )
}

const counting = new WeakMap<Bus, Promise<unknown>>()

/** As `changeTrigger`, for what makes a trigger or takes it away: one at a time in this gateway, for others of ours would only meet. */
export async function countedTrigger(...args: Parameters<typeof changeTrigger>) {
  const [bus] = args
  const next = (counting.get(bus) ?? Promise.resolve()).then(() => changeTrigger(...args))
  counting.set(
    bus,
    next.catch(() => undefined),
  )
  return await next
}

/** Keeps with a trigger that it could not start an execution. @throws {BusUnavailable} */
export async function tellRefused(
  { bus }: { readonly bus: Bus },
  { triggerId }: Saved,
  { code, message }: Rejected,
  at: number,
): Promise<void> {
  await changeTrigger(bus, triggerId, 'busbar', (state) => decideRefused(state, { code, message, at }))
}
