import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { Items, listOf } from '../list-properties.ts'

export const limit = definePlugin({
  id: 'flow.limit',
  name: 'Limit',
  category: 'Flow Control',
  description: 'Takes so many items of a list, from its start or from its end, after leaving some out.',
  effect: 'pure',
  input: Type.Object(
    {
      items: Items([1, 2, 3]),
      count: Type.Integer({ description: 'How many', minimum: 0, examples: [10] }),
      offset: Type.Integer({
        description: 'How many are left out before',
        minimum: 0,
        default: 0,
        examples: [20],
      }),
      from: Type.Union([Type.Literal('start'), Type.Literal('end')], {
        description: 'Where it counts from; the order stays as it is',
        default: 'start',
        examples: ['end'],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    items: Type.Array(Type.Unknown(), { description: 'Those that were taken', examples: [[1, 2]] }),
    count: Type.Integer({ description: 'How many they are', examples: [2] }),
    total: Type.Integer({ description: 'How many there were', examples: [3] }),
    hasMore: Type.Boolean({ description: 'Whether there are more behind them', examples: [true] }),
  }),
  example: `name: first-two
tasks:
  - name: two
    type: flow.limit
    properties:
      items: [1, 2, 3]
      count: 2
`,
  async run({ input }) {
    const all = listOf(input.items, 'properties.items')
    const { count, offset, from } = input
    const end = Math.max(0, all.length - offset)
    const items = from === 'start' ? all.slice(offset, offset + count) : all.slice(Math.max(0, end - count), end)
    return { items: [...items], count: items.length, total: all.length, hasMore: offset + count < all.length }
  },
})
