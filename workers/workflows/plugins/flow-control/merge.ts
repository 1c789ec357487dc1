import { Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { evaluateEach, maxRows } from '../expression.ts'
import { Expression, listOf, looseKeyOf, visitEach } from '../list-properties.ts'
import { tooManyItems } from './too-many-items.ts'

export const merge = definePlugin({
  id: 'flow.merge',
  name: 'Merge',
  category: 'Flow Control',
  description:
    'Makes one list of several, as they come from tasks that ran in parallel: one behind the other, item by item, or by a key.',
  effect: 'pure',
  input: Type.Object(
    {
      lists: Type.Array(Type.Unknown(), {
        description: 'The lists, each a list or a text that is JSON of one',
        maxItems: 100,
        examples: [['{{ outputs.left.items }}', '{{ outputs.right.items }}']],
      }),
      mode: Type.Union([Type.Literal('append'), Type.Literal('zip'), Type.Literal('key')], {
        description:
          '`append`: one behind the other. `zip`: the items at one place become one; objects are put over each other, anything else becomes a list of them. `key`: objects with the same key are put over each other, later lists over earlier ones',
        default: 'append',
        examples: ['key'],
      }),
      key: Type.Optional(Expression('For `key`: the key of an item', 'id')),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    items: Type.Array(Type.Unknown(), { description: 'The one list', examples: [[1, 2]] }),
    count: Type.Integer({ description: 'How many items it has', examples: [2] }),
  }),
  example: `name: together
tasks:
  - name: one
    type: flow.merge
    properties:
      lists:
        - [{ id: 1, name: Ann }, { id: 2, name: Bob }]
        - [{ id: 2, age: 40 }, { id: 1, age: 30 }]
      mode: key
      key: id
`,
  async run(task) {
    const { mode, key } = task.input
    if ((mode === 'key') !== (key !== undefined)) {
      throw new TaskFailure('refused', 'properties.key is needed for the mode key, and for no other')
    }
    const lists = task.input.lists.map((list, index) => listOf(list, `properties.lists.${index}`))
    const total = lists.reduce((sum, list) => sum + list.length, 0)
    if (total > maxRows) throw tooManyItems()
    const items = mode === 'append' ? lists.flat() : mode === 'zip' ? zipped(lists) : await byKey(task, lists, key!)
    return { items, count: items.length }
  },
})

function zipped(lists: readonly (readonly unknown[])[]): unknown[] {
  const length = Math.max(0, ...lists.map((list) => list.length))
  return Array.from({ length }, (_, index) => {
    const there = lists.filter((list) => index < list.length).map((list) => list[index])
    return there.every(isObject)
      ? Object.fromEntries(there.flatMap((each) => Object.entries(each)))
      : lists.map((list) => list[index] ?? null)
  })
}

async function byKey(task: TaskRun<unknown>, lists: readonly (readonly unknown[])[], expression: string) {
  const found = new Map<string, Record<string, unknown>>()
  for (const [place, items] of lists.entries()) {
    const keys = await evaluateEach(task, { place: 'properties.key', expression, items })
    await visitEach(items, task.signal, (item, index) => {
      const where = `properties.lists.${place}.${index}`
      if (!isObject(item)) throw new TaskFailure('refused', `${where} is no object`)
      if (keys[index] === null) throw new TaskFailure('refused', `${where} has no key`)
      const key = looseKeyOf(keys[index])
      found.set(key, { ...found.get(key), ...item })
    })
  }
  return [...found.values()]
}

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}
