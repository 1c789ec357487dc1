import type { Column, DatabaseType } from '../data/catalog.ts'
import { isArray, isJson, isRange, isText, misfit, type OperatorName, operators } from '../data/operators.ts'
import { exampleText, type Json, optional } from './openapi-types.ts'
import { reservedParameters } from './parse-list.ts'

const always: readonly OperatorName[] = ['eq', 'neq', 'in', 'notin', 'is', 'isnotnull', 'isdistinct']
const ordered: readonly OperatorName[] = ['gt', 'gte', 'lt', 'lte']
const patterns: readonly OperatorName[] = ['like', 'ilike', 'startswith', 'endswith', 'contains', 'match', 'imatch']
const unordered = new Set(['json', 'jsonb', 'xml', 'point', 'line', 'lseg', 'box', 'path', 'polygon', 'circle', 'bool'])
const uncomparable = new Set(['json', 'xml', 'point'])

/** The operators that make sense for the type, in the order of their table; the database knows a few more. */
export function operatorsFor(type: DatabaseType): OperatorName[] {
  const { name } = type.base
  return (Object.keys(operators) as OperatorName[]).filter((operator) => {
    if (operators[operator].family !== 'any') return misfit(operator, type) === null
    if (patterns.includes(operator)) return isText(type)
    if (ordered.includes(operator)) return !unordered.has(name)
    return uncomparable.has(name) ? operator === 'is' || operator === 'isnotnull' : always.includes(operator)
  })
}

/** Columns that can be filtered by a parameter of their own name; the others by `and=(…)`. */
export function isFilterParameter(name: string): boolean {
  return !reservedParameters.includes(name)
}

/** The query parameter that filters by a column. */
export function filterParameter(column: Column): Json {
  const able = operatorsFor(column.type)
  const description = `Filter by \`${column.name}\` (${column.typeSql}): \`<operator>.<value>\`, \`not.\` in front negates. Operators: ${able.join(', ')}.`
  return optional('query', column.name, description, { type: 'string' }, filterExample(column.type, able))
}

function filterExample(type: DatabaseType, able: readonly OperatorName[]): string {
  if (isJson(type)) return able.includes('eq') ? 'haskey.key' : 'is.null'
  if (isArray(type)) return `arraycontains.${exampleText(type)}`
  if (isRange(type)) return `ov.${exampleText(type)}`
  if (type.base.kind === 'enum') return `in.(${type.base.enumValues.slice(0, 2).map(quotedMember).join(',')})`
  return able.includes('eq') ? `eq.${exampleText(type)}` : 'is.null'
}

function quotedMember(text: string): string {
  return /[",()\s]/.test(text) ? `"${text.replace(/["\\]/g, '\\$&')}"` : text
}

/** A Markdown table of all operators. */
export function operatorTable(): string {
  const rows = Object.entries(operators).map(([name, { meaning }]) => `| \`${name}\` | ${meaning} |`)
  return ['| operator | meaning |', '|---|---|', ...rows].join('\n')
}
