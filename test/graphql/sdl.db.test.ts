import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import {
  type GraphQLSchema,
  isInputObjectType,
  isObjectType,
  lexicographicSortSchema,
  printSchema,
  validateSchema,
} from 'graphql'
import pg from 'pg'
import t from 'tap'
import { introspect } from '../../gateways/data/postgres-introspect.ts'
import type { NamingStyle } from '../../gateways/graphql/naming.ts'
import { buildSchema } from '../../gateways/graphql/schema.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)
const sql = new pg.Client(server.url)
await sql.connect()
t.teardown(() => sql.end())
await sql.query(readFileSync(resolve(import.meta.dirname, 'sdl.sql'), 'utf8'))
const catalog = await introspect(sql, ['public', 'shop'])
const built = (naming: NamingStyle, changes = true) => buildSchema(catalog, { naming, changes })
const { schema, naming } = built('spec')
const pascal = built('pascal')

/** `node test/graphql/sdl.db.test.ts --update` writes the files anew, for the diff to be read. */
const update = process.argv.includes('--update')

function compare(t: typeof import('tap').default, file: string, schema: GraphQLSchema): void {
  const path = resolve(import.meta.dirname, file)
  const sdl = `${printSchema(lexicographicSortSchema(schema))}\n`
  if (update) writeFileSync(path, sdl)
  t.equal(sdl, readFileSync(path, 'utf8'), file)
}

t.test('the whole schema is as it was, in both styles of names', (t) => {
  compare(t as never, 'sdl-spec.graphql', schema)
  compare(t as never, 'sdl-pascal.graphql', pascal.schema)
  t.same([validateSchema(schema), validateSchema(pascal.schema)], [[], []], 'and is a schema')
  t.equal(
    printSchema(lexicographicSortSchema(buildSchema(catalog, { changes: true }).schema)),
    printSchema(lexicographicSortSchema(schema)),
    'the names of the specification are the default, the same each time',
  )
  t.end()
})

// The specification's tables ----------------------------------------------------------------------------------------------------

const fieldsOf = (name: string, of = schema): string[] => {
  const type = of.getType(name)
  return isObjectType(type) || isInputObjectType(type) ? Object.keys(type.getFields()) : []
}
const typeOf = (type: string, field: string, of = schema): string => {
  const found = of.getType(type)
  return isObjectType(found) || isInputObjectType(found) ? String(found.getFields()[field]?.type) : 'none'
}
const signature = (root: 'Query' | 'Mutation' | 'Subscription', field: string, of = schema): string => {
  const found = (of.getType(root) as ReturnType<GraphQLSchema['getQueryType']>)?.getFields()[field]
  return found ? `(${found.args.map(({ name, type }) => `${name}: ${type}`).join(', ')}): ${found.type}` : 'none'
}

const bookColumns = ['tenant', 'isbn', 'title', 'author_id', 'editor_id']

t.test('Resources and their fields: every row of the table', (t) => {
  t.same(
    fieldsOf('PublicBook'),
    [...bookColumns, 'publicAuthor', 'publicAuthorByEditor_id', 'publicBook_tag', 'shopOrder_items', 'publicTag'],
    'Object type `<Schema><Table>`: one field per column, plus relationship fields',
  )
  t.same(
    ['publicAuthor', 'shopOrder_items', 'publicTag'].map((name) => typeOf('PublicBook', name)),
    ['PublicAuthor', '[ShopOrder_items!]!', '[PublicTag!]!'],
    'Relationship field `<schema><RelatedTable>`: linked by foreign key, directly or through a link table',
  )
  t.same(fieldsOf('PublicBookInput'), bookColumns, 'Input type `<Schema><Table>Input`: column values, and the key')
  t.same(fieldsOf('PublicBookPkInput'), ['tenant', 'isbn'], 'Input type `<Schema><Table>PkInput`: primary key columns')
  t.same(
    ['tenant', 'isbn'].map((name) => typeOf('PublicBookPkInput', name)),
    ['Int!', 'String!'],
    'which delete needs',
  )
  t.same(
    fieldsOf('PublicBookFilter').slice(0, 3 + bookColumns.length),
    ['and', 'or', 'not', ...bookColumns],
    'Filter input `<Schema><Table>Filter`',
  )
  t.same(fieldsOf('PublicBookOrderBy'), bookColumns, 'Order-by input `<Schema><Table>OrderBy`: column to direction')
  t.same(
    String(
      (schema.getType('PublicBookOrderBy') as never as { getFields(): Record<string, { type: unknown }> }).getFields()
        .isbn!.type,
    ),
    'OrderDirection',
    'ASC is an allowed direction',
  )
  t.same(
    fieldsOf('PublicBookConnection'),
    ['edges', 'pageInfo', 'totalCount'],
    'Connection type `<Schema><Table>Connection`',
  )
  t.same(fieldsOf('PublicBookEdge'), ['node', 'cursor'])
  t.same(fieldsOf('PageInfo'), ['hasNextPage', 'hasPreviousPage', 'startCursor', 'endCursor'])
  t.same(
    fieldsOf('PublicBookAggregate'),
    ['count', 'sum', 'avg', 'min', 'max', 'groupBy'],
    'Aggregate type `<Schema><Table>Aggregate`: count, sum, avg, min, max',
  )
  t.same(
    fieldsOf('PublicBookChangeEvent').toSorted(),
    ['data', 'operation', 'schema', 'sequence', 'table', 'timestamp'],
    'Change event type `<Schema><Table>ChangeEvent`',
  )
  t.same(fieldsOf('PublicBookChangeData').toSorted(), [...bookColumns, 'new', 'old'].toSorted())
  t.end()
})

t.test('Endpoints: every operation under the name and with the arguments of the table', (t) => {
  const signatures: readonly (readonly ['Query' | 'Mutation' | 'Subscription', string, string, string])[] = [
    [
      'Query',
      'publicBook',
      '(where: PublicBookFilter, orderBy: [PublicBookOrderBy!], limit: Int, offset: Int): [PublicBook!]',
      '`<schema><Table>`',
    ],
    [
      'Query',
      'publicBookConnection',
      '(first: Int, after: String, last: Int, before: String, where: PublicBookFilter, orderBy: [PublicBookOrderBy!]): PublicBookConnection',
      '`<schema><Table>Connection`',
    ],
    ['Query', 'publicBookAggregate', '(where: PublicBookFilter): PublicBookAggregate', '`<schema><Table>Aggregate`'],
    ['Mutation', 'createPublicBook', '(input: PublicBookInput!): PublicBook', '`create<Schema><Table>`'],
    ['Mutation', 'createManyPublicBook', '(inputs: [PublicBookInput!]!): [PublicBook!]', '`createMany<Schema><Table>`'],
    ['Mutation', 'updatePublicBook', '(input: PublicBookInput!): PublicBook', '`update<Schema><Table>`'],
    ['Mutation', 'deletePublicBook', '(input: PublicBookPkInput!): PublicBook', '`delete<Schema><Table>`'],
    [
      'Subscription',
      'publicBookChanges',
      '(where: PublicBookFilter, operations: [ChangeOperation!]): PublicBookChangeEvent!',
      '`<schema><Table>Changes`',
    ],
  ]
  for (const [root, field, expected, title] of signatures) t.equal(signature(root, field), expected, title)
  const queries = Object.keys(schema.getQueryType()!.getFields())
  for (const kind of ['', 'Connection', 'Aggregate'])
    t.ok(
      queries.includes(`publicTitles${kind}`) && queries.includes(`publicWords${kind}`),
      `views and materialized views: ${kind}`,
    )
  const mutations = Object.keys(schema.getMutationType()!.getFields())
  t.notOk(
    mutations.some((name) => /Titles|Words/.test(name)),
    'what cannot be written has no mutations',
  )
  t.same(
    mutations.filter((name) => /Keyless/.test(name)),
    ['createPublicKeyless', 'createManyPublicKeyless'],
    'no key: no update',
  )
  t.equal(built('spec', false).schema.getSubscriptionType(), undefined, 'without change streams no subscriptions')
  t.end()
})

t.test('table names keep every letter but the first; the other style has words', (t) => {
  t.ok(schema.getType('ShopOrder_items'))
  t.ok(schema.getQueryType()!.getFields().shopOrder_items)
  t.ok(schema.getMutationType()!.getFields().createManyShopOrder_items)
  t.ok(pascal.schema.getType('ShopOrderItems'))
  t.ok(pascal.schema.getQueryType()!.getFields().shopOrderItems)
  t.ok(pascal.schema.getMutationType()!.getFields().createManyShopOrderItems)
  t.same(fieldsOf('PublicBookTag', pascal.schema).slice(0, 3), ['tenant', 'isbn', 'tag_id'], 'columns stay as they are')
  t.end()
})

// Filters -------------------------------------------------------------------------------------------------------------------------

const fifteen = [
  ...['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'notIn', 'isNull', 'isNotNull'],
  ...['contains', 'startsWith', 'endsWith', 'like', 'ilike'],
]

t.test('every column of every table has exactly the fifteen operators, typed by the column', (t) => {
  let columns = 0
  for (const table of catalog.tables.values()) {
    const names = naming.tables.get(`${table.schema}.${table.name}`)!
    const filter = schema.getType(`${names.type}Filter`)
    if (!isInputObjectType(filter)) throw new Error(`${names.type}Filter`)
    for (const column of table.columns) {
      const member = Object.values(filter.getFields()).find(
        ({ extensions }) => (extensions.meaning as { column?: unknown } | undefined)?.column === column,
      )
      if (!isInputObjectType(member?.type)) throw new Error(`${table.name}.${column.name}`)
      t.same(Object.keys(member.type.getFields()), fifteen, `${table.name}.${column.name}: ${member.type}`)
      columns += 1
    }
  }
  t.ok(columns > 60)
  const operand = (filter: string) =>
    ['eq', 'in', 'isNull', 'contains', 'like'].map((name) => typeOf(filter, name)).join(' ')
  const typed: readonly (readonly [string, string])[] = [
    ['IntFilter', 'Int [Int!] Boolean String String'],
    ['BigIntFilter', 'BigInt [BigInt!] Boolean String String'],
    ['StringFilter', 'String [String!] Boolean String String'],
    ['JSONFilter', 'JSON [JSON!] Boolean JSON String'],
    ['RangeFilter', 'Range [Range!] Boolean Range String'],
    ['StringListFilter', '[String] [[String]!] Boolean [String] String'],
    ['PublicMoodFilter', 'PublicMood [PublicMood!] Boolean String String'],
    ['PublicMoodListFilter', '[PublicMood] [[PublicMood]!] Boolean [PublicMood] String'],
    ['PublicPostalFilter', 'PublicPostalInput [PublicPostalInput!] Boolean String String'],
  ]
  for (const [filter, expected] of typed) t.equal(operand(filter), expected, filter)
  t.same(fieldsOf('PublicBookListFilter'), ['some', 'none', 'every'], 'across relations to many')
  t.equal(typeOf('PublicAuthorFilter', 'publicBook'), 'PublicBookListFilter')
  t.equal(typeOf('PublicBookFilter', 'publicAuthor'), 'PublicAuthorFilter', 'and to one')
  t.end()
})

t.test('OrderDirection has both directions, and both with NULLs first or last', (t) => {
  t.same(
    (schema.getType('OrderDirection') as never as { getValues(): { name: string }[] })
      .getValues()
      .map(({ name }) => name),
    ['ASC', 'DESC', 'ASC_NULLS_FIRST', 'ASC_NULLS_LAST', 'DESC_NULLS_FIRST', 'DESC_NULLS_LAST'],
  )
  t.end()
})

// Types, names, comments -----------------------------------------------------------------------------------------------------------

t.test('scalars, enums, composites, domains, arrays and ranges', (t) => {
  const types: Readonly<Record<string, string>> = {
    'PublicAuthor.id': 'BigInt!',
    'PublicAuthor.mood': 'PublicMood',
    'PublicAuthor.moods': '[PublicMood]',
    'PublicAuthor.address': 'PublicPostal',
    'PublicAuthor.addresses': '[PublicPostal]',
    'ShopOrder_items.price': 'Decimal',
    'ShopOrder_items.labels': '[String]',
    'PublicTag.id': 'Int!',
    'PublicKinds.id': 'UUID!',
    'PublicKinds.a_real': 'Float',
    'PublicKinds.a_flag': 'Boolean',
    'PublicKinds.a_date': 'Date',
    'PublicKinds.a_timetz': 'Time',
    'PublicKinds.a_timestamptz': 'DateTime',
    'PublicKinds.a_interval': 'Interval',
    'PublicKinds.a_jsonb': 'JSON',
    'PublicKinds.a_inet': 'Inet',
    'PublicKinds.a_bytea': 'Bytes',
    'PublicKinds.a_range': 'Range',
    'PublicKinds.a_multirange': 'Range',
    'PublicKinds.bigints': '[BigInt]',
    'PublicKinds.jsonbs': '[JSON]',
    'PublicKinds.ranges': '[Range]',
  }
  for (const [place, expected] of Object.entries(types)) {
    const [type = '', field = ''] = place.split('.')
    t.equal(typeOf(type, field), expected, place)
  }
  t.notOk(fieldsOf('ShopOrder_itemsInput').includes('total'), 'what the database computes is no input')
  t.equal(schema.getType('PublicAuthor')?.description, 'People who write', 'comments are descriptions')
  t.equal(schema.getType('PublicMood')?.description, 'How somebody feels')
  t.equal(
    (schema.getType('PublicAuthor') as never as { getFields(): Record<string, { description: string }> }).getFields()
      .mentor_id!.description,
    'Who taught them',
  )
  t.end()
})

t.test('self references and several keys to one table have names of their own, the same each time', (t) => {
  t.same(
    fieldsOf('PublicAuthor').filter((name) => name.startsWith('public')),
    ['publicAuthor', 'publicAuthorByMentor_id', 'publicBook', 'publicBookByEditor_id'],
  )
  t.equal(typeOf('PublicAuthor', 'publicAuthorByMentor_id'), '[PublicAuthor!]!', 'and many down')
  t.equal(typeOf('PublicAuthor', 'publicAuthor'), 'PublicAuthor', 'one way up')
  t.end()
})

t.test('names GraphQL forbids are mapped, a clash is resolved, and both are listed', (t) => {
  t.same(
    fieldsOf('PublicNa_ve__').slice(0, 6),
    ['_1st', 'a_b_3', 'a_b_2', 'a_b', 'x__typename', 'or'],
    'a column called `or` keeps its name: only the filter has another use for it',
  )
  t.ok(fieldsOf('PublicNa_ve__Filter').includes('or_2'))
  t.same(naming.renamed.map(({ what, name, as, because }) => `${what} ${name} -> ${as}: ${because}`).toSorted(), [
    'column public.2nd.1st -> _1st: not a GraphQL name',
    'column public.naïve 😀.1st -> _1st: not a GraphQL name',
    'column public.naïve 😀.__typename -> x__typename: not a GraphQL name',
    'column public.naïve 😀.a b -> a_b_2: not a GraphQL name',
    'column public.naïve 😀.a-b -> a_b_3: not a GraphQL name',
    'enum value public.mood so so -> so_so: not a GraphQL name',
    'enum value public.mood true -> true_2: the name was taken',
    'filter member public.naïve 😀.or -> or_2: the name was taken',
    'table public.a-b -> PublicA_b_2: not a GraphQL name',
    'table public.naïve 😀 -> PublicNa_ve__: not a GraphQL name',
  ])
  t.equal(
    pascal.naming.renamed.some(({ name }) => name === 'public.a-b'),
    true,
  )
  t.end()
})
