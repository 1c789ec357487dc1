import { Type } from 'typebox'
import { holds } from '../../../../schemas/workflows/template.ts'
import { definePlugin, TaskFailure } from '../../plugin.ts'

export const fail = definePlugin({
  id: 'core.fail',
  name: 'Fail',
  category: 'Core',
  description: 'Fails, if a condition holds, with a message of your own.',
  effect: 'pure',
  input: Type.Object(
    {
      message: Type.String({
        description: 'Why',
        default: 'The flow has failed here',
        examples: ['The order is empty'],
      }),
      condition: Type.Unknown({
        description: 'Fails only if this holds, that is unless it is empty, `false`, `0` or `null`',
        default: true,
        examples: ['{{ outputs.order.count == 0 }}'],
      }),
      kind: Type.Union([Type.Literal('refused'), Type.Literal('unavailable'), Type.Literal('timeout')], {
        description: '`refused` is final; the other two are tried again as the `retry` of the task says',
        default: 'refused',
        examples: ['unavailable'],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    failed: Type.Boolean({ description: 'Always false: else there are no outputs', examples: [false] }),
  }),
  example: `name: stop-if-empty
tasks:
  - name: check
    type: core.fail
    properties:
      message: The order is empty
      condition: '{{ 3 == 0 }}'
`,
  async run({ input: { message, condition, kind } }) {
    if (holds(condition)) throw new TaskFailure(kind, message)
    return { failed: false }
  },
})
