import type { DatabaseType } from './catalog.ts'

/**
 * What stands behind an operator's dot. `value`: of the column's type; `list`: several of them; `truth`: null, true, false
 * or unknown; `flag`: true, false or nothing; `text`, `texts`, `json`, `integer`: as named; `search`: text with an optional
 * text search configuration.
 */
export type OperandKind = 'value' | 'list' | 'truth' | 'flag' | 'text' | 'texts' | 'json' | 'integer' | 'search'

/** Columns an operator works on; `any` leaves it to the database. */
export type TypeFamily = 'any' | 'json' | 'array' | 'range' | 'search' | 'containment'

interface Operator {
  readonly operand: OperandKind
  readonly family: TypeFamily
  readonly meaning: string
}

const operator = (operand: OperandKind, family: TypeFamily, meaning: string): Operator => ({ operand, family, meaning })

/** Every filter operator by its name in the REST API. Source: specification B, "Filter operators"; the rest are extras. */
export const operators = {
  eq: operator('value', 'any', 'equal'),
  neq: operator('value', 'any', 'not equal'),
  gt: operator('value', 'any', 'greater than'),
  gte: operator('value', 'any', 'greater than or equal'),
  lt: operator('value', 'any', 'less than'),
  lte: operator('value', 'any', 'less than or equal'),
  like: operator('text', 'any', 'pattern match, case-sensitive; % and _ are the wildcards'),
  ilike: operator('text', 'any', 'pattern match, case-insensitive'),
  in: operator('list', 'any', 'one of a parenthesised comma list'),
  notin: operator('list', 'any', 'none of a parenthesised comma list'),
  is: operator('truth', 'any', 'null, true, false or unknown'),
  haskey: operator('text', 'json', 'JSON has the key'),
  jsoncontains: operator('json', 'json', 'JSON contains the given JSON'),
  arraycontains: operator('value', 'array', 'array contains all elements given in braces'),
  startswith: operator('text', 'any', 'text starts with, case-sensitive'),
  endswith: operator('text', 'any', 'text ends with, case-sensitive'),
  contains: operator('text', 'any', 'text contains, case-sensitive'),
  match: operator('text', 'any', 'POSIX regular expression, case-sensitive'),
  imatch: operator('text', 'any', 'POSIX regular expression, case-insensitive'),
  isnotnull: operator('flag', 'any', 'not null; isnotnull.false is null'),
  isdistinct: operator('value', 'any', 'not equal, with NULL as a value'),
  haskeys: operator('texts', 'json', 'JSON has all the keys'),
  hasanykeys: operator('texts', 'json', 'JSON has one of the keys'),
  jsoncontained: operator('json', 'json', 'JSON is contained in the given JSON'),
  arrayhasany: operator('value', 'array', 'array has one of the elements given in braces'),
  arrayhasall: operator('value', 'array', 'array has all elements given in braces'),
  arraylength: operator('integer', 'array', 'array has this many elements'),
  fts: operator('search', 'search', 'full text search, to_tsquery syntax'),
  plfts: operator('search', 'search', 'full text search, all words'),
  phfts: operator('search', 'search', 'full text search, phrase'),
  wfts: operator('search', 'search', 'full text search, web search syntax'),
  cs: operator('value', 'containment', 'range, array or JSON contains'),
  cd: operator('value', 'containment', 'range, array or JSON is contained in'),
  ov: operator('value', 'containment', 'range or array overlaps'),
  sl: operator('value', 'range', 'range is strictly left of'),
  sr: operator('value', 'range', 'range is strictly right of'),
  nxl: operator('value', 'range', 'range does not extend to the left of'),
  nxr: operator('value', 'range', 'range does not extend to the right of'),
  adj: operator('value', 'range', 'range is adjacent to'),
} as const satisfies Readonly<Record<string, Operator>>

export type OperatorName = keyof typeof operators

export function isOperator(name: string): name is OperatorName {
  return Object.hasOwn(operators, name)
}

const textNames = new Set(['text', 'varchar', 'bpchar', 'name', 'citext'])

export function isText(type: DatabaseType): boolean {
  return type.base.kind === 'base' && textNames.has(type.base.name)
}

export function isJson(type: DatabaseType): boolean {
  return type.base.kind === 'base' && (type.base.name === 'json' || type.base.name === 'jsonb')
}

export function isArray(type: DatabaseType): boolean {
  return type.base.kind === 'array'
}

export function isRange(type: DatabaseType): boolean {
  return type.base.kind === 'range' || type.base.kind === 'multirange'
}

const unequal = new Set(['json', 'xml', 'point', 'polygon'])
const unordered = new Set([...unequal, 'line', 'lseg', 'box', 'path', 'circle'])

/** Whether PostgreSQL can tell equal values of the type: for `=`, groups and unique keys. */
export function hasEquality(type: DatabaseType): boolean {
  return everyPart(type, unequal)
}

/** Whether values of the type have an order that says something; boxes and circles are compared by their area alone. */
export function hasOrder(type: DatabaseType): boolean {
  return everyPart(type, unordered)
}

/** An array is compared by its elements and a row by its attributes. */
function everyPart({ base }: DatabaseType, without: ReadonlySet<string>): boolean {
  if (base.kind === 'array') return base.element === null || everyPart(base.element, without)
  if (base.kind === 'composite') return base.attributes.every(({ type }) => everyPart(type, without))
  return !(base.kind === 'base' && without.has(base.name))
}

const ordering = new Set<OperatorName>(['gt', 'gte', 'lt', 'lte'])

/** Why the operator cannot be used on such a column, or null. */
export function misfit(name: OperatorName, type: DatabaseType): string | null {
  const { operand, family } = operators[name]
  switch (family) {
    case 'any':
      // json is compared as jsonb.
      if ((operand !== 'value' && operand !== 'list') || type.base.name === 'json') return null
      if (!hasEquality(type)) return 'needs values that can be compared; is.null works'
      return !ordering.has(name) || hasOrder(type) ? null : 'needs values that have an order'
    case 'json':
      return isJson(type) ? null : 'needs a json or jsonb column'
    case 'array':
      return isArray(type) ? null : 'needs an array column'
    case 'range':
      return isRange(type) ? null : 'needs a range column'
    case 'containment':
      return isRange(type) || isArray(type) || (name !== 'ov' && isJson(type))
        ? null
        : `needs a range${name === 'ov' ? ' or' : ','} array${name === 'ov' ? '' : ' or json'} column`
    case 'search':
      return isText(type) || isJson(type) || type.base.name === 'tsvector'
        ? null
        : 'needs a text, json or tsvector column'
  }
}
