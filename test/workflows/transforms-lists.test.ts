import fc from 'fast-check'
import t from 'tap'
import { type Given, pluginsOf, type Right, type Wrong } from './plugin-cases.ts'

t.setTimeout(120_000)
const { call, give, refuse } = pluginsOf('transform')
const runs = { numRuns: 40 }

const right: Right = [
  ['filter', { items: [{ p: 3 }, { p: 12 }], expression: 'p < 10' }, { items: [{ p: 3 }], count: 1, removed: 1 }],
  [
    'filter',
    { items: '[0, 1, "", "x", [], [0], [1], {}, {"a":0}, null]', expression: '$' },
    { items: [1, 'x', [1], { a: 0 }] },
  ],
  ['filter', { items: [1, 2, 3], expression: '$index = 1 or $ = $items[2]', limit: 1 }, { items: [2], removed: 2 }],
  ...(
    [
      ['equal', 5, [5, '5', '5.0']],
      ['not-equal', 5, [7, '', 'b', null, 'A']],
      ['greater', 5, [7, '', 'b', 'A']],
      ['greater-or-equal', '5', [5, 7, '5', 'b', '5.0', 'A']],
      ['less', 'b', [5, 7, '5', '', '5.0', 'A']],
      ['less-or-equal', 5, [5, '5', '5.0']],
      ['in', [7, 'b'], [7, 'b']],
      ['not-in', [5, null, ''], [7, 'b', 'A']],
      ['contains', '5', [5, '5', '5.0']],
      ['starts-with', '5', [5, '5', '5.0']],
      ['ends-with', '0', ['5.0']],
      ['matches', '^[a-z]$', ['b']],
      ['empty', null, ['', null]],
      ['not-empty', null, [5, 7, '5', 'b', '5.0', 'A']],
    ] as const
  ).map(([is, value, items]): [string, Given, Given] => [
    'filter',
    { items: [5, 7, '5', '', 'b', null, '5.0', 'A'], conditions: [{ field: '$', is, value }] },
    { items },
  ]),
  [
    'filter',
    {
      items: [{ t: ['x'] }, { t: [] }, { t: ['y'], a: 1 }],
      conditions: [
        { field: 't', is: 'contains', value: 'x' },
        { field: 'a', is: 'equal', value: 1 },
      ],
      match: 'any',
    },
    { items: [{ t: ['x'] }, { t: ['y'], a: 1 }] },
  ],
  ['sort', { items: [3, 'b', 1, null, 'a', true] }, { items: [true, 1, 3, 'a', 'b', null] }],
  ['sort', { items: [3, 1, null], by: [{ field: '$', order: 'descending', nulls: 'first' }] }, { items: [null, 3, 1] }],
  ['sort', { items: ['x10', 'x2', 'X1'], by: [{ field: '$', as: 'natural' }] }, { items: ['X1', 'x2', 'x10'] }],
  ['sort', { items: ['10', '9', '1e1', 'x'], by: [{ field: '$', as: 'number' }] }, { items: ['9', '10', '1e1', 'x'] }],
  [
    'sort',
    { items: ['zebra', 'Äpfel', 'apfel'], by: [{ field: '$', as: 'text' }], locale: 'de' },
    { items: ['apfel', 'Äpfel', 'zebra'] },
  ],
  [
    'sort',
    { items: ['zebra', 'ähnlich'], by: [{ field: '$', as: 'text' }], locale: 'sv' },
    { items: ['zebra', 'ähnlich'] },
  ],
  [
    'sort',
    { items: ['b', 'A', 'B', 'a'], by: [{ field: '$', as: 'text', ignoreCase: true }] },
    { items: ['A', 'a', 'b', 'B'] },
  ],
  [
    'sort',
    {
      items: [
        { a: 1, b: 1 },
        { a: 2, b: 1 },
        { a: 1, b: 2 },
      ],
      by: [{ field: 'a' }, { field: 'b', order: 'descending' }],
      limit: 2,
    },
    {
      items: [
        { a: 1, b: 2 },
        { a: 1, b: 1 },
      ],
      count: 2,
    },
  ],
  [
    'aggregate',
    {
      items: [
        { c: 'P', p: 0.1 },
        { c: 'R', p: 5 },
        { c: 'P', p: '0.2' },
        { c: 'P', p: null },
        { c: 'P', p: 0.1 },
      ],
      by: ['c'],
      measures: [
        'count',
        'count-distinct',
        'sum',
        'avg',
        'min',
        'max',
        'median',
        'stddev',
        'first',
        'last',
        'list',
        'distinct',
      ].map((calculate) => ({ name: calculate, calculate, of: 'p' })),
    },
    {
      groups: [
        {
          c: 'P',
          count: 3,
          'count-distinct': 2,
          sum: 0.4,
          avg: 0.13333333333333333,
          min: 0.1,
          max: '0.2',
          median: 0.1,
          stddev: 0.057735026918962574,
          first: 0.1,
          last: 0.1,
          list: [0.1, '0.2', 0.1],
          distinct: [0.1, '0.2'],
        },
        { c: 'R', count: 1, sum: 5, avg: 5, stddev: null },
      ],
      count: 2,
    },
  ],
  [
    'aggregate',
    {
      items: [],
      measures: [
        { name: 'n', calculate: 'count' },
        { name: 's', calculate: 'sum', of: '$' },
        { name: 'a', calculate: 'avg', of: '$' },
      ],
    },
    { groups: [{ n: 0, s: 0, a: null }] },
  ],
  ['aggregate', { items: [], by: ['a'], measures: [{ name: 'n', calculate: 'count' }] }, { groups: [], count: 0 }],
  [
    'aggregate',
    { items: [9007199254740991, 2, '0.5'], measures: [{ name: 's', calculate: 'sum', of: '$' }] },
    { groups: [{ s: '9007199254740993.5' }] },
  ],
  [
    'aggregate',
    { items: [1, 2, 2], measures: [{ name: 'a', calculate: 'avg', of: '$', scale: 2 }] },
    { groups: [{ a: 1.67 }] },
  ],
  [
    'aggregate',
    {
      items: ['2026-02-01', '2027-01-01'],
      by: [{ name: 'y', field: '$substring($, 0, 4)' }],
      measures: [
        { name: 'n', calculate: 'count' },
        { name: 'm', calculate: 'max', of: '$' },
      ],
    },
    {
      groups: [
        { y: '2026', n: 1, m: '2026-02-01' },
        { y: '2027', n: 1 },
      ],
    },
  ],
]

t.test('what comes out of what', (t) => give(t, right))

const wrong: Wrong = [
  ['filter', { items: [1] }, /properties.expression or properties.conditions is needed/],
  ['filter', { items: 'x', expression: '$' }, /properties.items is no list/],
  ['filter', { items: [1], expression: '$ <' }, /properties.expression: /],
  [
    'filter',
    { items: [1], conditions: [{ field: '$', is: 'in', value: 1 }] },
    /properties.conditions\[0\].value is no list/,
  ],
  [
    'filter',
    { items: [1], conditions: [{ field: '$', is: 'matches', value: '(' }] },
    /properties.conditions\[0\].value is no pattern/,
  ],
  ['sort', { items: [1], by: [{ field: '$', as: 'text' }], locale: '!' }, /properties.locale is no language tag/],
  [
    'aggregate',
    { items: [{ p: 'x' }], measures: [{ name: 's', calculate: 'sum', of: 'p' }] },
    /s of item 1 is no number: "x"/,
  ],
  [
    'aggregate',
    { items: [], measures: [{ name: 's', calculate: 'sum' }] },
    /properties.measures\[0\].of is needed for sum/,
  ],
  ['aggregate', { items: [], by: ['a'], measures: [{ name: 'a', calculate: 'count' }] }, /The name a is there twice/],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

const row = fc.record({ k: fc.oneof(fc.integer({ min: 0, max: 5 }), fc.constant(null)), v: fc.integer() })

t.test('sort is stable', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(row), async (items) => {
      const given = items.map((item, at) => ({ ...item, at }))
      const { items: order } = await call('sort', { items: given, by: [{ field: 'k', order: 'descending' }] })
      const plain = given.toSorted((a, b) => (a.k === null ? (b.k === null ? 0 : 1) : b.k === null ? -1 : b.k - a.k))
      return JSON.stringify(order) === JSON.stringify(plain)
    }),
    runs,
  )
})

t.test('sums are exact', async () => {
  const decimal = fc.tuple(fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), fc.integer({ min: 0, max: 9 }))
  await fc.assert(
    fc.asyncProperty(fc.array(decimal), async (numbers) => {
      const items = numbers.map(([units, digits]) => `${units}e-${digits}`)
      const { groups } = await call('aggregate', { items, measures: [{ name: 's', calculate: 'sum', of: '$' }] })
      const sum = numbers.reduce((all, [units, digits]) => all + units * 10n ** BigInt(9 - digits), 0n)
      const told = String((groups as [{ s: unknown }])[0].s)
      const [whole, fraction = ''] = /e/.test(told) ? Number(told).toFixed(20).split('.') : told.split('.')
      return BigInt(`${whole}${fraction.padEnd(9, '0').slice(0, 9)}`) === sum
    }),
    runs,
  )
})
