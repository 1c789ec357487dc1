import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { evaluateEach } from '../expression.ts'
import { Expression, Items, listOf } from '../list-properties.ts'
import { threadModule } from '../thread-module.ts'

const work = threadModule<typeof import('./sort-thread.ts')>(new URL('./sort-thread.ts', import.meta.url))

const By = Type.Object(
  {
    field: Expression('What of the item; `$` is the item itself', 'name'),
    order: Type.Enum(['ascending', 'descending'], {
      description: 'Smallest or largest first',
      default: 'ascending',
      examples: ['descending'],
    }),
    as: Type.Enum(['value', 'number', 'text', 'natural'], {
      description:
        '`value`: numbers by size, texts by their characters; `number`: texts as the numbers they spell; `text`: as people of the locale order them; `natural`: the same, with 2 before 10',
      default: 'value',
      examples: ['natural'],
    }),
    ignoreCase: Type.Boolean({
      description: 'Of `text` and `natural`: whether case and accents make no difference',
      default: false,
      examples: [true],
    }),
    nulls: Type.Enum(['last', 'first'], {
      description: 'Where items go that have nothing there, whatever the order',
      default: 'last',
      examples: ['first'],
    }),
  },
  { additionalProperties: false },
)

export const sort = definePlugin({
  id: 'transform.sort',
  name: 'Sort',
  category: 'Transforms',
  description: 'Orders a list by one or several fields; items that are equal keep their order.',
  effect: 'pure',
  input: Type.Object(
    {
      items: Items([{ name: 'b' }, { name: 'a' }]),
      by: Type.Array(By, {
        description: 'By what; the second decides where the first is equal, and so on. The items themselves by default',
        default: [{ field: '$' }],
        minItems: 1,
        maxItems: 20,
        examples: [[{ field: 'name' }, { field: 'age', order: 'descending' }]],
      }),
      locale: Type.String({
        description: 'Whose order of texts',
        default: 'en',
        maxLength: 64,
        examples: ['de'],
      }),
      limit: Type.Integer({
        description: 'Give the first so many',
        default: 1_000_000,
        minimum: 0,
        examples: [10],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    items: Type.Array(Type.Unknown(), { description: 'The items in order', examples: [[{ name: 'a' }]] }),
    count: Type.Integer({ description: 'How many', examples: [1] }),
  }),
  example: `name: dearest-first
tasks:
  - name: order
    type: transform.sort
    properties:
      items:
        - { name: tea, price: 3 }
        - { name: wine, price: 12 }
      by:
        - { field: price, order: descending }
        - { field: name }
`,
  async run(task) {
    const { by, locale, limit } = task.input
    const items = listOf(task.input.items, 'properties.items')
    const keys: (readonly unknown[])[] = []
    for (const [index, { field }] of by.entries()) {
      keys.push(await evaluateEach(task, { place: `properties.by[${index}].field`, expression: field, items }))
    }
    const order = await work(task, 'order', { keys, by, locale, count: items.length })
    const sorted = [...order.slice(0, limit)].map((index) => items[index])
    return { items: sorted, count: sorted.length }
  },
})
