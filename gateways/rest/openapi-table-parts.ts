import type { Column, Table } from '../data/catalog.ts'
import { type HeaderName, headerReferences } from './openapi-components.ts'
import { filterParameter, isFilterParameter } from './openapi-filters.ts'
import type { Shared } from './openapi-names.ts'
import { columnExample, type Json, optional } from './openapi-types.ts'

/** A table with what its paths need to know of the document. */
export interface TablePlan {
  readonly table: Table
  /** Of the row's component; `<component>Input` is what can be written. */
  readonly component: string
  readonly shared: Shared
  /** Whether every column's filter is described on its own. */
  readonly filters: boolean
  readonly jwt: boolean
  readonly changes: boolean
}

/** What several operations of a table refer to. */
export interface TableParts {
  /** `select` and `expand`. */
  readonly representation: readonly Json[]
  /** By column. */
  readonly filterOf: ReadonlyMap<string, Json>
  /** A parameter for each column, and the groups. */
  readonly filters: readonly Json[]
  readonly order: readonly Json[]
  /** Responses. */
  readonly list: Json
  readonly row: Json
  readonly rows: Json
  /** Examples. */
  readonly rowExample: Json
  readonly rowsExample: Json
  /** Request body of partial updates; null when there are none. */
  readonly change: Json | null
}

export function tableParts(plan: TablePlan): TableParts {
  const { table, component, shared } = plan
  const parameter = (name: string, value: Json | null) =>
    value === null ? [] : [shared.parameters.add(`${component}.${name}`, value)]
  const columns = table.columns.filter(({ name }) => plan.filters && isFilterParameter(name))
  const filterOf = new Map(
    columns.map((column) => [
      column.name,
      shared.parameters.add(`${component}.${column.name}`, filterParameter(column)),
    ]),
  )
  const rowExample = shared.examples.add(component, { value: exampleRow(table) })
  const rowsExample = shared.examples.add(`${component}.rows`, { value: { data: [exampleRow(table)], count: 1 } })
  return {
    representation: [...parameter('select', selectParameter(table)), ...parameter('expand', expandParameter(table))],
    filterOf,
    filters: [...filterOf.values(), ...parameter('or', orParameter(table)), ...parameter('and', andParameter(table))],
    order: orderParameters(table).flatMap((value) => parameter(String(value.name), value)),
    list: shared.responses.add(`${component}.list`, listResponse(plan, rowExample)),
    row: shared.responses.add(component, rowResponse(plan, rowExample)),
    rows: shared.responses.add(`${component}.rows`, rowsResponse(plan, rowsExample)),
    rowExample,
    rowsExample,
    change: isUpdatable(table) ? shared.requestBodies.add(`${component}.change`, changeBody(plan)) : null,
  }
}

/** Columns a client may give a value. */
export function writableColumns(table: Table): Column[] {
  return table.columns.filter((column) => !column.generated && column.identity !== 'always')
}

export function isUpdatable(table: Table): boolean {
  return table.updatable && writableColumns(table).length > 0
}

export function isInsertable(table: Table): boolean {
  return table.insertable && writableColumns(table).length > 0
}

function exampleRow({ columns }: Table): Json {
  return Object.fromEntries(columns.map((column) => [column.name, columnExample(column)]))
}

export function exampleInput(table: Table, leaveOut: readonly string[] = []): Json {
  const columns = writableColumns(table).filter(({ name, identity }) => identity === null && !leaveOut.includes(name))
  return Object.fromEntries(columns.map((column) => [column.name, columnExample(column)]))
}

/** A name that can stand in a list of the URL: quoted where it holds what the list's grammar reads. */
function listName(name: string): string {
  return /^[^\s",.:!()[\]{}\\*]+$/.test(name) ? name : `"${name.replace(/["\\]/g, '\\$&')}"`
}

function query(name: string, description: string, example: string): Json {
  return optional('query', name, description, { type: 'string' }, example)
}

function selectParameter(table: Table): Json | null {
  if (table.columns.length === 0) return null
  return query(
    'select',
    'Columns to return, between commas; `<name>:<column>` renames. In lists also aggregates: `count()`, `<column>.sum()`, `.avg()`, `.min()`, `.max()`; plain columns beside them group.',
    table.columns
      .slice(0, 3)
      .map(({ name }) => listName(name))
      .join(','),
  )
}

const maxListedRelations = 50

function expandParameter({ relations }: Table): Json | null {
  const [first] = relations
  if (!first) return null
  const lines = relations
    .slice(0, maxListedRelations)
    .map(({ name, kind, targetTable }) => `- \`${name}\`: ${kind === 'one' ? 'one' : 'many'} of \`${targetTable}\``)
  return query(
    'expand',
    `Related rows to put into each row, between commas; \`<relation>(select:a,b,limit:5,expand:<relation>)\` takes parameters.\n\n${lines.join('\n')}`,
    relationName(first.name),
  )
}

/** In `expand` an exclamation mark is part of a name and a dot leads on to the next relation. */
function relationName(name: string): string {
  return listName(name.replaceAll('!', '')) === name.replaceAll('!', '') ? name : `"${name.replace(/["\\]/g, '\\$&')}"`
}

function exampleCondition({ columns }: Table): string | null {
  return columns[0] ? `${listName(columns[0].name)}.is.null` : null
}

function orParameter(table: Table): Json | null {
  const condition = exampleCondition(table)
  if (condition === null) return null
  return query(
    'or',
    'One of these: `(<column>.<operator>.<value>,…)`; `and(…)`, `or(…)` and `not.` nest.',
    `(${condition},not.${condition})`,
  )
}

function andParameter(table: Table): Json | null {
  const condition = exampleCondition(table)
  if (condition === null) return null
  const hidden = table.columns.filter(({ name }) => !isFilterParameter(name)).map(({ name }) => `\`${name}\``)
  const note = hidden.length === 0 ? '' : ` Also for columns that are named like parameters: ${hidden.join(', ')}.`
  return query('and', `All of these, written as in \`or\`.${note}`, `(not.${condition})`)
}

function orderParameters(table: Table): Json[] {
  const column = table.columns.find(({ name }) => table.primaryKey.includes(name)) ?? table.columns[0]
  if (!column) return []
  const name = listName(column.name)
  return [
    query('orderBy', 'Columns to sort by, between commas; of a result with aggregates, its properties.', name),
    query('order', 'Instead of the two: `<column>.<asc|desc>.<nullsfirst|nullslast>`, between commas.', `${name}.desc`),
  ]
}

export function answer(description: string, headers: readonly HeaderName[], content?: Json): Json {
  return { description, headers: headerReferences(headers), ...(content ? { content } : {}) }
}

/** With `select` and `expand` rows have other properties than those of their table. */
export function rowSchema(component: string): Json {
  return { anyOf: [{ $ref: `#/components/schemas/${component}` }, { $ref: '#/components/schemas/Selection' }] }
}

function listResponse({ table, component }: TablePlan, rowExample: Json): Json {
  const schema = {
    type: 'object',
    required: ['data', 'pagination'],
    properties: {
      data: { type: 'array', items: rowSchema(component) },
      pagination: { $ref: '#/components/schemas/Pagination' },
    },
  }
  const example = { data: [exampleRow(table)], pagination: { offset: 0, limit: 100, hasMore: false } }
  return answer('The rows and where they are in the whole.', ['ETag', 'ContentRange', 'PreferenceApplied'], {
    'application/json': { schema, example },
    'text/csv': { schema: { type: 'string' }, example: `${table.columns.map(({ name }) => name).join(',')}\r\n` },
    'application/vnd.busbar.object+json': { schema: rowSchema(component), examples: { row: rowExample } },
  })
}

function rowResponse({ component }: TablePlan, rowExample: Json): Json {
  return answer('The row.', ['ETag', 'PreferenceApplied', 'IdempotencyReplayed'], {
    'application/json': { schema: rowSchema(component), examples: { row: rowExample } },
  })
}

export function countedSchema(component: string): Json {
  return {
    type: 'object',
    required: ['data', 'count'],
    properties: { data: { type: 'array', items: rowSchema(component) }, count: { type: 'integer' } },
  }
}

function rowsResponse({ component }: TablePlan, rowsExample: Json): Json {
  return answer('The rows concerned and their number.', ['PreferenceApplied', 'IdempotencyReplayed'], {
    'application/json': { schema: countedSchema(component), examples: { rows: rowsExample } },
  })
}

function changeBody({ table, component }: TablePlan): Json {
  const example = Object.fromEntries(Object.entries(exampleInput(table, table.primaryKey)).slice(0, 1))
  return {
    required: true,
    content: { 'application/json': { schema: { $ref: `#/components/schemas/${component}Input` }, example } },
  }
}
