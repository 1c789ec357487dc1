import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { contentOutputs, contentProperties, givenBack, ToFile, textOf } from '../content.ts'
import { threadModule } from '../thread-module.ts'

const toHtml = threadModule<typeof import('./markdown-thread.ts')>(new URL('./markdown-thread.ts', import.meta.url))
const fromHtml = threadModule<typeof import('./turndown-thread.ts')>(new URL('./turndown-thread.ts', import.meta.url))

export const markdown = definePlugin({
  id: 'transform.markdown',
  name: 'Markdown',
  category: 'Transforms',
  description:
    'Makes HTML of Markdown, and Markdown of HTML. HTML within the Markdown is escaped unless it is to be kept, and links lead to nothing that runs.',
  effect: 'pure',
  input: Type.Object(
    {
      operation: Type.Enum(['to-html', 'to-markdown'], {
        description: 'Which way',
        default: 'to-html',
        examples: ['to-markdown'],
      }),
      ...contentProperties('The Markdown, or the HTML', '# Films\n\n- *Alien*\n'),
      gfm: Type.Boolean({
        description: "Whether GitHub's additions are read and written: tables, task lists, ~~struck~~, bare links",
        default: true,
        examples: [false],
      }),
      breaks: Type.Boolean({
        description: 'Of Markdown: whether a line break is one in the HTML as well',
        default: false,
        examples: [true],
      }),
      html: Type.Enum(['escape', 'drop', 'keep'], {
        description: 'Of Markdown: what becomes of HTML in it; `keep` it only when you trust whoever wrote it',
        default: 'escape',
        examples: ['drop'],
      }),
      headingIds: Type.Boolean({
        description: 'Of Markdown: whether headings get an id to link to',
        default: false,
        examples: [true],
      }),
      frontMatter: Type.Boolean({
        description: 'Of Markdown: whether YAML between `---` at its beginning is given as `frontMatter`',
        default: true,
        examples: [false],
      }),
      bullet: Type.Enum(['-', '*', '+'], {
        description: 'Of Markdown that is written: what items of lists begin with',
        default: '-',
        examples: ['*'],
      }),
      toFile: ToFile,
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    headings: Type.Optional(
      Type.Array(Type.Unknown(), {
        description: 'The headings of the Markdown, with their level and id',
        examples: [[{ level: 1, text: 'Films', id: 'films' }]],
      }),
    ),
    frontMatter: Type.Optional(
      Type.Unknown({ description: 'What its YAML says, or null', examples: [{ draft: true }] }),
    ),
    ...contentOutputs,
  }),
  example: `name: to-html
tasks:
  - name: page
    type: transform.markdown
    properties:
      text: |
        # Films

        - *Alien*
  - name: back
    type: transform.markdown
    properties:
      operation: to-markdown
      text: '{{ outputs.page.text }}'
`,
  async run(task) {
    const { operation, toFile, file: _, bullet, ...options } = task.input
    const text = await textOf(task, task.input)
    if (operation === 'to-markdown') {
      const made = await fromHtml(task, 'markdownOf', { text, bullet, gfm: options.gfm })
      return await givenBack(task, made, toFile)
    }
    const { made, headings, frontMatter } = await toHtml(task, 'htmlOf', { ...options, text })
    return { headings, frontMatter, ...(await givenBack(task, made, toFile)) }
  },
})
