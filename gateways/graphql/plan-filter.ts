import { type GraphQLInputObjectType, isInputObjectType } from 'graphql'
import { Rejected } from '../../schemas/failure.ts'
import type { Column } from '../data/catalog.ts'
import { comparison, type FilterContext } from '../data/filter.ts'
import { isArray, isJson, isRange, type OperatorName } from '../data/operators.ts'
import type { Filter } from '../data/read-ast.ts'
import type { FilterOperator } from './filter-types.ts'
import { filterMeaningOf } from './meaning.ts'
import type { PlanScope } from './plan-scope.ts'
import { textOf } from './plan-values.ts'

type Given = Readonly<Record<string, unknown>>

/**
 * A coerced `where`. Null when it asks for nothing.
 * @throws {Rejected} `data/invalid-filter`, `data/invalid-value`, `data/too-complex`
 */
export function planFilter(
  where: unknown,
  type: GraphQLInputObjectType,
  place: string,
  scope: PlanScope,
): Filter | null {
  return where === null || where === undefined ? null : planObject(where as Given, type, place, scope, 1)
}

function planObject(
  where: Given,
  type: GraphQLInputObjectType,
  place: string,
  scope: PlanScope,
  depth: number,
): Filter | null {
  if (depth > scope.limits.maxFilterDepth) tooDeep(place, scope.limits.maxFilterDepth)
  const items: Filter[] = []
  const fields = type.getFields()
  for (const [name, value] of Object.entries(where)) {
    const field = fields[name]!
    const meaning = filterMeaningOf(field)
    const here = `${place}.${name}`
    if (value === undefined || meaning === undefined) continue
    switch (meaning.kind) {
      case 'and':
      case 'or': {
        if (value === null) continue
        const parts = (value as readonly Given[]).map((part, at) =>
          planObject(part, type, `${here}[${at}]`, scope, depth + 1),
        )
        items.push({ kind: meaning.kind, items: parts.map((part) => part ?? always) })
        break
      }
      case 'not': {
        if (value !== null)
          items.push({ kind: 'not', item: planObject(value as Given, type, here, scope, depth + 1) ?? always })
        break
      }
      case 'column':
        if (value === null) refuse(here, 'null is no condition', `write ${name}: { isNull: true }`)
        items.push(...planColumn(meaning.column, value as Given, here, scope))
        break
      case 'relation': {
        if (value === null) refuse(here, 'null is no condition')
        const related = field.type as GraphQLInputObjectType
        const relation = meaning.relation.name
        if (meaning.relation.kind === 'one') {
          items.push({ kind: 'some', relation, filter: planObject(value as Given, related, here, scope, depth + 1) })
        } else items.push(...planMany(relation, value as Given, related, here, scope, depth + 1))
      }
    }
  }
  return items.length < 2 ? (items[0] ?? null) : { kind: 'and', items }
}

/** What holds of every row. */
const always: Filter = { kind: 'and', items: [] }

function planMany(
  relation: string,
  given: Given,
  type: GraphQLInputObjectType,
  place: string,
  scope: PlanScope,
  depth: number,
): Filter[] {
  return (['some', 'none', 'every'] as const).flatMap((kind) => {
    const value = given[kind]
    const inner = type.getFields()[kind]!.type
    if (value === undefined || value === null || !isInputObjectType(inner)) return []
    return [{ kind, relation, filter: planObject(value as Given, inner, `${place}.${kind}`, scope, depth) }]
  })
}

function planColumn(column: Column, given: Given, place: string, scope: PlanScope): Filter[] {
  return Object.entries(given).flatMap(([name, value]) => {
    const context: FilterContext = {
      slots: scope.slots,
      limits: scope.limits,
      used: scope.used,
      place: `${place}.${name}`,
    }
    return value === undefined ? [] : [planOperator(column, name as FilterOperator, value, context)]
  })
}

function planOperator(column: Column, operator: FilterOperator, value: unknown, context: FilterContext): Filter {
  const isNull = (wanted: boolean): Filter => {
    const filter = comparison(column, 'is', { text: 'null' }, context)
    return wanted ? filter : { kind: 'not', item: filter }
  }
  if (value === null) {
    if (operator === 'eq') return isNull(true)
    if (operator === 'neq') return isNull(false)
    return refuse(context.place, 'null is no operand', 'use isNull, or leave it out')
  }
  switch (operator) {
    case 'isNull':
      return isNull(value === true)
    case 'isNotNull':
      return isNull(value === false)
    case 'in':
    case 'notIn': {
      const list = (value as readonly unknown[]).map((member) => textOf(member, column.type))
      return comparison(column, operator === 'in' ? 'in' : 'notin', { text: '', list }, context)
    }
    default: {
      const name = operatorOf(operator, column)
      const text = onTexts.has(name) ? String(value) : textOf(value, column.type)
      return comparison(column, name, { text }, context)
    }
  }
}

/** Their operand is a text, whatever the column's type is. */
const onTexts = new Set<OperatorName>(['contains', 'startswith', 'endswith', 'like', 'ilike'])

function operatorOf(
  operator: Exclude<FilterOperator, 'isNull' | 'isNotNull' | 'in' | 'notIn'>,
  { type }: Column,
): OperatorName {
  switch (operator) {
    case 'contains':
      return isJson(type) ? 'jsoncontains' : isArray(type) ? 'arraycontains' : isRange(type) ? 'cs' : 'contains'
    case 'startsWith':
      return 'startswith'
    case 'endsWith':
      return 'endswith'
    default:
      return operator
  }
}

function refuse(field: string, reason: string, hint?: string): never {
  throw new Rejected('data/invalid-filter', `${field}: ${reason}`, {
    details: { field, reason },
    ...(hint === undefined ? {} : { hint }),
  })
}

function tooDeep(field: string, most: number): never {
  throw new Rejected('data/too-complex', `${field}: nested deeper than ${most}`, { details: { field } })
}
