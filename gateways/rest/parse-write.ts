import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, Table } from '../data/catalog.ts'
import { arrayLiteral } from '../data/filter.ts'
import type { RowSelection } from '../data/read-ast.ts'
import { defaultReadLimits, type ReadLimits } from '../data/read-limits.ts'
import { columnOf, everyColumn } from '../data/select.ts'
import type { Conflict, Returning, Target } from '../data/write-ast.ts'
import { checkKeyInBody, checkRow, type JsonObject, parseBody } from '../data/write-body.ts'
import { checkWritable, conflictOf, insertSets } from '../data/write-plan.ts'
import type { WriteRequest } from '../data/write-request.ts'
import type { ExpandScope } from './parse-expand.ts'
import { parseKey } from './parse-key.ts'
import { parseFilters, parseRepresentation, scopeOf, type UrlParameters } from './parse-list.ts'
import { splitList, unquoted } from './parse-text.ts'

export interface WriteOptions {
  readonly limits?: ReadLimits
  /** What the statement returns. Default `rows`. */
  readonly returning?: Returning['kind']
}

export interface ChangeOptions extends WriteOptions {
  /** MD5 (hex) of the row's JSON, of which one must be the row's (If-Match). Absent: whatever the row is now. */
  readonly match?: readonly string[] | undefined
}

export interface InsertOptions extends WriteOptions {
  /** `Prefer: resolution`. Absent: a row that is there already is a conflict. */
  readonly resolution?: 'merge-duplicates' | 'ignore-duplicates' | undefined
}

/**
 * `POST /<table>` with `select`, `expand` and, for an upsert, `on_conflict`.
 * @param body the JSON text, an object or an array of objects
 * @throws {Rejected} `data/invalid-body`, `data/invalid-value`, `data/unknown-column`, `data/read-only`, `data/too-complex`
 */
export function parseInsert(
  catalog: Catalog,
  table: Table,
  body: string,
  parameters: UrlParameters,
  options: InsertOptions = {},
): WriteRequest {
  checkWritable(table, 'insertable')
  const scope = scopeOf(catalog, options.limits ?? defaultReadLimits)
  const all = [...parameters]
  const select = parseRepresentation(table, all, scope, ['on_conflict'])
  const content = parseBody(body)
  const many = Array.isArray(content)
  const rows = (many ? content : [content]) as readonly JsonObject[]
  // Rows that name no column take nothing from the body, and a parameter that nothing takes is an error to PostgreSQL.
  const slot = rows.some((row) => Object.keys(row).length > 0) ? scope.slots.add(body) : 0
  const sets = insertSets(table, rows, many, scope.slots, scope.limits)
  const conflict = conflictFor(table, options.resolution, all, () => sets)
  return {
    shape: {
      kind: 'insert',
      schema: table.schema,
      table: table.name,
      body: slot,
      many,
      sets,
      conflict,
      returning: returningOf(options, select),
    },
    parameters: scope.slots.values,
  }
}

/** `PUT /<table>/<key>`: columns that the body leaves out go back to their default, or NULL. */
export function parseReplace(
  catalog: Catalog,
  table: Table,
  key: string,
  body: string,
  parameters: UrlParameters,
  options: ChangeOptions = {},
): WriteRequest {
  const { scope, select, row, values } = singleChange(catalog, table, key, body, parameters, options)
  checkKeyInBody(table, row, body, values)
  const given = without(row, table.primaryKey)
  checkRow(table, given)
  const columns = Object.keys(given).sort()
  const reset = table.columns.filter(({ name, generated, identity }) => {
    return !generated && identity === null && !columns.includes(name) && !table.primaryKey.includes(name)
  })
  return update(
    table,
    scope,
    { kind: 'key', key: slotsOf(values, scope) },
    { body, columns, reset: reset.map(({ name }) => name), select },
    options,
  )
}

/** `PATCH /<table>/<key>` */
export function parsePatch(
  catalog: Catalog,
  table: Table,
  key: string,
  body: string,
  parameters: UrlParameters,
  options: ChangeOptions = {},
): WriteRequest {
  const { scope, select, row, values } = singleChange(catalog, table, key, body, parameters, options)
  const always = table.primaryKey.filter((name) => table.columnByName.get(name)!.identity === 'always')
  if (always.length > 0) checkKeyInBody(table, row, body, values)
  const given = without(row, always)
  if (Object.keys(given).length === 0) throw new Rejected('data/invalid-body', 'The body names no column to change')
  checkRow(table, given)
  return update(
    table,
    scope,
    { kind: 'key', key: slotsOf(values, scope) },
    { body, columns: Object.keys(given).sort(), reset: [], select },
    options,
  )
}

/** `DELETE /<table>/<key>` */
export function parseDelete(
  catalog: Catalog,
  table: Table,
  key: string,
  parameters: UrlParameters,
  options: ChangeOptions = {},
): WriteRequest {
  checkWritable(table, 'deletable')
  const scope = scopeOf(catalog, options.limits ?? defaultReadLimits)
  const values = parseKey(table, key, scope.limits)
  const select = parseRepresentation(table, parameters, scope)
  return remove(table, scope, { kind: 'key', key: slotsOf(values, scope) }, select, options)
}

/** `PATCH /<table>?<filters>`. @throws {Rejected} `data/filter-required` */
export function parseBulkPatch(
  catalog: Catalog,
  table: Table,
  body: string,
  parameters: UrlParameters,
  options: WriteOptions = {},
): WriteRequest {
  checkWritable(table, 'updatable')
  const scope = scopeOf(catalog, options.limits ?? defaultReadLimits)
  const { target, select } = filtered(table, parameters, scope)
  const row = objectOf(body)
  if (Object.keys(row).length === 0) throw new Rejected('data/invalid-body', 'The body names no column to change')
  checkRow(table, row)
  return update(table, scope, target, { body, columns: Object.keys(row).sort(), reset: [], select }, options)
}

/** `DELETE /<table>?<filters>`. @throws {Rejected} `data/filter-required` */
export function parseBulkDelete(
  catalog: Catalog,
  table: Table,
  parameters: UrlParameters,
  options: WriteOptions = {},
): WriteRequest {
  checkWritable(table, 'deletable')
  const scope = scopeOf(catalog, options.limits ?? defaultReadLimits)
  const { target, select } = filtered(table, parameters, scope)
  return remove(table, scope, target, select, options)
}

function singleChange(
  catalog: Catalog,
  table: Table,
  key: string,
  body: string,
  parameters: UrlParameters,
  options: ChangeOptions,
) {
  checkWritable(table, 'updatable')
  const scope = scopeOf(catalog, options.limits ?? defaultReadLimits)
  const values = parseKey(table, key, scope.limits)
  return { scope, values, select: parseRepresentation(table, parameters, scope), row: objectOf(body) }
}

function objectOf(body: string): JsonObject {
  const content = parseBody(body)
  if (Array.isArray(content)) throw new Rejected('data/invalid-body', 'The body must be a JSON object')
  return content as JsonObject
}

function filtered(
  table: Table,
  parameters: UrlParameters,
  scope: ExpandScope,
): { readonly target: Target; readonly select: RowSelection } {
  const { filter, select } = parseFilters(table, parameters, scope)
  if (filter !== null) return { target: { kind: 'filter', filter }, select }
  throw new Rejected('data/filter-required', `Without a filter this would change every row of ${table.name}`, {
    hint: 'add a filter, as in ?status=eq.open',
  })
}

interface Change {
  readonly body: string
  readonly columns: readonly string[]
  readonly reset: readonly string[]
  readonly select: RowSelection
}

function update(
  table: Table,
  scope: ExpandScope,
  target: Target,
  { body, columns, reset, select }: Change,
  options: ChangeOptions,
): WriteRequest {
  return {
    shape: {
      kind: 'update',
      schema: table.schema,
      table: table.name,
      target,
      body: columns.length === 0 ? null : scope.slots.add(body),
      columns,
      reset,
      match: matchSlot(scope, options.match),
      returning: returningOf(options, select),
    },
    parameters: scope.slots.values,
  }
}

function remove(
  table: Table,
  scope: ExpandScope,
  target: Target,
  select: RowSelection,
  options: ChangeOptions,
): WriteRequest {
  const match = matchSlot(scope, options.match)
  return {
    shape: {
      kind: 'delete',
      schema: table.schema,
      table: table.name,
      target,
      match,
      returning: returningOf(options, select),
    },
    parameters: scope.slots.values,
  }
}

function matchSlot({ slots, limits }: ExpandScope, match: readonly string[] | undefined): number | null {
  if (match === undefined) return null
  if (match.length > limits.maxListLength)
    throw new Rejected('data/too-complex', `If-Match: more than ${limits.maxListLength} tags`)
  return slots.add(arrayLiteral(match))
}

function slotsOf(values: readonly string[], { slots }: ExpandScope): number[] {
  return values.map((value) => slots.add(value))
}

/** Without rows to return there is nothing to select from them. */
function returningOf({ returning = 'rows' }: WriteOptions, select: RowSelection): Returning {
  return { kind: returning, select: returning === 'rows' ? select : everyColumn }
}

function conflictFor(
  table: Table,
  resolution: InsertOptions['resolution'],
  parameters: readonly (readonly [string, string])[],
  sets: () => Parameters<typeof conflictOf>[3],
): Conflict | null {
  const asked = parameters.filter(([name]) => name === 'on_conflict').map(([, text]) => text)
  if (resolution === undefined) {
    if (asked.length === 0) return null
    throw new Rejected('http/bad-request', 'on_conflict needs the header Prefer: resolution', {
      details: { field: 'on_conflict' },
    })
  }
  const place = { parameter: 'on_conflict', code: 'data/invalid-body' } as const
  const columns =
    asked[0] === undefined ? null : splitList(asked[0], place).map((piece) => unquoted(piece.trim(), place))
  for (const name of columns ?? []) columnOf(table, name, 'on_conflict')
  return conflictOf(table, resolution === 'merge-duplicates' ? 'merge' : 'ignore', columns, sets())
}

function without(row: JsonObject, names: readonly string[]): JsonObject {
  if (!names.some((name) => Object.hasOwn(row, name))) return row
  return Object.fromEntries(Object.entries(row).filter(([name]) => !names.includes(name)))
}
