import type { DateTime } from 'luxon'
import { cronMistake, nextTick } from '../../../../schemas/cron.ts'
import { TaskFailure } from '../../plugin.ts'
import { needed } from '../content.ts'
import type { Luxon } from './datetime-instant.ts'
import type { DateTimeInput } from './datetime-properties.ts'
import { told } from './datetime-told.ts'

/** The next ticks of a cron expression, as the scheduler would see them. */
export function cronTicks({ DateTime }: Luxon, at: DateTime, input: DateTimeInput) {
  const { cron, zone, count } = input
  const time = { cron: needed(cron, 'cron', 'next-cron'), timezone: zone }
  const mistake = cronMistake(time, at.toMillis())
  if (mistake !== null) throw new TaskFailure('refused', `properties.cron: ${mistake}`)
  const times: DateTime[] = []
  for (let tick = nextTick(time, at.toMillis()); tick !== null && times.length < count; tick = nextTick(time, tick)) {
    times.push(DateTime.fromMillis(tick, { zone }))
  }
  return { ...told(times[0]!, input), times: times.map((each) => each.toISO() ?? '') }
}
