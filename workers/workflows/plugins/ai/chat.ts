import { type TProperties, Type } from 'typebox'

/** What a model is asked, in the words all of them share. */
export const chatProperties = {
  prompt: Type.Optional(
    Type.String({
      description: 'What to ask; in place of `messages`',
      examples: ['Summarise: {{ outputs.page.body }}'],
    }),
  ),
  messages: Type.Optional(
    Type.Array(
      Type.Object({
        role: Type.Union([Type.Literal('user'), Type.Literal('assistant')], {
          description: 'Who says it',
          examples: ['user'],
        }),
        content: Type.String({ description: 'What is said', examples: ['Hello'] }),
      }),
      { description: 'The conversation so far', examples: [[{ role: 'user', content: 'Hello' }]] },
    ),
  ),
  system: Type.Optional(
    Type.String({ description: 'What the model shall be', examples: ['You answer in one sentence.'] }),
  ),
  maxTokens: Type.Integer({ description: 'Longest answer, tokens', default: 1024, minimum: 1, examples: [256] }),
  temperature: Type.Optional(
    Type.Number({ description: 'How much is left to chance', minimum: 0, maximum: 2, examples: [0] }),
  ),
  schema: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description: 'JSON Schema that the answer shall fit; it is then parsed into `json`',
      examples: [{ type: 'object', properties: { mood: { type: 'string' } } }],
    }),
  ),
} satisfies TProperties

export const chatOutput = Type.Object({
  text: Type.String({ description: 'The answer', examples: ['Hello!'] }),
  json: Type.Unknown({ description: 'The answer, parsed, when a schema was given; else null', examples: [null] }),
  stopReason: Type.String({ description: 'Why it ended, in the words of the service', examples: ['stop'] }),
  inputTokens: Type.Integer({ description: 'Tokens that were read', examples: [12] }),
  outputTokens: Type.Integer({ description: 'Tokens that were written', examples: [3] }),
})

export interface ChatInput {
  readonly prompt?: string
  readonly messages?: readonly { readonly role: 'user' | 'assistant'; readonly content: string }[]
  readonly system?: string
  readonly maxTokens: number
  readonly temperature?: number
  readonly schema?: Readonly<Record<string, unknown>>
}
