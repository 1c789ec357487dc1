import { Type } from 'typebox'
import { defineControl } from '../../plugin.ts'

export const choice = defineControl({
  id: 'core.switch',
  name: 'Switch',
  category: 'Core',
  description: 'Runs the tasks of the case that a value has, else those under `default`.',
  blocks: ['cases', 'default'],
  input: Type.Object(
    { value: Type.Unknown({ description: 'Compared with the cases as text', examples: ['{{ inputs.color }}'] }) },
    { additionalProperties: false },
  ),
  output: Type.Object({
    branch: Type.Union([Type.String(), Type.Null()], { description: 'The block that ran', examples: ['case:red'] }),
  }),
  example: `name: by-color
tasks:
  - name: color
    type: core.switch
    properties:
      value: red
    cases:
      red:
        - name: stop
          type: util.log
          properties: { message: stop }
      green:
        - name: go
          type: util.log
          properties: { message: go }
    default:
      - name: wait-and-see
        type: util.log
        properties: { message: wait }
`,
  decide: ({ input, blocks }) => {
    const wanted = `case:${typeof input.value === 'string' ? input.value : JSON.stringify(input.value)}`
    const block = blocks.includes(wanted) ? wanted : 'default'
    return { kind: 'block', block, concurrency: 1000, onFailure: 'cancel' }
  },
})
