import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { callJson } from '../http-json.ts'
import { given } from '../saas/api-plugin.ts'

const maxTexts = 2_048

/** Source: https://platform.openai.com/docs/api-reference/embeddings */
export const embeddings = definePlugin({
  id: 'ai.embeddings',
  name: 'Embeddings',
  category: 'AI',
  description:
    'Turns texts into vectors, with any service that speaks the embeddings API of OpenAI (Ollama does, too).',
  needs: 'An API key, or a service of your own under `baseUrl`',
  input: Type.Object(
    {
      model: Type.String({ description: 'Which model', examples: ['text-embedding-3-small'] }),
      texts: Type.Array(Type.String(), {
        description: 'The texts',
        minItems: 1,
        maxItems: maxTexts,
        examples: [['a cat', 'a dog']],
      }),
      dimensions: Type.Optional(Type.Integer({ description: 'Length of the vectors', minimum: 1, examples: [256] })),
      apiKey: Type.Optional(Type.String({ description: 'API key', examples: ['${OPENAI_KEY}'] })),
      baseUrl: Type.String({
        description: 'Address of the API',
        default: 'https://api.openai.com/v1',
        examples: ['http://localhost:11434/v1'],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    vectors: Type.Array(Type.Array(Type.Number()), {
      description: 'A vector for each text',
      examples: [[[0.1, -0.2]]],
    }),
    inputTokens: Type.Integer({ description: 'Tokens that were read', examples: [4] }),
  }),
  example: `name: embed
tasks:
  - name: vectors
    type: ai.embeddings
    properties:
      model: text-embedding-3-small
      texts: [a cat, a dog]
      apiKey: \${OPENAI_KEY}
`,
  async run(task) {
    const { model, texts, dimensions, apiKey, baseUrl } = task.input
    const { body } = await callJson(task, {
      service: 'The embeddings service',
      url: `${baseUrl.replace(/\/+$/, '')}/embeddings`,
      method: 'POST',
      headers: apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` },
      body: given({ model, input: texts, dimensions, encoding_format: 'float' }),
    })
    const { data = [], usage } = body as {
      data?: { index: number; embedding: number[] }[]
      usage?: { prompt_tokens?: number }
    }
    const vectors = data.toSorted((left, right) => left.index - right.index).map(({ embedding }) => embedding)
    return { vectors, inputTokens: usage?.prompt_tokens ?? 0 }
  },
})
