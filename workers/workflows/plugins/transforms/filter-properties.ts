import { type Static, Type } from 'typebox'
import { Expression } from '../list-properties.ts'

export const Condition = Type.Object(
  {
    field: Expression('What of the item', 'address.city'),
    is: Type.Enum(
      [
        'equal',
        'not-equal',
        'less',
        'less-or-equal',
        'greater',
        'greater-or-equal',
        'in',
        'not-in',
        'contains',
        'starts-with',
        'ends-with',
        'matches',
        'empty',
        'not-empty',
      ],
      {
        description:
          '`in` wants a list as value, `matches` a regular expression (RE2); `contains` looks into texts and lists; null, "" and an empty list are `empty`',
        default: 'equal',
        examples: ['greater'],
      },
    ),
    value: Type.Unknown({ description: 'What to compare with', default: null, examples: ['Paris'] }),
  },
  { additionalProperties: false },
)

export type Condition = Static<typeof Condition>
