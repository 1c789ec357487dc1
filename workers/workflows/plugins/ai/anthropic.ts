import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { callJson } from '../http-json.ts'
import { given } from '../saas/api-plugin.ts'
import { type ChatInput, chatOutput, chatProperties } from './chat.ts'
import { answered, asksForJson, messagesOf } from './chat-answer.ts'

interface Message {
  readonly content?: readonly { readonly type: string; readonly text?: string }[]
  readonly stop_reason?: string
  readonly usage?: { readonly input_tokens?: number; readonly output_tokens?: number }
}

/** Source: https://docs.anthropic.com/en/api/messages */
export const anthropic = definePlugin({
  id: 'ai.anthropic',
  name: 'Anthropic',
  category: 'AI',
  description: 'Asks a Claude model and gives its answer.',
  needs: 'An API key (https://docs.anthropic.com/en/api/messages)',
  input: Type.Object(
    {
      model: Type.String({ description: 'Which model', examples: ['claude-sonnet-4-5'] }),
      ...chatProperties,
      apiKey: Type.String({ description: 'API key', examples: ['${ANTHROPIC_KEY}'] }),
      baseUrl: Type.String({
        description: 'Address of the API',
        default: 'https://api.anthropic.com',
        examples: ['https://api.anthropic.com'],
      }),
    },
    { additionalProperties: false },
  ),
  output: chatOutput,
  example: `name: ask
tasks:
  - name: answer
    type: ai.anthropic
    properties:
      model: claude-sonnet-4-5
      prompt: Say hello.
      apiKey: \${ANTHROPIC_KEY}
`,
  async run(task) {
    const input: ChatInput & typeof task.input = task.input
    const { model, maxTokens, temperature, apiKey, baseUrl } = input
    const { body } = await callJson(task, {
      service: 'Anthropic',
      url: `${baseUrl.replace(/\/+$/, '')}/v1/messages`,
      method: 'POST',
      headers: { 'x-api-key': apiKey, 'anthropic-version': '2023-06-01' },
      body: given({
        model,
        max_tokens: maxTokens,
        messages: messagesOf(input),
        system: asksForJson(input),
        temperature,
      }),
    })
    const { content = [], stop_reason, usage } = body as Message
    const text = content.map((part) => (part.type === 'text' ? (part.text ?? '') : '')).join('')
    const tokens = { inputTokens: usage?.input_tokens, outputTokens: usage?.output_tokens }
    return answered({ text, stopReason: stop_reason, ...tokens }, input)
  },
})
