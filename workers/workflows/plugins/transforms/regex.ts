import { Type } from 'typebox'
import { definePlugin } from '../../plugin.ts'
import { contentProperties, needed, textOf } from '../content.ts'
import { threadModule } from '../thread-module.ts'

const work = threadModule<typeof import('./regex-thread.ts')>(new URL('./regex-thread.ts', import.meta.url))

const Match = Type.Object({
  match: Type.String({ description: 'What matched', examples: ['2027-01'] }),
  index: Type.Integer({ description: 'Where it begins, in UTF-16 units from 0', examples: [4] }),
  groups: Type.Array(Type.Union([Type.String(), Type.Null()]), {
    description: 'Its groups, null for one that took no part',
    examples: [['2027', '01']],
  }),
  named: Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()]), {
    description: 'Its named groups',
    examples: [{ year: '2027' }],
  }),
})

export const regex = definePlugin({
  id: 'transform.regex',
  name: 'Regular expression',
  category: 'Transforms',
  description:
    'Tests, finds, replaces and splits by a regular expression in the syntax of RE2: however bad the pattern, the time it takes grows with the text and no faster.',
  effect: 'pure',
  input: Type.Object(
    {
      operation: Type.Enum(['test', 'match', 'matchAll', 'replace', 'split'], {
        description: 'What to do; `match` gives the first one',
        default: 'matchAll',
        examples: ['replace'],
      }),
      ...contentProperties('Where to look', 'due 2027-01'),
      pattern: Type.String({
        description: 'The expression, in the syntax of RE2',
        maxLength: 10_000,
        examples: ['(?P<year>\\d{4})-(\\d\\d)'],
      }),
      flags: Type.String({
        description: '`i`: case does not matter; `m`: ^ and $ are those of lines; `s`: a dot is a line break as well',
        default: '',
        pattern: '^[ims]*$',
        examples: ['i'],
      }),
      replacement: Type.Optional(
        Type.String({
          description: 'What to put in its place; `$1` and `$<name>` are groups, `$&` is all of it, `$$` is a dollar',
          examples: ['$2/$1'],
        }),
      ),
      limit: Type.Integer({
        description: 'At most so many matches, replacements or parts; the rest of the text is left as it is',
        default: 10_000,
        minimum: 1,
        maximum: 1_000_000,
        examples: [1],
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    found: Type.Boolean({ description: 'Whether there is a match', examples: [true] }),
    match: Type.Optional(Type.Union([Match, Type.Null()], { description: 'The first match', examples: [null] })),
    matches: Type.Optional(Type.Array(Match, { description: 'All matches', examples: [[]] })),
    text: Type.Optional(Type.String({ description: 'The text with replacements', examples: ['due 01/2027'] })),
    parts: Type.Optional(Type.Array(Type.String(), { description: 'The parts of the text', examples: [['a', 'b']] })),
    count: Type.Integer({ description: 'How many matches, replacements or parts', examples: [1] }),
  }),
  example: `name: find-months
tasks:
  - name: find
    type: transform.regex
    properties:
      text: due 2027-01, late 2027-02
      pattern: (?P<year>\\d{4})-(\\d\\d)
`,
  async run(task) {
    const { operation, pattern, flags, limit, replacement } = task.input
    const text = await textOf(task, task.input)
    const asked = { text, pattern, flags, limit }
    if (operation === 'replace') {
      return await work(task, 'replace', { ...asked, replacement: needed(replacement, 'replacement', 'replace') })
    }
    return await work(task, operation, asked)
  },
})
