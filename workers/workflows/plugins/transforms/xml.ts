import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { contentOutputs, contentProperties, givenBack, needed, ToFile, textOf } from '../content.ts'
import { threadModule } from '../thread-module.ts'

const work = threadModule<typeof import('./xml-thread.ts')>(new URL('./xml-thread.ts', import.meta.url))

export const xml = definePlugin({
  id: 'transform.xml',
  name: 'XML',
  category: 'Transforms',
  description:
    'Reads XML into an object and writes an object as XML. Elements are keys, those that come several times a list; attributes begin with `@`. Document types that declare something are refused.',
  effect: 'pure',
  input: Type.Object(
    {
      operation: Type.Enum(['parse', 'stringify'], {
        description: '`parse` XML into an object, or `stringify` an object into XML',
        default: 'parse',
        examples: ['stringify'],
      }),
      ...contentProperties('The XML to parse', '<film id="1"><title>Alien</title></film>'),
      value: Type.Optional(
        Type.Record(Type.String(), Type.Unknown(), {
          description: 'The object to stringify; its one key is the root element',
          examples: [{ film: { '@id': '1', title: 'Alien' } }],
        }),
      ),
      attributePrefix: Type.String({
        description: 'What the keys of attributes begin with',
        default: '@',
        minLength: 1,
        maxLength: 8,
        examples: ['$'],
      }),
      textKey: Type.String({
        description: 'Key of the text of an element that has more than text',
        default: '#text',
        minLength: 1,
        maxLength: 32,
        examples: ['_'],
      }),
      types: Type.Enum(['text', 'auto'], {
        description: 'Whether values stay texts, or `auto`: become numbers and booleans where nothing is lost',
        default: 'text',
        examples: ['auto'],
      }),
      lists: Type.Array(Type.String(), {
        description: 'Elements that are lists even when there is one: names, or paths like `shop.item`',
        default: [],
        maxItems: 1_000,
        examples: [['item']],
      }),
      trim: Type.Boolean({ description: 'Whether blanks around texts go', default: true, examples: [false] }),
      removeNamespaces: Type.Boolean({
        description: 'Whether `soap:Body` becomes `Body`',
        default: false,
        examples: [true],
      }),
      indent: Type.Integer({
        description: 'Of XML that is written: how many blanks a level; 0: all in one line',
        default: 2,
        minimum: 0,
        maximum: 8,
        examples: [0],
      }),
      declaration: Type.Boolean({
        description: 'Of XML that is written: whether it begins with `<?xml …?>`',
        default: true,
        examples: [false],
      }),
      toFile: ToFile,
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    value: Type.Optional(Type.Unknown({ description: 'What was parsed', examples: [{ film: { title: 'Alien' } }] })),
    ...contentOutputs,
  }),
  example: `name: read-xml
tasks:
  - name: read
    type: transform.xml
    properties:
      text: <shop><item sku="a">Tea</item><item sku="b">Salt</item></shop>
  - name: write
    type: transform.xml
    properties:
      operation: stringify
      value: '{{ outputs.read.value }}'
`,
  async run(task) {
    const { operation, value, toFile, text: _, file: __, ...options } = task.input
    if (operation === 'parse') {
      return { value: await work(task, 'parse', { ...options, text: await textOf(task, task.input) }) }
    }
    const made = await work(task, 'stringify', { ...options, value: needed(value, 'value', 'stringify') })
    return await givenBack(task, made, toFile)
  },
})
