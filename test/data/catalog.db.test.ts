import { readFileSync } from 'node:fs'
import pg from 'pg'
import t from 'tap'
import type { Catalog, DatabaseFunction, Relation, Table } from '../../gateways/data/catalog.ts'
import { relationOf } from '../../gateways/data/expand.ts'
import { introspect } from '../../gateways/data/postgres-introspect.ts'
import { Rejected } from '../../schemas/failure.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)

async function connected(owner: { teardown(fn: () => Promise<void>): void }, url = server.url): Promise<pg.Client> {
  const client = new pg.Client(url)
  await client.connect()
  owner.teardown(() => client.end())
  return client
}

const client = await connected(t)
await client.query(readFileSync(new URL('../support/fixture.sql', import.meta.url), 'utf8'))
const both = await introspect(client, ['public', 'other'])
const one = await introspect(client, ['public'])

function table(name: string, catalog: Catalog = both): Table {
  const found = catalog.tables.get(name.includes('other.') ? name : `public.${name}`)
  if (!found) throw new Error(`no table ${name}`)
  return found
}

const column = (tableName: string, name: string) => table(tableName).columnByName.get(name)!

t.test(
  'the catalog holds tables, views and foreign tables, and neither partitions nor what extensions own',
  async (t) => {
    const kindOf = (name: string) => both.tables.get(`public.${name}`)?.kind
    t.equal(kindOf('customers'), 'table')
    t.equal(kindOf('measurement'), 'partitioned-table')
    t.equal(kindOf('measurement_2024_01'), undefined)
    t.equal(kindOf('open_orders'), 'view')
    t.equal(kindOf('sales'), 'materialized-view')
    if ((await client.query(`select to_regclass('settings_file') as oid`)).rows[0].oid !== null) {
      t.equal(kindOf('settings_file'), 'foreign-table')
      t.equal(table('settings_file').insertable, false, 'file_fdw only reads')
    }
    t.ok(table('naïve 😀'))
    t.ok(table('table.with.dots'))
    t.notOk(one.tables.has('other.warehouse'))
    t.same(both.schemas, ['other', 'public'])
    await client.query('create extension pg_stat_statements')
    t.notOk((await introspect(client, ['public'])).tables.has('public.pg_stat_statements'))
    t.same((await introspect(client, ['public', 'pg_catalog', 'information_schema', 'nowhere'])).schemas, ['public'])
    await client.query('create schema busbar; create table busbar.idempotency (key text)')
    t.same((await introspect(client, 'ALL')).schemas, ['other', 'public'], 'ALL leaves out the system and the platform')
  },
)

t.test('columns carry type, default, identity, nullability and comment', async (t) => {
  t.same(
    table('customers')
      .columns.map(({ name }) => name)
      .slice(0, 4),
    ['id', 'name', 'email', 'mood'],
  )
  t.match(column('counters', 'always_id'), { identity: 'always', nullable: false, defaultSql: null })
  t.match(column('counters', 'default_id'), { identity: 'by-default', nullable: false })
  t.match(column('counters', 'old_serial'), { identity: null, defaultSql: /nextval/ })
  t.match(column('counters', 'doubled'), { generated: true, defaultSql: null })
  t.match(column('counters', 'base'), { generated: false, defaultSql: '7', nullable: false })
  t.match(column('counters', 'code'), { nullable: false, maxLength: 8 }, 'the domain forbids NULL and has the length')
  t.match(column('orders', 'status'), { typeSql: 'character varying(20)', maxLength: 20 })
  t.match(column('customers', 'credit'), { typeSql: 'numeric(12,2)', maxLength: null, comment: /owe/ })
  t.equal(table('country').comment, 'Countries by ISO 3166 code\n\nShort and simple.')
  t.same(
    table('Odd Table').columns.map(({ name }) => name),
    [
      'Id',
      'select',
      'limit',
      'or',
      'and',
      'with.dot',
      'quo"te',
      'comma,(paren)',
      'a:b',
      '%percent',
      'naïve 😀',
      ' space ',
    ].concat(['back\\slash', 'from', 'types']),
  )
  t.same(table('empty_table').columns, [])
})

t.test('types know their base, element, values and attributes', async (t) => {
  const { type: email } = column('everything', 'a_short_email')
  t.match(email, { kind: 'domain', name: 'short_email', base: { kind: 'base', name: 'text' }, element: null })
  const { type: labels } = column('everything', 'a_labels')
  t.match(labels, { kind: 'domain', base: { kind: 'array' }, element: { name: 'text' } })
  const { type: moods } = column('everything', 'moods')
  t.match(moods, {
    kind: 'array',
    element: { kind: 'enum', enumValues: ['sad', 'ok', 'happy', 'in "love"', 'so, so'] },
  })
  t.equal(moods.base, moods)
  t.same(
    column('everything', 'a_postal').type.attributes.map(({ name, type }) => [name, type.name]),
    [
      ['street', 'text'],
      ['house No', 'int4'],
      ['tags', '_text'],
    ],
  )
  t.equal(column('everything', 'a_tstzrange').type.kind, 'range')
  t.equal(column('everything', 'a_point').type.element, null, 'a point has parts and is no array')
  t.equal(column('everything', 'a_name').type.kind, 'base')
  t.equal(both.types.get(23)?.name, 'int4')
})

t.test('the SQL name of every type casts back, whatever the search path and without cutting values', async (t) => {
  await client.query(
    "begin; create schema shadow; create type shadow.int4 as enum ('x'); set local search_path = shadow, pg_catalog",
  )
  for (const type of both.types.values()) {
    if (type.kind === 'pseudo') continue
    const { rows } = await client.query('select $1::regtype::oid as oid', [type.sqlName])
    t.equal(rows[0].oid, type.oid, type.sqlName)
  }
  const named = (name: string) => [...both.types.values()].find((type) => type.name === name)!.sqlName
  const { rows } = await client.query(
    `select 'abc'::${named('bpchar')} as c, '101'::${named('bit')} as b, 'abc'::${named('varchar')} as v`,
  )
  t.same(rows[0], { c: 'abc', b: '101', v: 'abc' })
  await client.query('rollback')
})

t.test('keys: primary first, unique ones beside it, none through partial or expression indexes', async (t) => {
  t.same(table('order_item').primaryKey, ['order_id', 'line'])
  t.same(table('customers').uniqueKeys, [['id'], ['email']])
  t.same(table('keyless').primaryKey, [])
  t.same(table('unique_only').uniqueKeys, [['code']])
  t.same(table('sales').uniqueKeys, [['status']])
  t.same(table('measurement').primaryKey, ['sensor', 'at'])
  await client.query(`
    create unique index on changes ("schema") where id > 0; create unique index on changes (lower("schema"));
    create unique index on changes ("schema", id) include (id)`)
  t.same(table('changes', await introspect(client, ['public'])).uniqueKeys, [['id'], ['schema', 'id']])
})

t.test('what can be written, and how rows are identified', async (t) => {
  const writable = ({ insertable, updatable, deletable }: Table) => [insertable, updatable, deletable]
  t.same(writable(table('customers')), [true, true, true])
  t.same(writable(table('open_orders')), [true, true, true])
  t.same(writable(table('customer_totals')), [false, false, false])
  t.same(writable(table('sales')), [false, false, false])
  t.equal(table('noted').insertable, true)
  t.equal(table('full_identity').replicaIdentity, 'full')
  t.equal(table('customers').replicaIdentity, 'default')
  t.equal(table('note').rowSecurity, true)
})

const summary = ({ kind, targetSchema, targetTable, columns, targetColumns }: Relation) =>
  `${kind} ${columns.join(',')} -> ${targetSchema === 'public' ? '' : `${targetSchema}.`}${targetTable} ${targetColumns.join(',')}`

/** What a name in `expand` leads to, or the choices when it is ambiguous. */
function leadsTo(from: string, name: string, catalog?: Catalog): string {
  try {
    return summary(relationOf(table(from, catalog), name, 'expand'))
  } catch (error) {
    if (!(error instanceof Rejected)) throw error
    const { choices } = error.details as { choices?: readonly string[] }
    return choices ? `choose ${choices.join(' | ')}` : 'unknown'
  }
}

t.test('relations are named after the related table', async (t) => {
  t.equal(leadsTo('orders', 'customers'), 'one customer_id -> customers id')
  t.equal(leadsTo('orders', 'order_item'), 'many id -> order_item order_id')
  t.equal(leadsTo('order_item', 'product'), 'one tenant,sku -> product tenant,sku')
  t.equal(leadsTo('product', 'order_item'), 'many tenant,sku -> order_item tenant,sku')
  t.equal(leadsTo('orders', 'measurement'), 'many id -> measurement order_id')
  t.equal(leadsTo('orders', 'measurement_2024_01'), 'unknown')
  t.equal(leadsTo('select', 'Odd Table'), 'one Odd Table_id -> Odd Table Id')
})

t.test('relations are also found by column, singular and constraint', async (t) => {
  for (const name of [
    'customer',
    'customers!customer_id',
    'customers!orders_customer_id_fkey',
    'orders_customer_id_fkey',
  ]) {
    t.equal(leadsTo('orders', name), 'one customer_id -> customers id', name)
  }
  for (const name of [
    'orders!customer_id',
    'orders_by_customer_id',
    'orders!orders_customer_id_fkey',
    'orders_customer_id_fkey',
  ]) {
    t.equal(leadsTo('customers', name), 'many id -> orders customer_id', name)
  }
  t.equal(leadsTo('order_item', 'order'), 'one order_id -> orders id')
  t.equal(leadsTo('order_item', 'order_item_product'), 'one tenant,sku -> product tenant,sku')
})

t.test('several foreign keys to one table: the plain name asks which, the others choose', async (t) => {
  t.equal(leadsTo('customers', 'address'), 'choose billing_address | shipping_address')
  t.equal(table('customers').relationByName.get('address'), undefined)
  t.equal(leadsTo('customers', 'billing_address'), 'one billing_address_id -> address id')
  t.equal(leadsTo('customers', 'address!shipping_address_id'), 'one shipping_address_id -> address id')
  t.equal(leadsTo('customers', 'customers_ship_to'), 'one shipping_address_id -> address id')
  t.equal(leadsTo('address', 'customers'), 'choose customers!billing_address_id | customers!shipping_address_id')
  t.equal(leadsTo('address', 'customers!shipping_address_id'), 'many id -> customers shipping_address_id')
})

t.test('the foreign key whose column is named after the table has the plain name', async (t) => {
  await client.query(
    'create table sale (id int primary key, customer_id bigint references customers, advised_by bigint references customers)',
  )
  const after = await introspect(client, ['public'])
  t.equal(leadsTo('sale', 'customers', after), 'one customer_id -> customers id')
  t.equal(leadsTo('sale', 'customer', after), 'one customer_id -> customers id')
  t.equal(leadsTo('sale', 'advised_by', after), 'one advised_by -> customers id')
  await client.query('drop table sale')
})

t.test('self references: upwards by the table or the column, downwards by table_by_column', async (t) => {
  t.equal(leadsTo('category', 'category'), 'one parent -> category id')
  t.equal(leadsTo('category', 'parent'), 'one parent -> category id')
  t.equal(leadsTo('category', 'category_by_parent'), 'many id -> category parent')
  t.equal(leadsTo('employee', 'employee'), 'choose manager | mentor')
  t.equal(leadsTo('employee', 'manager'), 'one manager_id -> employee id')
  t.equal(leadsTo('employee', 'employee_by_mentor_id'), 'many id -> employee mentor_id')
})

t.test('link tables lead to the far table; a direct relation goes first', async (t) => {
  t.equal(leadsTo('product', 'tag'), 'many-to-many tenant,sku -> tag id')
  t.same(table('product').relationByName.get('tag')?.link, {
    schema: 'public',
    table: 'product_tag',
    sourceColumns: ['tenant', 'sku'],
    targetColumns: ['tag_id'],
  })
  t.equal(leadsTo('product', 'product_tag'), 'many tenant,sku -> product_tag tenant,sku')
  t.equal(leadsTo('tag', 'product'), 'many-to-many id -> product tenant,sku')
  t.equal(leadsTo('customers', 'tag'), 'one tag_id -> tag id')
  t.equal(leadsTo('customers', 'tag!customer_tag'), 'many-to-many id -> tag id')
  t.equal(leadsTo('tag', 'customers'), 'many id -> customers tag_id')
  t.equal(leadsTo('tag', 'customers!customer_tag'), 'many-to-many id -> customers id')
  t.equal(leadsTo('employee', 'employee!friendship'), 'choose person | friend')
  t.equal(table('employee').relationByName.get('friend')?.link?.targetColumns[0], 'friend_id')
  t.equal(table('employee').relationByName.get('employee!friendship!person_id')?.name, 'person')
})

t.test(
  'across schemas the own schema goes first, and relations to schemas that are not exposed do not exist',
  async (t) => {
    t.equal(leadsTo('stock', 'warehouse'), 'one warehouse_id -> other.warehouse id')
    t.equal(leadsTo('stock', 'other.warehouse'), 'one warehouse_id -> other.warehouse id')
    t.equal(leadsTo('customers', 'orders'), 'many id -> orders customer_id')
    t.equal(leadsTo('customers', 'other.orders'), 'many id -> other.orders customer_id')
    t.equal(leadsTo('stock', 'warehouse', one), 'unknown')
    t.equal(leadsTo('address', 'warehouse', one), 'unknown')
  },
)

t.test('names of relations are unique within a table, and every relation can be had by its name', async (t) => {
  await client.query(`
    create table link_twice (a int references tag, b int, primary key (a, b),
      constraint first foreign key (b) references employee, constraint second foreign key (b) references employee,
      constraint third foreign key (a) references tag)`)
  for (const found of (await introspect(client, ['public', 'other'])).tables.values()) {
    const names = found.relations.map(({ name }) => name)
    t.equal(new Set(names).size, names.length, `${found.name}: ${names}`)
    for (const relation of found.relations) t.equal(found.relationByName.get(relation.name), relation)
  }
  await client.query('drop table link_twice')
})

t.test('functions: arguments, defaults, variadic and what they return', async (t) => {
  const named = (name: string): DatabaseFunction[] => both.functions.filter((one) => one.name === name)
  t.match(named('add')[0], {
    volatility: 'immutable',
    arguments: [
      { name: 'a', optional: false },
      { name: 'b', optional: true, type: { name: 'int4' } },
    ],
    returns: { set: false, void: false, type: { name: 'int4' } },
  })
  t.equal(named('overloaded').length, 3)
  t.match(named('customers_in')[0]?.returns, { set: true, type: { kind: 'composite', name: 'customers' } })
  t.same(
    named('order_report')[0]?.returns.columns.map(({ name }) => name),
    ['status', 'orders', 'total'],
  )
  t.same(
    named('split_name')[0]?.arguments.map(({ name }) => name),
    ['full_name'],
  )
  t.match(named('forget')[0], { volatility: 'volatile', returns: { void: true } })
  t.match(named('joined')[0]?.arguments, [{ variadic: false }, { variadic: true, type: { kind: 'array' } }])
  t.match(named('echo_json')[0]?.arguments, [{ name: '' }])
  for (const name of ['noted_insert', 'not_a_function', 'total_of']) t.same(named(name), [], name)
})

t.test('a login role sees what it or a role it can switch to may read', async (t) => {
  await client.query(`create role gate login noinherit password 'gate' in role web_user, web_anonymous`)
  const url = new URL(server.url)
  url.username = 'gate'
  url.password = 'gate'
  const seen = await introspect(await connected(t, url.href), ['public', 'other'])
  t.ok(seen.tables.has('public.customers'))
  t.ok(seen.tables.has('public.country'))
  t.notOk(seen.tables.has('public.secret'))
  t.notOk(seen.tables.has('other.warehouse'))
  t.same(
    table('employee', seen).columns.map(({ name }) => name),
    ['id', 'name'],
    'columns it may not read are not there',
  )
  t.same(table('employee', seen).relations, [])
  t.same(
    table('customers', seen).relations.map(({ name }) => name),
    ['billing_address', 'shipping_address', 'tag', 'orders'],
  )
})

t.test('the version follows the definition and nothing else', async (t) => {
  const versionOf = async () => (await introspect(client, ['public'])).version
  const before = await versionOf()
  await client.query(
    `insert into tag values (1000, 'new'); truncate keyless; analyze; create temp table passing (id int)`,
  )
  t.equal(await versionOf(), before)
  await client.query('alter table tag add column colour text')
  const after = await versionOf()
  t.not(after, before)
  await client.query('alter table tag drop column colour')
})

t.test('a table somebody alters for long does not hold up the others', async (t) => {
  const other = await connected(t)
  await other.query(
    'begin; lock table counters in access exclusive mode; alter view open_orders set (security_barrier = false)',
  )
  const seen = await introspect(client, ['public'])
  t.equal(table('counters', seen).columnByName.get('base')?.defaultSql, '…', 'that there is one is known')
  t.equal(table('counters', seen).columnByName.get('doubled')?.defaultSql, null)
  t.match(table('orders', seen).columnByName.get('id')?.defaultSql, /nextval/)
  await other.query('rollback')
})

t.test('2,001 tables take as many statements as one', async (t) => {
  await client.query('create schema big; create table big.hub (id int primary key)')
  await client.query(`do $$ begin for n in 1..2000 loop
    execute format('create table big.t%s (id int primary key, hub_id int references big.hub, name text default %L)', n, n);
  end loop; end $$`)
  const counted = async (schema: string) => {
    let statements = 0
    const counting = {
      query(text: string, values?: unknown[]) {
        statements += 1
        return client.query(text, values)
      },
    }
    return { catalog: await introspect(counting, [schema]), statements }
  }
  const [small, big] = [await counted('other'), await counted('big')]
  t.equal(big.catalog.tables.size, 2001)
  t.equal(big.catalog.tables.get('big.hub')?.relations.length, 2000)
  t.equal(big.statements, small.statements)
  t.ok(big.statements <= 12, `${big.statements} statements`)
  t.equal(await client.query('select 1').then(({ rowCount }) => rowCount), 1, 'and leaves no transaction open')
})
