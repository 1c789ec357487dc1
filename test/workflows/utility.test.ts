import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inflateSync } from 'node:zlib'
import fc from 'fast-check'
import decodeQR from 'qr/decode.js'
import t from 'tap'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { pluginProblems } from '../../workers/workflows/check-plugin.ts'
import { callPlugin, failure, files } from './call-plugin.ts'
import { problemsOf, runExample } from './plugin-example.ts'

type Given = Record<string, unknown>

t.setTimeout(240_000)
const utilities = catalogue.filter(({ manifest }) => manifest.category === 'Utility')
const call = (name: string, properties: Given, signal?: AbortSignal) => {
  return callPlugin(`util.${name}`, properties, signal === undefined ? {} : { signal })
}

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
const berlin = { zone: 'Europe/Berlin' }

/** A plugin without its prefix, its properties, and what the outputs hold. */
const right: readonly (readonly [string, Given, Given])[] = [
  // RFC 9562, appendix A.
  [
    'uuid',
    { kind: 'v5', namespace: 'dns', name: 'www.example.com' },
    { id: '2ed6657d-e927-568b-95e1-2665a8aea6a2', kind: 'v5' },
  ],
  [
    'uuid',
    { operation: 'inspect', id: 'C232AB00-9414-11EC-B3C8-9F6BDECED846' },
    { kind: 'v1', at: '2022-02-22T19:22:22.000Z' },
  ],
  [
    'uuid',
    { operation: 'inspect', id: '1EC9414C-232A-6B00-B3C8-9F6BDECED846' },
    { kind: 'v6', at: '2022-02-22T19:22:22.000Z' },
  ],
  [
    'uuid',
    { operation: 'inspect', id: '017F22E2-79B0-7CC3-98C4-DC0C0C07398F' },
    { kind: 'v7', at: '2022-02-22T19:22:22.000Z' },
  ],
  ['uuid', { operation: 'inspect', id: '919108f7-52d1-4320-9bac-f847db4148a8' }, { kind: 'v4', at: null }],
  [
    'uuid',
    { operation: 'inspect', id: '01ARZ3NDEKTSV4RRFFQ69G5FAV' },
    { kind: 'ulid', at: '2016-07-30T23:54:10.259Z' },
  ],
  ['uuid', { operation: 'inspect', id: 'nothing' }, { kind: null, at: null }],
  [
    'uuid',
    { count: 3 },
    { kind: 'v4', ids: { length: 3 }, id: /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/ },
  ],
  ['uuid', { kind: 'nanoid', alphabet: 'ab', length: 10 }, { id: /^[ab]{10}$/ }],
  ['random', { min: 4, max: 4, count: 2 }, { values: [4, 4] }],
  ['random', { kind: 'choice', items: ['a', 'b', 'c'], weights: [0, 1, 0], count: 2 }, { values: ['b', 'b'] }],
  ['random', { kind: 'bytes', length: 4, encoding: 'hex', count: 2 }, { values: [/^[0-9a-f]{8}$/, /^[0-9a-f]{8}$/] }],
  ['random', { kind: 'string', alphabet: 'ü', length: 3 }, { value: 'üüü' }],
  ['random', { kind: 'password', length: 4 }, { value: /^(?=.*[a-z])(?=.*[A-Z])(?=.*[2-9])(?=.*[^a-zA-Z0-9]).{4}$/ }],
  // A seed gives the same in every version: SHA-256 of it and a counter.
  ['random', { seed: 'x', count: 5, min: 1, max: 6 }, { values: [5, 1, 6, 3, 2] }],
  ['random', { seed: 'x', kind: 'shuffle', items: [1, 2, 3, 4, 5] }, { value: [1, 4, 5, 2, 3] }],
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
  [
    'url',
    { url: 'https://u:p%40@EXAMPLE.org:8443/films/a%2Fb?tag=a&tag=b&x=#top' },
    {
      url: 'https://u:p%40@example.org:8443/films/a%2Fb?tag=a&tag=b&x=#top',
      protocol: 'https',
      username: 'u',
      password: 'p@',
      host: 'example.org:8443',
      port: 8443,
      segments: ['films', 'a/b'],
      query: { tag: ['a', 'b'], x: '' },
      fragment: 'top',
    },
  ],
  [
    'url',
    {
      operation: 'build',
      host: 'example.org',
      path: ['a/b', 'ü', '..'],
      parameters: { p: 2, t: ['a', 'b&'], n: null, o: { x: 1 } },
      fragment: 'f',
    },
    { url: 'https://example.org/a%2Fb/?p=2&t=a&t=b%26&o=%7B%22x%22%3A1%7D#f' },
  ],
  [
    'url',
    { operation: 'build', url: 'http://x.org/a?p=1&q=2', protocol: 'https', parameters: { p: 3 } },
    { url: 'https://x.org/a?q=2&p=3', port: 443 },
  ],
  // RFC 3986, section 5.4.
  ...(
    [
      ['g:h', 'g:h'],
      ['g', 'http://a/b/c/g'],
      ['./g', 'http://a/b/c/g'],
      ['/g', 'http://a/g'],
      ['//g', 'http://g/'],
      ['?y', 'http://a/b/c/d;p?y'],
      ['#s', 'http://a/b/c/d;p?q#s'],
      ['', 'http://a/b/c/d;p?q'],
      ['../g', 'http://a/b/g'],
      ['../../../g', 'http://a/g'],
    ] as const
  ).map(([link, url]): [string, Given, Given] => [
    'url',
    { operation: 'resolve', base: 'http://a/b/c/d;p?q', url: link },
    { url },
  ]),
  ['url', { operation: 'query', parameters: { a: 'b c', d: ['é', '&'] } }, { text: 'a=b+c&d=%C3%A9&d=%26' }],
  ['url', { operation: 'query', text: '?a=b+c&d=1&d=2' }, { query: { a: 'b c', d: ['1', '2'] } }],
  ['url', { operation: 'encode', text: "a b/é'(" }, { text: 'a%20b%2F%C3%A9%27%28' }],
  ['url', { operation: 'encode', text: 'http://x/a b?é', as: 'whole' }, { text: 'http://x/a%20b?%C3%A9' }],
  ['url', { operation: 'decode', text: 'a+b%2F', as: 'form' }, { text: 'a b/' }],
  [
    'template',
    { text: 'Hi {{ name | upcase }}{% for x in l %} {{ x }}{% endfor %} ${SECRET}', data: { name: 'ann', l: [1, 2] } },
    { text: 'Hi ANN 1 2 ${SECRET}' },
  ],
  ['template', { text: '{{ a }} {{ a | raw }} {{ b.c }}', data: { a: '<' }, escape: 'html' }, { text: '&lt; < ' }],
  [
    'template',
    { text: '{{ a.constructor }}{{ a.__proto__ }}{{ execution.id }}{{ busbarCredentials }}', data: { a: {} } },
    { text: '' },
  ],
  ['math', { expression: '0.1 + 0.2' }, { value: 0.3, text: '0.3' }],
  ['math', { expression: '-2^2 + 2**3^2 + 7 % 4 + (1 + 2) * 3 - -1' }, { value: 521 }],
  ['math', { expression: '1/3' }, { value: 1 / 3, text: `0.${'3'.repeat(40)}` }],
  ['math', { expression: '2^200' }, { value: '1606938044258990275541962092341162602522202993782792835301376' }],
  ['math', { expression: '9007199254740993 + 0' }, { value: '9007199254740993' }],
  [
    'math',
    { expression: 'sum(a, 4) * o.p - sqrt(16) + count(a)', variables: { a: [1, '2', 3], o: { p: '1.1' } } },
    { value: 10 },
  ],
  [
    'math',
    {
      expression: 'round(19.99 * 1.19, 2) + abs(-1) + max(1, 2) - min(a) + median(a) + avg(a)',
      variables: { a: [1, 2, 6] },
    },
    { value: 30.79 },
  ],
  ['math', { expression: 'pi * 2', digits: 3 }, { value: 6.283 }],
  ['math', { expression: 'ln(exp(2)) + log(8, 2) + log10(1000) + cbrt(27)', digits: 20 }, { value: 11 }],
  ...(
    [
      ['half-up', 3, -3],
      ['half-even', 2, -2],
      ['half-down', 2, -2],
      ['up', 3, -3],
      ['down', 2, -2],
      ['ceil', 3, -2],
      ['floor', 2, -3],
    ] as const
  ).flatMap(([mode, above, below]): [string, Given, Given][] => [
    ['math', { operation: 'round', value: 2.5, mode }, { value: above }],
    ['math', { operation: 'round', value: '-2.5', mode }, { value: below }],
  ]),
  ['math', { operation: 'round', value: 1.005, digits: 2 }, { value: 1.01 }],
  ['math', { operation: 'round', value: 1250, digits: -2, mode: 'half-even' }, { value: 1200 }],
  ['math', { operation: 'round', value: 1.03, step: '0.05' }, { value: 1.05 }],
  [
    'math',
    { operation: 'statistics', values: [2, 4, 4, '4', 5, 5, 7, 9, null], percentiles: [0, 25, 90, 100] },
    {
      count: 8,
      sum: 40,
      avg: 5,
      min: 2,
      max: 9,
      median: 4.5,
      variance: 32 / 7,
      percentiles: { 0: 2, 25: 4, 90: 7.6, 100: 9 },
    },
  ],
  ['math', { operation: 'statistics', values: [] }, { count: 0, sum: 0, avg: null, stddev: null }],
  ...(
    [
      ['upper', 'straße ñ', 'STRASSE Ñ'],
      ['lower', 'ÄB', 'äb'],
      ['capitalize', 'élan vital', 'Élan vital'],
      ['title', "o'neil THE first", "O'neil The First"],
      ['camel', 'XMLHttpRequest id', 'xmlHttpRequestId'],
      ['pascal', 'some_snake-case', 'SomeSnakeCase'],
      ['snake', 'userID2Name', 'user_id_2_name'],
      ['kebab', 'Große Dinge', 'große-dinge'],
      ['constant', 'max size', 'MAX_SIZE'],
      ['slug', ' Über 100 Filme & mehr! ', 'uber-100-filme-and-mehr'],
      ['slug', 'Smørrebrød Łódź', 'smorrebrod-lodz'],
      ['trim', ' a\n', 'a'],
      ['trim-start', ' a ', 'a '],
      ['trim-end', ' a ', ' a'],
      ['reverse', 'a👨‍👩‍👧é', 'é👨‍👩‍👧a'],
      ['length', 'a👨‍👩‍👧é', 3],
      ['lines', 'a\r\nb\n\nc\n', ['a', 'b', '', 'c']],
      ['words', 'Hello, big world.', ['Hello', 'big', 'world']],
      ['escape-html', `<a href="x">'&`, '&lt;a href=&quot;x&quot;&gt;&#39;&amp;'],
      ['unescape-html', '&lt;&#x41;&#66;&amp;lt;&#0;&#xd800;', '<AB&lt;&#0;&#xd800;'],
      ['normalize', 'e\u0301', '\u00e9'],
    ] as const
  ).map(([operation, text, value]): [string, Given, Given] => ['string', { operation, text }, { value }]),
  ['string', { operation: 'upper', text: 'i', locale: 'tr' }, { value: 'İ' }],
  ['string', { operation: 'pad-start', text: '7', length: 3, fill: '0' }, { value: '007' }],
  ['string', { operation: 'pad-end', text: 'é', length: 4, fill: 'ab' }, { value: 'éaba' }],
  ['string', { operation: 'truncate', text: 'hello world', length: 6 }, { value: 'hello…' }],
  ['string', { operation: 'truncate', text: 'hello', length: 5 }, { value: 'hello' }],
  ['string', { operation: 'substring', text: 'héllo', start: -4, end: -1 }, { value: 'éll' }],
  ['string', { operation: 'repeat', text: 'ab', times: 3 }, { value: 'ababab' }],
  ['string', { operation: 'split', text: 'a;b', separator: ';' }, { value: ['a', 'b'] }],
  ['string', { operation: 'split', text: 'aé', separator: '' }, { value: ['a', 'é'] }],
  ['string', { operation: 'join', items: ['a', 1, null, { b: 1 }], separator: '-' }, { value: 'a-1--{"b":1}' }],
  ['string', { operation: 'replace', text: 'a.b.A', search: '.', replacement: '$&' }, { value: 'a$&b$&A' }],
  ['string', { operation: 'replace', text: 'aXbx', search: 'x', ignoreCase: true }, { value: 'ab' }],
  ['string', { operation: 'contains', text: 'Hello', search: 'ell' }, { value: true }],
  ['string', { operation: 'starts-with', text: 'Hello', search: 'hE', ignoreCase: true }, { value: true }],
  ['string', { operation: 'ends-with', text: 'Hello', search: 'O' }, { value: false }],
  ['string', { operation: 'count', text: 'banana', search: 'an' }, { value: 2 }],
  ['string', { operation: 'distance', text: 'kitten', other: 'sitting' }, { value: 3 }],
  ['string', { operation: 'similarity', text: 'abcd', other: 'ABCx', ignoreCase: true }, { value: 0.75 }],
  [
    'datetime',
    { operation: 'parse', value: 0 },
    { iso: '1970-01-01T00:00:00.000Z', epochMs: 0, parts: { weekday: 4, week: 1, dayOfYear: 1, isLeapYear: false } },
  ],
  [
    'datetime',
    { operation: 'parse', value: '2027-01-01', ...berlin },
    { iso: '2027-01-01T00:00:00.000+01:00', utc: '2026-12-31T23:00:00.000Z', parts: { week: 53, weekYear: 2026 } },
  ],
  ['datetime', { operation: 'parse', value: 'Tue, 01 Nov 2016 13:23:12 +0630' }, { utc: '2016-11-01T06:53:12.000Z' }],
  ['datetime', { operation: 'parse', value: 'Sunday, 06-Nov-94 08:49:37 GMT' }, { utc: '1994-11-06T08:49:37.000Z' }],
  ['datetime', { operation: 'parse', value: '2017-05-15 09:24:15 Europe/Berlin' }, { utc: '2017-05-15T07:24:15.000Z' }],
  [
    'datetime',
    { operation: 'parse', value: '3. März 2027 14:05', inputFormat: 'd. LLLL yyyy HH:mm', locale: 'de', ...berlin },
    { utc: '2027-03-03T13:05:00.000Z' },
  ],
  ...(
    [
      ['date', '2027-03-03'],
      ['rfc2822', 'Wed, 03 Mar 2027 13:05:00 +0000'],
      ['http', 'Wed, 03 Mar 2027 13:05:00 GMT'],
      ['sql', '2027-03-03 13:05:00.000 Z'],
      ['epoch-s', 1804079100],
      ['epoch-ms', 1804079100000],
      ['cccc d LLLL', 'Wednesday 3 March'],
    ] as const
  ).map(([format, value]): [string, Given, Given] => [
    'datetime',
    { operation: 'parse', value: '2027-03-03T13:05:00Z', format },
    { value },
  ]),
  // The clocks of Berlin go forward at 2:00 on 28 March 2027, and back at 3:00 on 31 October.
  [
    'datetime',
    { operation: 'add', value: '2027-03-27T12:00', amount: 'P1D', ...berlin },
    { iso: '2027-03-28T12:00:00.000+02:00' },
  ],
  [
    'datetime',
    { operation: 'add', value: '2027-03-27T12:00', amount: 'PT24H', ...berlin },
    { iso: '2027-03-28T13:00:00.000+02:00' },
  ],
  [
    'datetime',
    { operation: 'add', value: '2027-03-27T02:30', amount: { day: 1 }, ...berlin },
    { iso: '2027-03-28T03:30:00.000+02:00' },
  ],
  [
    'datetime',
    { operation: 'add', value: '2027-10-31T02:30+02:00', amount: { hours: 1 }, ...berlin },
    { iso: '2027-10-31T02:30:00.000+01:00', parts: { isDst: false } },
  ],
  [
    'datetime',
    { operation: 'diff', value: '2027-03-28', other: '2027-03-29', unit: 'hour', ...berlin },
    { value: 23, duration: 'P1D' },
  ],
  ['datetime', { operation: 'diff', value: '2027-10-31', other: '2027-11-01', unit: 'hour', ...berlin }, { value: 25 }],
  [
    'datetime',
    { operation: 'diff', value: '2027-03-04', other: '2027-01-01', unit: 'month' },
    { value: -2 - 3 / 31, duration: '-P2M3D' },
  ],
  ['datetime', { operation: 'add', value: '2027-01-31', amount: 'P1M', format: 'date' }, { value: '2027-02-28' }],
  ['datetime', { operation: 'add', value: '2028-02-29', amount: '-P1Y', format: 'date' }, { value: '2027-02-28' }],
  [
    'datetime',
    { operation: 'start-of', value: '2027-05-20T10:00Z', unit: 'week', format: 'date' },
    { value: '2027-05-17' },
  ],
  ['datetime', { operation: 'end-of', value: '2027-05-20', unit: 'quarter' }, { iso: '2027-06-30T23:59:59.999Z' }],
  [
    'datetime',
    { operation: 'next-cron', value: '2027-03-27T00:00', cron: '30 2 * * *', count: 3, ...berlin },
    { times: ['2027-03-27T02:30:00.000+01:00', '2027-03-28T03:00:00.000+02:00', '2027-03-29T02:30:00.000+02:00'] },
  ],
  [
    'datetime',
    { operation: 'next-cron', value: '2027-01-01T00:00:00Z', cron: '0 9 * * 1-5' },
    { value: '2027-01-01T09:00:00.000Z' },
  ],
  [
    'datetime',
    { operation: 'add-business-days', value: '2027-01-01T10:00', days: 5, holidays: ['2027-01-06'], format: 'date' },
    { value: '2027-01-11' },
  ],
  [
    'datetime',
    { operation: 'add-business-days', value: '2027-01-04', days: -1, format: 'date' },
    { value: '2027-01-01' },
  ],
  [
    'datetime',
    { operation: 'add-business-days', value: '2027-01-07', days: 1, weekend: [5, 6], format: 'date' },
    { value: '2027-01-10' },
  ],
  ['datetime', { operation: 'business-days-between', value: '2027-01-01', other: '2027-01-31' }, { value: 20 }],
  [
    'datetime',
    { operation: 'business-days-between', value: '2027-01-31', other: '2027-01-01', holidays: ['2027-01-06'] },
    { value: -19 },
  ],
  // The test case of NIST for a key, a nonce and a block of zeros.
  [
    'crypto',
    {
      operation: 'decrypt',
      key: '00'.repeat(32),
      text: Buffer.from(
        `${'00'.repeat(12)}cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919`,
        'hex',
      ).toString('base64'),
    },
    { text: '\0'.repeat(16) },
  ],
  // RFC 8032, section 7.1, test 1: Ed25519 of nothing.
  [
    'crypto',
    {
      operation: 'sign',
      text: '',
      key: {
        kty: 'OKP',
        crv: 'Ed25519',
        d: 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A',
        x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
      },
    },
    {
      signature: Buffer.from(
        'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b',
        'hex',
      ).toString('base64'),
    },
  ],
  // RFC 7515, appendix A.1; the token is of 2011.
  [
    'crypto',
    {
      operation: 'jwt-verify',
      token:
        'eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
      key: { kty: 'oct', k: 'AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow' },
      failWhenInvalid: false,
    },
    { valid: false, reason: /"exp" claim timestamp check failed/ },
  ],
  [
    'crypto',
    { operation: 'jwt-decode', token: 'eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UifQ.' },
    { claims: { iss: 'joe' }, header: { alg: 'none' } },
  ],
  // The reference implementation of Argon2.
  [
    'crypto',
    {
      operation: 'verify-password',
      password: 'password',
      passwordHash: '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc',
    },
    { valid: true, reason: null },
  ],
]

t.test('what comes out of what', async (t) => {
  for (const [name, properties, outputs] of right) {
    t.match(await call(name, properties), outputs, `${name} ${JSON.stringify(properties).slice(0, 100)}`)
  }
})

const secret = 'a secret'

/** A plugin, its properties, and why it refuses them. */
const wrong: readonly (readonly [string, Given, RegExp])[] = [
  ['uuid', { kind: 'v5', name: 'x', namespace: 'nonsense' }, /properties.namespace is neither/],
  ['uuid', { kind: 'v5' }, /properties.name is needed for v5/],
  ['uuid', { operation: 'inspect' }, /properties.id is needed/],
  ['random', { min: 5, max: 1 }, /no integer from/],
  ['random', { min: -9e15, max: 9e15 }, /further apart/],
  ['random', { kind: 'choice', items: [] }, /properties.items is empty/],
  ['random', { kind: 'choice', items: [1], weights: [1, 2] }, /has 2 numbers for 1 items/],
  ['random', { kind: 'sample', items: [1], count: 2 }, /2 cannot be drawn from 1/],
  ['random', { kind: 'password', seed: 'x' }, /properties.seed/],
  ['random', { kind: 'string', count: 100_000, length: 65_536 }, /more than 1000000/],
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
  ['url', { url: 'no url' }, /properties.url is no URL/],
  ['url', { operation: 'build', host: 'a.org/evil@b.org' }, /properties.host is none/],
  ['url', { operation: 'build', protocol: 'java script', host: 'a' }, /properties.protocol is none/],
  ['url', { operation: 'decode', text: '%ff' }, /not percent-encoded UTF-8/],
  ['url', { operation: 'encode', text: '\ud800' }, /half a character/],
  ['template', { text: '{{ a' }, /cannot be rendered: output .* not closed/],
  ['template', { text: '{{ a }}', strict: true }, /undefined variable: a/],
  ['template', { text: '{% include "/etc/passwd" %}' }, /cannot be rendered/],
  ['template', { text: '{% for i in (1..100000000) %}x{% endfor %}' }, /limit exceeded/],
  ['math', { expression: '1 +' }, /ends too early at line 1, column 4/],
  ['math', { expression: '1 + * 2' }, /unexpected \* at line 1, column 5/],
  ['math', { expression: '(1' }, /a \) is missing at line 1, column 3/],
  ['math', { expression: '1 $ 2' }, /unexpected \$ at line 1, column 3/],
  ['math', { expression: '1/(2-2)' }, /division by zero/],
  ['math', { expression: '10^1000000' }, /too large/],
  ['math', { expression: 'sqrt(-1)' }, /no number/],
  ['math', { expression: 'f(1)' }, /there is no function f at line 1, column 1/],
  ['math', { expression: 'constructor' }, /there is no variable constructor/],
  ['math', { expression: 'a', variables: { a: 'x' } }, /properties.variables.a is no number: "x"/],
  ['math', { expression: 'a + 1', variables: { a: [1] } }, /a list is no number/],
  ['math', { expression: '('.repeat(5_000) }, /nests too deep/],
  ['math', { expression: `${'2^'.repeat(500)}2` }, /nests too deep/],
  ['math', { operation: 'round', value: 'x' }, /properties.value is no number/],
  ['math', { operation: 'round', value: 1, step: 0 }, /not above zero/],
  ['math', { operation: 'statistics', values: [1, 'x'] }, /properties.values\[1\] is no number/],
  ['string', { operation: 'replace', text: 'x' }, /properties.search is needed for replace/],
  ['string', { operation: 'upper', text: 'x', locale: '!' }, /properties.locale is no language tag/],
  ['string', { operation: 'distance', text: 'x'.repeat(20_001), other: '' }, /more than 20000 characters/],
  ['string', { operation: 'repeat', text: 'x'.repeat(1_000), times: 100_000 }, /larger than 16 MB/],
  ['string', { operation: 'qr-code', text: 'x'.repeat(2_954) }, /longer than a QR code holds/],
  ['string', { operation: 'qr-code', text: 'x'.repeat(2_900), correction: 'high' }, /cannot be a QR code/],
  ['datetime', { operation: 'parse', value: '2027-02-30' }, /properties.value is no date/],
  ['datetime', { operation: 'parse', value: '31.02.2027', inputFormat: 'dd.MM.yyyy' }, /properties.value is no date/],
  ['datetime', { operation: 'parse', value: '9'.repeat(16) }, /properties.value is no date/],
  ['datetime', { zone: 'Nowhere/Land' }, /properties.zone is no time zone/],
  ['datetime', { locale: '!' }, /properties.locale is no language tag/],
  ['datetime', { operation: 'add', amount: 'soon' }, /properties.amount is no ISO 8601 duration/],
  ['datetime', { operation: 'add', amount: { moons: 1 } }, /moons is no unit/],
  ['datetime', { operation: 'add', amount: { years: 1e9 } }, /properties.amount is no date/],
  ['datetime', { operation: 'next-cron', cron: '99 * * * *' }, /properties.cron: /],
  ['datetime', { operation: 'diff' }, /properties.other is needed for diff/],
  ['crypto', { operation: 'encrypt', text: 'x' }, /properties.key or properties.password is needed/],
  ['crypto', { operation: 'encrypt', text: 'x', key: 'short' }, /not 16, 24 or 32 bytes/],
  ['crypto', { operation: 'decrypt', text: 'AAAA', key: '00'.repeat(32) }, /too short/],
  ['crypto', { operation: 'sign', text: 'x', key: 'no key' }, /properties.key is no private key/],
  ['crypto', { operation: 'generate-key', keyType: 'rsa', keyBits: 256 }, /not for rsa/],
  ['crypto', { operation: 'jwt-sign', key: secret, algorithm: 'RS256' }, /no key for RS256/],
  ['crypto', { operation: 'jwt-sign', key: secret, algorithm: 'ed25519' }, /not for tokens/],
  ['crypto', { operation: 'jwt-sign', key: secret, expiresIn: 'soon' }, /properties.expiresIn is no duration/],
  ['crypto', { operation: 'jwt-decode', token: 'x.y' }, /no JSON Web Token/],
  // Nothing is signed by saying so.
  [
    'crypto',
    { operation: 'jwt-verify', key: secret, token: 'eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UifQ.' },
    /The token is not valid/,
  ],
  ['crypto', { operation: 'verify-password', password: 'x', passwordHash: '$2b$10$x' }, /none of argon2id/],
  [
    'crypto',
    {
      operation: 'verify-password',
      password: 'x',
      passwordHash: '$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc',
    },
    /costs more/,
  ],
]

t.test('what is refused, and why', async (t) => {
  for (const [name, properties, why] of wrong) {
    const title = `${name} ${JSON.stringify(properties).slice(0, 100)}`
    await t.rejects(call(name, properties), failure('refused', why), title)
  }
})

t.test('every plugin', async (t) => {
  t.equal(utilities.length, 9)
  for (const plugin of utilities) {
    const { id } = plugin.manifest
    t.same(pluginProblems(plugin), [], `${id} is complete`)
    const problems = problemsOf(id, { nonsense: 1 }).join('\n')
    t.match(problems, /nonsense is no property of the plugin/, `${id} refuses what it does not know`)
    t.ok(Object.keys(await runExample(id)).length > 0, `${id} runs its example`)
  }
  t.match(problemsOf('util.crypto', { operation: 'encode' }), [/must be one of encrypt, decrypt/])
  t.match(problemsOf('util.uuid', { count: 0 }), [/count must be >= 1/])
  t.match(problemsOf('util.datetime', { holidays: ['Christmas'] }), [/holidays\[0\] must match pattern/])
  t.match((await runExample('util.template')).letter, { text: 'Dear Ann, ALIEN BRAZIL ' })
  t.match((await runExample('util.crypto')).check, { valid: true, claims: { sub: 'ann' } })
})

t.test('a task that is cancelled ends at once, whatever it is at', async (t) => {
  const long: readonly [string, Given][] = [
    ['json', { operation: 'query', value: 1, expression: '($f := function($n) { $f($n + 1) }; $f(0))' }],
    ['json', { operation: 'validate', value: `${'a'.repeat(50)}!`, schema: { pattern: '^(a+)+$' } }],
  ]
  for (const [name, properties] of long) {
    const controller = new AbortController()
    const running = call(name, properties, controller.signal)
    setTimeout(() => controller.abort(new Error('cancelled')), 200)
    await t.rejects(running, { message: 'cancelled' }, name)
  }
})

t.test('ids', async (t) => {
  for (const kind of ['v7', 'ulid']) {
    const ids = (await call('uuid', { kind, count: 5_000 })).ids as string[]
    t.same(ids, ids.toSorted(), `${kind} is in the order of time`)
    t.equal(new Set(ids).size, 5_000)
    const { at } = await call('uuid', { operation: 'inspect', id: ids[0] })
    t.ok(Math.abs(Date.parse(String(at)) - Date.now()) < 60_000, `${kind} tells when it was made`)
  }
})

t.test('chance', async (t) => {
  const counts = new Map<unknown, number>()
  const { values } = await call('random', { min: 1, max: 6, count: 60_000, seed: 'fair' })
  for (const value of values as number[]) counts.set(value, (counts.get(value) ?? 0) + 1)
  t.same([...counts.keys()].sort(), [1, 2, 3, 4, 5, 6])
  const chi = [...counts.values()].reduce((sum, count) => sum + (count - 10_000) ** 2 / 10_000, 0)
  // The 99.9th percentile of five degrees of freedom; the seed makes it the same each time.
  t.ok(chi < 20.5, `chi square is ${chi}`)
  await fc.assert(
    fc.asyncProperty(fc.integer(), fc.nat(), fc.string(), async (min, span, seed) => {
      const asked = { min, max: min + span, seed, count: 5 }
      const drawn = (await call('random', asked)).values as number[]
      const inside = drawn.every((value) => Number.isInteger(value) && value >= min && value <= min + span)
      return inside && JSON.stringify(drawn) === JSON.stringify((await call('random', asked)).values)
    }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer(), { minLength: 1 }), async (items) => {
      const { value } = await call('random', { kind: 'shuffle', items })
      return JSON.stringify((value as number[]).toSorted()) === JSON.stringify(items.toSorted())
    }),
  )
})

const runs = { numRuns: 40 }

t.test('there and back again', async (t) => {
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
      fc.asyncProperty(
        json,
        fc.nat(),
        fc.constantFrom('', '}', ']', ',', ':', '"', 'x', '1'),
        async (value, at, put) => {
          const whole = JSON.stringify(value)
          const text = whole.slice(0, at % (whole.length + 1)) + put
          const isJson = isParsed(text)
          const answer = await call('json', { text }).catch((error: Error) => error)
          return answer instanceof Error ? !isJson && /at line 1, column \d+$/.test(answer.message) : isJson
        },
      ),
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
  t.test('query strings', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(fc.string({ unit: 'grapheme', minLength: 1 }), fc.string({ unit: 'grapheme' })),
        async (parameters) => {
          const { text } = await call('url', { operation: 'query', parameters })
          return (
            JSON.stringify((await call('url', { operation: 'query', text })).query, sorted) ===
            JSON.stringify(parameters, sorted)
          )
        },
      ),
      runs,
    )
  })
  t.test('sums and products of whole numbers', async () => {
    const whole = fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n })
    await fc.assert(
      fc.asyncProperty(whole, whole, whole, async (a, b, c) => {
        const { text } = await call('math', {
          expression: '(a + b) * c - -a',
          variables: { a: String(a), b: String(b), c: String(c) },
        })
        return text === String((a + b) * c + a)
      }),
      runs,
    )
  })
  t.test('dates', async () => {
    const days = fc.integer({ min: -10_000, max: 10_000 })
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 4_000_000_000_000 }),
        days,
        fc.constantFrom('UTC', 'America/New_York', 'Asia/Kolkata'),
        async (value, hours, zone) => {
          const { epochMs } = await call('datetime', { operation: 'add', value, amount: { hours }, zone })
          const { value: back } = await call('datetime', {
            operation: 'diff',
            value,
            other: epochMs,
            unit: 'hour',
            zone,
          })
          return epochMs === value + hours * 3_600_000 && back === hours
        },
      ),
      runs,
    )
  })
})

t.test('QR codes can be read', async (t) => {
  const text = 'https://example.org/films?id=1&é'
  const { value: svg } = await call('string', { operation: 'qr-code', text })
  t.match(svg, /^<svg /)
  const { uri } = await call('string', { operation: 'qr-code', text, format: 'png', correction: 'high', scale: 4 })
  const png = Buffer.from(files.get(String(uri))!)
  t.equal(png.subarray(1, 4).toString(), 'PNG')
  const side = png.readUInt32BE(16)
  const start = png.indexOf('IDAT') + 4
  const pixels = inflateSync(png.subarray(start, start + png.readUInt32BE(start - 8)))
  const data = new Uint8Array(side * side * 4).fill(255)
  const lineBytes = 1 + Math.ceil(side / 8)
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      const isWhite = (pixels[y * lineBytes + 1 + (x >> 3)]! & (0x80 >> (x & 7))) !== 0
      data.fill(isWhite ? 255 : 0, (y * side + x) * 4, (y * side + x) * 4 + 3)
    }
  }
  t.equal(decodeQR({ width: side, height: side, data }), text)
})

t.test('files in place of texts', async (t) => {
  files.set('text', Buffer.from('{"name": "Ann"}'))
  files.set('bytes', Buffer.from([0xff, 0xfe]))
  t.same((await call('json', { file: 'text' })).value, { name: 'Ann' })
  t.same((await call('json', { operation: 'query', file: 'text', expression: 'name' })).value, 'Ann')
  await t.rejects(call('json', { file: 'bytes' }), failure('refused', 'properties.file is not a text in UTF-8'))
  const { uri } = await call('template', { text: 'x{{ a }}', data: { a: 1 }, toFile: true })
  t.equal(Buffer.from(files.get(String(uri))!).toString(), 'x1')
})

t.test('encryption', async (t) => {
  const { key } = await call('crypto', { operation: 'generate-key' })
  t.equal(Buffer.from(String(key), 'base64').length, 32)
  t.test('there and back again', async (t) => {
    for (const how of [{ key }, { key: '00'.repeat(16) }, { password: 'pw' }, { key, additionalData: 'order 1' }]) {
      const one = await call('crypto', { operation: 'encrypt', text: 'hällo', ...how })
      const other = await call('crypto', { operation: 'encrypt', text: 'hällo', ...how })
      t.not(one.text, other.text, 'never the same twice')
      t.match(await call('crypto', { operation: 'decrypt', text: one.text, ...how }), { text: 'hällo' })
    }
    files.set('bytes', Buffer.from([0xff, 0xfe]))
    const sealed = await call('crypto', { operation: 'encrypt', file: 'bytes', key, toFile: true })
    const opened = await call('crypto', { operation: 'decrypt', file: sealed.uri, key, toFile: true })
    t.same([...files.get(String(opened.uri))!], [0xff, 0xfe])
  })
  t.test('what has been changed is told', async (t) => {
    const { text } = await call('crypto', { operation: 'encrypt', text: 'x', key, additionalData: 'a' })
    const bytes = Buffer.from(String(text), 'base64')
    const changed = failure('refused', /the key is another, or it has been changed/)
    for (let at = 0; at < bytes.length; at++) {
      const broken = Buffer.from(bytes)
      broken[at] = broken[at]! ^ 1
      await t.rejects(
        call('crypto', { operation: 'decrypt', text: broken.toString('base64'), key, additionalData: 'a' }),
        changed,
      )
    }
    await t.rejects(call('crypto', { operation: 'decrypt', text, key, additionalData: 'b' }), changed)
    await t.rejects(call('crypto', { operation: 'decrypt', text, key: '00'.repeat(32), additionalData: 'a' }), changed)
  })
})

t.test('signatures and tokens of key pairs', async (t) => {
  const kinds = [
    ['ed25519', 'ed25519', 'EdDSA'],
    ['rsa', 'rsa-sha256', 'RS256'],
    ['rsa', 'rsa-pss-sha256', 'PS256'],
    ['ec-p256', 'ecdsa-sha256', 'ES256'],
  ] as const
  for (const [keyType, algorithm, alg] of kinds) {
    const keyBits = keyType === 'rsa' ? { keyBits: 2048 } : {}
    const { privateKey, publicKey } = await call('crypto', { operation: 'generate-key', keyType, ...keyBits })
    const { signature } = await call('crypto', { operation: 'sign', text: 'x', key: privateKey, algorithm })
    t.same(
      await call('crypto', { operation: 'verify', text: 'x', key: publicKey, algorithm, signature }),
      { valid: true, reason: null },
      algorithm,
    )
    await t.rejects(
      call('crypto', { operation: 'verify', text: 'y', key: publicKey, algorithm, signature }),
      failure('refused', 'The signature is not right'),
    )
    await t.rejects(
      call('crypto', {
        operation: 'sign',
        text: 'x',
        key: privateKey,
        algorithm: keyType === 'rsa' ? 'ed25519' : 'rsa-sha256',
      }),
      failure('refused', /properties.key is for /),
    )
    const { token } = await call('crypto', {
      operation: 'jwt-sign',
      key: privateKey,
      algorithm: alg,
      claims: { sub: 'ann' },
      expiresIn: '1h',
    })
    t.match(await call('crypto', { operation: 'jwt-verify', key: publicKey, algorithm: alg, token }), {
      valid: true,
      claims: { sub: 'ann' },
      header: { alg },
    })
    // The public key is no secret, whatever the token says.
    const forged = `${Buffer.from('{"alg":"HS256"}').toString('base64url')}.${String(token).split('.')[1]}.AAAA`
    await t.rejects(
      call('crypto', { operation: 'jwt-verify', key: publicKey, algorithm: alg, token: forged }),
      failure('refused', /not valid/),
    )
    await t.rejects(
      call('crypto', { operation: 'jwt-verify', key: publicKey, token }),
      failure('refused', /is a PEM, and HS256 asks for a secret/),
    )
  }
})

t.test('what a token has to say', async (t) => {
  const sign = async (more: Given) => (await call('crypto', { operation: 'jwt-sign', key: secret, ...more })).token
  const check = (token: unknown, more: Given = {}) =>
    call('crypto', { operation: 'jwt-verify', key: secret, token, ...more })
  const token = await sign({ issuer: 'i', audience: 'a' })
  t.match(await check(token, { issuer: 'i', audience: 'a' }), { claims: { iss: 'i', aud: 'a', iat: Number } })
  await t.rejects(check(token, { issuer: 'j' }), failure('refused', /"iss"/))
  await t.rejects(check(token, { audience: 'b' }), failure('refused', /"aud"/))
  await t.rejects(check(token, { key: 'another secret' }), failure('refused', /signature verification failed/))
  const past = await sign({ claims: { exp: 1_000_000_000 } })
  t.match(await check(past, { failWhenInvalid: false }), { valid: false, reason: /"exp"/, claims: undefined })
  const early = await sign({ claims: { nbf: 4_000_000_000 } })
  await t.rejects(check(early), failure('refused', /"nbf"/))
})

t.test('keys of an issuer', async (t) => {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' }
  const key = { ...jwk, d: 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A' }
  let answer: unknown = { keys: [{ ...jwk, kid: '1', use: 'sig' }] }
  const server = createServer((_, response) => {
    response.writeHead(answer === null ? 503 : 200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`
  const { token } = await call('crypto', {
    operation: 'jwt-sign',
    key,
    algorithm: 'EdDSA',
    keyId: '1',
    claims: { sub: 'ann' },
  })
  const asked = { operation: 'jwt-verify', token, jwksUrl, algorithm: 'EdDSA' }
  t.match(await call('crypto', asked), { valid: true, claims: { sub: 'ann' }, header: { kid: '1' } })
  t.match(await call('crypto', { ...asked, jwksUrl: undefined, key: answer }), { valid: true })
  await t.rejects(call('crypto', { ...asked, algorithm: 'HS256' }), failure('refused', /public keys are not for HS256/))
  answer = { keys: [{ ...jwk, kid: '2' }] }
  await t.rejects(call('crypto', asked), failure('refused', /no applicable key/))
  answer = { nonsense: 1 }
  await t.rejects(call('crypto', asked), failure('refused', 'This is no set of JWKs'))
  answer = null
  await t.rejects(call('crypto', asked), failure('unavailable', /answered 503/))
  await t.rejects(callPlugin('util.crypto', asked, { allow: [] }), failure('refused', /may not be fetched from here/))
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

t.test('passwords', async (t) => {
  const { passwordHash } = await call('crypto', { operation: 'hash-password', password: 'pässword' })
  t.match(passwordHash, /^\$argon2id\$v=19\$.*m=19456/)
  t.match(await call('crypto', { operation: 'verify-password', password: 'pässword', passwordHash }), { valid: true })
  await t.rejects(
    call('crypto', { operation: 'verify-password', password: 'password', passwordHash }),
    failure('refused', 'The password is not right'),
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

function sorted(_key: string, value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
