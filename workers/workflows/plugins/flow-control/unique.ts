import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { evaluateEach } from '../expression.ts'
import { Expression, Items, keyOf, listOf, visitEach } from '../list-properties.ts'

export const unique = definePlugin({
  id: 'flow.unique',
  name: 'Unique',
  category: 'Flow Control',
  description: 'Leaves one of the items of a list that are equal, or that have the same key.',
  effect: 'pure',
  input: Type.Object(
    {
      items: Items([1, 2, 1]),
      by: Type.Optional(Expression('The key of an item; without one whole items are compared', 'email')),
      keep: Type.Union([Type.Literal('first'), Type.Literal('last')], {
        description: 'Which of those with the same key stays, at its place',
        default: 'first',
        examples: ['last'],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    items: Type.Array(Type.Unknown(), { description: 'Those that are left, in their order', examples: [[1, 2]] }),
    count: Type.Integer({ description: 'How many are left', examples: [2] }),
    removed: Type.Integer({ description: 'How many are not', examples: [1] }),
  }),
  example: `name: no-twins
tasks:
  - name: once
    type: flow.unique
    properties:
      items:
        - { id: 1, email: ann@example.com }
        - { id: 2, email: bob@example.com }
        - { id: 3, email: ann@example.com }
      by: email
`,
  async run(task) {
    const { by, keep } = task.input
    const items = listOf(task.input.items, 'properties.items')
    const keys = by === undefined ? items : await evaluateEach(task, { place: 'properties.by', expression: by, items })
    const places = new Map<string, number>()
    await visitEach(keys, task.signal, (key, index) => {
      const name = keyOf(key)
      if (keep === 'last' || !places.has(name)) places.set(name, index)
    })
    const left = [...places.values()].sort((one, other) => one - other).map((index) => items[index])
    return { items: left, count: left.length, removed: items.length - left.length }
  },
})
