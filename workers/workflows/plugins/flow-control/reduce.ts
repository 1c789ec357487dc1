import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { evaluateFold } from '../expression.ts'
import { Expression, Items, listOf } from '../list-properties.ts'

export const reduce = definePlugin({
  id: 'flow.reduce',
  name: 'Reduce',
  category: 'Flow Control',
  description:
    'Makes one value of a list: for each item an expression gives the next value from `$accumulator` and the item. `$index` and `$items` are there as well.',
  effect: 'pure',
  input: Type.Object(
    {
      items: Items([1, 2, 3]),
      expression: Expression('The next value; the item itself is `$`', '$accumulator + $'),
      initial: Type.Unknown({ description: 'What it begins with', default: null, examples: [0] }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    value: Type.Unknown({ description: 'The last value; `initial` for an empty list', examples: [6] }),
    count: Type.Integer({ description: 'How many items there were', examples: [3] }),
  }),
  example: `name: sum
tasks:
  - name: add
    type: flow.reduce
    properties:
      items: [1, 2, 3]
      expression: $accumulator + $
      initial: 0
`,
  async run(task) {
    const { expression, initial } = task.input
    const items = listOf(task.input.items, 'properties.items')
    const value = await evaluateFold(task, { place: 'properties.expression', expression, items, initial })
    return { value, count: items.length }
  },
})
