import { setImmediate as nextTurn } from 'node:timers/promises'
import { Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { evaluateEach, maxRows } from '../expression.ts'
import { Expression, Items, listOf } from '../list-properties.ts'
import { threadModule } from '../thread-module.ts'
import { valueSize } from '../value-size.ts'

const work = threadModule<typeof import('./join-thread.ts')>(new URL('./join-thread.ts', import.meta.url))

export const join = definePlugin({
  id: 'transform.join',
  name: 'Join',
  category: 'Transforms',
  description: 'Brings two lists together where a key of one is that of the other, as a database does.',
  effect: 'pure',
  input: Type.Object(
    {
      left: Items([{ id: 1, name: 'Ann' }], 'The first list, or a text that is JSON of one'),
      right: Items([{ customer: 1, total: 5 }], 'The second list, or a text that is JSON of one'),
      type: Type.Enum(['inner', 'left', 'right', 'full', 'semi', 'anti'], {
        description:
          '`inner`: pairs; `left`, `right`, `full`: and those of that side that have none; `semi`: items of the first list that have one; `anti`: those that have none',
        default: 'inner',
        examples: ['left'],
      }),
      leftKey: Expression('Key of the first list; a list of several is one as well. Null is equal to nothing', 'id'),
      rightKey: Type.Optional(Expression('Key of the second list; that of the first by default', 'customer')),
      combine: Type.Enum(['merge', 'nest'], {
        description:
          'A pair is one object with the fields of both, or `{left, right}` with null for the side that is missing',
        default: 'merge',
        examples: ['nest'],
      }),
      rightPrefix: Type.String({
        description:
          'Of merged pairs: what fields of the second list begin with when the first has the same and another value',
        default: 'right_',
        minLength: 1,
        maxLength: 64,
        examples: ['order_'],
      }),
      maxItems: Type.Integer({
        description: 'More items than this fail the task',
        default: 100_000,
        minimum: 1,
        maximum: maxRows,
        examples: [1_000],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    items: Type.Array(Type.Unknown(), {
      description: 'What came together, in the order of the first list',
      examples: [[{ id: 1, name: 'Ann', customer: 1, total: 5 }]],
    }),
    count: Type.Integer({ description: 'How many', examples: [1] }),
    unmatchedLeft: Type.Integer({ description: 'Items of the first list without a counterpart', examples: [0] }),
    unmatchedRight: Type.Integer({ description: 'Items of the second list without a counterpart', examples: [0] }),
  }),
  example: `name: orders-of-customers
tasks:
  - name: join
    type: transform.join
    properties:
      left:
        - { id: 1, name: Ann }
        - { id: 2, name: Bob }
      right:
        - { customer: 1, total: 5 }
        - { customer: 1, total: 7 }
      leftKey: id
      rightKey: customer
      type: left
`,
  async run(task) {
    const { leftKey, rightKey = leftKey, type, combine, rightPrefix, maxItems } = task.input
    const left = listOf(task.input.left, 'properties.left')
    const right = listOf(task.input.right, 'properties.right')
    const leftKeys = await evaluateEach(task, { place: 'properties.leftKey', expression: leftKey, items: left })
    const rightKeys = await evaluateEach(task, { place: 'properties.rightKey', expression: rightKey, items: right })
    const pairs = await work(task, 'pairs', { leftKeys, rightKeys, type, maxItems })
    const items: unknown[] = []
    const room = new Room(left, right)
    for (let at = 0; at < pairs.places.length; at += 2) {
      if (at % pairsATurn === 0) await nextTurn()
      task.signal.throwIfAborted()
      const one = left[pairs.places[at]!]
      const other = right[pairs.places[at + 1]!]
      room.take(pairs.places[at]!, pairs.places[at + 1]!)
      if (type === 'semi' || type === 'anti') items.push(one)
      else if (combine === 'nest') items.push({ left: one ?? null, right: other ?? null })
      else items.push(merged(one, other, rightPrefix))
    }
    const { unmatchedLeft, unmatchedRight } = pairs
    return { items, count: items.length, unmatchedLeft, unmatchedRight }
  },
})

/** Other tasks of the worker have their turns in between. */
const pairsATurn = 4_000
const maxBytes = 64 * 1024 ** 2

/** An item takes room as often as it is in a pair: a large one with many others would be larger than everything. */
class Room {
  readonly #sides: readonly (readonly unknown[])[]
  readonly #sizes = [new Map<number, number>(), new Map<number, number>()] as const
  #taken = 0
  constructor(...sides: readonly (readonly unknown[])[]) {
    this.#sides = sides
  }
  take(...places: readonly [number, number]): void {
    for (const [side, place] of places.entries()) {
      const known = this.#sizes[side]!
      const size = known.get(place) ?? valueSize(this.#sides[side]![place] ?? null, maxBytes)
      known.set(place, size)
      this.#taken += size
    }
    if (this.#taken > maxBytes) throw new TaskFailure('refused', 'What comes together is larger than 64 MB')
  }
}

function merged(one: unknown, other: unknown, prefix: string): unknown {
  const fields = Object.entries(one === undefined ? {} : objectOf(one, 'left'))
  const known = new Map(fields)
  for (const [name, value] of Object.entries(other === undefined ? {} : objectOf(other, 'right'))) {
    const isSame = !known.has(name) || JSON.stringify(known.get(name)) === JSON.stringify(value)
    known.set(isSame ? name : `${prefix}${name}`, value)
  }
  return Object.fromEntries(known)
}

function objectOf(item: unknown, side: string): object {
  if (item !== null && typeof item === 'object' && !Array.isArray(item)) return item
  throw new TaskFailure('refused', `properties.${side} has an item that is no object: give properties.combine: nest`)
}
