import type { DateTime } from 'luxon'
import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { needed } from '../content.ts'
import { businessDaysBetween, moveBusinessDays } from './business-days.ts'
import { checked, durationOf, instantOf } from './datetime-instant.ts'
import { DateTimeInput } from './datetime-properties.ts'
import { told } from './datetime-told.ts'

const Part = (description: string, example: number) => Type.Integer({ description, examples: [example] })

export const datetime = definePlugin({
  id: 'util.datetime',
  name: 'Date and time',
  category: 'Utility',
  description:
    'Reads, writes, moves and compares dates in any time zone, with its clock changes; business days; and when a cron expression is due.',
  effect: 'pure',
  input: DateTimeInput,
  output: Type.Object({
    value: Type.Union([Type.String(), Type.Number()], {
      description: 'The date as the format says; the number of units or days that were asked for',
      examples: ['2027-04-27T12:00:00.000+02:00'],
    }),
    iso: Type.Optional(
      Type.String({ description: 'ISO 8601 in the zone', examples: ['2027-04-27T12:00:00.000+02:00'] }),
    ),
    utc: Type.Optional(Type.String({ description: 'ISO 8601 in UTC', examples: ['2027-04-27T10:00:00.000Z'] })),
    epochMs: Type.Optional(Part('Milliseconds since 1970', 1_808_820_000_000)),
    zone: Type.Optional(Type.String({ description: 'The zone', examples: ['Europe/Berlin'] })),
    parts: Type.Optional(
      Type.Object(
        {
          year: Part('Year', 2027),
          month: Part('Month', 4),
          day: Part('Day of the month', 27),
          hour: Part('Hour', 12),
          minute: Part('Minute', 0),
          second: Part('Second', 0),
          millisecond: Part('Millisecond', 0),
          weekday: Part('Day of the week, 1 is Monday', 2),
          week: Part('ISO week', 17),
          weekYear: Part('Year of the ISO week', 2027),
          quarter: Part('Quarter', 2),
          dayOfYear: Part('Day of the year', 117),
          daysInMonth: Part('Days of the month', 30),
          offsetMinutes: Part('Minutes ahead of UTC', 120),
          isDst: Type.Boolean({ description: 'Whether it is summer time', examples: [true] }),
          isLeapYear: Type.Boolean({ description: 'Whether the year has a 29 February', examples: [false] }),
          isBusinessDay: Type.Boolean({ description: 'Whether it is neither weekend nor holiday', examples: [true] }),
        },
        { description: 'Its parts, in the zone', examples: [{ year: 2027 }] },
      ),
    ),
    duration: Type.Optional(Type.String({ description: 'Of diff: as an ISO 8601 duration', examples: ['P1M3D'] })),
    times: Type.Optional(Type.Array(Type.String(), { description: 'Of next-cron: the ticks', examples: [[]] })),
  }),
  example: `name: next-month
tasks:
  - name: due
    type: util.datetime
    properties:
      operation: add
      value: 2027-03-27T12:00:00
      zone: Europe/Berlin
      amount: P1M
`,
  async run({ input }) {
    const luxon = await import('luxon')
    const at = instantOf(luxon, input, input.value, 'value')
    switch (input.operation) {
      case 'add':
        return told(checked(at.plus(durationOf(luxon, needed(input.amount, 'amount', 'add'))), 'amount'), input)
      case 'start-of':
        return told(at.startOf(input.unit), input)
      case 'end-of':
        return told(at.endOf(input.unit), input)
      case 'diff':
        return difference(at, instantOf(luxon, input, needed(input.other, 'other', 'diff'), 'other'), input.unit)
      case 'next-cron':
        return (await import('./cron-ticks.ts')).cronTicks(luxon, at, input)
      case 'add-business-days':
        return told(checked(moveBusinessDays(at, input.days, input), 'days'), input)
      case 'business-days-between':
        return {
          value: businessDaysBetween(
            at,
            instantOf(luxon, input, needed(input.other, 'other', input.operation), 'other'),
            input,
          ),
        }
      default:
        return told(at, input)
    }
  },
})

function difference(from: DateTime, to: DateTime, unit: DateTimeInput['unit']) {
  const value = to.diff(from, unit).as(unit)
  const [earlier, later] = to < from ? [to, from] : [from, to]
  const duration = later.diff(earlier, ['years', 'months', 'days', 'hours', 'minutes', 'seconds']).rescale()
  return { value, duration: `${to < from ? '-' : ''}${duration.toISO()}` }
}
