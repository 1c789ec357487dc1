import { type Static, Type } from 'typebox'

export const Field = Type.Object(
  {
    selector: Type.Optional(
      Type.String({
        description: 'CSS selector, within the item; empty for the item itself',
        default: '',
        examples: ['h2'],
      }),
    ),
    attribute: Type.Optional(Type.String({ description: 'Its value in place of the text', examples: ['href'] })),
    as: Type.Optional(
      Type.Enum(['text', 'html'], {
        description: 'What of the element, without `attribute`',
        default: 'text',
        examples: ['html'],
      }),
    ),
    all: Type.Optional(
      Type.Boolean({
        description: 'Whether to give a list of all in place of the first',
        default: false,
        examples: [true],
      }),
    ),
  },
  { additionalProperties: false },
)

export type Field = Static<typeof Field>
