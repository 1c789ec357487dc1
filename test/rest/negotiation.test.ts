import t from 'tap'
import { rowsToCsv } from '../../gateways/rest/csv.ts'
import { countedEnvelope, listEnvelope } from '../../gateways/rest/envelope.ts'
import { bodyTag, matchDigests, matchesNone, rowTag } from '../../gateways/rest/etag.ts'
import { acceptedRepresentation } from '../../gateways/rest/media-type.ts'
import { parsePrefer, preferenceApplied } from '../../gateways/rest/prefer.ts'

const rows = ['{"id":9007199254740993}', '{"id":2}'].map((json) => [Buffer.from(json)])

t.test('Prefer', async (t) => {
  t.test('collects several preferences from one or many headers', async (t) => {
    const preferences = parsePrefer(['count=exact; return=minimal', 'RESOLUTION="merge-duplicates"'])
    t.same(preferences, { count: 'exact', return: 'minimal', resolution: 'merge-duplicates' })
    t.equal(preferenceApplied(preferences), 'count=exact, return=minimal, resolution=merge-duplicates')
  })
  t.test('ignores preferences it does not know, and prototype names', async (t) => {
    t.equal(preferenceApplied(parsePrefer('respond-async, constructor=x, __proto__=y')), null)
  })
  t.test('refuses a value one of ours cannot have', async (t) => {
    t.throws(() => parsePrefer('count=roughly'), { code: 'http/bad-request', details: { preference: 'count' } })
  })
})

t.test('Accept', async (t) => {
  const cases: [string | undefined, string][] = [
    [undefined, 'json'],
    ['*/*', 'json'],
    ['text/html, */*;q=0.1', 'json'],
    ['text/csv', 'csv'],
    ['application/json;q=0.5, text/csv', 'csv'],
    ['application/vnd.pgrst.object+json', 'singular'],
    ['text/csv;q=0, application/json', 'json'],
  ]
  for (const [accept, expected] of cases) {
    t.test(`${accept} gives ${expected}`, async (t) => {
      t.equal(acceptedRepresentation(accept), expected)
    })
  }
  t.test('nothing we can make is refused', async (t) => {
    t.throws(() => acceptedRepresentation('image/png'), { code: 'http/not-acceptable', status: 406 })
  })
})

t.test('ETag', async (t) => {
  t.test("a row's tag is the md5 the database computes", async (t) => {
    t.equal(rowTag(Buffer.from('{"id":1}')), '"d2ce28b9a7fd7e4407e2b0fd499b7fe4"')
  })
  t.test('If-None-Match compares weakly, lists and stars', async (t) => {
    const tag = bodyTag(Buffer.from('x'))
    t.ok(matchesNone(`"other", W/${tag}`, tag))
    t.ok(matchesNone('*', tag))
    t.notOk(matchesNone('"other"', tag))
    t.notOk(matchesNone(undefined, tag))
  })
  t.test('If-Match gives digests, or no condition', async (t) => {
    t.same(matchDigests('"a", W/"b"'), ['a', 'b'])
    t.equal(matchDigests('*'), null)
    t.equal(matchDigests(undefined), null)
  })
})

t.test('envelopes keep the bytes of the rows', async (t) => {
  t.equal(
    listEnvelope(rows, { total: '12345678901234567890', offset: 0, limit: 2, hasMore: true }).toString(),
    '{"data":[{"id":9007199254740993},{"id":2}],"pagination":{"total":12345678901234567890,"offset":0,"limit":2,"hasMore":true}}',
  )
  t.equal(
    listEnvelope([], { offset: 0, limit: 2, hasMore: false }).toString(),
    '{"data":[],"pagination":{"offset":0,"limit":2,"hasMore":false}}',
  )
  t.equal(countedEnvelope(rows, 2).toString(), '{"data":[{"id":9007199254740993},{"id":2}],"count":2}')
})

t.test('CSV', async (t) => {
  t.test('keeps digits, quotes what needs it, leaves NULL empty', async (t) => {
    const row = '{"n":1234567890123456789.10,"j":{"x":9007199254740993},"z":null,"q":"a,\\"b\\"\\n"}'
    const csv = rowsToCsv([[Buffer.from(row)]], [])
    t.equal(csv, 'n,j,z,q\r\n1234567890123456789.10,"{""x"":9007199254740993}",,"a,""b""\n"\r\n')
  })
  t.test('has its header without rows, too', async (t) => {
    t.equal(rowsToCsv([], ['a', 'b']), 'a,b\r\n')
  })
})
