import { Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { evaluateEach } from '../expression.ts'
import { Expression, Items, listOf, looseKeyOf, visitEach } from '../list-properties.ts'

export const lookup = definePlugin({
  id: 'flow.lookup',
  name: 'Look-up',
  category: 'Flow Control',
  description:
    'Looks up for each item of a list what belongs to it in a table: a list of rows with a key, or an object from keys to values. Keys are compared as text, so that `7` of one finds `"7"` of the other.',
  effect: 'pure',
  input: Type.Object(
    {
      items: Items([{ country: 'NO' }]),
      key: Expression('The key in an item', 'country'),
      table: Type.Union([Type.Array(Type.Unknown()), Type.Record(Type.String(), Type.Unknown()), Type.String()], {
        description: 'Where to look: rows, or an object from keys to values; or a text that is JSON of one',
        examples: [{ NO: 'Norway' }],
      }),
      tableKey: Type.String({
        description: 'Of rows: the key in a row; a path, or any JSONata expression',
        default: 'id',
        examples: ['code'],
      }),
      as: Type.String({
        description: 'The field of the item that gets what was found',
        minLength: 1,
        default: 'match',
        examples: ['countryName'],
      }),
      many: Type.Boolean({
        description: 'Whether it is the list of all rows that were found, rather than the first one',
        default: false,
        examples: [true],
      }),
      missing: Type.Union([Type.Literal('null'), Type.Literal('drop'), Type.Literal('fail')], {
        description: 'What becomes of items for which nothing is found: they get null, are left out, or fail the task',
        default: 'null',
        examples: ['drop'],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    items: Type.Array(Type.Unknown(), {
      description: 'The items with what was found',
      examples: [[{ country: 'NO', match: 'Norway' }]],
    }),
    count: Type.Integer({ description: 'How many there are', examples: [1] }),
    found: Type.Integer({ description: 'For how many something was found', examples: [1] }),
    missing: Type.Array(Type.Unknown(), { description: 'Up to 100 of the keys without a match', examples: [[]] }),
  }),
  example: `name: countries
tasks:
  - name: named
    type: flow.lookup
    properties:
      items:
        - { name: Ann, country: NO }
        - { name: Bob, country: IT }
      key: country
      table:
        - { code: NO, name: Norway }
        - { code: IT, name: Italy }
      tableKey: code
      as: country
`,
  async run(task) {
    const { key: expression, as, many, missing } = task.input
    const items = listOf(task.input.items, 'properties.items')
    const table = await tableOf(task)
    const keys = await evaluateEach(task, { place: 'properties.key', expression, items })
    const made: unknown[] = []
    const without = new Set<unknown>()
    let found = 0
    await visitEach(items, task.signal, (item, index) => {
      const matches = keys[index] === null ? undefined : table.get(looseKeyOf(keys[index]))
      if (matches !== undefined) found++
      else if (missing === 'fail')
        throw new TaskFailure('refused', `Nothing is found for the key ${JSON.stringify(keys[index])}`)
      else if (without.size < maxTold) without.add(keys[index])
      if (matches === undefined && missing === 'drop') return
      const match = many ? (matches ?? []) : (matches?.[0] ?? null)
      made.push({ ...(isObject(item) ? item : { item }), [as]: match })
    })
    return { items: made, count: made.length, found, missing: [...without] }
  },
})

const maxTold = 100

async function tableOf(
  task: TaskRun<{ readonly table: unknown; readonly tableKey: string }>,
): Promise<ReadonlyMap<string, readonly unknown[]>> {
  const given = parsed(task.input.table)
  if (isObject(given)) return new Map(Object.entries(given).map(([key, value]) => [key, [value]]))
  const rows = listOf(given, 'properties.table')
  const keys = await evaluateEach(task, {
    place: 'properties.tableKey',
    expression: task.input.tableKey,
    items: rows,
  })
  const table = new Map<string, unknown[]>()
  await visitEach(rows, task.signal, (row, index) => {
    if (keys[index] === null) return
    const key = looseKeyOf(keys[index])
    const known = table.get(key)
    if (known === undefined) table.set(key, [row])
    else known.push(row)
  })
  return table
}

function parsed(table: unknown): unknown {
  if (typeof table !== 'string') return table
  try {
    return JSON.parse(table)
  } catch (cause) {
    throw new TaskFailure('refused', 'properties.table is neither rows nor an object', cause)
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}
