import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { contentOutputs, contentProperties, givenBack, ToFile, textOf } from '../content.ts'
import { threadModule } from '../thread-module.ts'

const work = threadModule<typeof import('./template-thread.ts')>(new URL('./template-thread.ts', import.meta.url))

/** Source: https://shopify.github.io/liquid/ */
export const template = definePlugin({
  id: 'util.template',
  name: 'Template',
  category: 'Utility',
  description:
    'Renders a Liquid template with data of your own: one that comes from a file, an input or another task, or that stands in the flow between `{% raw %}` and `{% endraw %}`. It sees the data and nothing else.',
  effect: 'pure',
  input: Type.Object(
    {
      ...contentProperties('The template', 'Hello {{ name }}'),
      data: Type.Record(Type.String(), Type.Unknown(), {
        description: 'What the template can name',
        default: {},
        examples: [{ name: 'Ann' }],
      }),
      strict: Type.Boolean({
        description: 'Whether naming what is not there fails the task; else it is empty',
        default: false,
        examples: [true],
      }),
      escape: Type.Enum(['none', 'html'], {
        description: 'What becomes of values: `html` for a page, where one can say `| raw`',
        default: 'none',
        examples: ['html'],
      }),
      toFile: ToFile,
    },
    { additionalProperties: false },
  ),
  output: Type.Object(contentOutputs),
  example: `name: render
tasks:
  - name: letter
    type: util.template
    properties:
      text: '{% raw %}Dear {{ name }}, {% for film in films %}{{ film | upcase }} {% endfor %}{% endraw %}'
      data: { name: Ann, films: [Alien, Brazil] }
`,
  async run(task) {
    const { data, strict, escape: escaping, toFile } = task.input
    const text = await textOf(task, task.input)
    return await givenBack(task, await work(task, 'rendered', { text, data, strict, escaping }), toFile)
  },
})
