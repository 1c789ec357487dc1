import {
  GraphQLBoolean,
  GraphQLInputObjectType,
  type GraphQLInputType,
  GraphQLList,
  GraphQLNonNull,
  GraphQLString,
  isInputObjectType,
  isListType,
  isNamedType,
} from 'graphql'
import type { DatabaseType } from '../data/catalog.ts'
import { isArray, isJson, isRange } from '../data/operators.ts'
import type { ColumnTypes } from './types.ts'

/** The operators of a column in a filter. Source: specification A, "Filter input"; research/upstream A.2 for those it does not name. */
export const filterOperators = [
  'eq',
  'neq',
  'gt',
  'gte',
  'lt',
  'lte',
  'in',
  'notIn',
  'isNull',
  'isNotNull',
  'contains',
  'startsWith',
  'endsWith',
  'like',
  'ilike',
] as const
export type FilterOperator = (typeof filterOperators)[number]

const descriptions: Readonly<Record<FilterOperator, string>> = {
  eq: 'equal; null: is NULL',
  neq: 'not equal; null: is not NULL',
  gt: 'greater than',
  gte: 'greater than or equal',
  lt: 'less than',
  lte: 'less than or equal',
  in: 'one of',
  notIn: 'none of',
  isNull: 'true: is NULL; false: is not',
  isNotNull: 'true: is not NULL; false: is',
  contains: 'text has it inside; JSON, arrays and ranges contain it',
  startsWith: 'its text begins with it',
  endsWith: 'its text ends with it',
  like: 'its text matches the pattern; % and _ are the wildcards',
  ilike: 'the same without regard to case',
}

/** The filter inputs of column types, each made once; all have the same fifteen operators. */
export class FilterTypes {
  readonly #columnTypes: ColumnTypes
  readonly #made = new Map<string, GraphQLInputObjectType>()

  constructor(columnTypes: ColumnTypes) {
    this.#columnTypes = columnTypes
  }

  of(type: DatabaseType): GraphQLInputObjectType {
    const operand = this.#columnTypes.input(type)
    const name = `${stemOf(operand)}Filter`
    let made = this.#made.get(name)
    if (!made) {
      made = new GraphQLInputObjectType({ name, fields: fieldsOf(operand, type) })
      this.#made.set(name, made)
    }
    return made
  }
}

/** Names of scalar filters, which no table's type may take. */
export function scalarFilterNames(scalarNames: readonly string[]): string[] {
  return scalarNames.flatMap((name) => [name, `${name}Filter`, `${name}ListFilter`])
}

function stemOf(type: GraphQLInputType): string {
  if (isListType(type)) return `${stemOf(type.ofType)}List`
  if (isInputObjectType(type)) return type.name.replace(/Input$/, '')
  return isNamedType(type) ? type.name : String(type)
}

function fieldsOf(operand: GraphQLInputType, type: DatabaseType) {
  const contained = isArray(type) || isJson(type) || isRange(type)
  const list = new GraphQLList(new GraphQLNonNull(operand))
  const typeOf = (operator: FilterOperator): GraphQLInputType => {
    switch (operator) {
      case 'in':
      case 'notIn':
        return list
      case 'isNull':
      case 'isNotNull':
        return GraphQLBoolean
      case 'contains':
        return contained ? operand : GraphQLString
      case 'startsWith':
      case 'endsWith':
      case 'like':
      case 'ilike':
        return GraphQLString
      default:
        return operand
    }
  }
  return Object.fromEntries(
    filterOperators.map((operator) => [operator, { type: typeOf(operator), description: descriptions[operator] }]),
  )
}
