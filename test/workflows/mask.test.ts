import fc from 'fast-check'
import t from 'tap'
import { Mask } from '../../workers/workflows/mask.ts'

/** Anything a credential can hold; a value of asterisks alone looks like the mask itself. */
const secret = fc
  .oneof(
    fc.string({ minLength: 4, maxLength: 40 }),
    fc.string({ minLength: 4, maxLength: 40, unit: 'grapheme' }),
    fc.string({
      minLength: 4,
      maxLength: 12,
      unit: fc.constantFrom('a', 'b', '*', '"', '\\', '/', '+', ' ', '\n', 'ä'),
    }),
    fc.base64String({ minLength: 16, maxLength: 200 }),
  )
  .filter((text) => text.isWellFormed() && text.trim().length >= 4 && !/^[*\s]*$/.test(text))
const text = fc.string({ maxLength: 30, unit: 'grapheme' })

const encodings: Readonly<Record<string, (value: string) => string>> = {
  plain: (value) => value,
  json: (value) => JSON.stringify(value).slice(1, -1),
  'json in json': (value) => JSON.stringify(JSON.stringify(value).slice(1, -1)).slice(1, -1),
  base64: (value) => Buffer.from(value).toString('base64'),
  base64url: (value) => Buffer.from(value).toString('base64url'),
  url: encodeURIComponent,
  form: (value) => new URLSearchParams({ value }).toString().slice('value='.length),
  'url, small letters': (value) => encodeURIComponent(value).replace(/%../g, (code) => code.toLowerCase()),
  hex: (value) => Buffer.from(value).toString('hex'),
}

/** What is worth hiding: four characters of an encoding without its neighbours are a fragment. */
function shows(masked: string, forms: readonly string[]): string | undefined {
  return forms.find((form) => form.length >= 4 && masked.includes(form))
}

t.test('a secret in any encoding, anywhere in any text, is not in what is left', async () => {
  fc.assert(
    fc.property(secret, fc.constantFrom(...Object.keys(encodings)), text, text, (value, encoding, before, behind) => {
      const mask = new Mask()
      mask.add({ field: value })
      const form = encodings[encoding]!(value)
      return shows(mask.text(`${before}${form}${behind}`), [value, form]) === undefined
    }),
    { numRuns: 3_000 },
  )
})

t.test('neither is it in base64 of longer bytes around it', async () => {
  fc.assert(
    fc.property(secret, fc.uint8Array({ maxLength: 9 }), fc.uint8Array({ maxLength: 9 }), (value, before, behind) => {
      const mask = new Mask()
      mask.add(value)
      for (const encoding of ['base64', 'base64url'] as const) {
        const masked = mask.text(Buffer.concat([before, Buffer.from(value), behind]).toString(encoding))
        // Whatever can still be decoded holds less than the value.
        const left = masked.split('******').map((part) => Buffer.from(part, encoding).toString('latin1'))
        if (left.some((part) => part.includes(Buffer.from(value).toString('latin1')))) return false
      }
      return true
    }),
    { numRuns: 2_000 },
  )
})

t.test('neither is it when it is cut into lines, wherever the cuts are', async () => {
  // Beside a mask an asterisk of the secret's own cannot be told from it.
  const plain = secret.filter((text) => !text.includes('*'))
  const cuts = fc.array(fc.nat({ max: 300 }), { maxLength: 6 })
  fc.assert(
    fc.property(
      plain,
      fc.constantFrom(...Object.keys(encodings)),
      text,
      text,
      cuts,
      (value, encoding, before, behind, at) => {
        const mask = new Mask()
        mask.add(value)
        const form = encodings[encoding]!(value)
        const whole = `${before}${form}${behind}`
        const places = [0, ...at.map((place) => place % (whole.length + 1)), whole.length].sort(
          (one, other) => one - other,
        )
        const pieces = places.slice(1).map((place, index) => whole.slice(places[index], place))
        const line = mask.lines()
        const told = pieces.map((piece) => line(piece)).join('')
        return shows(told, [value, form]) === undefined
      },
    ),
    { numRuns: 3_000 },
  )
})

t.test('a line that somebody has cut off does not show the better part of it', async () => {
  fc.assert(
    fc.property(fc.base64String({ minLength: 16, maxLength: 80 }), fc.nat(), text, (value, at, around) => {
      const size = Math.ceil(value.length / 2) + (at % Math.floor(value.length / 2))
      const mask = new Mask()
      mask.add(value)
      const [head, tail] = [value.slice(0, size), value.slice(-size)]
      return !mask.lines()(`${around}${head}`).includes(head) && !mask.lines()(`${tail}${around}`).includes(tail)
    }),
    { numRuns: 1_000 },
  )
})

t.test('neither is it anywhere in a value, whatever its shape', async () => {
  fc.assert(
    fc.property(secret, fc.json({ maxDepth: 4 }), text, (value, json, around) => {
      const mask = new Mask()
      mask.add([value])
      const shape = JSON.parse(json)
      const full = {
        [`key ${value}`]: shape,
        list: [shape, { deep: `${around}${value}` }],
        bytes: Buffer.from(`${around}${value}`),
        link: new URL(`https://example.com/?q=${encodeURIComponent(value)}`),
      }
      const texts: string[] = []
      const collect = (each: unknown): void => {
        if (typeof each === 'string') texts.push(each)
        else if (typeof each === 'object' && each !== null) {
          for (const [key, inner] of Object.entries(each)) {
            texts.push(key)
            collect(inner)
          }
        }
      }
      collect(JSON.parse(JSON.stringify(mask.value(full))))
      return texts.every((each) => !each.includes(value) && !each.includes(encodeURIComponent(value)))
    }),
    { numRuns: 1_000 },
  )
})

t.test('what holds no secret is left as it is', async (t) => {
  fc.assert(
    fc.property(fc.json(), (json) => {
      const mask = new Mask()
      mask.add('S3cret!-that-nobody-writes')
      return JSON.stringify(mask.value(JSON.parse(json))) === JSON.stringify(JSON.parse(json))
    }),
  )
  const mask = new Mask()
  mask.add({ short: 'abc', nothing: null, number: 7 })
  t.equal(mask.text('abc 7 null'), 'abc 7 null', 'three characters are no secret')
  const bytes = Buffer.from('harmless')
  mask.add('secret')
  t.equal(mask.value(bytes), bytes)
})

t.test('secrets that overlap hide each other, and one mask stands for what touches', async (t) => {
  const mask = new Mask()
  mask.add({ one: 'abcd', other: 'bcdefghij' })
  t.equal(mask.text('x abcdefghij y'), 'x ****** y')
  t.equal(mask.text('abcdabcd'), '******')
  const key = '-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQ\n-----END KEY-----\n'
  const lines = new Mask()
  lines.add(key)
  t.equal(lines.text('got kqhkiG9w0BAQ'), 'got ******', 'each line of a secret is one')
  t.equal(lines.text(`x${key.trim()}y`), 'x******y')
  const wrapped = Buffer.from('a password that is longer than others')
    .toString('base64')
    .replace(/(.{10})/g, '$1\n')
  const broken = new Mask()
  broken.add('a password that is longer than others')
  t.equal(broken.text(`is ${wrapped}`).includes(wrapped.slice(0, 10)), false, 'line breaks do not hide it')
})

t.test('a secret of many kilobytes costs no minute', async (t) => {
  const mask = new Mask()
  mask.add('k'.repeat(30_000))
  const line = mask.lines()
  t.equal(line('k'.repeat(20_000)), '******')
  t.equal(line('harmless'), 'harmless')
})
