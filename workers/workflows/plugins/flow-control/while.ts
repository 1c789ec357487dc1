import { Type } from 'typebox'
import { holds } from '../../../../schemas/workflows/template.ts'
import { defineControl, TaskFailure } from '../../plugin.ts'

export const whileLoop = defineControl({
  id: 'flow.while',
  name: 'While',
  category: 'Flow Control',
  description:
    'Runs tasks again and again while a condition holds, which is asked before each round. What the rounds gave is in `outputs["<name>"].iterations`.',
  blocks: ['tasks', 'errors', 'finally'],
  input: Type.Object(
    {
      condition: Type.Unknown({
        description: 'Holds unless it is empty, `false`, `0` or `null`',
        examples: ['{{ outputs["poll"]["iterations"].last.ask.done != true }}'],
      }),
      maxIterations: Type.Integer({
        description: 'Rounds after which it fails',
        minimum: 1,
        maximum: 100_000,
        default: 100,
        examples: [10],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({ count: Type.Integer({ description: 'How many rounds there were', examples: [3] }) }),
  example: `name: three-times
tasks:
  - name: loop
    type: flow.while
    properties:
      condition: '{% assign rounds = outputs["loop"]["iterations"] | size %}{{ rounds < 3 }}'
      maxIterations: 5
    tasks:
      - name: again
        type: util.log
        properties: { message: round }
`,
  decide: ({ input: { condition, maxIterations }, round }) => {
    const goOn = holds(condition)
    if (goOn && round >= maxIterations) {
      throw new TaskFailure('refused', `The condition still holds after ${maxIterations} rounds`)
    }
    return { kind: 'round', round, goOn }
  },
})
