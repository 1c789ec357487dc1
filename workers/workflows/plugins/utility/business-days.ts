import type { DateTime } from 'luxon'
import { TaskFailure } from '../../plugin.ts'

interface Calendar {
  /** 1 is Monday. */
  readonly weekend: readonly number[]
  /** ISO dates. */
  readonly holidays: readonly string[]
}

const maxSpanDays = 1_000_000
const dayMs = 24 * 60 * 60_000

export function isBusinessDay(at: DateTime, calendar: Calendar): boolean {
  return businessDayCheck(calendar)(dayOf(at))
}

/** The same time of day, so many business days later, or earlier below zero. */
export function moveBusinessDays(from: DateTime, days: number, calendar: Calendar): DateTime {
  const isBusiness = businessDayCheck(calendar)
  const first = dayOf(from)
  let day = first
  for (let left = Math.abs(days); left > 0; ) {
    day += Math.sign(days)
    if (isBusiness(day)) left -= 1
    if (Math.abs(day - first) > maxSpanDays) throw new TaskFailure('refused', 'There are no business days')
  }
  return from.plus({ days: day - first })
}

/** Of the days after the first date up to the second; below zero when that is earlier. */
export function businessDaysBetween(from: DateTime, to: DateTime, calendar: Calendar): number {
  const [first, last] = [dayOf(from), dayOf(to)].sort((one, other) => one - other) as [number, number]
  if (last - first > maxSpanDays) {
    throw new TaskFailure('refused', `The dates are more than ${maxSpanDays} days apart`)
  }
  const isBusiness = businessDayCheck(calendar)
  let count = 0
  for (let day = first + 1; day <= last; day++) if (isBusiness(day)) count += 1
  return dayOf(from) <= dayOf(to) ? count : -count
}

/** Days since 1970, whatever the zone: clock changes do not count. */
function dayOf({ year, month, day }: DateTime): number {
  return Math.round(new Date(0).setUTCFullYear(year, month - 1, day) / dayMs)
}

function businessDayCheck({ weekend, holidays }: Calendar): (day: number) => boolean {
  const free = new Set(holidays.map((date) => Math.round(Date.parse(date) / dayMs)))
  const isOff = new Set(weekend)
  // The first day of 1970 was a Thursday.
  return (day) => !isOff.has(((((day + 3) % 7) + 7) % 7) + 1) && !free.has(day)
}
