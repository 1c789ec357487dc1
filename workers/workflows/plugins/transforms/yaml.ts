import { Type } from 'typebox'
import { definePlugin, TaskFailure } from '../../plugin.ts'
import { contentOutputs, contentProperties, givenBack, ToFile, textOf } from '../content.ts'
import { threadModule } from '../thread-module.ts'

const work = threadModule<typeof import('./yaml-thread.ts')>(new URL('./yaml-thread.ts', import.meta.url))

export const yaml = definePlugin({
  id: 'transform.yaml',
  name: 'YAML and TOML',
  category: 'Transforms',
  description:
    'Reads YAML (one document or several) or TOML into values, and writes values as either. Whole numbers that would lose digits, and dates, are read as texts.',
  effect: 'pure',
  input: Type.Object(
    {
      operation: Type.Enum(['parse', 'stringify'], {
        description: '`parse` a text into values, or `stringify` values into a text',
        default: 'parse',
        examples: ['stringify'],
      }),
      format: Type.Enum(['yaml', 'toml'], { description: 'How it is written', default: 'yaml', examples: ['toml'] }),
      ...contentProperties('The text to parse', 'a: 1\n---\nb: 2\n'),
      value: Type.Optional(Type.Unknown({ description: 'What to stringify', examples: [{ a: 1 }] })),
      documents: Type.Optional(
        Type.Array(Type.Unknown(), {
          description: 'In place of `value`: what to stringify as one YAML document each',
          maxItems: 10_000,
          examples: [[{ a: 1 }, { b: 2 }]],
        }),
      ),
      merge: Type.Boolean({
        description: 'Whether `<<` merges a mapping into another, as in YAML 1.1',
        default: false,
        examples: [true],
      }),
      sortKeys: Type.Boolean({
        description: 'Of YAML that is written: whether keys are in order of the alphabet',
        default: false,
        examples: [true],
      }),
      indent: Type.Integer({
        description: 'Of YAML that is written: how many blanks a level',
        default: 2,
        minimum: 1,
        maximum: 8,
        examples: [4],
      }),
      toFile: ToFile,
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    value: Type.Optional(Type.Unknown({ description: 'What was parsed: the first document', examples: [{ a: 1 }] })),
    documents: Type.Optional(
      Type.Array(Type.Unknown(), { description: 'All documents that were parsed', examples: [[{ a: 1 }, { b: 2 }]] }),
    ),
    ...contentOutputs,
  }),
  example: `name: read-yaml
tasks:
  - name: read
    type: transform.yaml
    properties:
      text: |
        title: Alien
        year: 1979
  - name: as-toml
    type: transform.yaml
    properties:
      operation: stringify
      format: toml
      value: '{{ outputs.read.value }}'
`,
  async run(task) {
    const { operation, value, documents, format, merge, sortKeys, indent, toFile } = task.input
    if (operation === 'parse') return await work(task, 'parse', { text: await textOf(task, task.input), format, merge })
    if (value === undefined && documents === undefined) {
      throw new TaskFailure('refused', 'properties.value or properties.documents is needed for stringify')
    }
    const values = documents ?? [value]
    return await givenBack(task, await work(task, 'stringify', { values, format, sortKeys, indent }), toFile)
  },
})
