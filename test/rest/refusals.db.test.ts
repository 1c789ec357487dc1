import t, { type Test } from 'tap'
import { type Answer, type CallOptions, testGateway } from './gateway.ts'

const { call } = await testGateway(t, { maxExpandDepth: 3 })

interface Refusal extends CallOptions {
  readonly title: string
  readonly path: string
  /** Default 400. */
  readonly status?: number
  readonly code: string
  /** `details.field`. */
  readonly field?: string
  readonly hint?: string | RegExp
}

const perhaps = (name: string) => `perhaps you meant "${name}"`
const groups = (depth: number): string => (depth === 0 ? '(id.eq.1,id.eq.2)' : `(id.eq.1,or${groups(depth - 1)})`)

const refusals: Readonly<Record<string, readonly Refusal[]>> = {
  'names that do not exist': [
    { title: 'a table', path: '/custmers', status: 404, code: 'data/unknown-table', hint: perhaps('customers') },
    { title: 'a table of another schema', path: '/warehouse', status: 404, code: 'data/unknown-table' },
    { title: 'a table in capitals', path: '/TAG', status: 404, code: 'data/unknown-table', hint: perhaps('tag') },
    { title: 'a name of every object', path: '/__proto__', status: 404, code: 'data/unknown-table' },
    { title: 'a filter', path: '/tag?nmae=eq.1', code: 'data/unknown-column', field: 'nmae', hint: perhaps('name') },
    { title: 'a parameter', path: '/tag?limt=1', code: 'data/unknown-column', field: 'limt', hint: perhaps('limit') },
    {
      title: 'a filter in a group',
      path: '/tag?or=(nmae.eq.1)',
      code: 'data/unknown-column',
      field: 'or',
      hint: perhaps('name'),
    },
    {
      title: 'a selected column',
      path: '/tag?select=nam',
      code: 'data/unknown-column',
      field: 'select',
      hint: perhaps('name'),
    },
    {
      title: 'an aggregated column',
      path: '/orders?select=totl.sum()',
      code: 'data/unknown-column',
      field: 'select',
      hint: perhaps('total'),
    },
    {
      title: 'a sort key',
      path: '/tag?orderBy=nam',
      code: 'data/unknown-column',
      field: 'orderBy',
      hint: perhaps('name'),
    },
    {
      title: 'a sort key of order',
      path: '/tag?order=nam.desc',
      code: 'data/unknown-column',
      field: 'order',
      hint: perhaps('name'),
    },
    {
      title: 'a sort key of a result',
      path: '/orders?select=total.sum()&orderBy=summ',
      code: 'data/unknown-column',
      field: 'orderBy',
      hint: perhaps('sum'),
    },
    {
      title: 'a result in having',
      path: '/orders?select=total.sum()&having=(summ.gt.1)',
      code: 'data/unknown-column',
      field: 'having',
      hint: perhaps('sum'),
    },
    {
      title: 'a relation',
      path: '/orders?expand=custmers',
      code: 'data/unknown-relation',
      field: 'expand',
      hint: perhaps('customers'),
    },
    {
      title: 'a relation of a relation',
      path: '/orders?expand=customers(expand:adress)',
      code: 'data/unknown-relation',
      field: 'expand',
    },
    {
      title: 'a column of a relation',
      path: '/orders?expand=customers(select:nam)',
      code: 'data/unknown-column',
      field: 'expand customers select',
      hint: perhaps('name'),
    },
    {
      title: 'a filter of a relation',
      path: '/customers?expand=orders(totl:gt.1)',
      code: 'data/unknown-column',
      field: 'expand orders',
      hint: perhaps('total'),
    },
    { title: 'an operator', path: '/tag?id=eqq.1', code: 'data/invalid-filter', field: 'id', hint: perhaps('eq') },
    {
      title: 'an operator behind not',
      path: '/tag?name=not.lik.x',
      code: 'data/invalid-filter',
      field: 'name',
      hint: perhaps('like'),
    },
    {
      title: 'an operator in a group',
      path: '/tag?or=(name.lik.x)',
      code: 'data/invalid-filter',
      field: 'or',
      hint: perhaps('like'),
    },
    {
      title: 'a member of every object as an operator',
      path: '/tag?or=(id.constructor.1)',
      code: 'data/invalid-filter',
      field: 'or',
    },
    { title: 'an aggregate', path: '/orders?select=total.summ()', code: 'data/unknown-column', field: 'select' },
    {
      title: 'an enum value',
      path: '/customers?mood=eq.hapy',
      code: 'data/invalid-value',
      field: 'mood',
      hint: perhaps('happy'),
    },
    { title: 'a route', path: '/tag/1/2', status: 404, code: 'http/not-found' },
  ],
  'keys in the path': [
    { title: 'no such row', path: '/tag/999', status: 404, code: 'data/row-not-found' },
    { title: 'not of the type', path: '/tag/abc', code: 'data/invalid-key', field: 'key' },
    { title: 'out of range', path: '/tag/99999999999', code: 'data/invalid-key', field: 'key' },
    { title: 'too few values', path: '/order_item/1', code: 'data/invalid-key', field: 'key' },
    { title: 'too many values', path: '/order_item/1,2,3', code: 'data/invalid-key', field: 'key' },
    {
      title: 'not of the type, which only the database can tell',
      path: '/measurement/1,soon',
      code: 'data/invalid-value',
      field: 'key',
    },
    { title: 'a table without a key', path: '/keyless/1', code: 'data/no-primary-key' },
    { title: 'a filter beside the key', path: '/tag/1?name=eq.x', code: 'http/bad-request', field: 'name' },
    { title: 'a limit beside the key', path: '/tag/1?limit=1', code: 'http/bad-request', field: 'limit' },
    { title: 'aggregates of one row', path: '/tag/1?select=count()', code: 'data/invalid-select', field: 'select' },
    { title: 'a NUL character', path: '/tag/%00', code: 'data/invalid-key', field: 'key' },
    { title: 'a malformed escape', path: '/tag/%zz', code: 'http/bad-request' },
    { title: 'bytes that are not UTF-8', path: '/tag/%ff', code: 'http/bad-request' },
  ],
  'values that do not fit': [
    { title: 'an integer', path: '/tag?id=eq.abc', code: 'data/invalid-value', field: 'id' },
    { title: 'an integer out of range', path: '/tag?id=eq.2147483648', code: 'data/invalid-value', field: 'id' },
    {
      title: 'an integer of a thousand digits',
      path: `/tag?id=eq.${'9'.repeat(1000)}`,
      code: 'data/invalid-value',
      field: 'id',
    },
    {
      title: 'eq.null',
      path: '/tag?id=eq.null',
      code: 'data/invalid-value',
      field: 'id',
      hint: 'to find NULL write is.null',
    },
    { title: 'one of a list', path: '/tag?id=in.(1,x)', code: 'data/invalid-value', field: 'id' },
    { title: 'a date', path: '/customers?joined=gt.soon', code: 'data/invalid-value', field: 'joined' },
    {
      title: 'a date that is none, among others',
      path: '/customers?joined=gt.2024-13-45&name=eq.x',
      code: 'data/invalid-value',
      field: 'joined',
    },
    {
      title: 'a time in a list',
      path: '/orders?placed_at=in.(2024-01-01,soon)&note=eq.x',
      code: 'data/invalid-value',
      field: 'placed_at',
    },
    { title: 'an interval', path: '/everything?a_interval=eq.long', code: 'data/invalid-value', field: 'a_interval' },
    {
      title: 'a network address',
      path: '/everything?a_inet=eq.300.1.1.1',
      code: 'data/invalid-value',
      field: 'a_inet',
    },
    { title: 'a boolean', path: '/note?shared=eq.maybe', code: 'data/invalid-value', field: 'shared' },
    { title: 'a uuid', path: '/everything?id=eq.1', code: 'data/invalid-value', field: 'id' },
    { title: 'a number', path: '/orders?total=gt.many', code: 'data/invalid-value', field: 'total' },
    { title: 'JSON', path: '/product?data=jsoncontains.{bad', code: 'data/invalid-value', field: 'data' },
    { title: 'an array', path: '/product?labels=arraycontains.common', code: 'data/invalid-value', field: 'labels' },
    {
      title: 'an array that is not closed',
      path: '/product?labels=arraycontains.{common',
      code: 'data/invalid-value',
      field: 'labels',
    },
    {
      title: 'an element of an array',
      path: '/everything?moods=cs.{bogus}',
      code: 'data/invalid-value',
      field: 'moods',
    },
    { title: 'a range', path: '/everything?a_int4range=ov.5', code: 'data/invalid-value', field: 'a_int4range' },
    {
      title: 'a range backwards',
      path: '/everything?a_int4range=ov.[5,1]',
      code: 'data/invalid-value',
      field: 'a_int4range',
    },
    { title: 'a regular expression', path: '/tag?name=match.[&id=gt.0', code: 'data/invalid-value' },
    { title: 'a regular expression alone', path: '/tag?name=match.[', code: 'data/invalid-value', field: 'name' },
    { title: 'a text search', path: '/tag?name=fts.%26%26', code: 'data/database-error', field: 'name' },
    {
      title: 'a text search configuration',
      path: '/tag?name=fts(klingon).x',
      code: 'data/database-error',
      field: 'name',
    },
    {
      title: 'the length of an array',
      path: '/everything?texts=arraylength.many',
      code: 'data/invalid-value',
      field: 'texts',
    },
    { title: 'is.<anything>', path: '/tag?id=is.nothing', code: 'data/invalid-filter', field: 'id' },
    { title: 'is.true of a number', path: '/tag?id=is.true', code: 'data/invalid-filter', field: 'id' },
    { title: 'isnotnull.<anything>', path: '/tag?id=isnotnull.maybe', code: 'data/invalid-filter', field: 'id' },
    { title: 'a NUL character', path: '/tag?name=eq.%00', code: 'data/invalid-value', field: 'name' },
    { title: 'a NUL character in a list', path: '/tag?name=in.(a,%00)', code: 'data/invalid-value', field: 'name' },
    {
      title: 'in an expansion',
      path: '/customers?expand=orders(total:gt.many)',
      code: 'data/invalid-value',
      field: 'expand orders',
    },
  ],
  'operators that do not fit the column': [
    { title: 'haskey of a text', path: '/tag?name=haskey.x', code: 'data/invalid-filter', field: 'name' },
    { title: 'jsoncontains of a number', path: '/tag?id=jsoncontains.{}', code: 'data/invalid-filter', field: 'id' },
    {
      title: 'arraycontains of JSON',
      path: '/product?data=arraycontains.{a}',
      code: 'data/invalid-filter',
      field: 'data',
    },
    { title: 'sl of an array', path: '/product?labels=sl.{a}', code: 'data/invalid-filter', field: 'labels' },
    { title: 'ov of a text', path: '/tag?name=ov.x', code: 'data/invalid-filter', field: 'name' },
    { title: 'fts of a number', path: '/tag?id=fts.x', code: 'data/invalid-filter', field: 'id' },
    { title: 'eq of a point', path: '/everything?a_point=eq.(1,2)', code: 'data/invalid-filter', field: 'a_point' },
    { title: 'eq of xml', path: '/everything?a_xml=eq.x', code: 'data/invalid-filter', field: 'a_xml' },
    {
      title: 'a configuration where there is none',
      path: '/tag?name=eq(simple).x',
      code: 'data/invalid-filter',
      field: 'name',
    },
    { title: 'sum of a text', path: '/tag?select=name.sum()', code: 'data/invalid-select', field: 'select' },
    { title: 'avg of a date', path: '/customers?select=joined.avg()', code: 'data/invalid-select', field: 'select' },
    { title: 'max of JSON', path: '/product?select=data.max()', code: 'data/invalid-select', field: 'select' },
    { title: 'min of a boolean', path: '/note?select=shared.min()', code: 'data/invalid-select', field: 'select' },
    {
      title: 'grouping by json',
      path: '/everything?select=a_json,count()',
      code: 'data/invalid-select',
      field: 'select',
    },
    { title: 'ordering by a point', path: '/everything?orderBy=a_point', code: 'data/invalid-order', field: 'orderBy' },
    { title: 'ordering by json', path: '/everything?order=a_json', code: 'data/invalid-order', field: 'order' },
  ],
  'what cannot be read': [
    { title: 'a group without parentheses', path: '/tag?or=id.eq.1', code: 'data/invalid-filter', field: 'or' },
    { title: 'a group that is not closed', path: '/tag?or=(id.eq.1', code: 'data/invalid-filter', field: 'or' },
    { title: 'an empty group', path: '/tag?or=()', code: 'data/invalid-filter', field: 'or' },
    { title: 'a member without an operator', path: '/tag?and=(id)', code: 'data/invalid-filter', field: 'and' },
    { title: 'a member that ends early', path: '/tag?or=(id.eq.1,)', code: 'data/invalid-filter', field: 'or' },
    {
      title: 'a quote that is not closed',
      path: '/tag?or=(name.eq.%22x)',
      code: 'data/invalid-filter',
      field: 'or',
      hint: /double quotes/,
    },
    { title: 'a bracket that closes nothing', path: '/tag?or=(name.eq.x))', code: 'data/invalid-filter', field: 'or' },
    { title: 'a list without parentheses', path: '/tag?id=in.1,2', code: 'data/invalid-filter', field: 'id' },
    { title: 'an empty select', path: '/tag?select=', code: 'data/invalid-select', field: 'select' },
    { title: 'a select that ends early', path: '/tag?select=id,', code: 'data/invalid-select', field: 'select' },
    {
      title: 'two results of one name',
      path: '/orders?select=total.sum(),id.sum()',
      code: 'data/invalid-select',
      field: 'select',
      hint: /total:amount\.sum\(\)/,
    },
    { title: '* beside an aggregate', path: '/orders?select=*,count()', code: 'data/invalid-select', field: 'select' },
    { title: 'sum() of nothing', path: '/orders?select=sum()', code: 'data/invalid-select', field: 'select' },
    { title: 'an empty expand', path: '/orders?expand=', code: 'data/invalid-expand', field: 'expand' },
    {
      title: 'an expand that is not closed',
      path: '/customers?expand=orders(limit:1',
      code: 'data/invalid-expand',
      field: 'expand',
    },
    {
      title: 'what is no parameter of an expand',
      path: '/customers?expand=orders(5)',
      code: 'data/invalid-expand',
      field: 'expand',
      hint: /orders\(limit:5/,
    },
    {
      title: 'a parameter of an expand twice',
      path: '/customers?expand=orders(limit:1,limit:2)',
      code: 'data/invalid-expand',
      field: 'expand',
    },
    {
      title: 'a limit of a single row',
      path: '/orders?expand=customers(limit:1)',
      code: 'data/invalid-expand',
      field: 'expand',
    },
    {
      title: 'a limit of an expand',
      path: '/customers?expand=orders(limit:x)',
      code: 'data/invalid-page',
      field: 'expand orders limit',
    },
    {
      title: 'several relations of one name',
      path: '/customers?expand=address',
      code: 'data/unknown-relation',
      field: 'expand',
      hint: /billing_address, shipping_address/,
    },
    {
      title: 'an expansion and a column of one name',
      path: '/table.with.dots?select=Id&expand=Id:Odd%20Table',
      code: 'data/invalid-expand',
      field: 'expand',
    },
    {
      title: 'aggregates with expansions',
      path: '/orders?select=count()&expand=customers',
      code: 'data/invalid-expand',
      field: 'expand',
    },
    {
      title: 'having without aggregates',
      path: '/orders?having=(id.gt.1)',
      code: 'data/invalid-filter',
      field: 'having',
    },
    { title: 'an empty orderBy', path: '/tag?orderBy=', code: 'data/invalid-order', field: 'orderBy' },
    {
      title: 'a direction',
      path: '/tag?orderBy=id&orderDirection=up',
      code: 'data/invalid-order',
      field: 'orderDirection',
    },
    {
      title: 'more directions than columns',
      path: '/tag?orderBy=id&orderDirection=asc,desc',
      code: 'data/invalid-order',
      field: 'orderDirection',
    },
    { title: 'order beside orderBy', path: '/tag?orderBy=id&order=id', code: 'data/invalid-order', field: 'order' },
    { title: 'a parameter twice', path: '/tag?limit=1&limit=2', code: 'http/bad-request', field: 'limit' },
    { title: 'a parameter of other servers', path: '/tag?groupBy=id', code: 'http/bad-request', field: 'groupBy' },
    {
      title: 'a parameter that is a column of the table too',
      path: '/Odd%20Table?columns=x',
      code: 'http/bad-request',
      field: 'columns',
    },
  ],
  pages: [
    { title: 'a limit that is no number', path: '/tag?limit=ten', code: 'data/invalid-page', field: 'limit' },
    { title: 'a negative limit', path: '/tag?limit=-1', code: 'data/invalid-page', field: 'limit' },
    { title: 'a broken limit', path: '/tag?limit=1.5', code: 'data/invalid-page', field: 'limit' },
    {
      title: 'a limit of too many digits',
      path: `/tag?limit=${'9'.repeat(30)}`,
      code: 'data/invalid-page',
      field: 'limit',
    },
    { title: 'a negative offset', path: '/tag?offset=-1', code: 'data/invalid-page', field: 'offset' },
    { title: 'a first that is no number', path: '/tag?first=x', code: 'data/invalid-page', field: 'first' },
    { title: 'first and last', path: '/tag?first=1&last=1', code: 'data/invalid-page', field: 'last' },
    { title: 'first and limit', path: '/tag?first=1&limit=1', code: 'data/invalid-page', field: 'limit' },
    { title: 'first and offset', path: '/tag?first=1&offset=1', code: 'data/invalid-page', field: 'offset' },
    {
      title: 'a cursor over aggregates',
      path: '/tag?select=count()&first=1',
      code: 'data/invalid-page',
      field: 'first',
    },
    {
      title: 'a cursor without a key',
      path: '/keyless?first=1',
      code: 'data/invalid-page',
      field: 'first',
      hint: 'page with limit and offset',
    },
    { title: 'a cursor that is none', path: '/tag?after=x', code: 'data/invalid-cursor', field: 'after' },
    { title: 'an empty cursor', path: '/tag?before=', code: 'data/invalid-cursor', field: 'before' },
  ],
  'limits on what a stranger sends': [
    { title: 'groups that nest deep', path: `/tag?or=${groups(10)}`, code: 'data/too-complex', field: 'or' },
    {
      title: 'groups that nest very deep',
      path: `/tag?or=${'(or'.repeat(2000)}`,
      code: 'data/invalid-filter',
      field: 'or',
    },
    { title: 'many filters', path: `/tag?${'id=gt.0&'.repeat(101)}`, code: 'data/too-complex', field: 'id' },
    { title: 'a long list', path: `/tag?id=in.(${'1,'.repeat(1001)}1)`, code: 'data/too-complex', field: 'id' },
    { title: 'many sort keys', path: `/tag?orderBy=${'id,'.repeat(20)}id`, code: 'data/too-complex', field: 'orderBy' },
    { title: 'many columns', path: `/tag?select=${'id,'.repeat(1601)}id`, code: 'data/too-complex', field: 'select' },
    {
      title: 'expansions that nest deep',
      path: '/category?expand=category.category.category.category',
      code: 'data/too-complex',
      field: 'expand',
    },
    {
      title: 'many expansions',
      path: `/orders?expand=${Array.from({ length: 33 }, (_, n) => `c${n}:customers`).join(',')}`,
      code: 'data/too-complex',
      field: 'expand',
    },
    { title: 'a long table name', path: `/${'x'.repeat(5000)}`, code: 'http/bad-request' },
    { title: 'a long key', path: `/tag/${'x'.repeat(5000)}`, code: 'http/bad-request' },
    {
      title: 'a URL larger than the limit',
      path: `/tag?name=eq.${'x'.repeat(100_000)}`,
      status: 431,
      code: 'http/bad-request',
    },
  ],
  headers: [
    {
      title: 'Accept of what there is not',
      path: '/tag',
      headers: { Accept: 'image/png' },
      status: 406,
      code: 'http/not-acceptable',
      hint: /application\/json/,
    },
    {
      title: 'several rows where one is asked for',
      path: '/tag',
      headers: { Accept: 'application/vnd.pgrst.object+json' },
      status: 406,
      code: 'data/not-singular',
    },
    {
      title: 'Prefer: count=<anything>',
      path: '/tag',
      headers: { Prefer: 'count=planned' },
      code: 'http/bad-request',
      hint: /count=exact/,
    },
    {
      title: 'a method that is not for lists',
      path: '/tag',
      method: 'PUT',
      status: 405,
      code: 'http/method-not-allowed',
    },
  ],
}

const leaks = /\bat .*\.ts:\d|node_modules|select .* from |::pg_catalog|\bt\d+\."|stack/i

function checkShape(t: Test, { status, text, headers }: Answer): void {
  const body = JSON.parse(text)
  t.same(Object.keys(body), ['error', 'code', 'details', 'hint', 'requestId'])
  t.type(body.error, 'string')
  t.type(body.code, 'string')
  t.match(body.requestId, /^[0-9a-f-]{36}$/)
  if (status !== 431) t.equal(headers['x-request-id'], body.requestId)
  t.equal(headers['content-type'], 'application/json; charset=utf-8')
  t.notMatch(text, leaks, 'no SQL, no stack')
}

for (const [group, cases] of Object.entries(refusals)) {
  t.test(group, async (t) => {
    for (const { title, path, status = 400, code, field, hint, ...options } of cases) {
      await t.test(title, async (t) => {
        const answer = await call(path, options)
        t.equal(answer.status, status, answer.text)
        checkShape(t, answer)
        t.match(answer.json(), { code, ...(field === undefined ? {} : { details: { field } }) })
        if (hint !== undefined) t.match(answer.json().hint, hint)
        t.ok(answer.text.length < 2000, 'the answer does not grow with the request')
        t.equal((await call('/tag/1')).text, '{"id":1,"name":"tag 1"}', 'the next request works')
      })
    }
  })
}
