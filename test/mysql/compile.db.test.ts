import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { getOperationAST, getVariableValues, Kind, parse } from 'graphql'
import t from 'tap'
import { mysqlDialect } from '../../gateways/data/mysql-dialect.ts'
import { introspectMysql } from '../../gateways/data/mysql-introspect.ts'
import { mariadbFlavour, mysqlFlavour } from '../../gateways/data/mysql-sql.ts'
import { defaultReadLimits } from '../../gateways/data/read-limits.ts'
import { planRoot } from '../../gateways/graphql/plan-root.ts'
import { collectFields } from '../../gateways/graphql/plan-select.ts'
import { buildSchema } from '../../gateways/graphql/schema.ts'
import { type CompileCase, compileCases } from '../graphql/compile-cases.ts'
import { testMysqlGateway } from './gateway.ts'

t.setTimeout(180_000)

const { ask, sql } = await testMysqlGateway(t, {
  schemaSql: `
    create table author (id int primary key, name varchar(50) not null, born date, mood enum('sad', 'so so'), mentor_id int, foreign key (mentor_id) references author (id));
    create table book (shop int, isbn varchar(10), title varchar(50) not null, price decimal(6, 2), author_id int, info json, primary key (shop, isbn), foreign key (author_id) references author (id));
    create table tag (id int primary key, word varchar(50) not null unique);
    create table book_tag (shop int, isbn varchar(10), tag_id int, primary key (shop, isbn, tag_id), foreign key (shop, isbn) references book (shop, isbn), foreign key (tag_id) references tag (id));
    insert into author values (1, 'Ada', '1931-05-20', 'sad', null), (2, 'Bo', null, 'so so', 1), (3, 'Cy_%', '1950-01-01', null, 1);
    insert into book values (1, 'a', 'Alpha', 10.50, 1, '{"n": 1}'), (1, 'b', 'Beta', null, 1, '{}'), (2, 'a', '100%', 3, 2, null), (2, 'c', 'Gamma', 7.25, null, '{"n": 2}');
    insert into tag values (1, 'sea'), (2, 'sky'), (3, 'old');
    insert into book_tag values (1, 'a', 1), (1, 'a', 2), (2, 'a', 2)`,
})
const client = { query: async (text: string, values: readonly unknown[]) => (await sql.query(text, [...values]))[0] }
const catalog = await introspectMysql(client as Parameters<typeof introspectMysql>[0], ['public'])
const { schema, naming } = buildSchema(catalog, { changes: false })

/** Without what MySQL has no types for: arrays and composites. */
const cases = compileCases.flatMap((one): CompileCase[] => {
  const query = one.query
    .replace('tags: { contains: ["y"] }, ', '')
    .replace(/, tags: \["p,q", null\]/, '')
    .replace('title price tags info', 'title price info')
    .replace(', { home: { isNotNull: false } }', '')
    .replace('home: { street: "a \\"b\\"", no: 3 }, ', '')
    .replace('name mood home { street no }', 'name mood')
    .replace(/ b: publicAuthor\(where: \{ home.*$/, ' }')
    .replace('mood home { street }', 'mood')
  return [{ ...one, query }]
})

/** What the operation runs: SQL and parameters of each field of its root; MySQL's own where it is not the same as MariaDB's. */
function statementsOf({ query, variables = {} }: CompileCase): string[] {
  const document = parse(query)
  const operation = getOperationAST(document)!
  const definitions = document.definitions.filter((one) => one.kind === Kind.FRAGMENT_DEFINITION)
  const coerced = getVariableValues(schema, operation.variableDefinitions ?? [], variables)
  const scope = {
    catalog,
    schema,
    naming,
    fragments: Object.fromEntries(definitions.map((one) => [one.name.value, one])),
    variables: coerced.coerced ?? {},
    rawVariables: query.includes('$o: ') ? { o: [{ title: 'DESC', shop: 'ASC' }] } : variables,
    limits: { ...defaultReadLimits, defaultPageSize: 100, maxPageSize: 1000 },
  }
  const root = schema.getRootType(operation.operation)!
  return [...collectFields(root, [operation.selectionSet], scope).values()].map((nodes) => {
    const plan = planRoot(root, nodes, scope)
    const [mariadb, mysql] = [mariadbFlavour, mysqlFlavour].map((flavour) => {
      return plan.compile(catalog, mysqlDialect(flavour)).statement.text
    })
    return [
      mariadb!,
      ...(mysql === mariadb ? [] : [`MySQL: ${mysql}`]),
      ...(plan.parameters.length === 0 ? [] : [`-- ${JSON.stringify(plan.parameters)}`]),
    ].join('\n  ')
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
  // `node test/mysql/compile.db.test.ts --update` writes the file anew, for the diff to be read.
  if (process.argv.includes('--update')) writeFileSync(file, `${found.join('\n\n')}\n`)
  const wanted = readFileSync(file, 'utf8').trimEnd().split('\n\n')
  for (const [index, one] of cases.entries()) t.equal(found[index], wanted[index], one.title)
  t.equal(found.length, wanted.length)
})
