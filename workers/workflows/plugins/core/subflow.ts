import { Type } from 'typebox'
import { defineControl } from '../../plugin.ts'

export const subflow = defineControl({
  id: 'core.subflow',
  name: 'Sub-flow',
  category: 'Core',
  description:
    "Starts an execution of another flow, and waits for its end unless told not to. Its outputs are the task's.",
  blocks: [],
  input: Type.Object(
    {
      flowId: Type.String({
        description: 'Name or id of the flow',
        minLength: 1,
        maxLength: 200,
        examples: ['other'],
      }),
      namespace: Type.Optional(
        Type.String({
          description: 'Of the name; without one that of the flow it is in',
          minLength: 1,
          maxLength: 100,
          examples: ['team.a'],
        }),
      ),
      inputs: Type.Record(Type.String(), Type.Unknown(), {
        description: 'What it gets',
        default: {},
        examples: [{ name: 'Ann' }],
      }),
      wait: Type.Boolean({ description: 'Whether its end is waited for', default: true, examples: [false] }),
    },
    { additionalProperties: false },
  ),
  output: Type.Unknown({ description: 'The outputs of the flow; `{executionId}` when it is not waited for' }),
  example: `name: one-in-another
tasks:
  - name: other
    type: core.subflow
    properties:
      flowId: other
      inputs: { name: Ann }
`,
  decide: ({ input: { flowId, namespace, inputs, wait }, childId }) => ({
    kind: 'child',
    executionId: childId,
    flowId,
    ...(namespace !== undefined && { namespace }),
    inputs,
    wait,
  }),
})
