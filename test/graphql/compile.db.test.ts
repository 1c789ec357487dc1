import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { getOperationAST, getVariableValues, Kind, parse } from 'graphql'
import t from 'tap'
import { postgresDialect } from '../../gateways/data/postgres-dialect.ts'
import { introspect } from '../../gateways/data/postgres-introspect.ts'
import { defaultReadLimits } from '../../gateways/data/read-limits.ts'
import { planRoot } from '../../gateways/graphql/plan-root.ts'
import { collectFields } from '../../gateways/graphql/plan-select.ts'
import { buildSchema } from '../../gateways/graphql/schema.ts'
import { testGateway } from './gateway.ts'

const { ask, sql } = await testGateway(t, {
  schemaSql: `
    create type mood as enum ('sad', 'so so');
    create type place as (street text, no int);
    create table author (id int primary key, name text not null, born date, mood mood, home place, mentor_id int references author);
    create table book (shop int, isbn text, title text not null, price numeric(6, 2), author_id int references author, tags text[], info jsonb, primary key (shop, isbn));
    create table tag (id int primary key, word text not null unique);
    create table book_tag (shop int, isbn text, tag_id int references tag, primary key (shop, isbn, tag_id), foreign key (shop, isbn) references book);
    insert into author values (1, 'Ada', '1931-05-20', 'sad', ('Main', 1), null), (2, 'Bo', null, 'so so', null, 1), (3, 'Cy_%', '1950-01-01', null, (null, 2), 1);
    insert into book values (1, 'a', 'Alpha', 10.50, 1, '{x,y}', '{"n": 1}'), (1, 'b', 'Beta', null, 1, '{}', '{}'), (2, 'a', '100%', 3, 2, null, null), (2, 'c', 'Gamma', 7.25, null, '{y}', '{"n": 2}');
    insert into tag values (1, 'sea'), (2, 'sky'), (3, 'old');
    insert into book_tag values (1, 'a', 1), (1, 'a', 2), (2, 'a', 2)`,
})
const catalog = await introspect(sql, ['public'])
const { schema, naming } = buildSchema(catalog, { changes: false })

interface Case {
  readonly title: string
  readonly query: string
  readonly variables?: Readonly<Record<string, unknown>>
}

const cases: readonly Case[] = [
  { title: 'a list', query: '{ publicTag { id word } }' },
  {
    title: 'aliases, __typename, skipped fields and fragments',
    query:
      'query($no: Boolean!) { publicTag(limit: 1) { n: word __typename id @skip(if: $no) ...f } } fragment f on PublicTag { again: id }',
    variables: { no: true },
  },
  { title: 'a name that PostgreSQL would cut', query: `{ publicTag(limit: 1) { id ${'w'.repeat(64)}: word } }` },
  {
    title: 'eq and several operators',
    query: '{ publicTag(where: { id: { gte: 1, lt: 3, neq: 2 }, word: { eq: "sea" } }) { id } }',
  },
  {
    title: 'in and notIn',
    query: 'query($in: [Int!]) { publicTag(where: { id: { in: $in, notIn: [1] } }) { id } }',
    variables: { in: [1, 2, 3] },
  },
  {
    title: 'NULL',
    query:
      '{ publicAuthor(where: { or: [{ born: { eq: null } }, { mood: { isNull: true } }, { home: { isNotNull: false } }] }) { id } }',
  },
  {
    title: 'contains, startsWith and endsWith take % and _ as they are',
    query: '{ publicAuthor(where: { name: { contains: "_", startsWith: "Cy_", endsWith: "%" } }) { id } }',
  },
  { title: 'like and ilike', query: '{ publicAuthor(where: { name: { like: "%\\\\%", ilike: "cy__" } }) { id } }' },
  {
    title: 'and, or, not',
    query:
      '{ publicTag(where: { not: { or: [{ id: { eq: 1 } }, { and: [{ id: { gt: 1 } }, { word: { eq: "sky" } }] }] } }) { id } }',
  },
  { title: 'nothing in or, and, not, in', query: '{ a: publicTag(where: { or: [] }) { id } }' },
  {
    title: 'arrays and JSON',
    query: '{ publicBook(where: { tags: { contains: ["y"] }, info: { contains: { n: 1 } } }) { isbn } }',
  },
  {
    title: 'an enum under another name, and a composite',
    query:
      '{ publicAuthor(where: { mood: { eq: so_so } }) { mood home { street } } b: publicAuthor(where: { home: { eq: { street: "Main", no: 1 } } }) { mood home { s: street no } } }',
  },
  {
    title: 'across a relation to one',
    query: '{ publicBook(where: { publicAuthor: { name: { eq: "Ada" } } }) { isbn } }',
  },
  { title: 'some', query: '{ publicAuthor(where: { publicBook: { some: { price: { gt: "5" } } } }) { id } }' },
  { title: 'none', query: '{ publicAuthor(where: { publicBook: { none: {} } }) { id } }' },
  {
    title: 'every: what the filter does not say yes of does not match',
    query: '{ publicAuthor(where: { publicBook: { every: { price: { gt: "5" } } } }) { id } }',
  },
  {
    title: 'through a link table',
    query: '{ publicTag(where: { publicBook: { some: { isbn: { eq: "a" }, shop: { eq: 2 } } } }) { word } }',
  },
  {
    title: 'orders with NULLs on either side',
    query: '{ publicBook(orderBy: [{ price: DESC_NULLS_LAST }, { title: ASC_NULLS_FIRST }]) { price title } }',
  },
  {
    title: 'an order in one object, as it is written in a default',
    query:
      'query($o: [PublicBookOrderBy!] = [{ title: DESC, shop: ASC }]) { publicBook(orderBy: $o, limit: 2) { title } }',
  },
  { title: 'limit and offset', query: '{ publicBook(limit: 2, offset: 1) { shop isbn } }' },
  {
    title: 'relations both ways, with arguments',
    query:
      '{ publicAuthor(where: { id: { eq: 1 } }) { publicBook(where: { price: { isNotNull: true } }, orderBy: { title: DESC }, limit: 1, offset: 0) { title publicAuthor { name } publicTag { word } } publicAuthorByMentor_id { name } } }',
  },
  {
    title: 'a connection forward',
    query:
      '{ publicTagConnection(first: 1) { totalCount pageInfo { hasNextPage hasPreviousPage } edges { node { word } } } }',
  },
  {
    title: 'a connection behind a cursor, by NULLable columns',
    query:
      'query($after: String) { publicBookConnection(first: 1, after: $after, orderBy: { price: ASC }) { pageInfo { hasNextPage hasPreviousPage } edges { node { title price } } } }',
  },
  {
    title: 'a connection back',
    query: '{ publicTagConnection(last: 2) { pageInfo { hasNextPage hasPreviousPage } edges { node { word } } } }',
  },
  {
    title: 'a node asked for twice',
    query: '{ publicTagConnection(first: 1) { a: edges { node { x: id } } b: edges { node { x: word } } } }',
  },
  { title: 'only a count', query: '{ publicTagConnection(where: { id: { gt: 1 } }) { totalCount } }' },
  {
    title: 'numbers',
    query:
      '{ publicBookAggregate(where: { shop: { eq: 1 } }) { count sum { price shop } avg { price } min { title } max { price } } }',
  },
  {
    title: 'numbers of groups',
    query:
      '{ publicBookAggregate { groupBy(columns: [shop, author_id], limit: 3, offset: 1) { key { shop author_id title } count max { title } } } }',
  },
  {
    title: 'create',
    query:
      'mutation { createPublicAuthor(input: { id: 4, name: "Di", mood: so_so, home: { street: "a \\"b\\"", no: 3 }, mentor_id: 1 }) { name mood home { street no } publicAuthor { publicAuthorByMentor_id { id } } } }',
  },
  {
    title: 'createMany',
    query: 'mutation { createManyPublicTag(inputs: [{ id: 5, word: "five" }, { word: "six", id: 6 }]) { id word } }',
  },
  {
    title: 'createMany with different columns',
    query:
      'mutation { createManyPublicBook(inputs: [{ shop: 3, isbn: "x", title: "X" }, { shop: 3, isbn: "y", title: "Y", price: "1.5" }, { title: "Z", isbn: "z", shop: 3 }]) { isbn price } }',
  },
  {
    title: 'createMany fails as a whole',
    query: 'mutation { createManyPublicTag(inputs: [{ id: 7, word: "seven" }, { id: 8, word: "five" }]) { id } }',
  },
  { title: 'none of it is there', query: '{ publicTag(where: { id: { gt: 6 } }) { id } }' },
  {
    title: 'update by a composite key',
    query:
      'mutation { updatePublicBook(input: { shop: 1, isbn: "b", price: "8.80", tags: ["p,q", null], info: [1, { a: null }] }) { title price tags info } }',
  },
  {
    title: 'update of a column to NULL, seen through its relations',
    query:
      'mutation { updatePublicBook(input: { shop: 1, isbn: "b", price: null }) { publicAuthor { publicBook { isbn price } } } }',
  },
  {
    title: 'update of a row that is not there',
    query: 'mutation { updatePublicBook(input: { shop: 9, isbn: "b", price: "1" }) { isbn } }',
  },
  {
    title: 'delete, with relations as they were',
    query: 'mutation { deletePublicTag(input: { id: 5 }) { word publicBook { isbn } } }',
  },
]

/** What the operation runs: SQL and parameters of each field of its root. */
function statementsOf({ query, variables = {} }: Case): string[] {
  const document = parse(query)
  const operation = getOperationAST(document)!
  const coerced = getVariableValues(schema, operation.variableDefinitions ?? [], variables)
  const definitions = document.definitions.filter((one) => one.kind === Kind.FRAGMENT_DEFINITION)
  const scope = {
    catalog,
    schema,
    naming,
    fragments: Object.fromEntries(definitions.map((one) => [one.name.value, one])),
    variables: coerced.coerced ?? {},
    // Of the one that has a default.
    rawVariables: query.includes('$o: ') ? { o: [{ title: 'DESC', shop: 'ASC' }] } : variables,
    limits: { ...defaultReadLimits, defaultPageSize: 100, maxPageSize: 1000 },
  }
  const root = schema.getRootType(operation.operation)!
  return [...collectFields(root, [operation.selectionSet], scope).values()].map((nodes) => {
    const plan = planRoot(root, nodes, scope)
    const { text } = plan.compile(catalog, postgresDialect).statement
    return plan.parameters.length === 0 ? text : `${text}\n  -- ${JSON.stringify(plan.parameters)}`
  })
}

async function shown(one: Case): Promise<string> {
  const { data, errors } = await ask(one.query, one.variables)
  const failed = errors?.map(
    ({ message, extensions }: { message: string; extensions: { code: string } }) => `${extensions.code}: ${message}`,
  )
  const answer = failed ? `${failed.join('; ')} ${JSON.stringify(data)}` : JSON.stringify(data)
  const variables = one.variables === undefined ? [] : [JSON.stringify(one.variables)]
  return [
    `# ${one.title}`,
    one.query,
    ...variables,
    ...statementsOf(one).map((text) => `  ${text}`),
    `=> ${answer}`,
  ].join('\n')
}

t.test('each construct compiles to the SQL it did, and answers what it did', async (t) => {
  const { data } = await ask('{ publicBookConnection(first: 1, orderBy: { price: ASC }) { pageInfo { endCursor } } }')
  const after = data.publicBookConnection.pageInfo.endCursor
  const found: string[] = []
  for (const one of cases)
    found.push(await shown(one.query.includes('$after') ? { ...one, variables: { after } } : one))
  const file = resolve(import.meta.dirname, 'compile.txt')
  // `node test/graphql/compile.db.test.ts --update` writes the file anew, for the diff to be read.
  if (process.argv.includes('--update')) writeFileSync(file, `${found.join('\n\n')}\n`)
  const wanted = readFileSync(file, 'utf8').trimEnd().split('\n\n')
  for (const [index, one] of cases.entries()) t.equal(found[index], wanted[index], one.title)
  t.equal(found.length, wanted.length)
})
