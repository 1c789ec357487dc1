import t from 'tap'
import { testGateway } from './gateway.ts'
import { lists } from './read-lists.ts'

const { sql, call } = await testGateway(t)

/** Node refuses to send some characters that a URL cannot hold; the rest goes out as written. */
const escaped = (path: string): string => path.replace(/[ "<>\\^`{|}]/g, (character) => encodeURIComponent(character))
const dataOf = (text: string): string => text.slice('{"data":'.length, text.lastIndexOf(',"pagination":'))
const paginationOf = (text: string): string => text.slice(text.lastIndexOf('"pagination":') + 13, -1)

for (const [group, cases] of Object.entries(lists)) {
  t.test(`lists: ${group}`, async (t) => {
    for (const [title, path, data] of cases) {
      await t.test(title, async (t) => {
        const { status, text } = await call(escaped(path))
        t.equal(status, 200, text)
        t.equal(dataOf(text), data)
      })
    }
  })
}

t.test('GET /<table> returns {data, pagination}', async (t) => {
  t.test('the whole answer', async (t) => {
    const { status, text, headers } = await call('/country?limit=2')
    t.equal(status, 200)
    t.equal(
      text,
      '{"data":[{"code":"DE","name":"Germany"},{"code":"FR","name":"France"}],"pagination":{"offset":0,"limit":2,"hasMore":true}}',
    )
    t.equal(headers['content-type'], 'application/json; charset=utf-8')
  })
  t.test('an empty list', async (t) => {
    const { text } = await call('/country?code=eq.XX')
    t.equal(text, '{"data":[],"pagination":{"offset":0,"limit":100,"hasMore":false}}')
  })
  t.test('an aggregation', async (t) => {
    const { text } = await call('/orders?select=status,count()&limit=1')
    t.equal(text, '{"data":[{"status":"open","count":20}],"pagination":{"offset":0,"limit":1,"hasMore":true}}')
  })
  t.test('a trailing slash and HEAD', async (t) => {
    t.equal((await call('/country/?limit=1')).status, 200)
    const head = await call('/country?limit=1', { method: 'HEAD' })
    t.same([head.status, head.text], [200, ''])
    t.equal(head.headers.etag, (await call('/country?limit=1')).headers.etag)
  })
})

t.test('GET /<table>/<pk> returns one row', async (t) => {
  const rows: readonly (readonly [title: string, path: string, row: string])[] = [
    ['bare', '/tag/3', '{"id":3,"name":"tag 3"}'],
    [
      'composite keys: key values joined by commas, in key column order',
      '/order_item/2,1',
      '{"order_id":2,"line":1,"tenant":1,"sku":"sku-15","quantity":2}',
    ],
    [
      'a comma and a slash within a value of a composite key',
      '/product/2,sku-10%2C%2F%26?select=sku',
      '{"sku":"sku-10,/&"}',
    ],
    ['a key that holds a comma is not cut when it is the only column', '/a%2Fb%3Fc%23d%2520/x%2F1', '{"id":"x/1"}'],
    ['a key of three columns', '/product_tag/1,sku-3,14?select=tag_id', '{"tag_id":14}'],
    ['a timestamp within a key', '/measurement/1,2024-01-06T00:00:00%2B00:00?select=value', '{"value":1}'],
    ['a uuid', '/everything/00000000-0000-4000-8000-000000000110?select=a_text', '{"a_text":"row 2"}'],
    ['char(n) keys', '/country/DE?select=name', '{"name":"Germany"}'],
    ['with select', '/tag/3?select=label:name', '{"label":"tag 3"}'],
    ['with expand', '/tag/14?select=id&expand=product(select:sku,limit:1)', '{"id":14,"product":[{"sku":"sku-3"}]}'],
    ['a column of reserved name', '/Odd%20Table/1?select=limit', '{"limit":1}'],
  ]
  for (const [title, path, row] of rows) {
    await t.test(title, async (t) => {
      const { status, text } = await call(path)
      t.equal(status, 200, text)
      t.equal(text, row)
    })
  }
})

t.test('limit, offset: offset pagination', async (t) => {
  const page = async (query: string) => JSON.parse(paginationOf((await call(`/tag?${query}`)).text))
  const ids = async (query: string): Promise<number[]> =>
    (await call(`/tag?select=id&${query}`)).json().data.map(({ id }: { id: number }) => id)
  t.same(await ids('limit=3&offset=20'), [21, 22, 23])
  t.same(await page('limit=3&offset=20'), { offset: 20, limit: 3, hasMore: true })
  t.same(await page('limit=4&offset=20'), { offset: 20, limit: 4, hasMore: false }, 'the last page ends with the rows')
  t.same(await page('offset=24'), { offset: 24, limit: 100, hasMore: false })
  t.same(await ids('offset=23'), [24])
  t.same(await page('limit=0'), { offset: 0, limit: 0, hasMore: true })
  t.same(await page('offset=999999999999999'), { offset: 999999999999999, limit: 100, hasMore: false })
})

t.test(
  'default page size 100, maximum page size 1000: a larger limit is lowered and pagination.limit says so',
  async (t) => {
    await sql.query(
      'create table many as select n as id from generate_series(1, 1100) n; alter table many add primary key (id)',
    )
    await t.resolves(waitFor(async () => (await call('/many?limit=1')).status === 200))
    const count = async (query: string) => (await call(`/many?${query}`)).json().data.length
    t.equal(await count(''), 100)
    t.equal(await count('limit=1000'), 1000)
    t.equal(await count('limit=5000'), 1000)
    t.equal(await count('first=5000'), 1000)
    t.equal(paginationOf((await call('/many?limit=5000')).text), '{"offset":0,"limit":1000,"hasMore":true}')
    t.equal(paginationOf((await call('/many')).text), '{"offset":0,"limit":100,"hasMore":true}')
  },
)

t.test('Prefer: count=exact adds pagination.total', async (t) => {
  const exact = { headers: { Prefer: 'count=exact' } }
  const counted = async (path: string) => {
    const { text, headers } = await call(path, exact)
    return [paginationOf(text), headers['content-range'], headers['preference-applied']]
  }
  t.same(await counted('/tag?id=gt.4&limit=3&offset=2'), [
    '{"total":20,"offset":2,"limit":3,"hasMore":true}',
    '2-4/20',
    'count=exact',
  ])
  t.same(
    await counted('/tag?id=gt.99'),
    ['{"total":0,"offset":0,"limit":100,"hasMore":false}', '*/0', 'count=exact'],
    'no rows',
  )
  t.same(
    await counted('/tag?offset=50'),
    ['{"total":24,"offset":50,"limit":100,"hasMore":false}', '*/24', 'count=exact'],
    'behind the last row',
  )
  t.equal(
    (await counted('/orders?select=status,count()&limit=1'))[0],
    '{"total":3,"offset":0,"limit":1,"hasMore":true}',
  )
  t.match((await counted('/tag?first=2'))[0], /^\{"total":24,/)
  t.equal((await counted('/customers?limit=1&expand=orders'))[0], '{"total":40,"offset":0,"limit":1,"hasMore":true}')
  t.notMatch((await call('/tag?limit=1')).text, /total/, 'without the header it is omitted')
})

t.test('first, after: cursor pagination', async (t) => {
  const page = async (query: string) => {
    const { data, pagination } = (await call(`/customers?select=id,tag_id&orderBy=tag_id&${query}`)).json()
    return { ids: data.map(({ id }: { id: number }) => id), ...pagination }
  }
  const wanted = (
    await sql.query({ text: 'select id::int from customers order by tag_id, id', rowMode: 'array' })
  ).rows.flat()
  t.test('forward with endCursor, over equal keys and NULLs, and back with startCursor', async (t) => {
    const forward: number[] = []
    let at = await page('first=7')
    t.match(at, { offset: 0, limit: 7, hasMore: true, hasPrevious: false })
    for (;;) {
      forward.push(...at.ids)
      if (!at.hasMore) break
      at = await page(`first=7&after=${at.endCursor}`)
      t.equal(at.hasPrevious, true)
    }
    t.same(forward, wanted)
    const backward: number[] = [...at.ids]
    while (at.hasPrevious) {
      at = await page(`last=7&before=${at.startCursor}`)
      backward.unshift(...at.ids)
    }
    t.same(backward, wanted)
  })
  t.test('the last rows', async (t) => t.same((await page('last=3')).ids, wanted.slice(-3)))
  t.test('between two cursors', async (t) => {
    const { endCursor } = await page('first=5')
    const { startCursor } = await page('last=5')
    t.same((await page(`after=${endCursor}&before=${startCursor}`)).ids, wanted.slice(5, -5))
  })
  t.test('an empty page has no cursors', async (t) => {
    const { text } = await call('/customers?first=2&id=lt.0')
    t.equal(
      text,
      '{"data":[],"pagination":{"offset":0,"limit":2,"hasMore":false,"hasPrevious":false,"startCursor":null,"endCursor":null}}',
    )
  })
  t.test('a composite key, and a table with only a unique key', async (t) => {
    const first = (await call('/order_item?first=2&select=line')).json()
    const next = (await call(`/order_item?first=1&after=${first.pagination.endCursor}`)).json()
    t.match(next.data, [{ order_id: 2, line: 1 }])
    t.equal((await call('/unique_only?first=1')).json().pagination.hasMore, true)
  })
})

t.test('ETag and If-None-Match', async (t) => {
  for (const path of ['/tag/3', '/tag?limit=2', '/tag?first=2', '/customers/1?expand=orders']) {
    const { etag } = (await call(path)).headers
    t.match(etag, /^"[\w-]+"$/, path)
    for (const header of [String(etag), `W/${etag}`, `"other", ${etag}`, '*']) {
      const { status, text, headers } = await call(path, { headers: { 'If-None-Match': header } })
      t.same([status, text, headers.etag], [304, '', etag], `${path} ${header}`)
    }
    t.equal((await call(path, { headers: { 'If-None-Match': '"other"' } })).status, 200)
  }
})

t.test('Accept', async (t) => {
  const as = (accept: string, path: string) => call(path, { headers: { Accept: accept } })
  t.test('text/csv of a list', async (t) => {
    const { status, text, headers } = await as('text/csv', '/country?code=in.(DE,ZZ)')
    t.equal(status, 200)
    t.equal(headers['content-type'], 'text/csv; charset=utf-8')
    t.equal(text, 'code,name\r\nDE,Germany\r\nZZ,"Nowhere, ""really"""\r\n')
  })
  t.test('text/csv keeps digits, writes NULL as nothing and JSON as JSON', async (t) => {
    const select = 'a_bigint,a_numeric,a_bit,a_jsonb,integers,a_boolean'
    const { text } = await as('text/csv', `/everything/00000000-0000-4000-8000-000000000001?select=${select}`)
    t.equal(
      text,
      'a_bigint,a_numeric,a_bit,a_jsonb,integers,a_boolean\r\n9223372036854775807,' +
        '123456789012345678901234567890.123456789012345678901234567890,1010,' +
        '"{""a"":[1,2,{""b"":null}],""big"":12345678901234567890}","[1,2,null]",true\r\n',
    )
    t.equal((await as('text/csv', '/tag?id=lt.0')).text, 'id,name\r\n', 'no rows still have a header')
    t.equal((await as('text/csv', '/customers?id=eq.7&select=id,email')).text, 'id,email\r\n7,\r\n')
  })
  t.test('a single row, bare', async (t) => {
    for (const type of ['application/vnd.pgrst.object+json', 'application/vnd.busbar.object+json']) {
      t.equal((await as(type, '/tag?id=eq.3')).text, '{"id":3,"name":"tag 3"}')
      t.equal((await as(type, '/tag?id=lt.3')).status, 406)
      t.match((await as(type, '/tag?id=lt.0')).json(), { code: 'data/not-singular' })
    }
  })
  t.test('the best of several', async (t) => {
    t.match((await as('text/html, text/csv;q=0.5, application/json;q=0.4', '/tag?limit=1')).headers, {
      'content-type': /^text\/csv/,
    })
    t.equal((await as('image/png', '/tag')).status, 406)
  })
})

t.test('expand: nesting up to a bound', async (t) => {
  const nested = (depth: number): string => (depth === 1 ? 'category' : `category(expand:${nested(depth - 1)})`)
  t.equal((await call(`/category?id=eq.24&expand=${nested(5)}`)).status, 200)
  const { status, text } = await call(`/category?id=eq.24&expand=${nested(6)}`)
  t.equal(status, 400)
  t.match(JSON.parse(text), { code: 'data/too-complex', details: { field: 'expand' } })
})

t.test('what depends on how the server was built', async (t) => {
  const { rows } = await sql.query('select a_xml::text from everything where a_xml is not null')
  t.same((await call('/everything?select=a_xml&a_xml=isnotnull')).json().data, rows)
  const foreign = (await sql.query("select 1 from information_schema.tables where table_name = 'settings_file'"))
    .rowCount
  const lines = foreign ? (await sql.query('select line from settings_file')).rows : []
  const answer = await call('/settings_file')
  if (foreign) t.same(answer.json().data, lines, 'a foreign table')
  else t.equal(answer.status, 404)
})

async function waitFor(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20))
}
