import { type Static, Type } from 'typebox'
import { contentProperties, ToFile } from '../content.ts'

export const StringInput = Type.Object(
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

export type StringInput = Static<typeof StringInput>
