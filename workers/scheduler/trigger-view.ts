import { type Bus, BusUnavailable } from '../../bus/connect.ts'
import { type FollowObservation, follow } from '../../bus/follow.ts'
import { load } from '../../bus/load.ts'
import { asking } from '../../bus/publish.ts'
import { eventSubject } from '../../bus/subject.ts'
import { type SavedTrigger, type TriggerState, trigger } from '../../schemas/workflows/trigger.ts'
import type { TriggerType } from '../../schemas/workflows/trigger-plan.ts'

export const triggerStream = 'EVT_WORKFLOWS'
const entity = 'evt.workflows.trigger'
const catchUpMs = 5_000

export function triggerPlace(triggerId: string) {
  return { stream: triggerStream, subject: eventSubject('workflows', 'trigger', triggerId) }
}

/** A trigger as it is now; null when it starts nothing. @throws {BusUnavailable} */
export async function liveTrigger(bus: Bus, triggerId: string): Promise<SavedTrigger | null> {
  const { state } = await load(bus, trigger, triggerPlace(triggerId))
  return state.stage === 'saved' && state.enabled ? state : null
}

export interface TriggerView {
  /** All there are, also those that are disabled. */
  readonly triggers: ReadonlyMap<string, SavedTrigger>
  /** Those that start something. */
  enabled(type: TriggerType): readonly SavedTrigger[]
  /** Resolves when it holds whatever was stored until now. @throws {BusUnavailable} */
  caughtUp(): Promise<void>
  close(): Promise<void>
}

/** All triggers, kept up to date. @param onChange behind each change @throws {BusUnavailable} */
export async function openTriggerView(
  bus: Bus,
  onChange: () => void,
  onObservation: (observation: FollowObservation) => void,
): Promise<TriggerView> {
  const triggers = new Map<string, SavedTrigger>()
  const byType = new Map<TriggerType, readonly SavedTrigger[]>()
  let seen = 0
  let moved = Promise.withResolvers<void>()
  const onState = (id: string, state: TriggerState, sequence: number) => {
    if (state.stage === 'saved') triggers.set(id, state)
    else triggers.delete(id)
    byType.clear()
    seen = Math.max(seen, sequence)
    moved.resolve()
    moved = Promise.withResolvers()
    onChange()
  }
  const follower = await follow(bus, {
    stream: triggerStream,
    subject: entity,
    aggregate: trigger,
    onState,
    onObservation,
  })
  return {
    triggers,
    enabled(type) {
      const known = byType.get(type)
      if (known !== undefined) return known
      const found = [...triggers.values()].filter(({ saved, enabled }) => enabled && saved.type === type)
      byType.set(type, found)
      return found
    },
    async caughtUp() {
      // The direct way takes no wildcards.
      const query = { last_by_subj: `${entity}.*` }
      const last = await asking(bus, () => bus.manager.streams.getMessage(triggerStream, query))
      const until = performance.now() + catchUpMs
      while (last !== null && seen < last.seq) {
        if (performance.now() > until) throw new BusUnavailable('The triggers are not told in time')
        await Promise.race([moved.promise, new Promise((resolve) => setTimeout(resolve, 100).unref())])
      }
    },
    close: () => follower.close(),
  }
}
