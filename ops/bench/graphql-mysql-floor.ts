import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getOperationAST, getVariableValues, parse } from 'graphql'
import { createPool, type Pool } from 'mysql2/promise'
import { type BoundStatement, bindStep } from '../../gateways/data/mysql-bind.ts'
import { mysqlDialect } from '../../gateways/data/mysql-dialect.ts'
import { introspectMysql } from '../../gateways/data/mysql-introspect.ts'
import { mariadbFlavour } from '../../gateways/data/mysql-sql.ts'
import type { MysqlStatement } from '../../gateways/data/mysql-statement.ts'
import { defaultReadLimits } from '../../gateways/data/read-limits.ts'
import { planRoot } from '../../gateways/graphql/plan-root.ts'
import { collectFields } from '../../gateways/graphql/plan-select.ts'
import { buildSchema } from '../../gateways/graphql/schema.ts'
import { type GraphqlCase, graphqlCases } from './graphql-cases.ts'

/**
 * The floor of the GraphQL benchmark on MariaDB, in a process of its own: bare node:http and mysql2, prepared statements, and the very
 * SQL that the gateway runs, made before the first request. It reads no document, checks nothing and knows no errors. Path: `/<case>/<n>`.
 */
const [url = '', poolSize = '10', requests = '3000'] = process.argv.slice(2)
const pool = createPool({ uri: url, connectionLimit: Number(poolSize), charset: 'utf8mb4', timezone: 'Z' })

async function statements(chosen: readonly GraphqlCase[]): Promise<BoundStatement[][]> {
  const client = { query: async (text: string, values: readonly unknown[]) => (await pool.query(text, [...values]))[0] }
  const catalog = await introspectMysql(client as Parameters<typeof introspectMysql>[0], ['public'])
  const { schema, naming } = buildSchema(catalog, { changes: false })
  return chosen.map(({ ours, variables }) => {
    const operation = getOperationAST(parse(ours))!
    return Array.from({ length: Number(requests) }, (_, n) => {
      const given = variables(n)
      const { coerced = {} } = getVariableValues(schema, operation.variableDefinitions ?? [], given)
      const limits = { ...defaultReadLimits, defaultPageSize: 100, maxPageSize: 1000 }
      const scope = { catalog, schema, naming, fragments: {}, variables: coerced, rawVariables: given, limits }
      const root = schema.getRootType(operation.operation)!
      const [nodes] = [...collectFields(root, [operation.selectionSet], scope).values()]
      const plan = planRoot(root, nodes!, scope)
      const { steps } = plan.compile(catalog, mysqlDialect(mariadbFlavour)).statement as MysqlStatement
      return bindStep(steps[0]!, plan.parameters, [])[0]!
    })
  })
}

async function answer(from: Pool, { text, values }: BoundStatement): Promise<string> {
  const [rows] = await from.execute({ sql: text, rowsAsArray: true }, [...values])
  return `{"data":{"it":[${(rows as string[][]).map(([json]) => json).join(',')}]}}`
}

const prepared = await statements(graphqlCases)
const server = createServer((request, response) => {
  const [, index = '', n = ''] = (request.url ?? '').split('/')
  answer(pool, prepared[Number(index)]![Number(n)]!).then(
    (text) => {
      const body = Buffer.from(text)
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body)
    },
    (error: Error) => response.writeHead(500).end(error.message),
  )
})
server.listen(0, '127.0.0.1', () => {
  process.send?.({ kind: 'ready', url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
})
process.on('disconnect', () => process.exit())
