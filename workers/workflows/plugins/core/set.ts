import { Type } from 'typebox'
import { holds } from '../../../../schemas/workflows/template.ts'
import { definePlugin, TaskFailure } from '../../plugin.ts'

export const set = definePlugin({
  id: 'util.set',
  name: 'Set',
  category: 'Core',
  description:
    'Sets values that later tasks read as its outputs, such as `{{ outputs.set.total }}`, and makes sure that conditions hold.',
  effect: 'pure',
  input: Type.Object(
    {
      values: Type.Record(Type.String(), Type.Unknown(), {
        description: 'Names and what they are set to; they are the outputs of the task',
        default: {},
        examples: [{ total: '{{ inputs.price | times: inputs.count }}' }],
      }),
      assert: Type.Array(
        Type.Object(
          {
            that: Type.Unknown({
              description: 'Holds unless it is empty, `false`, `0` or `null`',
              examples: ['{{ inputs.count > 0 }}'],
            }),
            message: Type.String({
              description: 'What is wrong when it does not hold',
              default: '',
              examples: ['There is nothing to order'],
            }),
          },
          { additionalProperties: false },
        ),
        {
          description: 'What has to hold, else the task fails with all that does not',
          maxItems: 1_000,
          default: [],
          examples: [[{ that: '{{ inputs.count > 0 }}', message: 'There is nothing to order' }]],
        },
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Record(Type.String(), Type.Unknown(), { description: 'The values', examples: [{ total: 6 }] }),
  example: `name: set-and-check
tasks:
  - name: order
    type: util.set
    properties:
      values:
        price: 2
        count: 3
      assert:
        - that: '{{ 3 > 0 }}'
          message: There is nothing to order
  - name: tell
    type: util.log
    properties: { message: '{{ outputs.order.count }} for {{ outputs.order.price }} each' }
`,
  async run({ input: { values, assert } }) {
    const failed = assert.flatMap(({ that, message }, index) =>
      holds(that) ? [] : [message === '' ? `properties.assert.${index} does not hold` : message],
    )
    if (failed.length > 0) throw new TaskFailure('refused', failed.join('; '))
    return values
  },
})
