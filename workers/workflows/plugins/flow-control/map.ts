import { Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { evaluateEach } from '../expression.ts'
import { Expression, Items, listOf } from '../list-properties.ts'

export const map = definePlugin({
  id: 'flow.map',
  name: 'Map',
  category: 'Flow Control',
  description:
    'Makes of each item of a list another one: what an expression gives for it, or an object of several expressions. `$index` and `$items` are there beside the item.',
  effect: 'pure',
  input: Type.Object(
    {
      items: Items([{ price: 2, count: 3 }]),
      expression: Type.Optional(Expression('What becomes of an item', 'price * count')),
      fields: Type.Optional(
        Type.Record(Type.String(), Type.String(), {
          description: 'Instead of one expression: the fields of the new item, each with its expression',
          examples: [{ total: 'price * count', position: '$index + 1' }],
        }),
      ),
      extend: Type.Boolean({
        description: 'Whether `fields` are put over those that the item has',
        default: false,
        examples: [true],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    items: Type.Array(Type.Unknown(), { description: 'The new items, in the same order', examples: [[6]] }),
    count: Type.Integer({ description: 'How many there are', examples: [1] }),
  }),
  example: `name: totals
tasks:
  - name: total
    type: flow.map
    properties:
      items:
        - { price: 2, count: 3 }
        - { price: 5, count: 1 }
      expression: price * count
`,
  async run(task) {
    const { expression, fields, extend } = task.input
    if ((expression === undefined) === (fields === undefined)) {
      throw new TaskFailure('refused', 'properties needs one of expression and fields')
    }
    const items = listOf(task.input.items, 'properties.items')
    const made =
      fields === undefined
        ? await evaluateEach(task, { place: 'properties.expression', expression: expression!, items })
        : await objectsOf(task, items, fields, extend)
    return { items: [...made], count: made.length }
  },
})

async function objectsOf(
  task: TaskRun<unknown>,
  items: readonly unknown[],
  fields: Readonly<Record<string, string>>,
  extend: boolean,
): Promise<readonly unknown[]> {
  const columns: (readonly [string, readonly unknown[]])[] = []
  for (const [name, expression] of Object.entries(fields)) {
    columns.push([name, await evaluateEach(task, { place: `properties.fields.${name}`, expression, items })])
  }
  return items.map((item, index) => {
    const before = extend && item !== null && typeof item === 'object' && !Array.isArray(item) ? item : {}
    return { ...before, ...Object.fromEntries(columns.map(([name, values]) => [name, values[index]])) }
  })
}
