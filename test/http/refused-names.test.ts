import fc from 'fast-check'
import t from 'tap'
import { readObject } from '../../gateways/functions/request.ts'
import { namesMistake } from '../../gateways/http/json-names.ts'
import { bodyOf, parsedBody } from '../../gateways/http/request.ts'
import { createHttpServer } from '../../gateways/http/server.ts'
import { refuseUnreadQueries } from '../../gateways/http/unread-queries.ts'

t.test('a name that is given twice in one object is a mistake, wherever it is', async (t) => {
  const twice = (field: string) => ({ field, reason: 'is given twice' })
  for (const [json, mistake] of [
    ['{"a":1,"a":2}', twice('a')],
    ['{"a":1,"\\u0061" : 2}', twice('a')],
    ['[{"b":{"a":1,"c":"}","a":[]}}]', twice('a')],
    ['{"a":{"a":{"a":1}},"b":["a","a"],"c":"\\"a\\":","d":"{"}', null],
    ['{"__proto__":1,"constructor":2,"":3,"\\\\":4}', null],
    ['{"":1,"":2}', twice('')],
    [`${'{"a":'.repeat(1_001)}1${'}'.repeat(1_001)}`, { field: 'body', reason: 'has more than 1000 levels' }],
  ] as const) {
    t.strictSame(namesMistake(json), mistake, json.slice(0, 60))
  }
})

t.test('what JSON.stringify writes has no mistake', async (t) => {
  const property = fc.property(fc.jsonValue(), fc.nat(3), (value, space) => namesMistake(JSON.stringify(value, null, space)) === null) // biome-ignore format: one line
  t.notOk(fc.check(property).failed)
})

t.test('requests with such names, and with parameters that nothing reads, are refused by name', async (t) => {
  const app = await createHttpServer({ maxBodyBytes: 10_000, corsOrigins: ['*'], onFault: () => undefined })
  t.teardown(() => app.close())
  const described: Record<string, object> = {
    'POST /one': {},
    'GET /some': { parameters: [{ in: 'query' }] },
    'GET /healthz': {},
  }
  refuseUnreadQueries(app, (method, url) => described[`${method} ${url}`], 'ticket')
  app.post('/one', async (request) => bodyOf(request, ['a']))
  for (const url of ['/some', '/healthz', '/other']) app.get(url, async () => ({}))
  const headers = { 'content-type': 'application/json' }
  const asked = async (method: 'GET' | 'POST', url: string, body?: string) => {
    const { statusCode, body: text } = await app.inject({ method, url, ...(body !== undefined && { headers, body }) })
    return { status: statusCode, details: JSON.parse(text).details ?? null }
  }
  const refused = (field: string, reason: string) => ({ status: 400, details: { field, reason } })
  const taken = { status: 200, details: null }
  t.same(await asked('POST', '/one', '{"a":1,"a":2}'), refused('a', 'is given twice'))
  t.same(await asked('POST', '/one', '{"a":1}'), taken)
  t.same(await asked('POST', '/one?dryRun=true', '{"a":1}'), refused('dryRun', 'is no parameter of this route: there is none')) // biome-ignore format: one line
  for (const url of ['/one?ticket=x', '/one']) t.same(await asked('POST', url, '{}'), taken)
  for (const url of ['/some?a=1', '/healthz?now=1', '/other?a=1']) t.same(await asked('GET', url), taken)
  t.same(await asked('GET', '/some%zz'), refused('path', 'The URL has a malformed percent escape'))
})

t.test('what is wrong with a body is said without what stands around it, which may be a secret', async (t) => {
  for (const text of [
    '{"secrets": {"TOKEN": s3cret-of-mine}}',
    `{"password": "s3cret-of-mine", ${'x'.repeat(50)}}`,
    's3cret-of-mine',
  ]) {
    for (const read of [() => parsedBody(text), () => readObject(Buffer.from(text), ['secrets'])]) {
      const refused = (t.throws(read, { name: 'Rejected', message: /is not JSON: ./ }) as unknown as Error).message
      t.notMatch(refused, /s3cret|of-mine/, refused)
    }
  }
})
