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
        description: 'Id of the flow',
        minLength: 1,
        examples: ['0198c0de-0000-7000-8000-000000000000'],
      }),
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
      flowId: '{{ inputs.flowId }}'
      inputs: { name: Ann }
`,
  decide: ({ input: { flowId, inputs, wait }, childId }) => ({
    kind: 'child',
    executionId: childId,
    flowId,
    inputs,
    wait,
  }),
})
