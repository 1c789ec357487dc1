import { type Static, Type } from 'typebox'
import { definePlugin, type TaskRun } from '../../plugin.ts'
import { contentOutputs, contentProperties, givenBack, needed, ToFile, textOf } from '../content.ts'
import { evaluate } from '../expression.ts'
import { threadModule } from '../thread-module.ts'

const work = threadModule<typeof import('./json-thread.ts')>(new URL('./json-thread.ts', import.meta.url))

const Input = Type.Object(
  {
    operation: Type.Enum(
      ['parse', 'stringify', 'query', 'pointer', 'patch', 'merge-patch', 'diff', 'validate', 'flatten', 'unflatten'],
      {
        description:
          '`parse` a text; `stringify`, or `query` by JSONata, a value; what a `pointer` points to (RFC 6901); apply a `patch` (RFC 6902) or a `merge-patch` (RFC 7396); the `diff` to another value as a patch; `validate` against a JSON Schema; `flatten` to keys like `a.b[0]`, and back',
        default: 'parse',
        examples: ['query'],
      },
    ),
    ...contentProperties('JSON to parse, or to work on in place of `value`', '{"a": [1, 2]}'),
    value: Type.Optional(Type.Unknown({ description: 'The value to work on', examples: [{ a: [1, 2] }] })),
    lines: Type.Boolean({
      description: 'Of parse and stringify: whether it is JSON Lines: a value a line',
      default: false,
      examples: [true],
    }),
    indent: Type.Integer({
      description: 'Of stringify: how many blanks a level; 0: all in one line',
      default: 0,
      minimum: 0,
      maximum: 10,
      examples: [2],
    }),
    sortKeys: Type.Boolean({
      description: 'Of stringify: whether keys are in order, so that equal values have equal texts',
      default: false,
      examples: [true],
    }),
    expression: Type.Optional(
      Type.String({ description: 'Of query: a JSONata expression', maxLength: 20_000, examples: ['$sum(a)'] }),
    ),
    bindings: Type.Record(Type.String(), Type.Unknown(), {
      description: 'Of query: what the expression can name with a $ before it',
      default: {},
      examples: [{ least: 2 }],
    }),
    pointer: Type.Optional(Type.String({ description: 'Of pointer: where', maxLength: 10_000, examples: ['/a/0'] })),
    default: Type.Optional(
      Type.Unknown({
        description: 'Of pointer: what to give when there is nothing; without it that fails the task',
        examples: [null],
      }),
    ),
    patch: Type.Optional(
      Type.Unknown({ description: 'The patch, or the merge patch', examples: [[{ op: 'add', path: '/b', value: 1 }]] }),
    ),
    other: Type.Optional(Type.Unknown({ description: 'Of diff: what it is to become', examples: [{ a: [1] }] })),
    schema: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: 'Of validate: the JSON Schema',
        examples: [{ type: 'object', required: ['a'] }],
      }),
    ),
    failWhenInvalid: Type.Boolean({
      description: 'Of validate: whether a value that does not fit fails the task',
      default: false,
      examples: [true],
    }),
    toFile: ToFile,
  },
  { additionalProperties: false },
)

export const json = definePlugin({
  id: 'util.json',
  name: 'JSON',
  category: 'Utility',
  description:
    'Parses, writes, queries (JSONata), points into, patches, compares and validates JSON. Whole numbers that would lose digits are read as texts of them.',
  effect: 'pure',
  input: Input,
  output: Type.Object({
    value: Type.Optional(Type.Unknown({ description: 'What came of it', examples: [3] })),
    valid: Type.Optional(Type.Boolean({ description: 'Of validate: whether it fits', examples: [true] })),
    errors: Type.Optional(
      Type.Array(
        Type.Object({
          path: Type.String({ description: 'Where, as a JSON Pointer', examples: ['/a'] }),
          message: Type.String({ description: 'What is wrong', examples: ['must be integer'] }),
        }),
        { description: 'Of validate: what does not', examples: [[]] },
      ),
    ),
    ...contentOutputs,
  }),
  example: `name: sum-up
tasks:
  - name: read
    type: util.json
    properties:
      text: '{"films": [{"price": 3}, {"price": 4}]}'
  - name: total
    type: util.json
    properties:
      operation: query
      value: '{{ outputs.read.value }}'
      expression: $sum(films.price)
`,
  async run(task) {
    const { operation, lines } = task.input
    if (operation === 'parse') {
      return { value: await work(task, 'parse', { text: await textOf(task, task.input), lines }) }
    }
    return await operations[operation](task, await documentOf(task))
  },
})

type Run = TaskRun<Static<typeof Input>>

async function documentOf(task: Run): Promise<unknown> {
  const { value, text, file, operation } = task.input
  if (value !== undefined) return value
  if (text === undefined && file === undefined) return needed(undefined, 'value', operation)
  return await work(task, 'parse', { text: await textOf(task, task.input), lines: false })
}

const operations = {
  async stringify(task: Run, value: unknown) {
    const { lines, indent, sortKeys, toFile } = task.input
    return await givenBack(task, await work(task, 'stringify', { value, lines, indent, sortKeys }), toFile)
  },
  async query(task: Run, value: unknown) {
    const { expression, bindings } = task.input
    const asked = needed(expression, 'expression', 'query')
    return { value: await evaluate(task, 'properties.expression', asked, value, bindings) }
  },
  async pointer({ input, signal }: Run, value: unknown) {
    const pointer = needed(input.pointer, 'pointer', 'pointer')
    return { value: await work({ signal }, 'pointed', { value, pointer, otherwise: input.default }) }
  },
  async patch(task: Run, value: unknown) {
    return { value: await work(task, 'patched', { value, patch: needed(task.input.patch, 'patch', 'patch') }) }
  },
  async 'merge-patch'(task: Run, value: unknown) {
    return {
      value: await work(task, 'mergePatched', { value, patch: needed(task.input.patch, 'patch', 'merge-patch') }),
    }
  },
  async diff(task: Run, value: unknown) {
    return { value: await work(task, 'difference', { value, other: needed(task.input.other, 'other', 'diff') }) }
  },
  async validate(task: Run, value: unknown) {
    const { schema, failWhenInvalid } = task.input
    return await work(task, 'validated', { value, schema: needed(schema, 'schema', 'validate'), failWhenInvalid })
  },
  flatten: async (task: Run, value: unknown) => ({ value: await work(task, 'flattened', { value }) }),
  unflatten: async (task: Run, value: unknown) => ({ value: await work(task, 'unflattened', { value }) }),
}
