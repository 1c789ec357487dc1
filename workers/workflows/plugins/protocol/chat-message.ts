import { type Static, type TProperties, Type } from 'typebox'
import { definePlugin, type Plugin, type TaskRun } from '../../plugin.ts'
import { callJson } from '../http-json.ts'

interface ChatPlugin<Fields extends TProperties> {
  readonly id: string
  readonly name: string
  readonly description: string
  readonly needs: string
  readonly fields: Fields
  readonly request: (input: Static<ReturnType<typeof Type.Object<Fields>>>) => {
    readonly url: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body: unknown
  }
  /** Properties of the example flow, in YAML. */
  readonly example: string
}

/** A plugin that posts one message to a chat. */
export function defineChatPlugin<Fields extends TProperties>(chat: ChatPlugin<Fields>): Plugin {
  return definePlugin({
    id: chat.id,
    name: chat.name,
    category: 'Protocol',
    description: chat.description,
    needs: chat.needs,
    effect: 'once',
    input: Type.Object(chat.fields, { additionalProperties: false }),
    output: Type.Object({
      status: Type.Integer({ description: 'HTTP status of the answer', examples: [200] }),
      body: Type.Unknown({ description: 'The answer', examples: ['ok'] }),
    }),
    example: `name: ${chat.id.replace('.', '-')}
tasks:
  - name: tell
    type: ${chat.id}
    properties:
${chat.example
  .trim()
  .split('\n')
  .map((line) => `      ${line}`)
  .join('\n')}
`,
    async run(given) {
      const { url, headers = {}, body } = chat.request(given.input as never)
      return await callJson(given as TaskRun<unknown>, { service: chat.name, url, method: 'POST', headers, body })
    },
  })
}
