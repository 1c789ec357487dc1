import fc from 'fast-check'
import t from 'tap'
import { type Given, pluginsOf, type Right, type Wrong } from './plugin-cases.ts'

t.setTimeout(120_000)
const { call, give, refuse } = pluginsOf('transform')
const runs = { numRuns: 40 }

const sides = {
  left: [{ id: 1 }, { id: 2 }, { id: null }],
  right: [
    { of: 1, name: 'x' },
    { of: '1', name: 'z' },
    { of: 1, name: 'y' },
    { of: null, name: 'n' },
  ],
}

const right: Right = [
  ...(
    [
      [
        'inner',
        [
          [1, 'x'],
          [1, 'y'],
        ],
      ],
      [
        'left',
        [
          [1, 'x'],
          [1, 'y'],
          [2, null],
          [null, null],
        ],
      ],
      [
        'right',
        [
          [1, 'x'],
          [1, 'y'],
          [undefined, 'z'],
          [undefined, 'n'],
        ],
      ],
      [
        'full',
        [
          [1, 'x'],
          [1, 'y'],
          [2, null],
          [null, null],
          [undefined, 'z'],
          [undefined, 'n'],
        ],
      ],
    ] as const
  ).map(([type, pairs]): [string, Given, Given] => [
    'join',
    { ...sides, type, leftKey: 'id', rightKey: 'of', combine: 'nest' },
    {
      items: pairs.map(([id, name]) => ({
        left: id === undefined ? null : { id },
        right: name === null ? null : { name },
      })),
      unmatchedLeft: 2,
      unmatchedRight: 2,
    },
  ]),
  ['join', { ...sides, type: 'semi', leftKey: 'id', rightKey: 'of' }, { items: [{ id: 1 }], count: 1 }],
  ['join', { ...sides, type: 'anti', leftKey: 'id', rightKey: 'of' }, { items: [{ id: 2 }, { id: null }] }],
  [
    'join',
    { left: [{ a: 1, b: 2, n: 'l' }], right: [{ a: 1, b: 2, n: 'r' }], leftKey: '[a, b]' },
    { items: [{ a: 1, b: 2, n: 'l', right_n: 'r' }] },
  ],
]

t.test('what comes out of what', (t) => give(t, right))

const wrong: Wrong = [
  [
    'join',
    { left: Array(100).fill({ a: 1 }), right: Array(100).fill({ a: 1 }), leftKey: 'a', maxItems: 9_999 },
    /gives more than 9999 items/,
  ],
  [
    'join',
    { left: [{ a: 1, b: 'x'.repeat(100_000) }], right: Array(1_000).fill({ a: 1 }), leftKey: 'a' },
    /What comes together is larger than 64 MB/,
  ],
  ['join', { left: [1], right: [1], leftKey: '$' }, /properties.left has an item that is no object/],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

const row = fc.record({ k: fc.oneof(fc.integer({ min: 0, max: 5 }), fc.constant(null)), v: fc.integer() })

t.test('join', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(row), fc.array(row), async (left, right) => {
      const { items } = await call('join', { left, right, leftKey: 'k', combine: 'nest', type: 'left' })
      const plain = left.flatMap((one): unknown[] => {
        const found = right.filter(({ k }) => k !== null && k === one.k)
        return found.length === 0 ? [{ left: one, right: null }] : found.map((other) => ({ left: one, right: other }))
      })
      return JSON.stringify(items) === JSON.stringify(plain)
    }),
    runs,
  )
})
