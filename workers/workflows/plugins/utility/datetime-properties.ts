import { type Static, Type } from 'typebox'

const units = ['millisecond', 'second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'] as const

const When = (description: string, example: unknown) =>
  Type.Optional(Type.Union([Type.String({ maxLength: 200 }), Type.Number()], { description, examples: [example] }))

export const DateTimeInput = Type.Object(
  {
    operation: Type.Enum(
      ['now', 'parse', 'add', 'diff', 'start-of', 'end-of', 'next-cron', 'add-business-days', 'business-days-between'],
      {
        description:
          '`now`; `parse` a date (and write it in another format or zone); `add` a duration, which may be negative; the `diff` to another date; the first or last moment of a day, month, …; the next ticks of a cron expression; business days',
        default: 'now',
        examples: ['add'],
      },
    ),
    value: When(
      'The date: ISO 8601, RFC 2822, a date of HTTP or SQL, epoch milliseconds, or as `inputFormat` says; now by default',
      '2027-03-27T12:00:00',
    ),
    inputFormat: Type.Optional(
      Type.String({
        description: 'How `value` is written, in the tokens of Luxon',
        maxLength: 200,
        examples: ['dd.MM.yyyy HH:mm'],
      }),
    ),
    zone: Type.String({
      description: 'IANA time zone: that of a date that names none, and of the result',
      default: 'UTC',
      maxLength: 100,
      examples: ['Europe/Berlin'],
    }),
    format: Type.String({
      description:
        'How to write the result: `iso`, `date`, `time`, `rfc2822`, `http`, `sql`, `epoch-ms`, `epoch-s`, or tokens of Luxon',
      default: 'iso',
      maxLength: 200,
      examples: ['cccc, d LLLL yyyy'],
    }),
    locale: Type.String({ description: 'Language of names in it', default: 'en', maxLength: 64, examples: ['de'] }),
    amount: Type.Optional(
      Type.Union([Type.String(), Type.Record(Type.String(), Type.Number())], {
        description: 'Of add: an ISO 8601 duration, or numbers by unit',
        examples: ['P1M', { days: 1, hours: -2 }],
      }),
    ),
    other: When('Of diff and business-days-between: the other date', '2027-04-01'),
    unit: Type.Enum([...units], {
      description: 'Of diff: in what; of start-of and end-of: of what',
      default: 'day',
      examples: ['month'],
    }),
    cron: Type.Optional(
      Type.String({ description: 'Of next-cron: five or six fields', maxLength: 200, examples: ['0 9 * * 1-5'] }),
    ),
    count: Type.Integer({
      description: 'Of next-cron: how many ticks',
      default: 1,
      minimum: 1,
      maximum: 1_000,
      examples: [5],
    }),
    days: Type.Integer({
      description: 'Of add-business-days: how many; below 0: back',
      default: 1,
      minimum: -10_000,
      maximum: 10_000,
      examples: [10],
    }),
    weekend: Type.Array(Type.Integer({ minimum: 1, maximum: 7 }), {
      description: 'Days of the week that are no business days: 1 is Monday',
      default: [6, 7],
      maxItems: 6,
      examples: [[5, 6]],
    }),
    holidays: Type.Array(Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$' }), {
      description: 'Dates that are no business days',
      default: [],
      maxItems: 10_000,
      examples: [['2027-01-01']],
    }),
  },
  { additionalProperties: false },
)

export type DateTimeInput = Static<typeof DateTimeInput>
