import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { callJson } from '../http-json.ts'
import { given } from '../saas/api-plugin.ts'
import { type ChatInput, chatOutput, chatProperties } from './chat.ts'
import { answered, messagesOf } from './chat-answer.ts'

interface Reply {
  readonly message?: { readonly content?: string }
  readonly done_reason?: string
  readonly prompt_eval_count?: number
  readonly eval_count?: number
}

/** Source: https://docs.ollama.com/api/chat */
export const ollama = definePlugin({
  id: 'ai.ollama',
  name: 'Ollama',
  category: 'AI',
  description: 'Asks a model that runs in an Ollama of your own and gives its answer.',
  needs: 'An Ollama with the model (https://docs.ollama.com)',
  input: Type.Object(
    {
      model: Type.String({ description: 'Which model', examples: ['llama3.2'] }),
      ...chatProperties,
      baseUrl: Type.String({
        description: 'Address of the Ollama',
        default: 'http://localhost:11434',
        examples: ['http://ollama:11434'],
      }),
    },
    { additionalProperties: false },
  ),
  output: chatOutput,
  example: `name: ask
tasks:
  - name: answer
    type: ai.ollama
    properties:
      model: llama3.2
      prompt: Say hello.
`,
  async run(task) {
    const input: ChatInput & typeof task.input = task.input
    const { model, system, maxTokens, temperature, schema, baseUrl } = input
    const messages = [...(system === undefined ? [] : [{ role: 'system', content: system }]), ...messagesOf(input)]
    const { body } = await callJson(task, {
      service: 'Ollama',
      url: `${baseUrl.replace(/\/+$/, '')}/api/chat`,
      method: 'POST',
      headers: {},
      body: given({
        model,
        messages,
        stream: false,
        format: schema,
        options: given({ num_predict: maxTokens, temperature }),
      }),
    })
    const { message, done_reason, prompt_eval_count, eval_count } = body as Reply
    const tokens = { inputTokens: prompt_eval_count, outputTokens: eval_count }
    return answered({ text: message?.content ?? '', stopReason: done_reason, ...tokens }, input)
  },
})
