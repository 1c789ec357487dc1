import { Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { evaluateEach } from '../expression.ts'
import { Expression, Items, keyOf, listOf, visitEach } from '../list-properties.ts'

export const group = definePlugin({
  id: 'flow.group',
  name: 'Group',
  category: 'Flow Control',
  description:
    'Puts the items of a list into groups: those with the same key into one, or so many into each, as batches for `core.foreach`.',
  effect: 'pure',
  input: Type.Object(
    {
      items: Items([{ city: 'Rome' }, { city: 'Oslo' }, { city: 'Rome' }]),
      by: Type.Optional(Expression('The key of an item', 'city')),
      size: Type.Optional(
        Type.Integer({
          description: 'Instead of a key: how many items make a group; the last may have fewer',
          minimum: 1,
          maximum: 1_000_000,
          examples: [100],
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    groups: Type.Array(
      Type.Object({
        key: Type.Unknown({ description: 'What its items have in common, or its number', examples: ['Rome'] }),
        items: Type.Array(Type.Unknown(), { description: 'In their order', examples: [[{ city: 'Rome' }]] }),
        count: Type.Integer({ description: 'How many', examples: [2] }),
      }),
      { description: 'In the order of their first items', examples: [[]] },
    ),
    count: Type.Integer({ description: 'How many groups there are', examples: [2] }),
  }),
  example: `name: by-city
tasks:
  - name: cities
    type: flow.group
    properties:
      items:
        - { name: Ann, city: Rome }
        - { name: Bob, city: Oslo }
        - { name: Cid, city: Rome }
      by: city
`,
  async run(task) {
    const { by, size } = task.input
    if ((by === undefined) === (size === undefined)) {
      throw new TaskFailure('refused', 'properties needs one of by and size')
    }
    const items = listOf(task.input.items, 'properties.items')
    const keys =
      by === undefined
        ? items.map((_, index) => Math.floor(index / size!))
        : await evaluateEach(task, { place: 'properties.by', expression: by, items })
    const found = new Map<string, { readonly key: unknown; readonly items: unknown[] }>()
    await visitEach(items, task.signal, (item, index) => {
      const name = keyOf(keys[index])
      const known = found.get(name)
      if (known === undefined) found.set(name, { key: keys[index], items: [item] })
      else known.items.push(item)
    })
    const groups = [...found.values()].map((each) => ({ ...each, count: each.items.length }))
    return { groups, count: groups.length }
  },
})
