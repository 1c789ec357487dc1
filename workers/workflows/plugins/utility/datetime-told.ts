import type { DateTime } from 'luxon'
import { isBusinessDay } from './business-days.ts'
import type { DateTimeInput } from './datetime-properties.ts'

const formats: Readonly<Record<string, (at: DateTime) => string | number | null>> = {
  iso: (at) => at.toISO(),
  date: (at) => at.toISODate(),
  time: (at) => at.toISOTime(),
  rfc2822: (at) => at.toRFC2822(),
  http: (at) => at.toHTTP(),
  sql: (at) => at.toSQL(),
  'epoch-ms': (at) => at.toMillis(),
  'epoch-s': (at) => Math.floor(at.toSeconds()),
}

/** A date as the outputs say it. */
export function told(at: DateTime, input: DateTimeInput) {
  const { format } = input
  const write = Object.hasOwn(formats, format) ? formats[format]! : (each: DateTime) => each.toFormat(format)
  return {
    value: write(at) ?? '',
    iso: at.toISO() ?? '',
    utc: at.toUTC().toISO() ?? '',
    epochMs: at.toMillis(),
    zone: at.zoneName ?? '',
    parts: {
      year: at.year,
      month: at.month,
      day: at.day,
      hour: at.hour,
      minute: at.minute,
      second: at.second,
      millisecond: at.millisecond,
      weekday: at.weekday,
      week: at.weekNumber,
      weekYear: at.weekYear,
      quarter: at.quarter,
      dayOfYear: at.ordinal,
      daysInMonth: at.daysInMonth ?? 0,
      offsetMinutes: at.offset,
      isDst: at.isInDST,
      isLeapYear: at.isInLeapYear,
      isBusinessDay: isBusinessDay(at, input),
    },
  }
}
