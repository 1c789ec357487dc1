import t from 'tap'
import { decodeCursor, encodeCursor } from '../../gateways/data/cursor.ts'
import { compileList, compileRow } from '../../gateways/data/postgres-sql-read.ts'
import { shapeOf } from '../../gateways/data/read-request.ts'
import { parseList, parseRow } from '../../gateways/rest/parse-list.ts'
import { shop } from './catalog.ts'

interface Shape {
  readonly title: string
  /** Table, and a key for a single row. */
  readonly path: string
  /** Cursors are written as their key values. */
  readonly query: string
  readonly count?: true
  readonly sql: string
  readonly parameters: readonly string[]
}

const shapes: readonly Shape[] = [
  {
    title: 'a plain list',
    path: 'tag',
    query: '',
    sql: 'select row_to_json(t1.*)::text as "json" from (select t0.* from "shop"."tag" t0 order by t0."id" limit 101) t1',
    parameters: [],
  },
  {
    title: 'filters, select and an offset',
    path: 'purchase',
    query: 'select=id,total&status=eq.open&total=gte.10&limit=5&offset=20',
    sql: 'select row_to_json(t1.*)::text as "json" from (select t0."id", t0."total" from "shop"."purchase" t0 where ((t0."status" = $1::text) and (t0."total" >= $2::numeric)) order by t0."id" limit 6 offset $3) t1',
    parameters: ['open', '10', '20'],
  },
  {
    title: 'a renamed column',
    path: 'tag',
    query: 'select=label:word',
    sql: 'select row_to_json(t1.*)::text as "json" from (select t0."word" as "label" from "shop"."tag" t0 order by t0."id" limit 101) t1',
    parameters: [],
  },
  {
    title: 'nested groups and negation',
    path: 'purchase',
    query: 'or=(status.eq.open,and(total.gt.5,not.total.gt.9))&status=not.in.(a,b)',
    sql: 'select row_to_json(t1.*)::text as "json" from (select t0.* from "shop"."purchase" t0 where (((t0."status" = $1::text) or ((t0."total" > $2::numeric) and not (t0."total" > $3::numeric))) and not (t0."status" = any($4::text[]))) order by t0."id" limit 101) t1',
    parameters: ['open', '5', '9', '{"a","b"}'],
  },
  {
    title: 'JSON and array operators',
    path: 'customer',
    query: 'data=jsoncontains.{}&labels=arraycontains.{a}&data=haskey.a',
    sql: 'select row_to_json(t1.*)::text as "json" from (select t0.* from "shop"."customer" t0 where ((t0."data" @> $1::jsonb) and (t0."labels" @> $2::text[]) and (t0."data" ? $3::text)) order by t0."id" limit 101) t1',
    parameters: ['{}', '{a}', 'a'],
  },
  {
    title: 'text search',
    path: 'customer',
    query: 'name=fts(english).a',
    sql: 'select row_to_json(t1.*)::text as "json" from (select t0.* from "shop"."customer" t0 where (to_tsvector($2::regconfig, t0."name"::text) @@ to_tsquery($2::regconfig, $1::text)) order by t0."id" limit 101) t1',
    parameters: ['a', 'english'],
  },
  {
    title: 'sorting with NULLs where PostgreSQL puts them, and elsewhere',
    path: 'purchase',
    query: 'order=total.desc,at.nullsfirst&limit=1',
    sql: 'select row_to_json(t1.*)::text as "json" from (select t0.* from "shop"."purchase" t0 order by t0."total" desc, t0."at" nulls first, t0."id" limit 2) t1',
    parameters: [],
  },
  {
    title: 'a count beside the page',
    path: 'tag',
    query: 'limit=2',
    count: true,
    sql: 'select p."json", p."keys", c."total" from (select count(*) as "total" from "shop"."tag" t0) c left join (select row_to_json(t1.*)::text as "json", null::text as "keys" from (select t0.* from "shop"."tag" t0 order by t0."id" limit 3) t1) p on true',
    parameters: [],
  },
  {
    title: 'a first page by cursor',
    path: 'purchase',
    query: 'select=id&orderBy=at&first=2',
    sql: 'select row_to_json(t2.*)::text as "json", to_json(array[t1."at"::text, t1."id"::text])::text as "keys" from (select t0.* from "shop"."purchase" t0 order by t0."at", t0."id" limit 3) t1 cross join lateral (select t1."id") t2',
    parameters: [],
  },
  {
    title: 'a next page by cursor over a column without NULLs: one row comparison',
    path: 'purchase',
    query: 'select=id&orderBy=at&first=2&after=["2024-01-01","7"]',
    sql: 'select row_to_json(t2.*)::text as "json", to_json(array[t1."at"::text, t1."id"::text])::text as "keys" from (select t0.* from "shop"."purchase" t0 where (t0."at", t0."id") > ($1::timestamptz, $2::int4) order by t0."at", t0."id" limit 3) t1 cross join lateral (select t1."id") t2',
    parameters: ['2024-01-01', '7'],
  },
  {
    title: 'a page back over a column with NULLs',
    path: 'purchase',
    query: 'select=id&orderBy=total&last=2&before=["1","7"]',
    sql: 'select row_to_json(t2.*)::text as "json", to_json(array[t1."total"::text, t1."id"::text])::text as "keys" from (select t0.* from "shop"."purchase" t0 where (t0."total" < $1::numeric or (t0."total" = $1::numeric and t0."id" < $2::int4)) order by t0."total" desc, t0."id" desc limit 3) t1 cross join lateral (select t1."id") t2',
    parameters: ['1', '7'],
  },
  {
    title: 'a page behind a NULL',
    path: 'purchase',
    query: 'select=id&orderBy=total&first=2&after=[null,"7"]',
    sql: 'select row_to_json(t2.*)::text as "json", to_json(array[t1."total"::text, t1."id"::text])::text as "keys" from (select t0.* from "shop"."purchase" t0 where (false or (t0."total" is null and t0."id" > $1::int4)) order by t0."total", t0."id" limit 3) t1 cross join lateral (select t1."id") t2',
    parameters: ['7'],
  },
  {
    title: 'an aggregation',
    path: 'purchase',
    query: 'select=count(),total.sum()',
    sql: 'select row_to_json(t2.*)::text as "json" from (select t1.* from (select count(*) as "count", sum(t0."total") as "sum" from "shop"."purchase" t0) t1 limit 101) t2',
    parameters: [],
  },
  {
    title: 'groups, ordered by a result and filtered by it',
    path: 'purchase',
    query: 'select=status,count()&status=neq.x&orderBy=count&orderDirection=desc&having=(count.gt.1)&limit=3',
    sql: 'select row_to_json(t2.*)::text as "json" from (select t1.* from (select t0."status" as "status", count(*) as "count" from "shop"."purchase" t0 where (t0."status" <> $1::text) group by t0."status") t1 where (t1."count" > $2::pg_catalog.int8) order by t1."count" desc, t1."status" limit 4) t2',
    parameters: ['x', '1'],
  },
  {
    title: 'expansion forward',
    path: 'purchase',
    query: 'select=id&expand=customer(select:name)&limit=1',
    sql: 'select row_to_json(t4.*)::text as "json" from (select t0.* from "shop"."purchase" t0 order by t0."id" limit 2) t1 cross join lateral (select t1."id", (select row_to_json(t3.*) from (select t2."name" from "shop"."customer" t2 where t2."id" = t1."customer_id") t3) as "customer") t4',
    parameters: [],
  },
  {
    title: 'expansion backward with its own filter, order and limit',
    path: 'customer',
    query: 'select=id&expand=purchase(select:id,status:eq.open,orderBy:at,limit:3)&limit=1',
    sql: `select row_to_json(t4.*)::text as "json" from (select t0.* from "shop"."customer" t0 order by t0."id" limit 2) t1 cross join lateral (select t1."id", (select coalesce(json_agg(row_to_json(t3.*)), '[]') from (select t2."id" from "shop"."purchase" t2 where t2."customer_id" = t1."id" and (t2."status" = $1::text) order by t2."at", t2."id" limit 3) t3) as "purchase") t4`,
    parameters: ['open'],
  },
  {
    title: 'expansion through a link table',
    path: 'customer',
    query: 'select=id&expand=tag&limit=1',
    sql: `select row_to_json(t5.*)::text as "json" from (select t0.* from "shop"."customer" t0 order by t0."id" limit 2) t1 cross join lateral (select t1."id", (select coalesce(json_agg(row_to_json(t3.*)), '[]') from (select t2.* from "shop"."tag" t2 where exists (select from "shop"."customer_tag" t4 where t4."customer_id" = t1."id" and t4."tag_id" = t2."id") order by t2."id" limit 100) t3) as "tag") t5`,
    parameters: [],
  },
  {
    title: 'nested expansion',
    path: 'tag',
    query: 'select=id&expand=customer(select:id,expand:purchase(select:id,limit:1),limit:2)&limit=1',
    sql: `select row_to_json(t8.*)::text as "json" from (select t0.* from "shop"."tag" t0 order by t0."id" limit 2) t1 cross join lateral (select t1."id", (select coalesce(json_agg(row_to_json(t6.*)), '[]') from (select t2.* from "shop"."customer" t2 where exists (select from "shop"."customer_tag" t7 where t7."tag_id" = t1."id" and t7."customer_id" = t2."id") order by t2."id" limit 2) t3 cross join lateral (select t3."id", (select coalesce(json_agg(row_to_json(t5.*)), '[]') from (select t4."id" from "shop"."purchase" t4 where t4."customer_id" = t3."id" order by t4."id" limit 1) t5) as "purchase") t6) as "customer") t8`,
    parameters: [],
  },
  {
    title: 'a row by a composite key',
    path: 'customer_tag/1,2',
    query: '',
    sql: 'select row_to_json(t1.*)::text from (select t0.* from "shop"."customer_tag" t0 where t0."customer_id" = $1::int4 and t0."tag_id" = $2::int4) t1',
    parameters: ['1', '2'],
  },
]

const tableNamed = (name: string) => [...shop.tables.values()].find((table) => table.name === name)!

/** The cursors of the query belong to the list that it asks for without them. */
function withCursors(name: string, query: string): URLSearchParams {
  const parameters = new URLSearchParams(query)
  const plain = new URLSearchParams(query)
  for (const cursor of ['after', 'before']) plain.delete(cursor)
  for (const cursor of ['after', 'before']) {
    const keys = parameters.get(cursor)
    if (keys === null) continue
    const { cursorDigest } = parseList(shop, tableNamed(name), plain).page
    parameters.set(cursor, encodeCursor(cursorDigest ?? '', keys))
  }
  return parameters
}

function compiled({ path, query, count = false }: Pick<Shape, 'path' | 'query'> & { readonly count?: boolean }) {
  const [name = '', key] = path.split('/')
  const parameters = withCursors(name, query)
  if (key !== undefined) {
    const row = parseRow(shop, tableNamed(name), key, parameters)
    return { ...compileRow(shop, row), request: row }
  }
  const list = parseList(shop, tableNamed(name), parameters, { count })
  return { ...compileList(shop, list), request: list }
}

t.test('a request compiles to one statement', async (t) => {
  for (const { title, sql, parameters, ...shape } of shapes) {
    await t.test(title, async (t) => {
      const { statement, request } = compiled(shape)
      t.equal(statement.text, sql)
      t.same(request.parameters, parameters)
    })
  }
})

t.test('requests that differ in their values only share shape, text and name of the statement', async (t) => {
  const one = compiled({
    path: 'purchase',
    query: 'status=eq.open&total=in.(1,2)&orderBy=at&first=2&after=["2024-01-01","7"]',
  })
  const other = compiled({
    path: 'purchase',
    query: 'status=eq.%27&total=in.(3)&orderBy=at&first=2&after=["2025-01-01","1"]',
  })
  t.equal(shapeOf(one.request), shapeOf(other.request))
  t.same(one.statement, other.statement)
  t.notSame(one.request.parameters, other.request.parameters)
  t.not(
    compiled({ path: 'purchase', query: 'status=neq.open' }).statement.name,
    compiled({ path: 'purchase', query: 'status=eq.open' }).statement.name,
  )
})

t.test('what a stranger writes never becomes SQL', async (t) => {
  const evil = `'"; drop table x; --`
  const { statement, request } = compiled({
    path: 'purchase',
    query: new URLSearchParams([
      ['status', `eq.${evil}`],
      ['select', `"${evil.replaceAll('"', '\\"')}":id`],
    ]).toString(),
  })
  t.notMatch(statement.text.replace(`"${evil.replaceAll('"', '""')}"`, ''), 'drop', 'but for a quoted name')
  t.same(request.parameters, [evil])
})

t.test('heavy statements are told from cheap ones', async (t) => {
  const weight = (path: string, query: string) => compiled({ path, query }).weight
  t.equal(weight('purchase', 'status=eq.open'), 'cheap')
  t.equal(weight('customer/1', ''), 'cheap')
  for (const query of ['name=like.%25a', 'select=count()', 'expand=purchase', 'data=haskey.a'])
    t.equal(weight('customer', query), 'heavy', query)
})

t.test('a cursor', async (t) => {
  const purchase = tableNamed('purchase')
  const keys = [
    { column: 'total', descending: false, nullsFirst: false },
    { column: 'id', descending: false, nullsFirst: false },
  ]
  const { cursorDigest } = parseList(shop, purchase, [
    ['orderBy', 'total'],
    ['first', '1'],
  ]).page
  const cursor = (values: unknown, digest = cursorDigest ?? '') => encodeCursor(digest, JSON.stringify(values))
  t.same(decodeCursor(cursor(['1.50', '7']), purchase, keys, 'after'), ['1.50', '7'])
  t.same(decodeCursor(cursor([null, '7']), purchase, keys, 'after'), [null, '7'])
  const refused: readonly (readonly [title: string, text: string])[] = [
    ['of another order', cursor(['1', '7'], 'otherDigest')],
    ['with too few values', cursor(['1'])],
    ['with too many values', cursor(['1', '7', '8'])],
    ['with a value that is no text', cursor([1, '7'])],
    ['with a value that is not of the type', cursor(['x', '7'])],
    ['with an object for values', cursor({ length: 2 })],
    ['that is no JSON', Buffer.from('[1,').toString('base64url')],
    ['that is nothing', ''],
    ['that is huge', 'A'.repeat(100_000)],
  ]
  for (const [title, text] of refused)
    t.throws(() => decodeCursor(text, purchase, keys, 'after'), { code: 'data/invalid-cursor' }, title)
})
