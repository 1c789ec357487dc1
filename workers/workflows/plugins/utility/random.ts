import { type Static, Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { needed } from '../content.ts'
import { Items, listOf } from '../list-properties.ts'
import type { RandomSource } from './random-source.ts'

const Input = Type.Object(
  {
    kind: Type.Enum(['integer', 'float', 'boolean', 'choice', 'sample', 'shuffle', 'bytes', 'string', 'password'], {
      description:
        '`choice`: one of the items; `sample`: several different ones; `shuffle`: all of them in another order; `password`: some of every kind of character',
      default: 'integer',
      examples: ['choice'],
    }),
    min: Type.Number({ description: 'Smallest integer or float', default: 0, examples: [1] }),
    max: Type.Number({
      description: 'Largest integer; what a float stays below',
      default: 100,
      examples: [6],
    }),
    count: Type.Integer({
      description: 'How many values, or how many items of a sample',
      default: 1,
      minimum: 1,
      maximum: 100_000,
      examples: [5],
    }),
    items: Type.Optional(Items(['a', 'b', 'c'], 'The items of choice, sample and shuffle')),
    weights: Type.Optional(
      Type.Array(Type.Number({ minimum: 0 }), {
        description: 'Of choice: how likely each item is beside the others',
        maxItems: 100_000,
        examples: [[5, 3, 1]],
      }),
    ),
    length: Type.Integer({
      description: 'How many bytes, or characters of a string or password',
      default: 16,
      minimum: 1,
      maximum: 65_536,
      examples: [24],
    }),
    alphabet: Type.String({
      description: 'The characters of a string',
      default: 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789',
      minLength: 1,
      maxLength: 1_000,
      examples: ['ACGT'],
    }),
    encoding: Type.Enum(['base64', 'base64url', 'hex'], {
      description: 'How bytes are written',
      default: 'base64',
      examples: ['hex'],
    }),
    seed: Type.Optional(
      Type.String({
        description: 'With it the values are always the same; nothing that has to stay secret can be made of one',
        examples: ['{{ execution.id }}'],
      }),
    ),
  },
  { additionalProperties: false },
)

type Input = Static<typeof Input>

const maxDrawn = 1_000_000
/** Without those that look like another: l, I, 1, O and 0. */
const passwordClasses = ['abcdefghijkmnopqrstuvwxyz', 'ABCDEFGHJKLMNPQRSTUVWXYZ', '23456789', '!#%+-.:=?@_~']

export const random = definePlugin({
  id: 'util.random',
  name: 'Random',
  category: 'Utility',
  description: 'Draws numbers, items, strings, bytes and passwords, each as likely as every other.',
  effect: 'pure',
  input: Input,
  output: Type.Object({
    value: Type.Unknown({
      description: 'What was drawn: the first value, or the list of a sample or shuffle',
      examples: [4],
    }),
    values: Type.Array(Type.Unknown(), { description: 'All that was drawn', examples: [[4]] }),
  }),
  example: `name: roll-dice
tasks:
  - name: dice
    type: util.random
    properties:
      min: 1
      max: 6
      count: 5
`,
  async run({ input }) {
    const { kind, count, seed } = input
    if (seed !== undefined && kind === 'password') {
      throw new TaskFailure('refused', 'properties.seed: a password of a seed could be made again by others')
    }
    const { RandomSource } = await import('./random-source.ts')
    const source = new RandomSource(seed)
    if (kind === 'sample' || kind === 'shuffle') {
      const items = itemsOf(input)
      const values = sampled(items, kind === 'shuffle' ? items.length : count, source)
      return { value: values, values }
    }
    if (count * input.length > maxDrawn && ['bytes', 'string', 'password'].includes(kind)) {
      throw new TaskFailure('refused', 'properties.count times properties.length is more than 1000000')
    }
    const draw = drawerOf(input, source)
    const values = Array.from({ length: count }, draw)
    return { value: values[0], values }
  },
})

function itemsOf({ items, kind }: Input): readonly unknown[] {
  const list = listOf(needed(items, 'items', kind), 'properties.items')
  if (list.length > 0 || kind !== 'choice') return list
  throw new TaskFailure('refused', 'properties.items is empty')
}

/** The first of a shuffle (Fisher and Yates). */
function sampled(items: readonly unknown[], count: number, source: RandomSource): unknown[] {
  if (count > items.length) {
    throw new TaskFailure('refused', `properties.count: ${count} cannot be drawn from ${items.length} items`)
  }
  const drawn = [...items]
  for (let at = 0; at < count; at++) {
    const other = at + source.below(drawn.length - at)
    const value = drawn[at]
    drawn[at] = drawn[other]
    drawn[other] = value
  }
  return drawn.slice(0, count)
}

function drawerOf(input: Input, source: RandomSource): () => unknown {
  const { kind, min, max, length, alphabet, encoding } = input
  switch (kind) {
    case 'integer':
      return integersOf(input, source)
    case 'float':
      if (!(min <= max)) throw new TaskFailure('refused', 'properties.min is larger than properties.max')
      return () => min + source.fraction() * (max - min)
    case 'boolean':
      return () => source.below(2) === 1
    case 'bytes':
      return () => source.bytes(length).toString(encoding)
    case 'string': {
      const characters = [...alphabet]
      return () => stringOf(characters, length, source)
    }
    case 'password':
      return () => passwordOf(length, source)
    default:
      return choicesOf(input, source)
  }
}

function integersOf({ min, max }: Input, source: RandomSource): () => number {
  const [first, last] = [Math.ceil(min), Math.floor(max)]
  if (first > last) throw new TaskFailure('refused', 'There is no integer from properties.min to properties.max')
  if (!Number.isSafeInteger(first) || !Number.isSafeInteger(last) || last - first >= Number.MAX_SAFE_INTEGER) {
    throw new TaskFailure('refused', 'properties.min and properties.max are further apart than 2^53')
  }
  return () => first + source.below(last - first + 1)
}

function choicesOf(input: Input, source: RandomSource): () => unknown {
  const items = itemsOf(input)
  const { weights } = input
  if (weights === undefined) return () => items[source.below(items.length)]
  if (weights.length !== items.length) {
    throw new TaskFailure('refused', `properties.weights has ${weights.length} numbers for ${items.length} items`)
  }
  let total = 0
  const ends = weights.map((weight) => (total += weight))
  if (!(total > 0 && Number.isFinite(total)))
    throw new TaskFailure('refused', 'properties.weights are all zero, or too large')
  return () => {
    const drawn = source.fraction() * total
    return items[firstAbove(ends, drawn)]
  }
}

/** Of numbers that never fall. */
function firstAbove(ends: readonly number[], value: number): number {
  let [low, high] = [0, ends.length - 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if (ends[middle]! > value) high = middle
    else low = middle + 1
  }
  return low
}

function stringOf(characters: readonly string[], length: number, source: RandomSource): string {
  return Array.from({ length }, () => characters[source.below(characters.length)]).join('')
}

function passwordOf(length: number, source: RandomSource): string {
  if (length < passwordClasses.length)
    throw new TaskFailure('refused', 'properties.length: a password needs 4 at least')
  const all = [...passwordClasses.join('')]
  const certain = passwordClasses.map((characters) => characters[source.below(characters.length)]!)
  const others = [...stringOf(all, length - certain.length, source)]
  return sampled([...certain, ...others], length, source).join('')
}
