import { type Static, Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { contentProperties, givenBack, needed, ToFile, textOf } from '../content.ts'
import { threadModule } from '../thread-module.ts'

const work = threadModule<typeof import('./string-thread.ts')>(new URL('./string-thread.ts', import.meta.url))
const qr = threadModule<typeof import('./qr-thread.ts')>(new URL('./qr-thread.ts', import.meta.url))

const Input = Type.Object(
  {
    operation: Type.Enum(
      [
        'upper',
        'lower',
        'capitalize',
        'title',
        'camel',
        'pascal',
        'snake',
        'kebab',
        'constant',
        'slug',
        'trim',
        'trim-start',
        'trim-end',
        'pad-start',
        'pad-end',
        'repeat',
        'reverse',
        'length',
        'truncate',
        'substring',
        'split',
        'lines',
        'words',
        'join',
        'replace',
        'contains',
        'starts-with',
        'ends-with',
        'count',
        'distance',
        'similarity',
        'escape-html',
        'unescape-html',
        'normalize',
        'qr-code',
      ],
      {
        description:
          'What to do. `distance`: how many characters to change (Levenshtein), `similarity`: the same from 0 to 1; `slug`: for URLs; `normalize`: to Unicode NFC; `qr-code`: a QR code of the text. Lengths and places count characters as people see them',
        examples: ['slug'],
      },
    ),
    ...contentProperties('The text', 'Hello World'),
    search: Type.Optional(
      Type.String({
        description: 'Of replace, contains, starts-with, ends-with and count: what to look for, as it stands',
        minLength: 1,
        examples: ['World'],
      }),
    ),
    replacement: Type.String({ description: 'Of replace: what to put there', default: '', examples: ['you'] }),
    ignoreCase: Type.Boolean({
      description: 'Whether upper and lower case are the same when looking for something or comparing',
      default: false,
      examples: [true],
    }),
    separator: Type.String({
      description: 'Of split and join: what is between the parts',
      default: ',',
      examples: [';'],
    }),
    items: Type.Optional(
      Type.Array(Type.Unknown(), { description: 'Of join: the parts', maxItems: 1_000_000, examples: [['a', 'b']] }),
    ),
    length: Type.Optional(
      Type.Integer({
        description: 'Of pad and truncate: how long it is to be',
        minimum: 0,
        maximum: 1_000_000,
        examples: [10],
      }),
    ),
    fill: Type.String({
      description: 'Of pad: what with',
      default: ' ',
      minLength: 1,
      maxLength: 100,
      examples: ['0'],
    }),
    ellipsis: Type.String({
      description: 'Of truncate: what stands for what is left out, and counts',
      default: '…',
      maxLength: 100,
      examples: ['...'],
    }),
    start: Type.Integer({
      description: 'Of substring: from which character, below 0 from the end',
      default: 0,
      examples: [-3],
    }),
    end: Type.Optional(
      Type.Integer({ description: 'Of substring: up to which character, which is not in it', examples: [5] }),
    ),
    times: Type.Integer({ description: 'Of repeat', default: 2, minimum: 0, maximum: 100_000, examples: [3] }),
    other: Type.Optional(
      Type.String({ description: 'Of distance and similarity: the other text', examples: ['Helo'] }),
    ),
    locale: Type.String({
      description: 'Whose upper and lower case',
      default: 'en',
      maxLength: 64,
      examples: ['tr'],
    }),
    format: Type.Enum(['svg', 'png', 'text'], {
      description: 'Of qr-code: a PNG becomes a file; `text` draws it with characters',
      default: 'svg',
      examples: ['png'],
    }),
    correction: Type.Enum(['low', 'medium', 'quartile', 'high'], {
      description: 'Of qr-code: how much of it may be unreadable: 7, 15, 25 or 30 %',
      default: 'medium',
      examples: ['high'],
    }),
    scale: Type.Integer({
      description: 'Of qr-code as PNG: pixels a module',
      default: 8,
      minimum: 1,
      maximum: 32,
      examples: [4],
    }),
    toFile: ToFile,
  },
  { additionalProperties: false },
)

export type StringInput = Static<typeof Input>

export const string = definePlugin({
  id: 'util.string',
  name: 'String',
  category: 'Utility',
  description:
    'Works on texts: case, trimming, padding, cutting, splitting, joining, replacing, slugs, distances, HTML escapes; and makes QR codes (SVG, PNG).',
  effect: 'pure',
  input: Input,
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
