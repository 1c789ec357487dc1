import { Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { evaluateEach } from '../expression.ts'
import { Expression, Items, listOf } from '../list-properties.ts'
import { threadModule } from '../thread-module.ts'
import { Measure } from './aggregate-properties.ts'

const work = threadModule<typeof import('./aggregate-thread.ts')>(new URL('./aggregate-thread.ts', import.meta.url))

const Key = Type.Object(
  {
    name: Type.String({ description: 'What it is called in the outputs', minLength: 1, examples: ['city'] }),
    field: Expression('What of each item', 'address.city'),
  },
  { additionalProperties: false },
)

const Input = Type.Object(
  {
    items: Items([{ city: 'Paris', price: 3 }]),
    by: Type.Array(Type.Union([Type.String(), Key]), {
      description: 'Items that are equal in all of these are a group: names of fields, or expressions with a name',
      default: [],
      maxItems: 20,
      examples: [['city'], [{ name: 'year', field: '$substring(date, 0, 4)' }]],
    }),
    measures: Type.Array(Measure, {
      description: 'What to calculate for each group',
      minItems: 1,
      maxItems: 100,
      examples: [[{ name: 'total', calculate: 'sum', of: 'price' }]],
    }),
  },
  { additionalProperties: false },
)

export const aggregate = definePlugin({
  id: 'transform.aggregate',
  name: 'Aggregate',
  category: 'Transforms',
  description:
    'Groups the items of a list and calculates over each group, with exact decimals: what a number cannot hold without loss is given as a text of its digits.',
  effect: 'pure',
  input: Input,
  output: Type.Object({
    groups: Type.Array(Type.Record(Type.String(), Type.Unknown()), {
      description: 'The groups in the order they are met: their keys and measures',
      examples: [[{ city: 'Paris', total: 3 }]],
    }),
    count: Type.Integer({ description: 'How many groups', examples: [1] }),
  }),
  example: `name: sales-by-city
tasks:
  - name: sales
    type: transform.aggregate
    properties:
      items:
        - { city: Paris, price: 0.1 }
        - { city: Rome, price: 5 }
        - { city: Paris, price: 0.2 }
      by: [city]
      measures:
        - { name: total, calculate: sum, of: price }
        - { name: sales, calculate: count }
`,
  async run(task) {
    const { by, measures } = task.input
    const items = listOf(task.input.items, 'properties.items')
    const keys = by.map((each) => (typeof each === 'string' ? { name: each, field: each } : each))
    const names = [...keys, ...measures].map(({ name }) => name)
    const twice = names.find((name, index) => names.indexOf(name) !== index)
    if (twice !== undefined) throw new TaskFailure('refused', `The name ${twice} is there twice`)
    const keyValues = await valuesOf(
      task,
      items,
      keys.map(({ field }, index) => [`properties.by[${index}]`, field]),
    )
    const measured = await valuesOf(
      task,
      items,
      measures.map(({ of, calculate }, index) => {
        if (of !== undefined || calculate === 'count') return [`properties.measures[${index}].of`, of ?? null]
        throw new TaskFailure('refused', `properties.measures[${index}].of is needed for ${calculate}`)
      }),
    )
    const asked = { count: items.length, keys: keys.map(({ name }) => name), keyValues, measures, measured }
    const groups = await work(task, 'aggregate', asked)
    return { groups, count: groups.length }
  },
})

/** For each expression what it gives for each item; null where there is none. */
async function valuesOf(
  task: TaskRun<unknown>,
  items: readonly unknown[],
  expressions: readonly (readonly [place: string, expression: string | null])[],
) {
  const values: (readonly unknown[] | null)[] = []
  for (const [place, expression] of expressions) {
    values.push(expression === null ? null : await evaluateEach(task, { place, expression, items }))
  }
  return values
}
