import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { needed } from '../content.ts'
import { Items, listOf } from '../list-properties.ts'
import { threadModule } from '../thread-module.ts'

const work = threadModule<typeof import('./math-thread.ts')>(new URL('./math-thread.ts', import.meta.url))

const Result = (description: string, example: number | string) =>
  Type.Optional(Type.Union([Type.Number(), Type.String(), Type.Null()], { description, examples: [example] }))

export const math = definePlugin({
  id: 'util.math',
  name: 'Math',
  category: 'Utility',
  description:
    'Calculates with exact decimals: arithmetic expressions, rounding and statistics. 0.1 + 0.2 is 0.3; what a number cannot hold without loss is given as a text of its digits. Quotients and roots have 40 digits, which `text` holds.',
  effect: 'pure',
  input: Type.Object(
    {
      operation: Type.Enum(['evaluate', 'round', 'statistics'], {
        description: '`evaluate` an expression, `round` a value, or give the `statistics` of a list',
        default: 'evaluate',
        examples: ['round'],
      }),
      expression: Type.Optional(
        Type.String({
          description:
            '+ - * / % ^, parentheses, variables, pi and e, and abs ceil floor trunc round sqrt cbrt exp ln log log10 sign pow min max sum avg median count',
          maxLength: 10_000,
          examples: ['round(price * (1 + rate), 2)'],
        }),
      ),
      variables: Type.Record(Type.String(), Type.Unknown(), {
        description:
          'What the expression can name: numbers, texts of numbers, lists of them, and objects (`order.price`)',
        default: {},
        examples: [{ price: 19.99, rate: '0.19' }],
      }),
      value: Type.Optional(
        Type.Union([Type.Number(), Type.String()], { description: 'What to round', examples: [2.345] }),
      ),
      digits: Type.Optional(
        Type.Integer({
          description:
            'Round to so many digits after the point; below zero: to tens, hundreds, … 0 for `round` by default',
          minimum: -100,
          maximum: 100,
          examples: [2],
        }),
      ),
      step: Type.Optional(
        Type.Union([Type.Number(), Type.String()], {
          description: 'Of round, in place of `digits`: to a multiple of it',
          examples: ['0.05'],
        }),
      ),
      mode: Type.Enum(['half-up', 'half-even', 'half-down', 'up', 'down', 'ceil', 'floor'], {
        description: 'How to round: `half-up` and `up` are away from zero, `down` is towards it',
        default: 'half-up',
        examples: ['half-even'],
      }),
      values: Type.Optional(Items([1, 2, 3, 4], 'Of statistics: the numbers')),
      percentiles: Type.Array(Type.Number({ minimum: 0, maximum: 100 }), {
        description: 'Of statistics: which percentiles, between two values on the line from one to the other',
        default: [],
        maxItems: 100,
        examples: [[50, 90, 99]],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    value: Result('The result; a text where a number would lose digits', 0.3),
    text: Type.Optional(Type.String({ description: 'The result with all its digits', examples: ['0.3'] })),
    count: Type.Optional(Type.Integer({ description: 'How many values', examples: [4] })),
    sum: Result('Their sum', 10),
    avg: Result('Their mean', 2.5),
    min: Result('The smallest', 1),
    max: Result('The largest', 4),
    median: Result('The one in the middle', 2.5),
    variance: Result('Variance of a sample', 1.6666666666666667),
    stddev: Result('Standard deviation of a sample', 1.2909944487358056),
    percentiles: Type.Optional(
      Type.Record(Type.String(), Type.Union([Type.Number(), Type.String()]), {
        description: 'The percentiles',
        examples: [{ 50: 2.5 }],
      }),
    ),
  }),
  example: `name: gross-price
tasks:
  - name: gross
    type: util.math
    properties:
      expression: round(price * (1 + rate), 2)
      variables: { price: 19.99, rate: 0.19 }
`,
  async run(task) {
    const { operation, expression, variables, value, values, percentiles, ...rounding } = task.input
    if (operation === 'statistics') {
      const list = listOf(needed(values, 'values', 'statistics'), 'properties.values')
      return await work(task, 'statistics', { values: list, percentiles })
    }
    if (operation === 'round') {
      return await work(task, 'round', { ...rounding, value: needed(value, 'value', 'round') })
    }
    const asked = needed(expression, 'expression', 'evaluate')
    return await work(task, 'evaluate', { ...rounding, expression: asked, variables })
  },
})
