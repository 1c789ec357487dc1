import type { Table } from '../data/catalog.ts'
import { completeOrder } from '../data/order.ts'
import { type FailureName, failureResponses, parameterReferences } from './openapi-components.ts'
import { UniqueNames } from './openapi-names.ts'
import { isInsertable, isUpdatable, type TableParts, type TablePlan, tableParts } from './openapi-table-parts.ts'
import { columnExample, exampleText, type Json } from './openapi-types.ts'
import {
  deleteManyOperation,
  deleteOperation,
  insertOperation,
  operation,
  replaceOperation,
  updateManyOperation,
  updateOperation,
  withAuthentication,
} from './openapi-writes.ts'

export const reading: readonly FailureName[] = ['BadRequest', 'Forbidden', 'NotFound', 'NotAcceptable', 'Unavailable']

/** Paths of a table, relative to the base path; what they share goes into the plan's components. */
export function tablePaths(plan: TablePlan): Json {
  const { table } = plan
  const parts = tableParts(plan)
  const path = `/${encodeURIComponent(table.name)}`
  const paths: Record<string, Json> = { [path]: rowsOperations(plan, parts) }
  paths[`${path}/schema`] = { get: schemaOperation(plan) }
  if (plan.changes && (table.kind === 'table' || table.kind === 'partitioned-table')) {
    paths[`${path}/changes`] = { get: changesOperation(plan, parts) }
  }
  const keys = keyParameters(table)
  if (keys.length > 0) {
    const key = keys.map(({ name }) => `{${String(name)}}`).join(',')
    paths[`${path}/${key}`] = { parameters: keys, ...rowOperations(plan, parts) }
  }
  return paths
}

function rowsOperations(plan: TablePlan, parts: TableParts): Json {
  const { table } = plan
  return {
    get: listOperation(plan, parts),
    ...(isInsertable(table) ? { post: insertOperation(plan, parts) } : {}),
    ...(isUpdatable(table) ? { patch: updateManyOperation(plan, parts) } : {}),
    ...(table.deletable ? { delete: deleteManyOperation(plan, parts) } : {}),
  }
}

function rowOperations(plan: TablePlan, parts: TableParts): Json {
  const { table } = plan
  return {
    get: readOperation(plan, parts),
    ...(isUpdatable(table) ? { put: replaceOperation(plan, parts), patch: updateOperation(plan, parts) } : {}),
    ...(table.deletable ? { delete: deleteOperation(plan, parts) } : {}),
  }
}

const integers = new Set(['int2', 'int4', 'int8'])

/** Names of path parameters are free, only their places count: they are made legal and unique. */
function keyParameters(table: Table): Json[] {
  const names = new UniqueNames()
  return table.primaryKey.map((name) => {
    const column = table.columnByName.get(name)!
    const isInteger = integers.has(column.type.base.name)
    return {
      name: names.take(name),
      in: 'path',
      required: true,
      description: `Primary key column \`${name}\`.`,
      schema: { type: isInteger ? 'integer' : 'string' },
      example: isInteger || column.maxLength !== null ? columnExample(column) : exampleText(column.type),
    }
  })
}

const unchanged: Json = { $ref: '#/components/responses/NotModified' }

function listOperation(plan: TablePlan, parts: TableParts): Json {
  const { table, jwt } = plan
  return operation(plan, 'list', `Rows of ${table.name}`, {
    ...(table.comment === null ? {} : { description: table.comment }),
    parameters: [
      ...parts.representation,
      ...parts.filters,
      ...parts.order,
      ...parameterReferences(['orderDirection', 'limit', 'offset']),
      ...(completeOrder(table, []).unique ? parameterReferences(['first', 'after', 'last', 'before']) : []),
      ...parameterReferences(['having']),
      ...parameterReferences(['preferRead', 'ifNoneMatch']),
    ],
    responses: { 200: parts.list, 304: unchanged, ...failureResponses(withAuthentication(reading, jwt)) },
  })
}

function readOperation(plan: TablePlan, parts: TableParts): Json {
  return operation(plan, 'get', `One row of ${plan.table.name}`, {
    parameters: [...parts.representation, ...parameterReferences(['ifNoneMatch'])],
    responses: { 200: parts.row, 304: unchanged, ...failureResponses(withAuthentication(reading, plan.jwt)) },
  })
}

function schemaOperation(plan: TablePlan): Json {
  return operation(plan, 'describe', `Columns, keys and relations of ${plan.table.name}`, {
    responses: {
      200: { $ref: '#/components/responses/TableDefinition' },
      ...failureResponses(withAuthentication(['NotFound', 'Unavailable'], plan.jwt)),
    },
  })
}

/** Query parameters of a change stream. Columns of these names cannot be filtered by there. */
const changeParameters: readonly string[] = ['types', 'from', 'resume', 'snapshot']

function changesOperation(plan: TablePlan, parts: TableParts): Json {
  const { table, jwt } = plan
  const columnFilters = [...parts.filterOf].flatMap(([name, filter]) =>
    changeParameters.includes(name) ? [] : [filter],
  )
  const row = Object.fromEntries(table.columns.slice(0, 2).map((column) => [column.name, columnExample(column)]))
  const event = { type: 'INSERT', schema: table.schema, table: table.name, data: row, timestamp: 1_700_000_000_000 }
  return operation(plan, 'watch', `Changes of ${table.name} as they happen`, {
    description: `Server-sent events, each with a ChangeEvent as its data; over WebSocket the same at \`/ws/${encodeURIComponent(table.name)}/changes\`, without the base path. Delivered at most once, unless \`from\` or \`resume\` asks for more.`,
    parameters: [...columnFilters, ...parameterReferences(changeParameters), ...parameterReferences(['lastEventId'])],
    responses: {
      200: {
        description: 'The stream.',
        content: {
          'text/event-stream': {
            schema: { $ref: '#/components/schemas/ChangeStream' },
            example: `event: INSERT\ndata: ${JSON.stringify(event)}\n\n`,
          },
        },
      },
      ...failureResponses(withAuthentication([...reading, 'TooManyRequests'], jwt)),
    },
  })
}
