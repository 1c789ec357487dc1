import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { buildClientSchema, execute, type GraphQLSchema, getIntrospectionQuery, parse } from 'graphql'
import type { Test } from 'tap'
import { seed } from '../rest/seed.ts'
import type { Answer } from './gateway.ts'
import { directions, type Given, Writer } from './operation-writer.ts'
import { type Model, type ModelTable, Oracle, type Row } from './oracle.ts'

type Ask = (query: string, variables?: object) => Promise<Answer>

/** What the gateway must be started with, for the rows in memory to be paged as it pages. */
export function differentialOptions({ defaultPage, maxPage }: Pick<Model, 'defaultPage' | 'maxPage'>) {
  return {
    defaultPageSize: defaultPage,
    maxPageSize: maxPage,
    documentLimits: { maxAliases: 5000, maxTokens: 100_000, maxLength: 1_000_000 },
  }
}

/** How long each of the two tests may look; every run of the machine gets as far as it can. */
const optionsOf = (budgetMs: number) =>
  ({ seed, interruptAfterTimeLimit: budgetMs, markInterruptAsFailure: false }) as const
type Options = ReturnType<typeof optionsOf>

/** Random operations, answered by the gateway and by graphql-js over the same rows in memory, are the same; so are pages. */
export async function differential(t: Test, model: Model, ask: Ask, budgetMs: number): Promise<void> {
  const options = optionsOf(budgetMs)
  t.comment(`seed ${seed}`)
  const oracle = new Oracle(model)
  const schema = buildClientSchema((await ask(getIntrospectionQuery())).data)
  t.test('random operations answer what graphql-js answers over the same rows', (t) =>
    randomOperations(t, model, ask, options, (document, variables) => expected(schema, oracle, document, variables)),
  )
  t.test('cursors lead through every row once, forward and back, in the order of the list', (t) =>
    walks(t, model, ask, options, oracle),
  )
}

async function randomOperations(
  t: Test,
  model: Model,
  ask: Ask,
  options: Options,
  wantedOf: (document: string, variables: Given) => Promise<unknown>,
): Promise<void> {
  let operations = 0
  let withRows = 0
  const property = fc.asyncProperty(fc.gen(), async (g) => {
    const { one, other, variables } = new Writer(g, model).documents()
    const wanted = rounded(await wantedOf(other, variables))
    const { data, errors } = await ask(one, variables)
    if (errors) throw new Error(`${JSON.stringify(errors[0])}\n${one}\n${JSON.stringify(variables)}`)
    if (JSON.stringify(rounded(data)) !== JSON.stringify(wanted))
      throw new Error(
        `${one}\n${JSON.stringify(variables)}\nfound  ${JSON.stringify(rounded(data))}\nwanted ${JSON.stringify(wanted)}`,
      )
    operations += 1
    if (JSON.stringify(data).length > 60) withRows += 1
  })
  const { failed, errorInstance } = await fc.check(property, { ...options, numRuns: 3000 })
  t.comment(`${operations} operations`)
  t.notOk(failed, `seed ${seed}: ${(errorInstance as Error | null)?.message ?? ''}`)
  t.ok(withRows > operations / 2, 'and most of them had something to say')
}

/** Averages are compared as numbers: how many digits behind the point there are is the database's choice. */
function rounded(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (name, member) =>
    name.startsWith('avg_') && member !== null ? Number(member).toPrecision(10) : member,
  ) as unknown
}

/** With graphql-js on rows in memory. */
async function expected(schema: GraphQLSchema, oracle: Oracle, document: string, variables: Given): Promise<unknown> {
  const fieldResolver = oracle.resolve
  const result = await execute({ schema, document: parse(document), variableValues: variables, fieldResolver })
  if (result.errors) throw new Error(`the oracle failed: ${result.errors[0]!.stack}\n${document}`)
  return result.data
}

async function walks(t: Test, model: Model, ask: Ask, options: Options, oracle: Oracle): Promise<void> {
  let count = 0
  const property = fc.asyncProperty(fc.gen(), async (g) => {
    const writer = new Writer(g, model)
    const [key, table] = writer.one(Object.entries(model.tables))
    const step = writer.one([1, 2, 7])
    const where = writer.chance(2) ? writer.where(table, 1) : {}
    const sortable = Object.keys(table.columns).filter((column) => table.columns[column] !== 'words')
    const orderBy = [writer.one(sortable), writer.one(sortable)].map((column) => ({ [column]: writer.one(directions) }))
    const wanted = oracle.connection(key, { where: JSON.parse(JSON.stringify(where)), orderBy, first: 30 })
    if (wanted.totalCount > 30) return
    const nodes = wanted.edges.map(({ node }) => node)
    for (const forward of [true, false]) {
      const found = await walk(ask, table, nodes.length, { where, orderBy }, { step, forward })
      const inOrder = nodes.map((node) =>
        Object.fromEntries(Object.keys(table.columns).map((name) => [name, node[name]])),
      )
      if (!isDeepStrictEqual(found, inOrder))
        throw new Error(
          `${JSON.stringify({ table: key, where, orderBy, step, forward })}\nfound  ${JSON.stringify(found)}\nwanted ${JSON.stringify(inOrder)}`,
        )
    }
    count += 1
  })
  const { failed, errorInstance } = await fc.check(property, { ...options, numRuns: 500 })
  t.comment(`${count} walks`)
  t.notOk(failed, `seed ${seed}: ${(errorInstance as Error | null)?.message ?? ''}`)
  t.ok(count > 10)
}

/** All rows, page after page. @throws where a page contradicts the others */
async function walk(
  ask: Ask,
  table: ModelTable,
  total: number,
  list: { readonly where: Given; readonly orderBy: readonly Given[] },
  { step, forward }: { readonly step: number; readonly forward: boolean },
): Promise<Row[]> {
  const names = `(where: $where, orderBy: $orderBy, first: $first, last: $last, after: $after, before: $before)`
  const types = `($where: ${table.type}Filter, $orderBy: [${table.type}OrderBy!], $first: Int, $last: Int, $after: String, $before: String)`
  const page = `query${types} { c: ${table.field}Connection${names} { totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor } edges { cursor node { ${Object.keys(table.columns).join(' ')} } } } }`
  const found: Row[] = []
  let cursor: string | null = null
  do {
    const place: object = forward ? { first: step, after: cursor } : { last: step, before: cursor }
    const { data, errors } = await ask(page, { ...list, ...place })
    const told = () => `${table.type} ${JSON.stringify({ ...list, ...place })}: ${JSON.stringify(errors ?? data)}`
    if (errors) throw new Error(told())
    const { edges, pageInfo, totalCount } = data.c
    const part = edges.map((edge: { node: Row }) => edge.node)
    if (forward) found.push(...part)
    else found.unshift(...part)
    const more = forward ? pageInfo.hasNextPage : pageInfo.hasPreviousPage
    const behind = forward ? pageInfo.hasPreviousPage : pageInfo.hasNextPage
    const sane =
      totalCount === total &&
      behind === (cursor !== null) &&
      pageInfo.startCursor === (edges[0]?.cursor ?? null) &&
      pageInfo.endCursor === (edges.at(-1)?.cursor ?? null) &&
      more === found.length < total &&
      found.length <= total
    if (!sane) throw new Error(told())
    cursor = more ? (forward ? pageInfo.endCursor : pageInfo.startCursor) : null
  } while (cursor !== null)
  return found
}
