import { Type } from 'typebox'
import { defineControl, TaskFailure } from '../../plugin.ts'
import { OnFailure } from '../group-properties.ts'

const maxItems = 100_000

export const foreach = defineControl({
  id: 'core.foreach',
  name: 'For each',
  category: 'Core',
  description:
    'Runs tasks for every item of a list, so many items at a time. The tasks see `item` and `index`; what they gave is in `outputs["<name>"].iterations`.',
  blocks: ['tasks', 'errors', 'finally'],
  input: Type.Object(
    {
      items: Type.Unknown({
        description:
          'A list, a text that is JSON of one, an object (its entries as `{key, value}`), or a number (0 up to it)',
        examples: [['a', 'b'], '{{ outputs["rows"]["rows"] }}'],
      }),
      concurrency: Type.Integer({
        description: 'How many items at a time',
        minimum: 1,
        maximum: 1000,
        default: 1,
        examples: [10],
      }),
      onFailure: OnFailure,
    },
    { additionalProperties: false },
  ),
  output: Type.Object({ count: Type.Integer({ description: 'How many items there were', examples: [2] }) }),
  example: `name: greet-all
tasks:
  - name: each
    type: core.foreach
    properties:
      items: [Ann, Bob]
      concurrency: 2
    tasks:
      - name: greet
        type: util.log
        properties: { message: 'Hello {{ item }}' }
`,
  decide: async ({ input: { items, concurrency, onFailure }, services }) => {
    const list = listOf(items)
    if (list.length > maxItems) throw new TaskFailure('refused', `properties.items has more than ${maxItems} items`)
    return { kind: 'items', items: await services.value(list), count: list.length, concurrency, onFailure }
  },
})

function listOf(items: unknown): readonly unknown[] {
  if (Array.isArray(items)) return items
  if (typeof items === 'number' && Number.isInteger(items) && items >= 0 && items <= maxItems) {
    return Array.from({ length: items }, (_, index) => index)
  }
  if (typeof items === 'string') {
    try {
      return listOf(JSON.parse(items))
    } catch (cause) {
      if (cause instanceof TaskFailure) throw cause
    }
  } else if (items !== null && typeof items === 'object') {
    return Object.entries(items).map(([key, value]) => ({ key, value }))
  }
  throw new TaskFailure('refused', 'properties.items is no list')
}
