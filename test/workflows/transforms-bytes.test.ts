import fc from 'fast-check'
import t from 'tap'
import { files } from './call-plugin.ts'
import { type Given, pluginsOf, type Right, sorted, type Wrong } from './plugin-cases.ts'

t.setTimeout(120_000)
const { call, give, refuse } = pluginsOf('transform')
const runs = { numRuns: 40 }

const right: Right = [
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
]

t.test('what comes out of what', (t) => give(t, right))

const wrong: Wrong = [
  ['base64', { operation: 'decode', text: 'Zm9!' }, /not base64: "!" as character 4/],
  ['base64', { operation: 'decode', text: 'Zm9vY' }, /too early or too late/],
  ['base64', { operation: 'decode', text: 'Zm9v-_', encoding: 'base64' }, /not base64: "-"/],
  ['base64', { operation: 'decode', text: 'abc', encoding: 'hex' }, /not hex digits/],
  ['base64', { operation: 'decode', text: '%zz', encoding: 'url' }, /not percent-encoded: "%" as character 1/],
  ['base64', { operation: 'decode', text: '/////w==' }, /not a text in UTF-8: give properties.toFile/],
  ['hash', { text: 'a', key: 'zz', keyEncoding: 'hex' }, /properties.key is not in hex/],
  ['hash', { text: 'a', key: 'k', algorithm: 'crc32' }, /properties.key: crc32 takes none/],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

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
