import fc from 'fast-check'
import t from 'tap'
import { type Given, pluginsOf, type Right, sorted, type Wrong } from './plugin-cases.ts'

t.setTimeout(120_000)
const { call, give, refuse } = pluginsOf('util')
const runs = { numRuns: 40 }

/** The document of RFC 6901, section 5. */
const pointed = {
  foo: ['bar', 'baz'],
  '': 0,
  'a/b': 1,
  'c%d': 2,
  'e^f': 3,
  'g|h': 4,
  'i\\j': 5,
  'k"l': 6,
  ' ': 7,
  'm~n': 8,
}

const right: Right = [
  ['json', { text: ' {"a": [1, 2.5, "x\\u00fc", null, true]} ' }, { value: { a: [1, 2.5, 'xü', null, true] } }],
  [
    'json',
    { text: '[9007199254740993, 1.0, 9007199254740991, 1e400]' },
    { value: ['9007199254740993', 1, 9007199254740991, '1e400'] },
  ],
  ['json', { text: '{"a":1}\r\n\n[2]\n', lines: true }, { value: [{ a: 1 }, [2]] }],
  [
    'json',
    { operation: 'stringify', value: { b: 1, a: [{ d: 1, c: 2 }] }, sortKeys: true },
    { text: '{"a":[{"c":2,"d":1}],"b":1}' },
  ],
  ['json', { operation: 'stringify', value: [{ a: 1 }, 2], lines: true }, { text: '{"a":1}\n2\n' }],
  ['json', { operation: 'stringify', value: { a: 1 }, indent: 2 }, { text: '{\n  "a": 1\n}' }],
  [
    'json',
    {
      operation: 'query',
      value: { a: [{ p: 1 }, { p: 3 }] },
      expression: '$sum(a[p > $least].p)',
      bindings: { least: 2 },
    },
    { value: 3 },
  ],
  ['json', { operation: 'query', text: '{"a": 1}', expression: 'b' }, { value: null }],
  // RFC 6901, section 5.
  ...(
    [
      ['', pointed],
      ['/foo', ['bar', 'baz']],
      ['/foo/0', 'bar'],
      ['/', 0],
      ['/a~1b', 1],
      ['/c%d', 2],
      ['/e^f', 3],
      ['/g|h', 4],
      ['/i\\j', 5],
      ['/k"l', 6],
      ['/ ', 7],
      ['/m~0n', 8],
    ] as const
  ).map(([pointer, value]): [string, Given, Given] => [
    'json',
    { operation: 'pointer', value: pointed, pointer },
    { value },
  ]),
  ['json', { operation: 'pointer', value: { a: 1 }, pointer: '/b', default: null }, { value: null }],
  // RFC 6902, appendix A.
  ...(
    [
      [{ foo: 'bar' }, [{ op: 'add', path: '/baz', value: 'qux' }], { baz: 'qux', foo: 'bar' }],
      [{ foo: ['bar', 'baz'] }, [{ op: 'add', path: '/foo/1', value: 'qux' }], { foo: ['bar', 'qux', 'baz'] }],
      [{ baz: 'qux', foo: 'bar' }, [{ op: 'remove', path: '/baz' }], { foo: 'bar' }],
      [{ foo: ['bar', 'qux', 'baz'] }, [{ op: 'remove', path: '/foo/1' }], { foo: ['bar', 'baz'] }],
      [{ baz: 'qux', foo: 'bar' }, [{ op: 'replace', path: '/baz', value: 'boo' }], { baz: 'boo', foo: 'bar' }],
      [
        { foo: { bar: 'baz', waldo: 'fred' }, qux: { corge: 'grault' } },
        [{ op: 'move', from: '/foo/waldo', path: '/qux/thud' }],
        { foo: { bar: 'baz' }, qux: { corge: 'grault', thud: 'fred' } },
      ],
      [
        { foo: ['all', 'grass', 'cows', 'eat'] },
        [{ op: 'move', from: '/foo/1', path: '/foo/3' }],
        { foo: ['all', 'cows', 'eat', 'grass'] },
      ],
      [
        { baz: 'qux', foo: ['a', 2, 'c'] },
        [
          { op: 'test', path: '/baz', value: 'qux' },
          { op: 'test', path: '/foo/1', value: 2 },
        ],
        { baz: 'qux', foo: ['a', 2, 'c'] },
      ],
      [
        { foo: 'bar' },
        [{ op: 'add', path: '/child', value: { grandchild: {} } }],
        { foo: 'bar', child: { grandchild: {} } },
      ],
      [{ foo: 'bar' }, [{ op: 'add', path: '/baz', value: 'qux', xyz: 123 }], { foo: 'bar', baz: 'qux' }],
      [{ '/': 9, '~1': 10 }, [{ op: 'test', path: '/~01', value: 10 }], { '/': 9, '~1': 10 }],
      [{ foo: ['bar'] }, [{ op: 'add', path: '/foo/-', value: ['abc', 'def'] }], { foo: ['bar', ['abc', 'def']] }],
      [{ a: 1 }, [{ op: 'replace', path: '', value: [2] }], [2]],
      [
        { a: [1] },
        [
          { op: 'copy', from: '/a', path: '/b' },
          { op: 'add', path: '/b/0', value: 0 },
        ],
        { a: [1], b: [0, 1] },
      ],
    ] as const
  ).map(([value, patch, result]): [string, Given, Given] => [
    'json',
    { operation: 'patch', value, patch },
    { value: result },
  ]),
  // RFC 7396, appendix A.
  ...(
    [
      [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
      [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
      [{ a: 'b' }, { a: null }, {}],
      [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
      [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
      [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
      [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
      [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
      [
        ['a', 'b'],
        ['c', 'd'],
        ['c', 'd'],
      ],
      [{ a: 'b' }, ['c'], ['c']],
      [{ a: 'foo' }, 'bar', 'bar'],
      [{ e: null }, { a: 1 }, { e: null, a: 1 }],
      [[1, 2], { a: 'b', c: null }, { a: 'b' }],
      [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
    ] as const
  ).map(([value, patch, result]): [string, Given, Given] => [
    'json',
    { operation: 'merge-patch', value, patch },
    { value: result },
  ]),
  [
    'json',
    { operation: 'validate', value: { a: 1 }, schema: { type: 'object', required: ['a'] } },
    { valid: true, errors: [] },
  ],
  [
    'json',
    {
      operation: 'validate',
      value: { a: 'x', c: 1 },
      schema: { properties: { a: { type: 'integer' } }, required: ['b'], $defs: { '"]);process.exit(1)//': {} } },
    },
    {
      valid: false,
      errors: [
        { path: '', message: /b/ },
        { path: '/a', message: 'must be integer' },
      ],
    },
  ],
  [
    'json',
    { operation: 'flatten', value: { a: { b: [1, { c: null }] }, d: {} } },
    { value: { 'a.b[0]': 1, 'a.b[1].c': null, d: {} } },
  ],
  [
    'json',
    { operation: 'unflatten', value: { 'a.b[0]': 1, 'a.b[1].c': null } },
    { value: { a: { b: [1, { c: null }] } } },
  ],
]

t.test('what comes out of what', (t) => give(t, right))

const wrong: Wrong = [
  ['json', { text: '{"a": x}' }, /no JSON: unexpected "x" at line 1, column 7/],
  ['json', { text: '{"a": 1,\n}' }, /unexpected "}" at line 2, column 1/],
  ['json', { text: '[1, 2' }, /ends too early at line 1, column 6/],
  ['json', { text: '' }, /ends too early at line 1, column 1/],
  ['json', { text: '[1] 2' }, /unexpected "2" at line 1, column 5/],
  ['json', { text: '[1}' }, /unexpected "}" at line 1, column 3/],
  ['json', { text: "{'a': 1}" }, /unexpected "'" at line 1, column 2/],
  ['json', { text: '[01]' }, /unexpected "0" at line 1, column 2/],
  ['json', { text: '["a\nb"]' }, /unexpected "\\"" at line 1, column 2/],
  ['json', { text: '{"a" 1}' }, /unexpected "1" at line 1, column 6/],
  ['json', { text: '1\n\n[', lines: true }, /ends too early at line 3, column 2/],
  ['json', { operation: 'query', value: 1, expression: '$' + '(' }, /properties.expression: /],
  ['json', { operation: 'query', value: 1 }, /properties.expression is needed for query/],
  ['json', { operation: 'query', expression: '$' }, /properties.value is needed/],
  ['json', { operation: 'pointer', value: pointed, pointer: '/foo/2' }, /nothing at \/foo\/2/],
  ['json', { operation: 'pointer', value: pointed, pointer: '/foo/00' }, /nothing at/],
  ['json', { operation: 'pointer', value: {}, pointer: '/constructor' }, /nothing at/],
  ['json', { operation: 'pointer', value: pointed, pointer: 'foo' }, /properties.pointer is none/],
  ['json', { operation: 'pointer', value: pointed, pointer: '/~2' }, /after ~ comes 0 or 1/],
  // RFC 6902, appendix A.9, A.12, A.13 and A.15.
  [
    'json',
    { operation: 'patch', value: { baz: 'qux' }, patch: [{ op: 'test', path: '/baz', value: 'bar' }] },
    /properties.patch\[0\]: test \/baz is another value/,
  ],
  [
    'json',
    { operation: 'patch', value: { foo: 'bar' }, patch: [{ op: 'add', path: '/baz/bat', value: 'qux' }] },
    /add \/baz\/bat cannot be done/,
  ],
  [
    'json',
    { operation: 'patch', value: { foo: 'bar' }, patch: [{ op: 'nonsense', path: '/a' }] },
    /properties.patch\[0\] has no op that is known/,
  ],
  [
    'json',
    { operation: 'patch', value: { '/': 9, '~1': 10 }, patch: [{ op: 'test', path: '/~01', value: '10' }] },
    /another value/,
  ],
  ['json', { operation: 'patch', value: { a: [1] }, patch: [{ op: 'add', path: '/a/2', value: 1 }] }, /cannot be done/],
  [
    'json',
    { operation: 'patch', value: { a: { b: 1 } }, patch: [{ op: 'move', from: '/a', path: '/a/b' }] },
    /moves a value into itself/,
  ],
  [
    'json',
    { operation: 'patch', value: {}, patch: [{ op: 'add', path: '/__proto__/x', value: 1 }] },
    /leads to __proto__/,
  ],
  ['json', { operation: 'patch', value: {}, patch: [{ op: 'remove', path: '/x' }] }, /cannot be done/],
  ['json', { operation: 'patch', value: {}, patch: {} }, /no list of operations/],
  [
    'json',
    { operation: 'validate', value: 1, schema: { type: 'string' }, failWhenInvalid: true },
    /does not fit: it must be string/,
  ],
  ['json', { operation: 'validate', value: 'x', schema: { pattern: '(' } }, /properties.schema cannot be used/],
  [
    'json',
    { operation: 'validate', value: 'x', schema: { $ref: '#' } },
    /properties.schema cannot be used: it never ends/,
  ],
  ['json', { operation: 'unflatten', value: { a: 1, 'a.b': 2 } }, /a.b fits no other key/],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

const json = fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown)

t.test('JSON', async () => {
  await fc.assert(
    fc.asyncProperty(json, fc.boolean(), fc.integer({ min: 0, max: 4 }), async (value, sortKeys, indent) => {
      const { text } = await call('json', { operation: 'stringify', value, sortKeys, indent })
      return JSON.stringify((await call('json', { text })).value, sorted) === JSON.stringify(value, sorted)
    }),
    runs,
  )
})

t.test('where JSON is broken', async () => {
  await fc.assert(
    fc.asyncProperty(json, fc.nat(), fc.constantFrom('', '}', ']', ',', ':', '"', 'x', '1'), async (value, at, put) => {
      const whole = JSON.stringify(value)
      const text = whole.slice(0, at % (whole.length + 1)) + put
      const isJson = isParsed(text)
      const answer = await call('json', { text }).catch((error: Error) => error)
      return answer instanceof Error ? !isJson && /at line 1, column \d+$/.test(answer.message) : isJson
    }),
    { numRuns: 200 },
  )
})

t.test('patches', async () => {
  const plain = fc
    .jsonValue({ maxDepth: 3 })
    .map((value) => JSON.parse(JSON.stringify(value).replaceAll('__proto__', 'proto')) as unknown)
  await fc.assert(
    fc.asyncProperty(plain, plain, async (value, other) => {
      const { value: patch } = await call('json', { operation: 'diff', value, other })
      const { value: patched } = await call('json', { operation: 'patch', value, patch })
      return JSON.stringify(patched, sorted) === JSON.stringify(other, sorted)
    }),
    runs,
  )
})

function isParsed(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
