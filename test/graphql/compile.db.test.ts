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
import { type CompileCase, compileCases as cases } from './compile-cases.ts'
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

/** What the operation runs: SQL and parameters of each field of its root. */
function statementsOf({ query, variables = {} }: CompileCase): string[] {
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

async function shown(one: CompileCase): Promise<string> {
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
