import { Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { bytesOf, contentProperties, decoded } from '../content.ts'
import { threadModule } from '../thread-module.ts'
import { Field } from './html-properties.ts'

const work = threadModule<typeof import('./html-thread.ts')>(new URL('./html-thread.ts', import.meta.url))
const pdf = threadModule<typeof import('./pdf-thread.ts')>(new URL('./pdf-thread.ts', import.meta.url))

export const html = definePlugin({
  id: 'transform.html',
  name: 'HTML and PDF',
  category: 'Transforms',
  description:
    'Takes things out of a page: fields by CSS selectors, its text, tables and links; and the text out of a PDF. No script runs and nothing is fetched.',
  effect: 'pure',
  input: Type.Object(
    {
      operation: Type.Enum(['extract', 'text', 'tables', 'links'], {
        description: '`extract` the `fields`, or give the text, the tables or the links; a PDF has text only',
        default: 'extract',
        examples: ['text'],
      }),
      format: Type.Enum(['html', 'pdf'], {
        description: 'What it is; a PDF is read from a file',
        default: 'html',
        examples: ['pdf'],
      }),
      ...contentProperties('The page', '<h1>Films</h1><a href="/1">Alien</a>'),
      selector: Type.String({
        description: 'Look only into elements of this CSS selector; with `fields`, each is an item of its own',
        default: '',
        maxLength: 2_000,
        examples: ['ul.films > li'],
      }),
      fields: Type.Record(Type.String(), Type.Union([Type.String(), Field]), {
        description: 'What to extract: CSS selectors by name, with `@name` after them for an attribute, or in full',
        default: {},
        maxProperties: 200,
        examples: [{ title: 'h1', link: 'a@href', tags: { selector: '.tag', all: true } }],
      }),
      baseUrl: Type.Optional(
        Type.String({ description: 'Links are made whole from here', examples: ['https://example.org/films/'] }),
      ),
      limit: Type.Integer({
        description: 'At most so many items, tables, links or pages',
        default: 1_000,
        minimum: 1,
        maximum: 100_000,
        examples: [10],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    data: Type.Optional(
      Type.Unknown({ description: 'The fields: a list of them with `selector`', examples: [{ title: 'Films' }] }),
    ),
    text: Type.Optional(Type.String({ description: 'The text', examples: ['Films'] })),
    pages: Type.Optional(
      Type.Array(Type.String(), { description: 'The text of each page of a PDF', examples: [['Films']] }),
    ),
    tables: Type.Optional(
      Type.Array(Type.Unknown(), {
        description: 'Tables with `caption`, `columns` and `rows`; rows are objects when there are columns, else lists',
        examples: [[{ caption: null, columns: ['id'], rows: [{ id: '1' }] }]],
      }),
    ),
    links: Type.Optional(
      Type.Array(Type.Unknown(), { description: 'Links', examples: [[{ url: '/1', text: 'Alien' }]] }),
    ),
    count: Type.Integer({ description: 'How many items, tables, links or pages', examples: [1] }),
  }),
  example: `name: read-page
tasks:
  - name: films
    type: transform.html
    properties:
      text: |
        <h1>Films</h1>
        <ul><li><a href="/1">Alien</a></li><li><a href="/2">Brazil</a></li></ul>
      selector: li
      fields: { title: a, link: a@href }
      baseUrl: https://example.org/
`,
  async run(task) {
    const { operation, format, file, text: _, ...options } = task.input
    const bytes = await bytesOf(task, task.input)
    if (format === 'pdf') {
      if (operation !== 'text') throw new TaskFailure('refused', 'properties.operation: of a PDF there is text only')
      return await pdf(task, 'text', { bytes: new Uint8Array(bytes), maxPages: options.limit })
    }
    const text = decoded(bytes, file === undefined ? 'properties.text' : 'properties.file')
    return await work(task, operation, { ...options, text })
  },
})
