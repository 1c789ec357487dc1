import { inflateSync } from 'node:zlib'
import fc from 'fast-check'
import decodeQR from 'qr/decode.js'
import t from 'tap'
import { failure, files } from './call-plugin.ts'
import { type Given, pluginsOf, type Right, sorted, type Wrong } from './plugin-cases.ts'

t.setTimeout(120_000)
const { call, give, refuse } = pluginsOf('util')
const runs = { numRuns: 40 }

const right: Right = [
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
]

t.test('what comes out of what', (t) => give(t, right))

const wrong: Wrong = [
  ['url', { url: 'no url' }, /properties.url is no URL/],
  ['url', { operation: 'build', host: 'a.org/evil@b.org' }, /properties.host is none/],
  ['url', { operation: 'build', protocol: 'java script', host: 'a' }, /properties.protocol is none/],
  ['url', { operation: 'decode', text: '%ff' }, /not percent-encoded UTF-8/],
  ['url', { operation: 'encode', text: '\ud800' }, /half a character/],
  ['template', { text: '{{ a' }, /cannot be rendered: output .* not closed/],
  ['template', { text: '{{ a }}', strict: true }, /undefined variable: a/],
  ['template', { text: '{% include "/etc/passwd" %}' }, /cannot be rendered/],
  ['template', { text: '{% for i in (1..100000000) %}x{% endfor %}' }, /limit exceeded/],
  ['string', { operation: 'replace', text: 'x' }, /properties.search is needed for replace/],
  ['string', { operation: 'upper', text: 'x', locale: '!' }, /properties.locale is no language tag/],
  ['string', { operation: 'distance', text: 'x'.repeat(20_001), other: '' }, /more than 20000 characters/],
  ['string', { operation: 'repeat', text: 'x'.repeat(1_000), times: 100_000 }, /larger than 16 MB/],
  ['string', { operation: 'qr-code', text: 'x'.repeat(2_954) }, /longer than a QR code holds/],
  ['string', { operation: 'qr-code', text: 'x'.repeat(2_900), correction: 'high' }, /cannot be a QR code/],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

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
