import { type Static, Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { evaluateEach } from '../expression.ts'
import { Expression, Items, listOf } from '../list-properties.ts'
import { threadModule } from '../thread-module.ts'
import { Condition } from './filter-properties.ts'

const work = threadModule<typeof import('./filter-thread.ts')>(new URL('./filter-thread.ts', import.meta.url))

const Input = Type.Object(
  {
    items: Items([{ id: 1 }, { id: 2 }]),
    expression: Type.Optional(
      Expression('What holds for the items to keep; `$index` is the place of the item, `$items` are all', 'price < 10'),
    ),
    conditions: Type.Optional(
      Type.Array(Condition, {
        description: 'In place of `expression`, or beside it',
        maxItems: 50,
        examples: [[{ field: 'price', is: 'less', value: 10 }]],
      }),
    ),
    match: Type.Enum(['all', 'any'], {
      description: 'Whether all conditions have to hold, or one is enough',
      default: 'all',
      examples: ['any'],
    }),
    limit: Type.Integer({
      description: 'Keep at most so many',
      default: 1_000_000,
      minimum: 0,
      examples: [10],
    }),
  },
  { additionalProperties: false },
)

export const filter = definePlugin({
  id: 'transform.filter',
  name: 'Filter',
  category: 'Transforms',
  description: 'Keeps the items of a list for which an expression or conditions hold.',
  effect: 'pure',
  input: Input,
  output: Type.Object({
    items: Type.Array(Type.Unknown(), { description: 'The items that were kept', examples: [[{ id: 1 }]] }),
    count: Type.Integer({ description: 'How many were kept', examples: [1] }),
    removed: Type.Integer({ description: 'How many were not', examples: [1] }),
  }),
  example: `name: cheap-ones
tasks:
  - name: cheap
    type: transform.filter
    properties:
      items:
        - { name: tea, price: 3, stock: 5 }
        - { name: wine, price: 12, stock: 2 }
      expression: price < 10 and stock > 0
`,
  async run(task) {
    const { expression, conditions, limit } = task.input
    if (expression === undefined && conditions === undefined) {
      throw new TaskFailure('refused', 'properties.expression or properties.conditions is needed')
    }
    const list = listOf(task.input.items, 'properties.items')
    const kept = await keptOf(task, list)
    const items = list.filter((_, index) => kept[index]).slice(0, limit)
    return { items, count: items.length, removed: list.length - items.length }
  },
})

async function keptOf(task: TaskRun<Static<typeof Input>>, items: readonly unknown[]): Promise<readonly boolean[]> {
  const { expression, conditions = [], match } = task.input
  const isWanted =
    expression === undefined
      ? null
      : (await evaluateEach(task, { place: 'properties.expression', expression, items })).map(isTrue)
  if (conditions.length === 0) return isWanted ?? items.map(() => true)
  const fields: (readonly unknown[])[] = []
  for (const [index, { field }] of conditions.entries()) {
    fields.push(await evaluateEach(task, { place: `properties.conditions[${index}].field`, expression: field, items }))
  }
  const holding = await work(task, 'holding', { fields, conditions, match, count: items.length })
  return isWanted === null ? holding : holding.map((holds, index) => holds && isWanted[index]!)
}

/** As JSONata's `$boolean`. */
function isTrue(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(isTrue)
  if (value !== null && typeof value === 'object') return Object.keys(value).length > 0
  return Boolean(value)
}
