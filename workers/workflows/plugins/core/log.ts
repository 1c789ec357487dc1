import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'

export const log = definePlugin({
  id: 'util.log',
  name: 'Log',
  category: 'Core',
  description: 'Writes a line to the log of the execution.',
  effect: 'pure',
  input: Type.Object(
    {
      message: Type.Unknown({
        description: 'What to write; anything but a text is written as JSON',
        examples: ['Hello'],
      }),
      level: Type.Union([Type.Literal('debug'), Type.Literal('info'), Type.Literal('warn'), Type.Literal('error')], {
        description: 'How much it matters',
        default: 'info',
        examples: ['warn'],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({ message: Type.String({ description: 'What was written', examples: ['Hello'] }) }),
  example: `name: say-hello
tasks:
  - name: hello
    type: util.log
    properties:
      message: Hello
`,
  async run({ input: { message, level }, log }) {
    const text = typeof message === 'string' ? message : JSON.stringify(message)
    log[level](text)
    return { message: text }
  },
})
