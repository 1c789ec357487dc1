import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { webhookBodyOf } from '../../gateways/workflows/webhook-body.ts'

const read = (type: string | undefined, body: string | Buffer) =>
  webhookBodyOf({ headers: { 'content-type': type }, body: Buffer.from(body) } as unknown as FastifyRequest)
const part = (head: string, content: string) => `--b\r\nContent-Disposition: form-data; ${head}\r\n\r\n${content}\r\n`
const form = 'application/x-www-form-urlencoded'
const multipart = 'multipart/form-data; boundary=b'
const base64 = (text: string) => Buffer.from(text, 'latin1').toString('base64')

t.test('a body is what its type says', async (t) => {
  const file = { filename: 'ü.bin', contentType: 'image/png', sizeBytes: 3, base64: base64('\x00\xff\n') }
  const sent = Buffer.concat([
    Buffer.from(part('name="a"', '1') + part('name="a"', 'é') + part('name="b"', '')),
    Buffer.from('--b\r\nContent-Disposition: form-data; name="f"; filename="ü.bin"\r\nContent-Type: image/png\r\n\r\n'),
    Buffer.from([0, 255, 10]),
    Buffer.from('\r\n--b--\r\n'),
  ])
  const cases: [string | undefined, string | Buffer, unknown][] = [
    ['application/json', '{"a":[1]}', { a: [1] }],
    ['application/cloudevents+json; charset=utf-8', '{"a":1}', { a: 1 }],
    ['application/json', ' ', null],
    [form, '', null],
    [form, 'text=hi+you%21&to=a&to=b&to=c&empty=&bare', { text: 'hi you!', to: ['a', 'b', 'c'], empty: '', bare: '' }],
    [`${form}; charset=UTF-8`, 'payload=%7B%22a%22%3A1%7D', { payload: '{"a":1}' }],
    [form, 'a[b]=1&a[c]=2', { 'a[b]': '1', 'a[c]': '2' }],
    [multipart, sent, { a: ['1', 'é'], b: '', f: file }],
    ['Multipart/Form-Data; boundary="b"', sent, { a: ['1', 'é'], b: '', f: file }],
    ['text/plain', '{"a":1}', '{"a":1}'],
    ['text/plain; charset=iso-8859-1', Buffer.from([0xe9]), 'é'],
    ['text/xml; charset="utf-8"', '<a/>', '<a/>'],
    ['application/xml', '<a/>', '<a/>'],
    ['application/atom+xml', '<a/>', '<a/>'],
    ['application/yaml', 'a: 1', 'a: 1'],
    ['image/png', Buffer.from([0, 255]), { contentType: 'image/png', sizeBytes: 2, base64: 'AP8=' }],
    [undefined, 'ab', { contentType: 'application/octet-stream', sizeBytes: 2, base64: 'YWI=' }],
  ]
  for (const [type, body, expected] of cases) {
    t.strictSame((await read(type, body)).body, expected, `${type} ${body.toString().slice(0, 40)}`)
  }
  const named = (await read(form, '__proto__=x&__proto__=y')).body as object
  t.same(Object.getOwnPropertyDescriptor(named, '__proto__')?.value, ['x', 'y'])
  t.equal(Object.getPrototypeOf(named), Object.prototype)
})

t.test('fields become inputs, what stands for bytes does not', async (t) => {
  t.same((await read(form, 'a=1')).members, { a: '1' })
  for (const type of ['image/png', 'text/plain']) t.equal((await read(type, 'x')).members, undefined)
})

t.test('what does not hold what it says is refused, and so is too much of it', async (t) => {
  const cases: [string, string | Buffer, { status: number; message: RegExp }][] = [
    ['application/json', '{"a"', { status: 400, message: /not JSON/ }],
    ['application/json', '['.repeat(65), { status: 400, message: /64 levels/ }],
    [form, 'a=1&'.repeat(1_001), { status: 400, message: /1000 fields/ }],
    [form, `${'a'.repeat(1_001)}=1`, { status: 400, message: /more than 1000 characters/ }],
    [multipart, `${part('name="a"', '1').repeat(1_001)}--b--\r\n`, { status: 400, message: /1000 fields/ }],
    [multipart, part('name="a"', '1'), { status: 400, message: /boundary/ }],
    ['multipart/form-data', `${part('name="a"', '1')}--b--\r\n`, { status: 400, message: /boundary/ }],
    ['multipart/mixed; boundary=b', 'x', { status: 415, message: /multipart\/form-data, text/ }],
    ['text/plain', Buffer.from([0xe9]), { status: 400, message: /is not utf-8/ }],
    ['text/plain; charset=none-such', 'x', { status: 400, message: /none-such/ }],
  ]
  for (const [type, body, expected] of cases) await t.rejects(read(type, body), expected, type)
})
