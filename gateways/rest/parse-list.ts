import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, Table } from '../data/catalog.ts'
import { checkSortable, completeOrder, sortKey, type WantedSort } from '../data/order.ts'
import type { Aggregation, Filter, ListShape, RowSelection, SortKey } from '../data/read-ast.ts'
import { defaultReadLimits, type ReadLimits } from '../data/read-limits.ts'
import { type ListRequest, type RowRequest, Slots } from '../data/read-request.ts'
import { aggregateFields, columnOf, everyColumn } from '../data/select.ts'
import { hinted, perhaps, shown } from '../data/suggestion.ts'
import { checkExpansions, type ExpandScope, parseExpand } from './parse-expand.ts'
import { checkLength, parseCondition, parseGroup } from './parse-filter.ts'
import { parseKey } from './parse-key.ts'
import { parseOrder } from './parse-order.ts'
import { cursorPage, isCursorPage, offsetPage, type ParsedPage, pagePlace } from './parse-page.ts'
import { parseSelect } from './parse-select.ts'
import { refuse } from './parse-text.ts'

/** Decoded parameters of the URL, in order; a URLSearchParams is one. */
export type UrlParameters = Iterable<readonly [string, string]>

export interface ParseOptions {
  readonly limits?: ReadLimits
  /** `Prefer: count=exact`. Default false. */
  readonly count?: boolean
}

const listParameters = [
  'limit',
  'offset',
  'first',
  'after',
  'last',
  'before',
  'orderBy',
  'orderDirection',
  'order',
  'select',
  'expand',
  'having',
] as const
type ListParameter = (typeof listParameters)[number]
const known: ReadonlySet<string> = new Set(listParameters)

/** Never read as columns, so that a client written for another server fails loudly instead of filtering by chance. */
const reserved: ReadonlySet<string> = new Set([
  ...listParameters,
  ...[
    'fields',
    'join',
    'include',
    'groupBy',
    'distinct',
    'aggregate',
    'functions',
    'columns',
    'batch',
    'query',
    'variables',
  ],
  ...['fragment', 'alias', 'transform', 'validate', 'explain', 'format', 'stream', 'on_conflict'],
])

/** Reserved parameter names; a column of such a name is filtered by `and=(name.op.value)`. */
export const reservedParameters: readonly string[] = [...reserved, 'or', 'and', 'not.or', 'not.and']

/**
 * The list operation's parameters.
 * @throws {Rejected} 400 with a `data/…` code, naming the parameter.
 */
export function parseList(
  catalog: Catalog,
  table: Table,
  parameters: UrlParameters,
  { limits = defaultReadLimits, count = false }: ParseOptions = {},
): ListRequest {
  const scope = scopeOf(catalog, limits)
  const { named, filter } = readParameters(table, parameters, scope, known)
  const select = selection(table, named, scope)
  const wanted = parseOrder(named, '', limits)
  const having = havingOf(table, select, named.having, scope)
  const { order, page } =
    select.kind === 'aggregate' ? groupPage(select, wanted, named, scope) : rowPage(table, wanted, named, scope)
  const shape: ListShape = {
    kind: 'list',
    schema: table.schema,
    table: table.name,
    select,
    filter,
    having,
    order,
    page: page.page,
    count,
  }
  return { shape, parameters: scope.slots.values, places: scope.slots.places, page: page.info }
}

/**
 * A single row by its key, with `select` and `expand`.
 * @param key the path segment, still percent-encoded
 * @throws {Rejected} `data/invalid-key`, `data/no-primary-key` and what the parameters refuse.
 */
export function parseRow(
  catalog: Catalog,
  table: Table,
  key: string,
  parameters: UrlParameters,
  { limits = defaultReadLimits }: ParseOptions = {},
): RowRequest {
  const scope = scopeOf(catalog, limits)
  const values = parseKey(table, key, limits)
  const select = parseRepresentation(table, parameters, scope)
  return {
    shape: {
      kind: 'row',
      schema: table.schema,
      table: table.name,
      select,
      key: values.map((value) => scope.slots.add(value, 'key')),
    },
    parameters: scope.slots.values,
    places: scope.slots.places,
  }
}

export function scopeOf(catalog: Catalog, limits: ReadLimits): ExpandScope {
  return { catalog, limits, slots: new Slots(), used: { filters: 0 }, expanded: { count: 0 } }
}

const representationParameters: ReadonlySet<string> = new Set(['select', 'expand'])

/** `select` and `expand` of a request about single rows, which takes no filters. */
export function parseRepresentation(
  table: Table,
  parameters: UrlParameters,
  scope: ExpandScope,
  alsoKnown: readonly string[] = [],
): RowSelection {
  const mine = [...parameters].filter(([name]) => !alsoKnown.includes(name))
  const stranger = mine.find(([name]) => !representationParameters.has(name))
  if (stranger) {
    throw new Rejected('http/bad-request', `${shown(stranger[0])} is not a parameter of this request`, {
      details: { field: stranger[0] },
      ...hinted(perhaps(stranger[0], [...representationParameters, ...alsoKnown])),
    })
  }
  return rowsOnly(selection(table, readParameters(table, mine, scope, representationParameters).named, scope))
}

/** Filters, with `select` and `expand` for what comes back. */
export function parseFilters(
  table: Table,
  parameters: UrlParameters,
  scope: ExpandScope,
): { readonly filter: Filter | null; readonly select: RowSelection } {
  const { named, filter } = readParameters(table, parameters, scope, representationParameters)
  return { filter, select: rowsOnly(selection(table, named, scope)) }
}

function rowsOnly(select: RowSelection | Aggregation): RowSelection {
  if (select.kind === 'rows') return select
  return refuse({ parameter: 'select', code: 'data/invalid-select' }, 'aggregates are for lists')
}

type Named = Partial<Record<ListParameter, string>>

function readParameters(
  table: Table,
  parameters: UrlParameters,
  scope: ExpandScope,
  allowed: ReadonlySet<string>,
): { readonly named: Named; readonly filter: Filter | null } {
  const named: Named = {}
  const filters: Filter[] = []
  const fields = (name: string, place: string) => columnOf(table, name, place)
  for (const [name, text] of parameters) {
    const group = /^(?:(not)\.)?(or|and)$/.exec(name)
    if (group) {
      const filter = parseGroup(group[2] as 'or' | 'and', text, name, fields, scope)
      filters.push(group[1] ? { kind: 'not', item: filter } : filter)
    } else if (!reserved.has(name)) filters.push(parseCondition(filterColumn(table, name), text, name, scope))
    else if (!allowed.has(name)) unsupported(table, name)
    else if (Object.hasOwn(named, name))
      throw new Rejected('http/bad-request', `${name} is given twice`, { details: { field: name } })
    else {
      checkLength(text, name, scope)
      named[name as ListParameter] = text
    }
  }
  return { named, filter: filters.length < 2 ? (filters[0] ?? null) : { kind: 'and', items: filters } }
}

function filterColumn(table: Table, name: string) {
  const column = table.columnByName.get(name)
  if (column) return column
  throw new Rejected('data/unknown-column', `${shown(name)} is neither a parameter nor a column of ${table.name}`, {
    details: { field: name, table: table.name },
    ...hinted(perhaps(name, [...table.columnByName.keys(), ...listParameters, 'or', 'and'])),
  })
}

function unsupported(table: Table, name: string): never {
  throw new Rejected('http/bad-request', `${name} is not a parameter of this request`, {
    details: { field: name },
    ...hinted(
      table.columnByName.has(name) ? `to filter by the column of this name write and=(${name}.eq.…)` : undefined,
    ),
  })
}

function selection(table: Table, { select, expand }: Named, scope: ExpandScope): RowSelection | Aggregation {
  const selected = select === undefined ? everyColumn : parseSelect(table, select, 'select', scope.limits)
  if (expand === undefined) return selected
  if (selected.kind === 'aggregate')
    return refuse({ parameter: 'expand', code: 'data/invalid-expand' }, 'cannot be combined with aggregates')
  const whole = { ...selected, expansions: parseExpand(table, expand, scope) }
  checkExpansions(whole)
  return whole
}

function havingOf(
  table: Table,
  select: RowSelection | Aggregation,
  text: string | undefined,
  scope: ExpandScope,
): Filter | null {
  if (text === undefined) return null
  if (select.kind !== 'aggregate')
    return refuse({ parameter: 'having', code: 'data/invalid-filter' }, 'needs an aggregate in select')
  const fields = aggregateFields(table, select)
  const find = (name: string, place: string) => fields.get(name) ?? unknownResult(name, place, fields.keys())
  return parseGroup('and', text.trim().startsWith('(') ? text : `(${text})`, 'having', find, scope)
}

function unknownResult(name: string, place: string, names: Iterable<string>): never {
  const results = [...names]
  throw new Rejected('data/unknown-column', `${place}: the result has no property ${shown(name)}`, {
    details: { field: place, results },
    ...hinted(perhaps(name, results)),
  })
}

interface Ordered {
  readonly order: readonly SortKey[]
  readonly page: ParsedPage
}

function rowPage(table: Table, wanted: readonly WantedSort[], named: Named, { slots, limits }: ExpandScope): Ordered {
  const place = named.order === undefined ? 'orderBy' : 'order'
  for (const sort of wanted) checkSortable(table, sort, place)
  const { keys, unique } = completeOrder(table, wanted)
  if (!isCursorPage(named)) return { order: keys, page: offsetPage(named, slots, limits) }
  const asked = (['first', 'after', 'last', 'before'] as const).find((name) => named[name] !== undefined)!
  if (!unique)
    refuse(pagePlace(asked), `${table.name} has no key that tells its rows apart`, 'page with limit and offset')
  return { order: keys, page: cursorPage(named, table, keys, slots, limits) }
}

/** Groups come in the order of what they are grouped by, unless asked otherwise. */
function groupPage(
  select: Aggregation,
  wanted: readonly WantedSort[],
  named: Named,
  { slots, limits }: ExpandScope,
): Ordered {
  if (isCursorPage(named)) refuse(pagePlace('first'), 'aggregates are paged with limit and offset')
  const place = named.order === undefined ? 'orderBy' : 'order'
  const results = [...select.groups, ...select.aggregates].map(({ property }) => property)
  for (const { column } of wanted) if (!results.includes(column)) unknownResult(column, place, results)
  const rest = select.groups
    .map(({ property }) => property)
    .filter((property) => !wanted.some(({ column }) => column === property))
  const order = [...wanted.map(sortKey), ...rest.map((column) => sortKey({ column, descending: false }))]
  return { order, page: offsetPage(named, slots, limits) }
}
