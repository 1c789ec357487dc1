import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { callJson } from '../http-json.ts'
import { given } from '../saas/api-plugin.ts'
import { type ChatInput, chatOutput, chatProperties } from './chat.ts'
import { answered, messagesOf } from './chat-answer.ts'

interface Generated {
  readonly candidates?: readonly {
    readonly content?: { readonly parts?: readonly { readonly text?: string }[] }
    readonly finishReason?: string
  }[]
  readonly usageMetadata?: { readonly promptTokenCount?: number; readonly candidatesTokenCount?: number }
}

/** Source: https://ai.google.dev/api/generate-content */
export const gemini = definePlugin({
  id: 'ai.gemini',
  name: 'Gemini',
  category: 'AI',
  description: 'Asks a Gemini model and gives its answer.',
  needs: 'An API key (https://ai.google.dev/api)',
  input: Type.Object(
    {
      model: Type.String({ description: 'Which model', examples: ['gemini-2.5-flash'] }),
      ...chatProperties,
      apiKey: Type.String({ description: 'API key', examples: ['${GEMINI_KEY}'] }),
      baseUrl: Type.String({
        description: 'Address of the API',
        default: 'https://generativelanguage.googleapis.com',
        examples: ['https://generativelanguage.googleapis.com'],
      }),
    },
    { additionalProperties: false },
  ),
  output: chatOutput,
  example: `name: ask
tasks:
  - name: answer
    type: ai.gemini
    properties:
      model: gemini-2.5-flash
      prompt: Say hello.
      apiKey: \${GEMINI_KEY}
`,
  async run(task) {
    const input: ChatInput & typeof task.input = task.input
    const { model, system, maxTokens, temperature, schema, apiKey, baseUrl } = input
    const { body } = await callJson(task, {
      service: 'Gemini',
      url: `${baseUrl.replace(/\/+$/, '')}/v1beta/models/${encodeURIComponent(model)}:generateContent`,
      method: 'POST',
      headers: { 'x-goog-api-key': apiKey },
      body: given({
        contents: messagesOf(input).map(({ role, content }) => ({
          role: role === 'assistant' ? 'model' : 'user',
          parts: [{ text: content }],
        })),
        systemInstruction: system === undefined ? undefined : { parts: [{ text: system }] },
        generationConfig: given({
          maxOutputTokens: maxTokens,
          temperature,
          responseMimeType: schema === undefined ? undefined : 'application/json',
          responseJsonSchema: schema,
        }),
      }),
    })
    const { candidates = [], usageMetadata } = body as Generated
    return answered(
      {
        text: (candidates[0]?.content?.parts ?? []).map(({ text = '' }) => text).join(''),
        stopReason: candidates[0]?.finishReason,
        inputTokens: usageMetadata?.promptTokenCount,
        outputTokens: usageMetadata?.candidatesTokenCount,
      },
      input,
    )
  },
})
