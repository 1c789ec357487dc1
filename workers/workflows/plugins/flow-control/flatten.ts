import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { evaluateEach, maxRows } from '../expression.ts'
import { Expression, Items, listOf, visitEach } from '../list-properties.ts'
import { tooManyItems } from './too-many-items.ts'

const maxDepth = 100

export const flatten = definePlugin({
  id: 'flow.flatten',
  name: 'Flatten',
  category: 'Flow Control',
  description:
    'Makes one list of lists within a list: of the items that are lists, or of the list that an expression finds in each item.',
  effect: 'pure',
  input: Type.Object(
    {
      items: Items([[1, 2], [3]]),
      expression: Type.Optional(Expression('The list within an item', 'lines')),
      depth: Type.Integer({
        description: 'How many levels of lists are opened',
        minimum: 1,
        maximum: maxDepth,
        default: 1,
        examples: [2],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    items: Type.Array(Type.Unknown(), { description: 'What is in the lists, in order', examples: [[1, 2, 3]] }),
    count: Type.Integer({ description: 'How many there are', examples: [3] }),
  }),
  example: `name: all-lines
tasks:
  - name: lines
    type: flow.flatten
    properties:
      items:
        - { order: 1, lines: [a, b] }
        - { order: 2, lines: [c] }
      expression: lines
`,
  async run(task) {
    const { expression, depth } = task.input
    const given = listOf(task.input.items, 'properties.items')
    let items =
      expression === undefined
        ? given
        : await evaluateEach(task, { place: 'properties.expression', expression, items: given })
    for (let level = 0; level < depth && items.some(Array.isArray); level++) items = await opened(items, task.signal)
    return { items: [...items], count: items.length }
  },
})

async function opened(items: readonly unknown[], signal: AbortSignal): Promise<readonly unknown[]> {
  const flat: unknown[] = []
  await visitEach(items, signal, (item) => {
    if (Array.isArray(item)) for (const inner of item) flat.push(inner)
    else flat.push(item)
    if (flat.length > maxRows) throw tooManyItems()
  })
  return flat
}
