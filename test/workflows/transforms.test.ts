import { crc32, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { pack as tarPack } from 'tar-stream'
import yazl from 'yazl'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { pluginProblems } from '../../workers/workflows/check-plugin.ts'
import { callPlugin, failure, files } from './call-plugin.ts'
import { problemsOf, runExample } from './plugin-example.ts'

type Given = Record<string, unknown>

t.setTimeout(240_000)

const transforms = catalogue.filter(({ manifest }) => manifest.category === 'Transforms')
const call = (name: string, properties: Given, signal?: AbortSignal) => {
  return callPlugin(`transform.${name}`, properties, signal === undefined ? {} : { signal })
}

/** What some need beside what most take. */
const only: Readonly<Record<string, Given>> = {
  'transform.html': { fields: { a: 'a' } },
  'transform.aggregate': { measures: [{ name: 'n', calculate: 'count' }], by: ['$string($)'] },
  'transform.sort': { by: [{ field: '$' }] },
  'transform.join': { leftKey: 'a' },
}

const sides = {
  left: [{ id: 1 }, { id: 2 }, { id: null }],
  right: [
    { of: 1, name: 'x' },
    { of: '1', name: 'z' },
    { of: 1, name: 'y' },
    { of: null, name: 'n' },
  ],
}

/** A plugin without its prefix, its properties, and what the outputs hold. */
const right: readonly (readonly [string, Given, Given])[] = [
  // RFC 4180, section 2, rules 1 to 7.
  [
    'csv',
    { text: 'a,b\r\naaa,bbb\r\nzzz,yyy\r\n' },
    {
      rows: [
        { a: 'aaa', b: 'bbb' },
        { a: 'zzz', b: 'yyy' },
      ],
      count: 2,
    },
  ],
  ['csv', { text: 'a,b\r\naaa,bbb' }, { rows: [{ a: 'aaa', b: 'bbb' }], columns: ['a', 'b'] }],
  [
    'csv',
    { text: 'aaa,bbb\nzzz,', header: false },
    {
      rows: [
        ['aaa', 'bbb'],
        ['zzz', ''],
      ],
      columns: [],
    },
  ],
  ['csv', { text: 'a\n"b \r\nbb"\n', types: 'text' }, { rows: [{ a: 'b \r\nbb' }] }],
  ['csv', { text: 'a,b\n"b ""bb, b",c\n' }, { rows: [{ a: 'b "bb, b', b: 'c' }] }],
  ['csv', { text: 'a, b\n x , y \n' }, { rows: [{ a: ' x ', ' b': ' y ' }] }],
  ['csv', { text: 'a, b\n x , y \n', trim: true }, { rows: [{ a: 'x', b: 'y' }] }],
  ['csv', { text: '\ufeffa\n1\n' }, { rows: [{ a: '1' }] }],
  ['csv', { text: '# no\na\n1\n', comment: '#' }, { rows: [{ a: '1' }] }],
  ['csv', { text: 'a;"b;,"\n1;2\n', delimiter: 'auto' }, { rows: [{ a: '1', 'b;,': '2' }] }],
  ['csv', { text: "a\n'x\\'y'\n", quote: "'", escape: '\\' }, { rows: [{ a: "x'y" }] }],
  ['csv', { text: 'a,b,c\n1,2,3\n', columns: ['c', 'a'] }, { rows: [{ c: '3', a: '1' }], columns: ['c', 'a'] }],
  ['csv', { text: '1,2\n', header: false, columns: ['a', 'b'] }, { rows: [{ a: '1', b: '2' }] }],
  [
    'csv',
    { text: 'a,b,c,d,e,f\n1,1.50,007,true,,9007199254740993\n', types: 'auto' },
    { rows: [{ a: 1, b: 1.5, c: '007', d: true, e: null, f: '9007199254740993' }] },
  ],
  ['csv', { text: '' }, { rows: [], columns: [], count: 0 }],
  [
    'csv',
    { operation: 'stringify', rows: [{ a: 1, b: 'x,"y"' }, { b: { c: 1 } }] },
    { text: 'a,b\n1,"x,""y"""\n,"{""c"":1}"\n' },
  ],
  ['csv', { operation: 'stringify', rows: [['=1+1', 'x']], escapeFormulas: true }, { text: "'=1+1,x\n", columns: [] }],
  [
    'csv',
    { operation: 'stringify', rows: '[{"a":true}]', lineBreak: '\r\n', quoteAll: true },
    { text: '"a"\r\n"true"\r\n' },
  ],
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
  // RFC 4648, section 10.
  ...['', 'f', 'fo', 'foo', 'foob', 'fooba', 'foobar'].flatMap((text, index) => {
    const base64 = ['', 'Zg==', 'Zm8=', 'Zm9v', 'Zm9vYg==', 'Zm9vYmE=', 'Zm9vYmFy'][index]!
    const hex = ['', '66', '666f', '666f6f', '666f6f62', '666f6f6261', '666f6f626172'][index]!
    return [
      ['base64', { text }, { text: base64 }],
      ['base64', { text: base64, operation: 'decode' }, { text }],
      ['base64', { text: base64.replaceAll('=', ''), operation: 'decode', encoding: 'base64url' }, { text }],
      ['base64', { text, encoding: 'base64url' }, { text: base64.replaceAll('=', '') }],
      ['base64', { text, encoding: 'hex' }, { text: hex }],
      ['base64', { text: hex.toUpperCase(), operation: 'decode', encoding: 'hex' }, { text }],
    ] as [string, Given, Given][]
  }),
  ['base64', { text: 'Zm9v\r\nYmFy', operation: 'decode' }, { text: 'foobar' }],
  ['base64', { text: 'f', padding: false }, { text: 'Zg' }],
  ['base64', { text: 'a b/ü~', encoding: 'url' }, { text: 'a%20b%2F%C3%BC~' }],
  ['base64', { text: 'a%20b+%C3%BCü', encoding: 'url', operation: 'decode' }, { text: 'a b+üü' }],
  // FIPS 180-4 and 202, RFC 1321, RFC 7693: "abc".
  [
    'hash',
    { text: 'abc' },
    { digest: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', sizeBytes: 3, matches: null },
  ],
  ['hash', { text: 'abc', algorithm: 'sha1' }, { digest: 'a9993e364706816aba3e25717850c26c9cd0d89d' }],
  [
    'hash',
    { text: 'abc', algorithm: 'sha224' },
    { digest: '23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7' },
  ],
  [
    'hash',
    { text: 'abc', algorithm: 'sha512-256' },
    { digest: '53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23' },
  ],
  [
    'hash',
    { text: 'abc', algorithm: 'sha3-256' },
    { digest: '3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532' },
  ],
  ['hash', { text: 'abc', algorithm: 'md5' }, { digest: '900150983cd24fb0d6963f7d28e17f72' }],
  [
    'hash',
    { text: 'abc', algorithm: 'blake2s256' },
    { digest: '508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982' },
  ],
  ['hash', { text: '123456789', algorithm: 'crc32' }, { digest: 'cbf43926' }],
  ['hash', { text: 'abc', encoding: 'base64url' }, { digest: 'ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0' }],
  ['hash', { text: 'abc', algorithm: 'sha1', expected: 'A9993E364706816ABA3E25717850C26C9CD0D89D' }, { matches: true }],
  ['hash', { text: 'abc', algorithm: 'sha1', expected: 'a9' }, { matches: false }],
  // RFC 4231, cases 1, 2 and 6.
  [
    'hash',
    { text: 'Hi There', key: '0b'.repeat(20), keyEncoding: 'hex' },
    { digest: 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7' },
  ],
  [
    'hash',
    { text: 'what do ya want for nothing?', key: 'Jefe', algorithm: 'sha384' },
    { digest: 'af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649' },
  ],
  [
    'hash',
    { text: 'Test Using Larger Than Block-Size Key - Hash Key First', key: 'aa'.repeat(131), keyEncoding: 'hex' },
    { digest: '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54' },
  ],
  ['hash', { text: 'ff00', textEncoding: 'hex', algorithm: 'crc32' }, { sizeBytes: 2 }],
  [
    'regex',
    { text: 'due 2027-01, late 2027-02', pattern: '(?P<year>\\d{4})-(\\d\\d)' },
    {
      found: true,
      count: 2,
      matches: [{ match: '2027-01', index: 4, groups: ['2027', '01'], named: { year: '2027' } }, { index: 18 }],
    },
  ],
  [
    'regex',
    { operation: 'match', text: 'xay', pattern: 'A(b)?', flags: 'i' },
    { match: { match: 'a', groups: [null] } },
  ],
  ['regex', { operation: 'match', text: 'x', pattern: 'y' }, { found: false, match: null, count: 0 }],
  ['regex', { operation: 'test', text: 'a\nb', pattern: '^b$', flags: 'm' }, { found: true }],
  ['regex', { operation: 'test', text: 'a\nb', pattern: 'a.b' }, { found: false }],
  ['regex', { operation: 'test', text: 'a\nb', pattern: 'a.b', flags: 's' }, { found: true }],
  [
    'regex',
    { operation: 'replace', text: 'ab ab', pattern: '(?P<x>a)(b)', replacement: '$2$<x>$$$&' },
    { text: 'ba$ab ba$ab', count: 2 },
  ],
  ['regex', { operation: 'replace', text: 'aaa', pattern: 'a', replacement: 'b', limit: 2 }, { text: 'bba', count: 2 }],
  ['regex', { operation: 'split', text: 'a, b,,c', pattern: ',\\s*' }, { parts: ['a', 'b', '', 'c'], count: 4 }],
  ['regex', { operation: 'split', text: 'abc', pattern: '' }, { parts: ['a', 'b', 'c'] }],
  ['regex', { operation: 'split', text: 'a,b,c', pattern: ',', limit: 2 }, { parts: ['a', 'b,c'] }],
  // What takes a backtracking engine longer than the universe has.
  ['regex', { operation: 'test', text: `${'a'.repeat(50_000)}!`, pattern: '^(a+)+$' }, { found: false }],
  ['filter', { items: [{ p: 3 }, { p: 12 }], expression: 'p < 10' }, { items: [{ p: 3 }], count: 1, removed: 1 }],
  [
    'filter',
    { items: '[0, 1, "", "x", [], [0], [1], {}, {"a":0}, null]', expression: '$' },
    { items: [1, 'x', [1], { a: 0 }] },
  ],
  ['filter', { items: [1, 2, 3], expression: '$index = 1 or $ = $items[2]', limit: 1 }, { items: [2], removed: 2 }],
  ...(
    [
      ['equal', 5, [5, '5', '5.0']],
      ['not-equal', 5, [7, '', 'b', null, 'A']],
      ['greater', 5, [7, '', 'b', 'A']],
      ['greater-or-equal', '5', [5, 7, '5', 'b', '5.0', 'A']],
      ['less', 'b', [5, 7, '5', '', '5.0', 'A']],
      ['less-or-equal', 5, [5, '5', '5.0']],
      ['in', [7, 'b'], [7, 'b']],
      ['not-in', [5, null, ''], [7, 'b', 'A']],
      ['contains', '5', [5, '5', '5.0']],
      ['starts-with', '5', [5, '5', '5.0']],
      ['ends-with', '0', ['5.0']],
      ['matches', '^[a-z]$', ['b']],
      ['empty', null, ['', null]],
      ['not-empty', null, [5, 7, '5', 'b', '5.0', 'A']],
    ] as const
  ).map(([is, value, items]): [string, Given, Given] => [
    'filter',
    { items: [5, 7, '5', '', 'b', null, '5.0', 'A'], conditions: [{ field: '$', is, value }] },
    { items },
  ]),
  [
    'filter',
    {
      items: [{ t: ['x'] }, { t: [] }, { t: ['y'], a: 1 }],
      conditions: [
        { field: 't', is: 'contains', value: 'x' },
        { field: 'a', is: 'equal', value: 1 },
      ],
      match: 'any',
    },
    { items: [{ t: ['x'] }, { t: ['y'], a: 1 }] },
  ],
  ['sort', { items: [3, 'b', 1, null, 'a', true] }, { items: [true, 1, 3, 'a', 'b', null] }],
  ['sort', { items: [3, 1, null], by: [{ field: '$', order: 'descending', nulls: 'first' }] }, { items: [null, 3, 1] }],
  ['sort', { items: ['x10', 'x2', 'X1'], by: [{ field: '$', as: 'natural' }] }, { items: ['X1', 'x2', 'x10'] }],
  ['sort', { items: ['10', '9', '1e1', 'x'], by: [{ field: '$', as: 'number' }] }, { items: ['9', '10', '1e1', 'x'] }],
  [
    'sort',
    { items: ['zebra', 'Äpfel', 'apfel'], by: [{ field: '$', as: 'text' }], locale: 'de' },
    { items: ['apfel', 'Äpfel', 'zebra'] },
  ],
  [
    'sort',
    { items: ['zebra', 'ähnlich'], by: [{ field: '$', as: 'text' }], locale: 'sv' },
    { items: ['zebra', 'ähnlich'] },
  ],
  [
    'sort',
    { items: ['b', 'A', 'B', 'a'], by: [{ field: '$', as: 'text', ignoreCase: true }] },
    { items: ['A', 'a', 'b', 'B'] },
  ],
  [
    'sort',
    {
      items: [
        { a: 1, b: 1 },
        { a: 2, b: 1 },
        { a: 1, b: 2 },
      ],
      by: [{ field: 'a' }, { field: 'b', order: 'descending' }],
      limit: 2,
    },
    {
      items: [
        { a: 1, b: 2 },
        { a: 1, b: 1 },
      ],
      count: 2,
    },
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
  [
    'html',
    {
      text: '<ul><li><a href="/1">Alien</a> <b>1979</b></li><li><a href="//x.org/2">Brazil</a></li></ul>',
      selector: 'li',
      fields: {
        title: 'a',
        link: 'a@href',
        year: 'b',
        all: { selector: '*', all: true },
        raw: { selector: 'a', as: 'html' },
        self: '',
      },
      baseUrl: 'https://example.org/films',
    },
    {
      data: [
        {
          title: 'Alien',
          link: 'https://example.org/1',
          year: '1979',
          all: ['Alien', '1979'],
          raw: 'Alien',
          self: 'Alien 1979',
        },
        { title: 'Brazil', link: 'https://x.org/2', year: null },
      ],
      count: 2,
    },
  ],
  [
    'html',
    { text: '<title>T</title><h1>A &amp; B</h1>', fields: { t: 'title', h: 'h1' } },
    { data: { t: 'T', h: 'A & B' } },
  ],
  [
    'html',
    {
      operation: 'text',
      text: '<head><title>T</title></head><h1>A &lt;\n b</h1><p>one<br>two <i>x</i></p><pre>  k\n   l</pre><script>no</script><ul><li>1<li>2</ul>',
    },
    { text: 'A < b\none\ntwo x\n  k\n   l\n1\n2' },
  ],
  [
    'html',
    {
      operation: 'tables',
      text: '<table><caption>C</caption><tr><th>a<th>a<th></tr><tr><td rowspan=2>1<td colspan=2>2<tr><td>3<td>4</table>',
    },
    {
      tables: [
        {
          caption: 'C',
          columns: ['a', 'a_2', 'column_3'],
          rows: [
            { a: '1', a_2: '2', column_3: '2' },
            { a: '1', a_2: '3', column_3: '4' },
          ],
        },
      ],
    },
  ],
  [
    'html',
    { operation: 'tables', text: '<table><tr><td>1<td>2</table>' },
    { tables: [{ columns: [], rows: [['1', '2']] }], count: 1 },
  ],
  [
    'html',
    { operation: 'links', text: '<a href="a">x</a><a>y</a><area href="b" alt="B">', limit: 5 },
    {
      links: [
        { url: 'a', text: 'x' },
        { url: 'b', text: 'B' },
      ],
    },
  ],
  // https://spec.commonmark.org/0.31.2/, https://github.github.com/gfm/
  [
    'markdown',
    { text: '# Hello\n\n*a* **b**\n' },
    {
      text: '<h1>Hello</h1>\n<p><em>a</em> <strong>b</strong></p>\n',
      headings: [{ level: 1, text: 'Hello', id: 'hello' }],
      frontMatter: null,
    },
  ],
  [
    'markdown',
    { text: '---\ntitle: T\n---\n# A `b` & C\n## A b & C\n', headingIds: true },
    {
      text: '<h1 id="a-b--c">A <code>b</code> &amp; C</h1>\n<h2 id="a-b--c-1">A b &amp; C</h2>\n',
      frontMatter: { title: 'T' },
    },
  ],
  [
    'markdown',
    { text: '~~a~~ https://x.org\n\n- [x] done\n' },
    { text: /<del>a<\/del> <a href="https:\/\/x.org">[\s\S]*<input checked/ },
  ],
  ['markdown', { text: '~~a~~', gfm: false }, { text: '<p>~~a~~</p>\n' }],
  ['markdown', { text: 'a\nb', breaks: true }, { text: '<p>a<br>b</p>\n' }],
  [
    'markdown',
    { text: '<script>alert(1)</script>\n\na <b onclick="x">b</b>' },
    { text: '<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n<p>a &lt;b onclick=&quot;x&quot;&gt;b&lt;/b&gt;</p>\n' },
  ],
  ['markdown', { text: 'a <b>b</b>', html: 'drop' }, { text: '<p>a b</p>\n' }],
  ['markdown', { text: 'a <b>b</b>', html: 'keep' }, { text: '<p>a <b>b</b></p>\n' }],
  ...[
    'javascript:alert(1)',
    'JaVaScRiPt:alert(1)',
    'data:text/html,x',
    'vbscript:x',
    '<java\tscript:x>',
    'java&#x73;cript:x',
    'javascript&colon;x',
  ].map((url): [string, Given, Given] => ['markdown', { text: `[x](${url})` }, { text: /^(?!.*href="\s*(j|d|v))/i }]),
  ['markdown', { text: '<javascript:alert(1)> [y]\n\n[y]: javascript:alert(1)\n' }, { text: /^(?!.*href="j)/ }],
  [
    'markdown',
    { text: '[x](/a "t") ![i](https://x.org/i.png)' },
    { text: '<p><a href="/a" title="t">x</a> <img src="https://x.org/i.png" alt="i"></p>\n' },
  ],
  [
    'markdown',
    {
      operation: 'to-markdown',
      text: '<h2>A</h2><p><em>e</em> <strong>s</strong> <del>d</del></p><ul><li><input type=checkbox checked> t</li></ul><table><tr><th>a<th>b<tr><td>1|2<td>x<br>y</table><script>no</script>',
    },
    { text: '## A\n\n*e* **s** ~~d~~\n\n-   [x] t\n\n| a | b |\n| --- | --- |\n| 1\\|2 | x<br>y |\n' },
  ],
  [
    'aggregate',
    {
      items: [
        { c: 'P', p: 0.1 },
        { c: 'R', p: 5 },
        { c: 'P', p: '0.2' },
        { c: 'P', p: null },
        { c: 'P', p: 0.1 },
      ],
      by: ['c'],
      measures: [
        'count',
        'count-distinct',
        'sum',
        'avg',
        'min',
        'max',
        'median',
        'stddev',
        'first',
        'last',
        'list',
        'distinct',
      ].map((calculate) => ({ name: calculate, calculate, of: 'p' })),
    },
    {
      groups: [
        {
          c: 'P',
          count: 3,
          'count-distinct': 2,
          sum: 0.4,
          avg: 0.13333333333333333,
          min: 0.1,
          max: '0.2',
          median: 0.1,
          stddev: 0.057735026918962574,
          first: 0.1,
          last: 0.1,
          list: [0.1, '0.2', 0.1],
          distinct: [0.1, '0.2'],
        },
        { c: 'R', count: 1, sum: 5, avg: 5, stddev: null },
      ],
      count: 2,
    },
  ],
  [
    'aggregate',
    {
      items: [],
      measures: [
        { name: 'n', calculate: 'count' },
        { name: 's', calculate: 'sum', of: '$' },
        { name: 'a', calculate: 'avg', of: '$' },
      ],
    },
    { groups: [{ n: 0, s: 0, a: null }] },
  ],
  ['aggregate', { items: [], by: ['a'], measures: [{ name: 'n', calculate: 'count' }] }, { groups: [], count: 0 }],
  [
    'aggregate',
    { items: [9007199254740991, 2, '0.5'], measures: [{ name: 's', calculate: 'sum', of: '$' }] },
    { groups: [{ s: '9007199254740993.5' }] },
  ],
  [
    'aggregate',
    { items: [1, 2, 2], measures: [{ name: 'a', calculate: 'avg', of: '$', scale: 2 }] },
    { groups: [{ a: 1.67 }] },
  ],
  [
    'aggregate',
    {
      items: ['2026-02-01', '2027-01-01'],
      by: [{ name: 'y', field: '$substring($, 0, 4)' }],
      measures: [
        { name: 'n', calculate: 'count' },
        { name: 'm', calculate: 'max', of: '$' },
      ],
    },
    {
      groups: [
        { y: '2026', n: 1, m: '2026-02-01' },
        { y: '2027', n: 1 },
      ],
    },
  ],
  ...(
    [
      [
        'inner',
        [
          [1, 'x'],
          [1, 'y'],
        ],
      ],
      [
        'left',
        [
          [1, 'x'],
          [1, 'y'],
          [2, null],
          [null, null],
        ],
      ],
      [
        'right',
        [
          [1, 'x'],
          [1, 'y'],
          [undefined, 'z'],
          [undefined, 'n'],
        ],
      ],
      [
        'full',
        [
          [1, 'x'],
          [1, 'y'],
          [2, null],
          [null, null],
          [undefined, 'z'],
          [undefined, 'n'],
        ],
      ],
    ] as const
  ).map(([type, pairs]): [string, Given, Given] => [
    'join',
    { ...sides, type, leftKey: 'id', rightKey: 'of', combine: 'nest' },
    {
      items: pairs.map(([id, name]) => ({
        left: id === undefined ? null : { id },
        right: name === null ? null : { name },
      })),
      unmatchedLeft: 2,
      unmatchedRight: 2,
    },
  ]),
  ['join', { ...sides, type: 'semi', leftKey: 'id', rightKey: 'of' }, { items: [{ id: 1 }], count: 1 }],
  ['join', { ...sides, type: 'anti', leftKey: 'id', rightKey: 'of' }, { items: [{ id: 2 }, { id: null }] }],
  [
    'join',
    { left: [{ a: 1, b: 2, n: 'l' }], right: [{ a: 1, b: 2, n: 'r' }], leftKey: '[a, b]' },
    { items: [{ a: 1, b: 2, n: 'l', right_n: 'r' }] },
  ],
]

t.test('what comes out of what', async (t) => {
  for (const [name, properties, outputs] of right) {
    t.match(await call(name, properties), outputs, `${name} ${JSON.stringify(properties).slice(0, 100)}`)
  }
})

const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${[...'bcdefgh'].map((name, at) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[at]}`).join(',')}]\n`).join('')}`

/** A plugin, its properties, and why it refuses them. */
const wrong: readonly (readonly [string, Given, RegExp])[] = [
  ['csv', { text: 'a,b\n1,2\n3\n' }, /no CSV: Invalid Record Length.* on line 3/],
  ['csv', { text: 'a\n"b\n' }, /no CSV: Quote Not Closed.* line 2/],
  ['csv', { text: 'a\n"b"c\n' }, /no CSV: .*line 2 .*, cell 1/],
  ['csv', { text: 'a,a\n1,2\n' }, /The column "a" is there twice/],
  ['csv', { text: 'a\n1\n', columns: ['b'] }, /There is no column "b"; there are a/],
  ['csv', { text: 'a\n1\n2\n', maxRows: 1 }, /more than 1 rows/],
  ['csv', {}, /properties.text or properties.file is needed/],
  ['csv', { text: '', file: 'busbar:///files/0' }, /only one of them/],
  ['csv', { operation: 'stringify' }, /properties.rows is needed for stringify/],
  ['csv', { operation: 'stringify', rows: [1] }, /Row 1 is no object or list/],
  ['csv', { operation: 'stringify', rows: '{' }, /properties.rows is no list/],
  ['csv', { format: 'xlsx', text: 'x' }, /no zip archive/],
  ['csv', { format: 'parquet', text: 'PAR1 and so on PAR1' }, /no Parquet file/],
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
  ['base64', { operation: 'decode', text: 'Zm9!' }, /not base64: "!" as character 4/],
  ['base64', { operation: 'decode', text: 'Zm9vY' }, /too early or too late/],
  ['base64', { operation: 'decode', text: 'Zm9v-_', encoding: 'base64' }, /not base64: "-"/],
  ['base64', { operation: 'decode', text: 'abc', encoding: 'hex' }, /not hex digits/],
  ['base64', { operation: 'decode', text: '%zz', encoding: 'url' }, /not percent-encoded: "%" as character 1/],
  ['base64', { operation: 'decode', text: '/////w==' }, /not a text in UTF-8: give properties.toFile/],
  ['hash', { text: 'a', key: 'zz', keyEncoding: 'hex' }, /properties.key is not in hex/],
  ['hash', { text: 'a', key: 'k', algorithm: 'crc32' }, /properties.key: crc32 takes none/],
  ['regex', { text: 'a', pattern: '(' }, /properties.pattern is no pattern that RE2 takes: .*missing/],
  ['regex', { text: 'a', pattern: '(?=a)' }, /properties.pattern is no pattern that RE2 takes/],
  ['regex', { text: 'a', pattern: '(a)\\1' }, /properties.pattern is no pattern that RE2 takes/],
  ['regex', { text: 'a', pattern: 'a', operation: 'replace' }, /properties.replacement is needed/],
  ['regex', { text: 'a', pattern: 'a', operation: 'replace', replacement: '$1' }, /there is no group 1/],
  [
    'regex',
    { text: 'a'.repeat(5_000), pattern: 'a', operation: 'replace', replacement: 'b'.repeat(10_000) },
    /larger than 16 MB/,
  ],
  ['filter', { items: [1] }, /properties.expression or properties.conditions is needed/],
  ['filter', { items: 'x', expression: '$' }, /properties.items is no list/],
  ['filter', { items: [1], expression: '$ <' }, /properties.expression: /],
  [
    'filter',
    { items: [1], conditions: [{ field: '$', is: 'in', value: 1 }] },
    /properties.conditions\[0\].value is no list/,
  ],
  [
    'filter',
    { items: [1], conditions: [{ field: '$', is: 'matches', value: '(' }] },
    /properties.conditions\[0\].value is no pattern/,
  ],
  ['sort', { items: [1], by: [{ field: '$', as: 'text' }], locale: '!' }, /properties.locale is no language tag/],
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
  ['html', { text: '<p>' }, /properties.fields is needed for extract/],
  ['html', { text: '<p>', selector: 'p[', fields: { a: 'b' } }, /properties.selector is no CSS selector/],
  ['html', { text: '<p>', fields: { a: 'b:nonsense' } }, /properties.fields.a is no CSS selector/],
  ['html', { text: '<a href=x>', operation: 'links', baseUrl: 'x' }, /properties.baseUrl is no URL/],
  ['html', { text: 'x', format: 'pdf' }, /of a PDF there is text only/],
  ['html', { text: 'x', format: 'pdf', operation: 'text' }, /no PDF/],
  ['markdown', { text: '---\na: [\n---\n' }, /The front matter: This is no YAML/],
  [
    'aggregate',
    { items: [{ p: 'x' }], measures: [{ name: 's', calculate: 'sum', of: 'p' }] },
    /s of item 1 is no number: "x"/,
  ],
  [
    'aggregate',
    { items: [], measures: [{ name: 's', calculate: 'sum' }] },
    /properties.measures\[0\].of is needed for sum/,
  ],
  ['aggregate', { items: [], by: ['a'], measures: [{ name: 'a', calculate: 'count' }] }, /The name a is there twice/],
  [
    'join',
    { left: Array(100).fill({ a: 1 }), right: Array(100).fill({ a: 1 }), leftKey: 'a', maxItems: 9_999 },
    /gives more than 9999 items/,
  ],
  [
    'join',
    { left: [{ a: 1, b: 'x'.repeat(100_000) }], right: Array(1_000).fill({ a: 1 }), leftKey: 'a' },
    /What comes together is larger than 64 MB/,
  ],
  [
    'regex',
    { text: 'x'.repeat(1_000_000), pattern: `${'('.repeat(100)}x+${')'.repeat(100)}` },
    /What comes out is larger than 64 MB/,
  ],
  ['join', { left: [1], right: [1], leftKey: '$' }, /properties.left has an item that is no object/],
  ['compress', { format: 'zip', text: 'x' }, /properties.files is needed for zip/],
  ['compress', { format: 'gzip', files: [] }, /gzip holds one content/],
  ['compress', { operation: 'unpack', text: 'what is this' }, /none that is known; name the format/],
  ['compress', { operation: 'unpack', text: 'x', format: 'gzip' }, /not packed with gzip/],
  ['compress', { operation: 'unpack', text: '!', textEncoding: 'base64' }, /properties.text is not base64/],
  ['compress', { files: [{ name: '../a', text: '' }] }, /"..\/a" leads out of the archive/],
  [
    'compress',
    {
      files: [
        { name: 'a', text: '' },
        { name: 'a', text: '' },
      ],
    },
    /a is there twice/,
  ],
]

t.test('what is refused, and why', async (t) => {
  for (const [name, properties, why] of wrong) {
    const title = `${name} ${JSON.stringify(properties).slice(0, 100)}`
    await t.rejects(call(name, properties), failure('refused', why), title)
  }
})

t.test('every plugin', async (t) => {
  t.equal(transforms.length, 13)
  for (const plugin of transforms) {
    const { id } = plugin.manifest
    t.same(pluginProblems(plugin), [], `${id} is complete`)
    const problems = problemsOf(id, { nonsense: 1 }).join('\n')
    t.match(problems, /nonsense is no property of the plugin/, `${id} refuses what it does not know`)
    t.ok(Object.keys(await runExample(id)).length > 0, `${id} runs its example`)
  }
  t.match(problemsOf('transform.csv', { operation: 'stringyfy' }), [/must be one of parse, stringify; perhaps/])
  t.match(problemsOf('transform.sort', { items: [], by: [{ order: 'ascending' }] }), [/by\[0\] needs field/])
  t.match((await runExample('transform.xml')).write, { text: /<item sku="b">Salt<\/item>/ })
  t.match((await runExample('transform.compress')).unpack, {
    files: [{ name: 'a.txt', text: 'first' }, { text: 'second' }],
  })
})

t.test('a task that is cancelled ends at once, whatever it is at', async (t) => {
  // Each of these would go on for minutes.
  const long: readonly [string, Given][] = [
    ['html', { operation: 'text', text: `${'<div>'.repeat(100_000)}x` }],
    ['filter', { items: [1], expression: '($f := function($n) { $f($n + 1) }; $f(0))' }],
  ]
  for (const [name, properties] of long) {
    const controller = new AbortController()
    const running = call(name, properties, controller.signal)
    setTimeout(() => controller.abort(new Error('cancelled')), 200)
    await t.rejects(running, { message: 'cancelled' }, name)
  }
  for (const { manifest } of transforms) {
    const given = {
      text: '<a/>',
      items: [1],
      expression: '$',
      left: [],
      right: [],
      leftKey: 'a',
      pattern: 'a',
      measures: [],
    }
    const names = Object.keys((manifest.inputSchema as unknown as { properties: object }).properties)
    const properties = Object.fromEntries(Object.entries(given).filter(([name]) => names.includes(name)))
    const before = callPlugin(
      manifest.id,
      { ...properties, ...only[manifest.id] },
      { signal: AbortSignal.abort(new Error('before')) },
    )
    await t.rejects(before, { message: 'before' }, manifest.id)
  }
})

t.test('tables as files', async (t) => {
  const rows = [
    { id: 1, name: '=1+1', ok: true, more: { a: [1] }, price: 1.5 },
    { id: 2, name: 'ü', ok: false, more: null, price: 2 },
  ]
  t.test('Excel', async (t) => {
    const { uri, count } = await call('csv', { operation: 'stringify', format: 'xlsx', rows, sheet: 'Films' })
    t.equal(count, 2)
    const read = await call('csv', { format: 'xlsx', file: uri, sheet: 'Films' })
    t.same(read.rows, [{ ...rows[0], more: '{"a":[1]}' }, rows[1]])
    t.match(await call('csv', { format: 'xlsx', file: uri, header: false }), {
      rows: [['id', 'name', 'ok', 'more', 'price'], { length: 5 }, {}],
    })
    await t.rejects(
      call('csv', { format: 'xlsx', file: uri, sheet: 'Other' }),
      failure('refused', 'There is no sheet Other'),
    )
    await t.rejects(call('csv', { format: 'xlsx', file: uri, maxRows: 1 }), failure('refused', /more than 1 rows/))
  })
  t.test('Parquet', async (t) => {
    for (const compression of ['snappy', 'none']) {
      const { uri } = await call('csv', { operation: 'stringify', format: 'parquet', rows, compression })
      t.equal(Buffer.from(files.get(String(uri))!.subarray(0, 4)).toString(), 'PAR1')
      t.same((await call('csv', { format: 'parquet', file: uri })).rows, rows)
      t.same((await call('csv', { format: 'parquet', file: uri, columns: ['name'] })).rows, [
        { name: '=1+1' },
        { name: 'ü' },
      ])
      await t.rejects(call('csv', { format: 'parquet', file: uri, maxRows: 1 }), failure('refused', /more than 1 rows/))
      await t.rejects(
        call('csv', { format: 'parquet', file: uri, columns: ['x'] }),
        failure('refused', /no column "x"/),
      )
    }
    await t.rejects(
      call('csv', { operation: 'stringify', format: 'parquet', rows: [] }),
      failure('refused', /needs columns/),
    )
  })
  t.test('rows by way of files, one as JSON a line', async (t) => {
    const text = 'id,name\n1,Ann\n2,Bob\n'
    const { uri, rows: inline, count } = await call('csv', { text, toFile: true })
    t.equal(Buffer.from(files.get(String(uri))!).toString(), '{"id":"1","name":"Ann"}\n{"id":"2","name":"Bob"}\n')
    t.same([inline, count], [undefined, 2])
    t.match(await call('csv', { operation: 'stringify', file: uri }), { text, count: 2 })
    t.match(await call('csv', { operation: 'stringify', text: '[["a", 1], ["b"]]' }), { text: 'a,1\nb\n' })
    t.match(await call('csv', { operation: 'stringify', text: '["a"]\n["b"]\n' }), { text: 'a\nb\n' })
    const bad = call('csv', { operation: 'stringify', text: '{"a":1}\n{"a":\n' })
    await t.rejects(bad, failure('refused', /no JSON: it ends too early at line 2, column 6/))
    const parquet = await call('csv', { operation: 'stringify', format: 'parquet', file: uri })
    const back = await call('csv', { format: 'parquet', file: parquet.uri, toFile: true })
    t.equal(back.uri === uri || Buffer.compare(files.get(String(back.uri))!, files.get(String(uri))!) === 0, true)
  })
  t.test('rows that are too large for the outputs', async (t) => {
    const large = `${'n'.repeat(20_000)}\n${'1\n'.repeat(2_000)}`
    await t.rejects(
      call('csv', { text: large }),
      failure('refused', 'The rows are larger than 16 MB: give properties.toFile'),
    )
    t.match(await call('csv', { text: large, toFile: true }), { count: 2_000, sizeBytes: 40_018_000 })
    await t.rejects(
      call('csv', { text: large.repeat(2), toFile: true }),
      failure('refused', 'The rows are larger than 64 MB'),
    )
  })
  t.test('CSV in other encodings', async (t) => {
    files.set('latin', Buffer.from('a\nä\n', 'latin1'))
    t.same((await call('csv', { file: 'latin', encoding: 'windows-1252' })).rows, [{ a: 'ä' }])
    await t.rejects(call('csv', { file: 'latin' }), failure('refused', 'properties.file is not a text in UTF-8'))
    const { uri, text } = await call('csv', { operation: 'stringify', rows, toFile: true, byteOrderMark: true })
    t.equal(text, undefined)
    t.match(await call('csv', { file: uri }), { rows: [{ id: '1', name: '=1+1', ok: 'true' }, { name: 'ü' }] })
  })
})

/** As small as a PDF can be. */
function pdfOf(...pages: readonly string[]): Buffer {
  const kids = pages.map((_, at) => `${4 + at * 2} 0 R`).join(' ')
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    ...pages.flatMap((text, at) => {
      const content = `BT /F1 12 Tf 20 20 Td (${text}) Tj ET`
      return [
        `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents ${5 + at * 2} 0 R /Resources << /Font << /F1 3 0 R >> >> >>`,
        `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
      ]
    }),
  ]
  let file = '%PDF-1.4\n'
  const places = objects.map((object, at) => {
    const place = file.length
    file += `${at + 1} 0 obj\n${object}\nendobj\n`
    return `${String(place).padStart(10, '0')} 00000 n \n`
  })
  const table = `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${places.join('')}`
  return Buffer.from(
    `${file}${table}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${file.length}\n%%EOF`,
  )
}

t.test('the text of a PDF', async (t) => {
  files.set('pdf', pdfOf('Hello PDF', 'Second page'))
  const asked = { format: 'pdf', operation: 'text', file: 'pdf' }
  t.same(await call('html', asked), { text: 'Hello PDF\n\nSecond page', pages: ['Hello PDF', 'Second page'], count: 2 })
  await t.rejects(call('html', { ...asked, limit: 1 }), failure('refused', 'There are more than 1 pages'))
})

async function bytesIn(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const part of stream) parts.push(part)
  return Buffer.concat(parts)
}

t.test('archives of others', async (t) => {
  const unpack = (bytes: Uint8Array, more: Given = {}) => {
    files.set('archive', bytes)
    return call('compress', { operation: 'unpack', file: 'archive', as: 'text', ...more })
  }
  const tar = async (...entries: readonly Parameters<ReturnType<typeof tarPack>['entry']>[0][]) => {
    const packing = tarPack()
    for (const entry of entries) packing.entry(entry, 'x'.repeat(entry.size ?? 0))
    packing.finalize()
    return await bytesIn(packing as unknown as AsyncIterable<Uint8Array>)
  }
  const zip = async (name: string, content: Buffer, mode = 0o100644) => {
    const packing = new yazl.ZipFile()
    packing.addBuffer(content, 'a'.repeat(name.length), { mode })
    packing.end()
    const bytes = await bytesIn(packing.outputStream as AsyncIterable<Uint8Array>)
    // The library refuses to write such names; they stand in there twice.
    return Buffer.from(bytes.toString('latin1').replaceAll('a'.repeat(name.length), name), 'latin1')
  }

  t.match(await unpack(await tar({ name: './d', type: 'directory' }, { name: './d/f', size: 2 })), {
    format: 'tar',
    files: [{ name: 'd/f', text: 'xx' }],
  })
  t.match(await unpack(gzipSync(await tar({ name: 'f', size: 1 })), { format: 'tar.gz' }), {
    files: [{ name: 'f' }],
    sizeBytes: 1,
  })
  const outside = /leads out of the archive/
  for (const name of ['../evil', '/etc/evil', 'a/../../evil', 'C:\\evil', 'a\\..\\evil']) {
    await t.rejects(unpack(await tar({ name, size: 1 })), failure('refused', outside), `tar ${name}`)
    await t.rejects(
      unpack(await zip(name, Buffer.from('x'))),
      failure('refused', /leads out of the archive|relative path|absolute path|characters in fileName/),
      `zip ${name}`,
    )
  }
  await t.rejects(
    unpack(await tar({ name: 'l', type: 'symlink', linkname: '/etc/passwd' })),
    failure('refused', 'l is a link, and archives with links are not unpacked'),
  )
  await t.rejects(unpack(await zip('l', Buffer.from('/etc'), 0o120777)), failure('refused', /l is a link/))
  await t.rejects(unpack(await tar({ name: 'f', type: 'fifo' })), failure('refused', 'f is a fifo, not a file'))
  await t.rejects(
    unpack(await tar({ name: 'f', size: 1 }, { name: 'f', size: 1 })),
    failure('refused', 'f is there twice'),
  )
  await t.rejects(
    unpack(await tar({ name: 'f' }, { name: 'g' }), { maxEntries: 1 }),
    failure('refused', 'There are more than 1 entries'),
  )

  const zeros = Buffer.alloc(5_000_000)
  const tooLarge = failure('refused', 'It is larger than 1000000 bytes once unpacked')
  for (const format of ['gzip', 'deflate', 'brotli', 'zstd']) {
    const { text } = await call('compress', {
      text: zeros.toString('base64'),
      textEncoding: 'base64',
      format,
      as: 'base64',
    })
    await t.rejects(
      call('compress', { operation: 'unpack', text, textEncoding: 'base64', format, maxBytes: 1_000_000 }),
      tooLarge,
      format,
    )
  }
  await t.rejects(unpack(await zip('f', zeros), { maxBytes: 1_000_000 }), tooLarge)
  await t.rejects(
    unpack(gzipSync(await tar({ name: 'f', size: 5_000_000 })), { format: 'tar.gz', maxBytes: 1_000_000 }),
    tooLarge,
  )

  const lying = await zip('f', Buffer.from('x'))
  const place = lying.indexOf(Buffer.from([0x50, 0x4b, 1, 2]))
  lying.writeUInt32LE(crc32('y'), place + 16)
  await t.rejects(unpack(lying), failure('refused', 'f is damaged: its CRC-32 is another'))
  await t.rejects(unpack(lying.subarray(0, 20), { format: 'zip' }), failure('refused', /no zip archive/))
  await t.rejects(unpack((await tar({ name: 'f', size: 600 })).subarray(0, 700)), failure('refused', /no tar archive/))
  // A workbook is an archive as well.
  files.set('bomb', await zip('xl/workbook.xml', Buffer.alloc(129 * 1024 ** 2)))
  await t.rejects(call('csv', { format: 'xlsx', file: 'bomb' }), failure('refused', /once unpacked/))
})

const runs = { numRuns: 40 }

t.test('there and back again', async (t) => {
  const cell = fc.string({ unit: fc.constantFrom('a', 'ü', '"', ',', ';', '\n', '\r', ' ', '\ufeff', "'", '0', '𝄞') })
  t.test('CSV of any cells', async () => {
    const table = fc
      .integer({ min: 1, max: 4 })
      .chain((width) => fc.array(fc.array(cell, { minLength: width, maxLength: width }), { minLength: 1 }))
    await fc.assert(
      fc.asyncProperty(
        table,
        fc.constantFrom(',', ';', '\t'),
        fc.constantFrom('\n', '\r\n'),
        async (rows, delimiter, lineBreak) => {
          const written = await call('csv', { operation: 'stringify', rows, delimiter, lineBreak, header: false })
          const read = await call('csv', { text: written.text, delimiter, header: false })
          return JSON.stringify(read.rows) === JSON.stringify(rows)
        },
      ),
      runs,
    )
  })
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
        return (
          JSON.stringify((await call('xml', { text: written.text })).value, sorted) === JSON.stringify(value, sorted)
        )
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
            JSON.stringify((await call('yaml', { text, format: 'toml' })).value, sorted) ===
            JSON.stringify(value, sorted)
          )
        },
      ),
      runs,
    )
  })
  t.test('encodings and packings of any bytes', async () => {
    const bytes = fc.uint8Array({ maxLength: 2_000 })
    await fc.assert(
      fc.asyncProperty(bytes, fc.constantFrom('base64', 'base64url', 'hex', 'url'), async (given, encoding) => {
        files.set('any', given)
        const { text } = await call('base64', { file: 'any', encoding })
        const { uri } = await call('base64', { operation: 'decode', text, encoding, toFile: true })
        return Buffer.compare(files.get(String(uri))!, given) === 0
      }),
      runs,
    )
    await fc.assert(
      fc.asyncProperty(
        bytes,
        fc.constantFrom('gzip', 'deflate', 'brotli', 'zstd'),
        fc.integer({ min: 0, max: 9 }),
        async (given, format, level) => {
          files.set('any', given)
          const { uri } = await call('compress', { file: 'any', format, level })
          const back = await call('compress', { operation: 'unpack', file: uri, format })
          return Buffer.compare(files.get(String(back.uri))!, given) === 0
        },
      ),
      runs,
    )
    const name = fc
      .string({ unit: fc.constantFrom('a', 'b', 'ü', ' ', '.x', '-'), minLength: 1, maxLength: 150 })
      .map((text) => `f${text}`)
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(name, { minLength: 1, maxLength: 5 }),
        bytes,
        fc.constantFrom('zip', 'tar', 'tar.gz'),
        async (names, given, format) => {
          files.set('any', given)
          const { uri } = await call('compress', { files: names.map((each) => ({ name: each, file: 'any' })), format })
          const { files: back } = await call('compress', { operation: 'unpack', file: uri, format, as: 'base64' })
          const wanted = names.map((each) => ({
            text: Buffer.from(given).toString('base64'),
            sizeBytes: given.length,
            name: each,
          }))
          return JSON.stringify(back, sorted) === JSON.stringify(wanted, sorted)
        },
      ),
      runs,
    )
  })
  t.test('the same files make the same archive', async (t) => {
    for (const format of ['zip', 'tar', 'tar.gz']) {
      const pack = async () =>
        files.get(String((await call('compress', { files: [{ name: 'a', text: 'x' }], format })).uri))!
      t.equal(Buffer.compare(await pack(), await pack()), 0, format)
    }
  })
})

t.test('lists against the plain way', async (t) => {
  const row = fc.record({ k: fc.oneof(fc.integer({ min: 0, max: 5 }), fc.constant(null)), v: fc.integer() })
  t.test('sort is stable', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(row), async (items) => {
        const given = items.map((item, at) => ({ ...item, at }))
        const { items: order } = await call('sort', { items: given, by: [{ field: 'k', order: 'descending' }] })
        const plain = given.toSorted((a, b) => (a.k === null ? (b.k === null ? 0 : 1) : b.k === null ? -1 : b.k - a.k))
        return JSON.stringify(order) === JSON.stringify(plain)
      }),
      runs,
    )
  })
  t.test('join', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(row), fc.array(row), async (left, right) => {
        const { items } = await call('join', { left, right, leftKey: 'k', combine: 'nest', type: 'left' })
        const plain = left.flatMap((one): unknown[] => {
          const found = right.filter(({ k }) => k !== null && k === one.k)
          return found.length === 0 ? [{ left: one, right: null }] : found.map((other) => ({ left: one, right: other }))
        })
        return JSON.stringify(items) === JSON.stringify(plain)
      }),
      runs,
    )
  })
  t.test('sums are exact', async () => {
    const decimal = fc.tuple(fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), fc.integer({ min: 0, max: 9 }))
    await fc.assert(
      fc.asyncProperty(fc.array(decimal), async (numbers) => {
        const items = numbers.map(([units, digits]) => `${units}e-${digits}`)
        const { groups } = await call('aggregate', { items, measures: [{ name: 's', calculate: 'sum', of: '$' }] })
        const sum = numbers.reduce((all, [units, digits]) => all + units * 10n ** BigInt(9 - digits), 0n)
        const told = String((groups as [{ s: unknown }])[0].s)
        const [whole, fraction = ''] = /e/.test(told) ? Number(told).toFixed(20).split('.') : told.split('.')
        return BigInt(`${whole}${fraction.padEnd(9, '0').slice(0, 9)}`) === sum
      }),
      runs,
    )
  })
})

function sorted(_key: string, value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
