import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { callJson } from '../http-json.ts'
import { given } from '../saas/api-plugin.ts'
import { type ChatInput, chatOutput, chatProperties } from './chat.ts'
import { answered, messagesOf } from './chat-answer.ts'

interface Completion {
  readonly choices?: readonly { readonly message?: { readonly content?: string }; readonly finish_reason?: string }[]
  readonly usage?: { readonly prompt_tokens?: number; readonly completion_tokens?: number }
}

/** Source: https://platform.openai.com/docs/api-reference/chat */
export const openai = definePlugin({
  id: 'ai.openai',
  name: 'OpenAI',
  category: 'AI',
  description: 'Asks a model of OpenAI, or of any service that speaks its chat API, and gives its answer.',
  needs: 'An API key, or a service of your own under `baseUrl`',
  input: Type.Object(
    {
      model: Type.String({ description: 'Which model', examples: ['gpt-5-mini'] }),
      ...chatProperties,
      apiKey: Type.Optional(Type.String({ description: 'API key', examples: ['${OPENAI_KEY}'] })),
      baseUrl: Type.String({
        description: 'Address of the API',
        default: 'https://api.openai.com/v1',
        examples: ['http://localhost:8000/v1'],
      }),
    },
    { additionalProperties: false },
  ),
  output: chatOutput,
  example: `name: ask
tasks:
  - name: answer
    type: ai.openai
    properties:
      model: gpt-5-mini
      prompt: Say hello.
      apiKey: \${OPENAI_KEY}
`,
  async run(task) {
    const input: ChatInput & typeof task.input = task.input
    const { model, system, maxTokens, temperature, schema, apiKey, baseUrl } = input
    const messages = [...(system === undefined ? [] : [{ role: 'system', content: system }]), ...messagesOf(input)]
    const { body } = await callJson(task, {
      service: 'OpenAI',
      url: `${baseUrl.replace(/\/+$/, '')}/chat/completions`,
      method: 'POST',
      headers: apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` },
      body: given({
        model,
        messages,
        max_completion_tokens: maxTokens,
        temperature,
        response_format:
          schema === undefined ? undefined : { type: 'json_schema', json_schema: { name: 'answer', schema } },
      }),
    })
    const { choices = [], usage } = body as Completion
    return answered(
      {
        text: choices[0]?.message?.content ?? '',
        stopReason: choices[0]?.finish_reason,
        inputTokens: usage?.prompt_tokens,
        outputTokens: usage?.completion_tokens,
      },
      input,
    )
  },
})
