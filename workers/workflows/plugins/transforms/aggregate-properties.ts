import { type Static, Type } from 'typebox'
import { Expression } from '../list-properties.ts'

const calculations = [
  'count',
  'count-distinct',
  'sum',
  'avg',
  'min',
  'max',
  'median',
  'stddev',
  'first',
  'last',
  'list',
  'distinct',
] as const

export const Measure = Type.Object(
  {
    name: Type.String({ description: 'What it is called in the outputs', minLength: 1, examples: ['total'] }),
    calculate: Type.Enum([...calculations], {
      description: 'What to calculate; `stddev` is that of a sample. Null values are left out',
      examples: ['sum'],
    }),
    of: Type.Optional(Expression('Of what of each item; `count` counts the items without it', 'price')),
    scale: Type.Optional(
      Type.Integer({
        description: 'Round to so many digits after the point, half away from zero; not at all by default',
        minimum: 0,
        maximum: 30,
        examples: [2],
      }),
    ),
  },
  { additionalProperties: false },
)

export type Measure = Static<typeof Measure>
