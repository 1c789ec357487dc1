import { Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { givenBack, needed, textOf } from '../content.ts'
import { threadModule } from '../thread-module.ts'
import { StringInput } from './string-properties.ts'

const work = threadModule<typeof import('./string-thread.ts')>(new URL('./string-thread.ts', import.meta.url))
const qr = threadModule<typeof import('./qr-thread.ts')>(new URL('./qr-thread.ts', import.meta.url))

export const string = definePlugin({
  id: 'util.string',
  name: 'String',
  category: 'Utility',
  description:
    'Works on texts: case, trimming, padding, cutting, splitting, joining, replacing, slugs, distances, HTML escapes; and makes QR codes (SVG, PNG).',
  effect: 'pure',
  input: StringInput,
  output: Type.Object({
    value: Type.Optional(
      Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Array(Type.String())], {
        description: 'What came of it, unless it is a file',
        examples: ['hello-world'],
      }),
    ),
    uri: Type.Optional(Type.String({ description: 'The file that was made', examples: ['busbar:///files/3q2-7w'] })),
    sizeBytes: Type.Optional(Type.Integer({ description: 'Size of the text or file that was made', examples: [11] })),
  }),
  example: `name: make-slug
tasks:
  - name: slug
    type: util.string
    properties:
      operation: slug
      text: Über 100 Filme & mehr
`,
  async run(task) {
    const { operation } = task.input
    if (operation === 'qr-code') return await qrCode(task)
    const text = operation === 'join' ? '' : await textOf(task, task.input)
    for (const name of wanted[operation] ?? []) needed(task.input[name], name, operation)
    const value = await work(task, 'changed', { ...task.input, text })
    return typeof value === 'string' ? await told(task, value) : { value }
  },
})

const wanted: { readonly [operation in StringInput['operation']]?: readonly (keyof StringInput)[] } = {
  join: ['items'],
  replace: ['search'],
  contains: ['search'],
  'starts-with': ['search'],
  'ends-with': ['search'],
  count: ['search'],
  'pad-start': ['length'],
  'pad-end': ['length'],
  truncate: ['length'],
  distance: ['other'],
  similarity: ['other'],
}

/** Source: ISO/IEC 18004 */
async function qrCode(task: TaskRun<StringInput>) {
  const { format, correction, scale } = task.input
  const text = await textOf(task, task.input)
  if (Buffer.byteLength(text) > 2_953)
    throw new TaskFailure('refused', 'properties.text is longer than a QR code holds')
  return await told(task, await qr(task, 'code', { text, format, correction, scale }))
}

async function told(task: TaskRun<StringInput>, made: string | Uint8Array) {
  const { text: value, ...rest } = { text: undefined, ...(await givenBack(task, made, task.input.toFile)) }
  return { ...rest, ...(value !== undefined && { value }) }
}
