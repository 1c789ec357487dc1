import fc from 'fast-check'
import t from 'tap'
import { pluginsOf, type Right, sorted, type Wrong } from './plugin-cases.ts'

t.setTimeout(120_000)
const { call, give, refuse } = pluginsOf('transform')
const runs = { numRuns: 40 }

const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${[...'bcdefgh'].map((name, at) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[at]}`).join(',')}]\n`).join('')}`

const right: Right = [
  [
    'xml',
    { text: '<a x="1 &amp; &#x42;">t&lt;<![CDATA[<&amp;>]]> &#65;<b/><b>01</b></a>' },
    { value: { a: { '@x': '1 & B', '#text': 't<<&amp;>A', b: ['', '01'] } } },
  ],
  ['xml', { text: '<?xml version="1.0"?><?p i?><!DOCTYPE a><!-- c --><a/>' }, { value: { a: '' } }],
  ['xml', { text: '<a>&amp;copy; &amp;#65;</a>' }, { value: { a: '&copy; &#65;' } }],
  [
    'xml',
    { text: '<s:a xmlns:s="u"><s:b>1.5</s:b></s:a>', removeNamespaces: true, types: 'auto' },
    { value: { a: { b: 1.5 } } },
  ],
  ['xml', { text: '<a><i>1</i></a>', lists: ['a.i'], attributePrefix: '$' }, { value: { a: { i: ['1'] } } }],
  [
    'xml',
    {
      operation: 'stringify',
      value: { a: { '@x': '<"', b: [1, null], '#text': 'a & b' } },
      indent: 0,
      declaration: false,
    },
    { text: '<a x="&lt;&quot;"><b>1</b><b/>a &amp; b</a>' },
  ],
  // https://yaml.org/spec/1.2.2/, examples 2.3, 2.10 and 10.9.
  [
    'yaml',
    { text: 'american:\n- Boston Red Sox\nnational:\n- New York Mets\n' },
    { value: { american: ['Boston Red Sox'], national: ['New York Mets'] } },
  ],
  ['yaml', { text: 'hr:\n- &SS Sammy Sosa\nrbi:\n- *SS\n' }, { value: { hr: ['Sammy Sosa'], rbi: ['Sammy Sosa'] } }],
  [
    'yaml',
    {
      text: 'A null: null\nBooleans: [ true, True, false, FALSE, yes ]\nIntegers: [ 0, 0o7, 0x3A, -19 ]\nFloats: [ 0., -0.0, .5, +12e03, -2E+05 ]\n',
    },
    {
      value: {
        'A null': null,
        Booleans: [true, true, false, false, 'yes'],
        Integers: [0, 7, 58, -19],
        Floats: [0, 0, 0.5, 12000, -200000],
      },
    },
  ],
  [
    'yaml',
    { text: 'a: 1\n---\n- 12345678901234567890\n- 2027-01-01\n' },
    { value: { a: 1 }, documents: [{ a: 1 }, ['12345678901234567890', '2027-01-01']] },
  ],
  ['yaml', { text: '' }, { value: null, documents: [] }],
  ['yaml', { text: 'd: &d { x: 1 }\ne:\n  <<: *d\n  y: 2\n', merge: true }, { value: { e: { x: 1, y: 2 } } }],
  [
    'yaml',
    { operation: 'stringify', value: { b: '1', a: [null, 'yes: no'] }, sortKeys: true },
    { text: 'a:\n  - null\n  - "yes: no"\nb: "1"\n' },
  ],
  ['yaml', { operation: 'stringify', documents: [1, { a: 2 }] }, { text: '1\n---\na: 2\n' }],
  // https://toml.io/en/v1.0.0
  [
    'yaml',
    {
      format: 'toml',
      text: '[owner]\ndob = 1979-05-27T07:32:00-08:00\nday = 1979-05-27\nbig = 9223372036854775807\n[[p]]\nx = 0xff\n',
    },
    {
      value: {
        owner: { dob: '1979-05-27T07:32:00.000-08:00', day: '1979-05-27', big: '9223372036854775807' },
        p: [{ x: 255 }],
      },
    },
  ],
  [
    'yaml',
    { format: 'toml', operation: 'stringify', value: { a: 1.5, t: { b: ['x'] } } },
    { text: 'a = 1.5\n\n[t]\nb = [ "x" ]\n' },
  ],
]

t.test('what comes out of what', (t) => give(t, right))

const wrong: Wrong = [
  ['xml', { text: '<a>\n  <b></a>' }, /no XML: .*'b'.* at line 2, column 6/],
  ['xml', { text: '<a/><b/>' }, /2 root elements/],
  ['xml', { text: '' }, /no XML/],
  ['xml', { text: 'x' }, /no XML: .* at line 1/],
  ['xml', { text: '<a>\n&nbsp;</a>' }, /A & that is no reference at line 2, column 1/],
  [
    'xml',
    { text: '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>' },
    /document type are not read at line 1, column 1/,
  ],
  ['xml', { text: '<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><a>&c;</a>' }, /document type are not read/],
  ['xml', { text: '<a>'.repeat(1_000) + '</a>'.repeat(1_000) }, /nested/],
  ['xml', { text: '<a>\u0001</a>' }, /XML cannot hold at line 1, column 4/],
  ['xml', { text: '<a><__proto__/></a>' }, /__proto__/],
  ['xml', { operation: 'stringify', value: { a: 1, b: 2 } }, /exactly one key/],
  ['xml', { operation: 'stringify', value: { 'a b': 1 } }, /"a b" is no name in XML/],
  ['xml', { operation: 'stringify', value: { a: { '@x': {} } } }, /properties.value.a.@x is neither/],
  ['xml', { operation: 'stringify', value: { a: '\0' } }, /properties.value.a has a character/],
  ['yaml', { text: 'a: [\n' }, /no YAML: .* at line 2, column 1/],
  ['yaml', { text: 'a: 1\na: 2\n' }, /no YAML: Map keys must be unique at line 2, column 1/],
  ['yaml', { text: 'a: .inf\n' }, /no number that JSON can carry/],
  ['yaml', { text: '!!js/function x' }, /no YAML: Unresolved tag/],
  ['yaml', { text: bomb }, /Excessive alias count/],
  ['yaml', { text: '['.repeat(100_000) }, /nests too deep/],
  ['yaml', { text: '? [a]\n: b\n' }, /no YAML/],
  ['yaml', { format: 'toml', text: 'a = 1\nb = \n' }, /no TOML .* at line 2, column 5/],
  ['yaml', { format: 'toml', text: `a = ${'['.repeat(10_000)}` }, /no TOML/],
  ['yaml', { format: 'toml', operation: 'stringify', value: [1] }, /properties.value is no object/],
  ['yaml', { format: 'toml', operation: 'stringify', documents: [{}, {}] }, /TOML holds one/],
  ['yaml', { operation: 'stringify' }, /properties.value or properties.documents is needed/],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

t.test('XML', async () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1 }).map((value) => value.trim() || 'x')
  const element = fc.letrec((tie) => ({
    node: fc.oneof(
      { maxDepth: 3 },
      text,
      fc.dictionary(fc.constantFrom('a', 'b', 'c-d', 'é'), tie('value'), { minKeys: 1 }),
    ),
    value: fc.oneof(tie('node'), fc.array(tie('node'), { minLength: 2, maxLength: 3 })),
  })).node
  await fc.assert(
    fc.asyncProperty(element, text, async (a, x) => {
      const value = { r: { '@x': x, a } }
      const written = await call('xml', { operation: 'stringify', value })
      return JSON.stringify((await call('xml', { text: written.text })).value, sorted) === JSON.stringify(value, sorted)
    }),
    runs,
  )
})

t.test('YAML and TOML', async () => {
  const json = fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown)
  await fc.assert(
    fc.asyncProperty(fc.array(json, { minLength: 1, maxLength: 3 }), async (documents) => {
      const { text } = await call('yaml', { operation: 'stringify', documents })
      return JSON.stringify((await call('yaml', { text })).documents) === JSON.stringify(documents)
    }),
    runs,
  )
  const leaf = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.boolean(),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value || 0),
  )
  await fc.assert(
    fc.asyncProperty(
      fc.dictionary(fc.string(), fc.oneof(leaf, fc.array(leaf), fc.dictionary(fc.string(), leaf))),
      async (value) => {
        const { text } = await call('yaml', { operation: 'stringify', format: 'toml', value })
        return (
          JSON.stringify((await call('yaml', { text, format: 'toml' })).value, sorted) === JSON.stringify(value, sorted)
        )
      },
    ),
    runs,
  )
})
