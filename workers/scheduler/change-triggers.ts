import type { Bus } from '../../bus/connect.ts'
import type { ConsumeObservation } from '../../bus/consume.ts'
import type { Delivery } from '../../bus/handle.ts'
import { tableSubject } from '../../bus/subject.ts'
import type { ChangeEvent } from '../../schemas/data/change.ts'
import { wantsChange } from '../../schemas/data/change-filter.ts'
import type { SavedTrigger } from '../../schemas/workflows/trigger.ts'
import type { TriggerConfig } from '../../schemas/workflows/trigger-plan.ts'
import { type ChangeReader, changePlace, changeReader } from '../change-reader.ts'
import { fireTrigger, type RefusedObservation } from './fire.ts'
import { liveTrigger, type TriggerView } from './trigger-view.ts'

export interface WatchedChanges {
  /** `app.nats.stream-name`. */
  readonly changeStream: string
  /** `app.changes.source`. */
  readonly source: string
}

const consumer = 'workers-scheduler-changes'

/** Starts executions with row changes, one each. Begins when there is a trigger for some; `begin` is called behind each change of triggers. */
export function openChangeTriggers(
  bus: Bus,
  view: () => TriggerView,
  { changeStream, source }: WatchedChanges,
  onObservation: (observation: ConsumeObservation | RefusedObservation) => void,
  signal: AbortSignal,
): Pick<ChangeReader, 'ended'> & { update(): void } {
  const handle = async (table: string, delivery: Delivery) => {
    await view().caughtUp()
    for (const waiting of view().enabled('change')) {
      if (waiting.since > delivery.at || tableOf(source, waiting) !== table) continue
      const change = JSON.parse(Buffer.from(delivery.data).toString('utf8')) as ChangeEvent
      if (!wantsChange(waiting.saved.config as TriggerConfig<'change'>, change)) continue
      const live = await liveTrigger(bus, waiting.saved.triggerId)
      if (live === null) continue
      const cause = ['change', ...changePlace(delivery)].join('/')
      await fireTrigger(bus, live, { cause, brings: { change }, at: Date.now() }, onObservation)
    }
  }
  const reader = changeReader(bus, { changeStream, source, consumer, handle, onObservation }, signal)
  return {
    update() {
      const since = view()
        .enabled('change')
        .map((each) => each.since)
      if (since.length > 0) reader.begin(Math.min(...since))
    },
    ended: () => reader.ended(),
  }
}

function tableOf(source: string, { saved }: SavedTrigger): string {
  const { schema = 'public', table } = saved.config as TriggerConfig<'change'>
  return tableSubject(source, schema, table)
}
