import type { Table } from '../data/catalog.ts'
import { type FailureName, failureResponses, parameterReferences } from './openapi-components.ts'
import {
  answer,
  countedSchema,
  exampleInput,
  rowSchema,
  type TableParts,
  type TablePlan,
  writableColumns,
} from './openapi-table-parts.ts'
import type { Json } from './openapi-types.ts'

/** What operations of a table have in common. */
export function operation({ table, component }: TablePlan, verb: string, summary: string, rest: Json): Json {
  return { operationId: `${verb}_${component}`, tags: [table.name], summary, ...rest }
}

export function withAuthentication(names: readonly FailureName[], jwt: boolean): FailureName[] {
  return jwt ? [...names, 'Unauthorized'] : [...names]
}

const failures: readonly FailureName[] = [
  'BadRequest',
  'Forbidden',
  'NotFound',
  'NotAcceptable',
  'Conflict',
  'PayloadTooLarge',
  'UnsupportedMediaType',
  'IdempotencyMismatch',
  'Unavailable',
]
const conditional: readonly FailureName[] = [...failures, 'PreconditionFailed']

function failuresOf(names: readonly FailureName[], { jwt }: TablePlan): Json {
  return failureResponses(withAuthentication(names, jwt))
}

const done: Json = { $ref: '#/components/responses/Done' }

/** Columns a new row must have. */
function requiredColumns(table: Table): string[] {
  return writableColumns(table)
    .filter(({ nullable, defaultSql, identity }) => !nullable && defaultSql === null && identity === null)
    .map(({ name }) => name)
}

function inputSchema(component: string, required: readonly string[]): Json {
  const reference = { $ref: `#/components/schemas/${component}Input` }
  return required.length === 0 ? reference : { allOf: [reference, { required }] }
}

export function insertOperation(plan: TablePlan, parts: TableParts): Json {
  const { table, component } = plan
  const one = inputSchema(component, requiredColumns(table))
  const created = {
    'application/json': {
      schema: { anyOf: [countedSchema(component), rowSchema(component)] },
      examples: { row: parts.rowExample, rows: parts.rowsExample },
    },
  }
  return operation(plan, 'create', `Create a row of ${table.name}, or several`, {
    parameters: [...parts.representation, ...parameterReferences(['preferInsert', 'idempotencyKey'])],
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: { oneOf: [one, { type: 'array', minItems: 1, items: one }] },
          examples: {
            row: { summary: 'One row', value: exampleInput(table) },
            rows: { summary: 'Several rows, all or none', value: [exampleInput(table)] },
          },
        },
      },
    },
    responses: {
      201: answer(
        'The row; for an array the rows and their number.',
        ['Location', 'ETag', 'PreferenceApplied', 'IdempotencyReplayed'],
        created,
      ),
      200: answer('No row of the array was new (`Prefer: resolution=ignore-duplicates`).', ['PreferenceApplied'], {
        'application/json': { schema: countedSchema(component), example: { data: [], count: 0 } },
      }),
      204: done,
      ...failuresOf(failures, plan),
    },
  })
}

export function replaceOperation(plan: TablePlan, parts: TableParts): Json {
  const { table, component } = plan
  const required = requiredColumns(table).filter((name) => !table.primaryKey.includes(name))
  return operation(plan, 'replace', `Replace a row of ${table.name}`, {
    description: 'Columns that are not given get their default, or NULL.',
    parameters: rowParameters(parts),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: inputSchema(component, required),
          example: exampleInput(table, table.primaryKey),
        },
      },
    },
    responses: { 200: parts.row, 204: done, ...failuresOf(conditional, plan) },
  })
}

function rowParameters(parts: TableParts): Json[] {
  return [...parts.representation, ...parameterReferences(['preferWrite', 'ifMatch', 'idempotencyKey'])]
}

export function updateOperation(plan: TablePlan, parts: TableParts): Json {
  return operation(plan, 'update', `Change a row of ${plan.table.name}`, {
    description: 'Only the given columns change.',
    parameters: rowParameters(parts),
    requestBody: parts.change,
    responses: { 200: parts.row, 204: done, ...failuresOf(conditional, plan) },
  })
}

export function deleteOperation(plan: TablePlan, parts: TableParts): Json {
  return operation(plan, 'delete', `Delete a row of ${plan.table.name}`, {
    parameters: parameterReferences(['preferWrite', 'ifMatch', 'idempotencyKey']),
    responses: { 200: parts.row, 204: done, ...failuresOf(conditional, plan) },
  })
}

const filtered = 'The rows that match the filters; at least one filter is needed.'

export function updateManyOperation(plan: TablePlan, parts: TableParts): Json {
  return operation(plan, 'updateMany', `Change rows of ${plan.table.name}`, {
    description: filtered,
    parameters: [...parts.filters, ...parts.representation, ...parameterReferences(['preferWrite', 'idempotencyKey'])],
    requestBody: parts.change,
    responses: { 200: parts.rows, 204: done, ...failuresOf(failures, plan) },
  })
}

export function deleteManyOperation(plan: TablePlan, parts: TableParts): Json {
  return operation(plan, 'deleteMany', `Delete rows of ${plan.table.name}`, {
    description: filtered,
    parameters: [...parts.filters, ...parameterReferences(['preferWrite', 'idempotencyKey'])],
    responses: { 200: parts.rows, 204: done, ...failuresOf(failures, plan) },
  })
}
