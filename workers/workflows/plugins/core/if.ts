import { Type } from 'typebox'
import { holds } from '../../../../schemas/workflows/template.ts'
import { defineControl } from '../../plugin.ts'

export const choose = defineControl({
  id: 'core.if',
  name: 'If',
  category: 'Core',
  description: 'Runs the tasks under `then` when the condition holds, else those under `else`.',
  blocks: ['then', 'else'],
  input: Type.Object(
    {
      condition: Type.Unknown({
        description: 'Holds unless it is empty, `false`, `0` or `null`',
        examples: ['{{ inputs.amount > 100 }}'],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    branch: Type.Union([Type.String(), Type.Null()], {
      description: 'The block that ran; null when the one there would be is missing',
      examples: ['then'],
    }),
  }),
  example: `name: choose
tasks:
  - name: check
    type: core.if
    properties:
      condition: '{{ 2 > 1 }}'
    then:
      - name: yes-it-is
        type: util.log
        properties: { message: larger }
    else:
      - name: no-it-is-not
        type: util.log
        properties: { message: smaller }
`,
  decide: ({ input }) => ({
    kind: 'block',
    block: holds(input.condition) ? 'then' : 'else',
    concurrency: 1000,
    onFailure: 'cancel',
  }),
})
