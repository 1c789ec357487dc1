import fc from 'fast-check'
import t from 'tap'
import { type Given, pluginsOf, type Right, type Wrong } from './plugin-cases.ts'

t.setTimeout(120_000)
const { call, give, refuse } = pluginsOf('util')
const runs = { numRuns: 40 }

const berlin = { zone: 'Europe/Berlin' }

const right: Right = [
  ['math', { expression: '0.1 + 0.2' }, { value: 0.3, text: '0.3' }],
  ['math', { expression: '-2^2 + 2**3^2 + 7 % 4 + (1 + 2) * 3 - -1' }, { value: 521 }],
  ['math', { expression: '1/3' }, { value: 1 / 3, text: `0.${'3'.repeat(40)}` }],
  ['math', { expression: '2^200' }, { value: '1606938044258990275541962092341162602522202993782792835301376' }],
  ['math', { expression: '9007199254740993 + 0' }, { value: '9007199254740993' }],
  [
    'math',
    { expression: 'sum(a, 4) * o.p - sqrt(16) + count(a)', variables: { a: [1, '2', 3], o: { p: '1.1' } } },
    { value: 10 },
  ],
  [
    'math',
    {
      expression: 'round(19.99 * 1.19, 2) + abs(-1) + max(1, 2) - min(a) + median(a) + avg(a)',
      variables: { a: [1, 2, 6] },
    },
    { value: 30.79 },
  ],
  ['math', { expression: 'pi * 2', digits: 3 }, { value: 6.283 }],
  ['math', { expression: 'ln(exp(2)) + log(8, 2) + log10(1000) + cbrt(27)', digits: 20 }, { value: 11 }],
  ...(
    [
      ['half-up', 3, -3],
      ['half-even', 2, -2],
      ['half-down', 2, -2],
      ['up', 3, -3],
      ['down', 2, -2],
      ['ceil', 3, -2],
      ['floor', 2, -3],
    ] as const
  ).flatMap(([mode, above, below]): [string, Given, Given][] => [
    ['math', { operation: 'round', value: 2.5, mode }, { value: above }],
    ['math', { operation: 'round', value: '-2.5', mode }, { value: below }],
  ]),
  ['math', { operation: 'round', value: 1.005, digits: 2 }, { value: 1.01 }],
  ['math', { operation: 'round', value: 1250, digits: -2, mode: 'half-even' }, { value: 1200 }],
  ['math', { operation: 'round', value: 1.03, step: '0.05' }, { value: 1.05 }],
  [
    'math',
    { operation: 'statistics', values: [2, 4, 4, '4', 5, 5, 7, 9, null], percentiles: [0, 25, 90, 100] },
    {
      count: 8,
      sum: 40,
      avg: 5,
      min: 2,
      max: 9,
      median: 4.5,
      variance: 32 / 7,
      percentiles: { 0: 2, 25: 4, 90: 7.6, 100: 9 },
    },
  ],
  ['math', { operation: 'statistics', values: [] }, { count: 0, sum: 0, avg: null, stddev: null }],
  [
    'datetime',
    { operation: 'parse', value: 0 },
    { iso: '1970-01-01T00:00:00.000Z', epochMs: 0, parts: { weekday: 4, week: 1, dayOfYear: 1, isLeapYear: false } },
  ],
  [
    'datetime',
    { operation: 'parse', value: '2027-01-01', ...berlin },
    { iso: '2027-01-01T00:00:00.000+01:00', utc: '2026-12-31T23:00:00.000Z', parts: { week: 53, weekYear: 2026 } },
  ],
  ['datetime', { operation: 'parse', value: 'Tue, 01 Nov 2016 13:23:12 +0630' }, { utc: '2016-11-01T06:53:12.000Z' }],
  ['datetime', { operation: 'parse', value: 'Sunday, 06-Nov-94 08:49:37 GMT' }, { utc: '1994-11-06T08:49:37.000Z' }],
  ['datetime', { operation: 'parse', value: '2017-05-15 09:24:15 Europe/Berlin' }, { utc: '2017-05-15T07:24:15.000Z' }],
  [
    'datetime',
    { operation: 'parse', value: '3. März 2027 14:05', inputFormat: 'd. LLLL yyyy HH:mm', locale: 'de', ...berlin },
    { utc: '2027-03-03T13:05:00.000Z' },
  ],
  ...(
    [
      ['date', '2027-03-03'],
      ['rfc2822', 'Wed, 03 Mar 2027 13:05:00 +0000'],
      ['http', 'Wed, 03 Mar 2027 13:05:00 GMT'],
      ['sql', '2027-03-03 13:05:00.000 Z'],
      ['epoch-s', 1804079100],
      ['epoch-ms', 1804079100000],
      ['cccc d LLLL', 'Wednesday 3 March'],
    ] as const
  ).map(([format, value]): [string, Given, Given] => [
    'datetime',
    { operation: 'parse', value: '2027-03-03T13:05:00Z', format },
    { value },
  ]),
  // The clocks of Berlin go forward at 2:00 on 28 March 2027, and back at 3:00 on 31 October.
  [
    'datetime',
    { operation: 'add', value: '2027-03-27T12:00', amount: 'P1D', ...berlin },
    { iso: '2027-03-28T12:00:00.000+02:00' },
  ],
  [
    'datetime',
    { operation: 'add', value: '2027-03-27T12:00', amount: 'PT24H', ...berlin },
    { iso: '2027-03-28T13:00:00.000+02:00' },
  ],
  [
    'datetime',
    { operation: 'add', value: '2027-03-27T02:30', amount: { day: 1 }, ...berlin },
    { iso: '2027-03-28T03:30:00.000+02:00' },
  ],
  [
    'datetime',
    { operation: 'add', value: '2027-10-31T02:30+02:00', amount: { hours: 1 }, ...berlin },
    { iso: '2027-10-31T02:30:00.000+01:00', parts: { isDst: false } },
  ],
  [
    'datetime',
    { operation: 'diff', value: '2027-03-28', other: '2027-03-29', unit: 'hour', ...berlin },
    { value: 23, duration: 'P1D' },
  ],
  ['datetime', { operation: 'diff', value: '2027-10-31', other: '2027-11-01', unit: 'hour', ...berlin }, { value: 25 }],
  [
    'datetime',
    { operation: 'diff', value: '2027-03-04', other: '2027-01-01', unit: 'month' },
    { value: -2 - 3 / 31, duration: '-P2M3D' },
  ],
  ['datetime', { operation: 'add', value: '2027-01-31', amount: 'P1M', format: 'date' }, { value: '2027-02-28' }],
  ['datetime', { operation: 'add', value: '2028-02-29', amount: '-P1Y', format: 'date' }, { value: '2027-02-28' }],
  [
    'datetime',
    { operation: 'start-of', value: '2027-05-20T10:00Z', unit: 'week', format: 'date' },
    { value: '2027-05-17' },
  ],
  ['datetime', { operation: 'end-of', value: '2027-05-20', unit: 'quarter' }, { iso: '2027-06-30T23:59:59.999Z' }],
  [
    'datetime',
    { operation: 'next-cron', value: '2027-03-27T00:00', cron: '30 2 * * *', count: 3, ...berlin },
    { times: ['2027-03-27T02:30:00.000+01:00', '2027-03-28T03:00:00.000+02:00', '2027-03-29T02:30:00.000+02:00'] },
  ],
  [
    'datetime',
    { operation: 'next-cron', value: '2027-01-01T00:00:00Z', cron: '0 9 * * 1-5' },
    { value: '2027-01-01T09:00:00.000Z' },
  ],
  [
    'datetime',
    { operation: 'add-business-days', value: '2027-01-01T10:00', days: 5, holidays: ['2027-01-06'], format: 'date' },
    { value: '2027-01-11' },
  ],
  [
    'datetime',
    { operation: 'add-business-days', value: '2027-01-04', days: -1, format: 'date' },
    { value: '2027-01-01' },
  ],
  [
    'datetime',
    { operation: 'add-business-days', value: '2027-01-07', days: 1, weekend: [5, 6], format: 'date' },
    { value: '2027-01-10' },
  ],
  ['datetime', { operation: 'business-days-between', value: '2027-01-01', other: '2027-01-31' }, { value: 20 }],
  [
    'datetime',
    { operation: 'business-days-between', value: '2027-01-31', other: '2027-01-01', holidays: ['2027-01-06'] },
    { value: -19 },
  ],
]

t.test('what comes out of what', (t) => give(t, right))

const wrong: Wrong = [
  ['math', { expression: '1 +' }, /ends too early at line 1, column 4/],
  ['math', { expression: '1 + * 2' }, /unexpected \* at line 1, column 5/],
  ['math', { expression: '(1' }, /a \) is missing at line 1, column 3/],
  ['math', { expression: '1 $ 2' }, /unexpected \$ at line 1, column 3/],
  ['math', { expression: '1/(2-2)' }, /division by zero/],
  ['math', { expression: '10^1000000' }, /too large/],
  ['math', { expression: 'sqrt(-1)' }, /no number/],
  ['math', { expression: 'f(1)' }, /there is no function f at line 1, column 1/],
  ['math', { expression: 'constructor' }, /there is no variable constructor/],
  ['math', { expression: 'a', variables: { a: 'x' } }, /properties.variables.a is no number: "x"/],
  ['math', { expression: 'a + 1', variables: { a: [1] } }, /a list is no number/],
  ['math', { expression: '('.repeat(5_000) }, /nests too deep/],
  ['math', { expression: `${'2^'.repeat(500)}2` }, /nests too deep/],
  ['math', { operation: 'round', value: 'x' }, /properties.value is no number/],
  ['math', { operation: 'round', value: 1, step: 0 }, /not above zero/],
  ['math', { operation: 'statistics', values: [1, 'x'] }, /properties.values\[1\] is no number/],
  ['datetime', { operation: 'parse', value: '2027-02-30' }, /properties.value is no date/],
  ['datetime', { operation: 'parse', value: '31.02.2027', inputFormat: 'dd.MM.yyyy' }, /properties.value is no date/],
  ['datetime', { operation: 'parse', value: '9'.repeat(16) }, /properties.value is no date/],
  ['datetime', { zone: 'Nowhere/Land' }, /properties.zone is no time zone/],
  ['datetime', { locale: '!' }, /properties.locale is no language tag/],
  ['datetime', { operation: 'add', amount: 'soon' }, /properties.amount is no ISO 8601 duration/],
  ['datetime', { operation: 'add', amount: { moons: 1 } }, /moons is no unit/],
  ['datetime', { operation: 'add', amount: { years: 1e9 } }, /properties.amount is no date/],
  ['datetime', { operation: 'next-cron', cron: '99 * * * *' }, /properties.cron: /],
  ['datetime', { operation: 'diff' }, /properties.other is needed for diff/],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

t.test('sums and products of whole numbers', async () => {
  const whole = fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n })
  await fc.assert(
    fc.asyncProperty(whole, whole, whole, async (a, b, c) => {
      const { text } = await call('math', {
        expression: '(a + b) * c - -a',
        variables: { a: String(a), b: String(b), c: String(c) },
      })
      return text === String((a + b) * c + a)
    }),
    runs,
  )
})

t.test('dates', async () => {
  const days = fc.integer({ min: -10_000, max: 10_000 })
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 4_000_000_000_000 }),
      days,
      fc.constantFrom('UTC', 'America/New_York', 'Asia/Kolkata'),
      async (value, hours, zone) => {
        const { epochMs } = await call('datetime', { operation: 'add', value, amount: { hours }, zone })
        const { value: back } = await call('datetime', {
          operation: 'diff',
          value,
          other: epochMs,
          unit: 'hour',
          zone,
        })
        return epochMs === value + hours * 3_600_000 && back === hours
      },
    ),
    runs,
  )
})
