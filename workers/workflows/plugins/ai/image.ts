import { Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { callJson } from '../http-json.ts'
import { given } from '../saas/api-plugin.ts'

/** Source: https://platform.openai.com/docs/api-reference/images */
export const image = definePlugin({
  id: 'ai.image',
  name: 'Image',
  category: 'AI',
  description: 'Draws a picture from a text, with any service that speaks the images API of OpenAI.',
  needs: 'An API key, or a service of your own under `baseUrl`',
  effect: 'once',
  input: Type.Object(
    {
      model: Type.String({ description: 'Which model', examples: ['gpt-image-1'] }),
      prompt: Type.String({ description: 'What to draw', examples: ['A cat on a bus'] }),
      size: Type.String({ description: 'Width and height in pixels', default: '1024x1024', examples: ['1536x1024'] }),
      quality: Type.Optional(Type.String({ description: '`low`, `medium`, `high`', examples: ['low'] })),
      apiKey: Type.Optional(Type.String({ description: 'API key', examples: ['${OPENAI_KEY}'] })),
      baseUrl: Type.String({
        description: 'Address of the API',
        default: 'https://api.openai.com/v1',
        examples: ['http://localhost:8000/v1'],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    uri: Type.String({ description: 'The picture, for other tasks', examples: ['busbar:///files/<digest>'] }),
    sizeBytes: Type.Integer({ description: 'Its size', examples: [102400] }),
  }),
  example: `name: draw
tasks:
  - name: picture
    type: ai.image
    properties:
      model: gpt-image-1
      prompt: A cat on a bus
      apiKey: \${OPENAI_KEY}
`,
  async run(task) {
    const { model, prompt, size, quality, apiKey, baseUrl } = task.input
    const { body } = await callJson(task, {
      service: 'The images service',
      url: `${baseUrl.replace(/\/+$/, '')}/images/generations`,
      method: 'POST',
      headers: apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` },
      body: given({ model, prompt, size, quality, n: 1 }),
    })
    const [first] = (body as { data?: { b64_json?: string; url?: string }[] }).data ?? []
    if (first?.b64_json !== undefined) return await task.services.files.put(Buffer.from(first.b64_json, 'base64'))
    if (first?.url === undefined) throw new TaskFailure('refused', 'The images service gave no picture')
    const response = await task.services.fetch(first.url, { signal: task.signal })
    if (!response.ok) throw new TaskFailure('unavailable', `The picture cannot be fetched: ${response.status}`)
    return await task.services.files.put(new Uint8Array(await response.arrayBuffer()))
  },
})
