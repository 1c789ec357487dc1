import t from 'tap'
import { testGateway } from './gateway.ts'

const { ask, sql } = await testGateway(t, {
  schemas: ['public', 'other'],
  settings: { shared_preload_libraries: 'pg_stat_statements', 'pg_stat_statements.track': 'all' },
})
await sql.query('create schema statistics; create extension pg_stat_statements schema statistics')
/** Many rows at every level, so that one statement a row would show. */
await sql.query(`insert into orders (customer_id, status, total) select 1 + n % 40, 'open', n from generate_series(1, 2000) n;
  insert into order_item (order_id, line, tenant, sku) select o.id, 100 + k, 1, (select sku from product where tenant = 1 limit 1) from orders o, generate_series(1, 3) k`)

interface Counted {
  /** Calls of statements that read or write tables. */
  readonly data: number
  readonly statements: readonly string[]
  /** Calls that tell the transaction of a statement who asks, and whether it may write. */
  readonly settings: number
}

/** What the gateway's sessions did to the database during the work. */
async function counting(work: () => Promise<void>): Promise<Counted> {
  await sql.query('select statistics.pg_stat_statements_reset()')
  await work()
  const { rows } = await sql.query<{ query: string; calls: string }>(
    `select query, calls from statistics.pg_stat_statements s join pg_database d on d.oid = s.dbid
     where d.datname = current_database() and toplevel and query !~ 'pg_stat_statements|from pg_'`,
  )
  const isData = (query: string) => /"(?:public|other)"\./.test(query)
  const sum = (found: typeof rows) => found.reduce((total, row) => total + Number(row.calls), 0)
  const data = rows.filter(({ query }) => isData(query))
  return {
    statements: data.map(({ query, calls }) => `${calls} x ${query}`),
    data: sum(data),
    settings: sum(rows.filter(({ query }) => query.includes('set_config'))),
  }
}

const deep = `publicCountry {
  publicAddress(limit: 20) {
    publicCustomers(limit: 20, where: { publicOrders: { some: { total: { gt: "1" } } } }) {
      publicTag { name }
      publicOrders(limit: 50, orderBy: { total: DESC }) {
        publicOrder_item(limit: 20) {
          publicProduct { title publicTag(limit: 5) { name publicProduct(limit: 2) { title } } }
        }
      }
    }
  }
}`

const operations: readonly { readonly title: string; readonly query: string; readonly statements: number }[] = [
  { title: 'a flat list', query: '{ publicOrders(limit: 1000) { id } }', statements: 1 },
  { title: 'seven levels of relations', query: `{ ${deep} }`, statements: 1 },
  {
    title: 'forward relations of a thousand rows',
    query: '{ publicOrder_item(limit: 1000) { publicOrders { publicCustomers { name } } } }',
    statements: 1,
  },
  {
    title: 'a connection with total count, cursors and relations',
    query:
      '{ publicOrdersConnection(first: 500) { totalCount pageInfo { endCursor } edges { cursor node { publicCustomers { name } publicOrder_item { line } } } } }',
    statements: 1,
  },
  {
    title: 'aggregates of several kinds and groups',
    query:
      '{ publicOrdersAggregate { count sum { total } avg { total } a: groupBy(columns: [status]) { count max { total } } b: groupBy(columns: [customer_id]) { count } } }',
    statements: 1,
  },
  {
    title: 'three fields of the root',
    query: `{ ${deep} publicTag { name } publicTagAggregate { count } }`,
    statements: 3,
  },
  { title: 'introspection and __typename', query: '{ __typename __schema { types { name } } }', statements: 0 },
  {
    title: 'a write that returns relations at three levels',
    query:
      'mutation { createPublicOrders(input: { customer_id: "1" }) { id publicCustomers { name publicOrders(limit: 100) { publicOrder_item { publicProduct { title } } } } } }',
    statements: 1,
  },
  {
    title: 'two hundred rows in one mutation, each with a relation',
    query: `mutation { createManyPublicOrders(inputs: [${'{ customer_id: "1" }, '.repeat(200)}]) { publicCustomers { name } } }`,
    statements: 1,
  },
  {
    title: 'an update and a delete',
    query:
      'mutation { updatePublicTag(input: { id: 1, name: "x" }) { publicProduct { title } } deletePublicStock(input: { id: 1 }) { otherWarehouse { name } } }',
    statements: 2,
  },
]

for (const { title, query, statements } of operations) {
  t.test(`${title}: ${statements} statement${statements === 1 ? '' : 's'}`, async (t) => {
    let rows = 0
    const counted = await counting(async () => {
      const { data, errors } = await ask(query)
      t.same(errors, undefined)
      rows = JSON.stringify(data).split('{').length
    })
    t.equal(counted.data, statements, `${rows} objects came back; ${counted.statements.join('; ').slice(0, 300)}`)
    // Role, claims and read-only are set in the same round trip, at most once for each statement, and taken back where a connection is shared.
    t.ok(counted.settings <= 2 * statements, `${counted.settings} settings around ${statements} statements`)
  })
}

t.test('the number of rows does not change the number of statements', async (t) => {
  for (const limit of [1, 10, 1000]) {
    const query = `{ publicCustomers(limit: ${limit}) { publicOrders(limit: ${limit}) { publicOrder_item(limit: ${limit}) { publicProduct { title } } } } }`
    const { data } = await counting(async () => {
      t.same((await ask(query)).errors, undefined)
    })
    t.equal(data, 1, `limit ${limit}`)
  }
})
