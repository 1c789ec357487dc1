import { type FieldNode, type GraphQLObjectType, getNamedType, type SelectionSetNode } from 'graphql'
import { Rejected } from '../../schemas/failure.ts'
import type { Column, Table } from '../data/catalog.ts'
import type { NumbersItem, NumbersShape } from '../data/numbers-ast.ts'
import type { AggregateFunction, Filter, ShapedColumn, Shaping } from '../data/read-ast.ts'
import { meaningOf } from './meaning.ts'
import type { PlanScope } from './plan-scope.ts'
import { argumentsOf, collectFields, selectionsOf, shapingOf, wholeNumber } from './plan-select.ts'

/** An aggregate field: all its numbers, and those of its groups, in one statement. */
export function planNumbers(
  table: Table,
  type: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
  filter: Filter | null,
  scope: PlanScope,
): NumbersShape {
  return {
    kind: 'numbers',
    schema: table.schema,
    table: table.name,
    filter,
    items: planItems(table, type, sets, scope),
  }
}

function planItems(
  table: Table,
  type: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
  scope: PlanScope,
): NumbersItem[] {
  return [...collectFields(type, sets, scope)].map(([property, nodes]) => planItem(table, type, property, nodes, scope))
}

function planItem(
  table: Table,
  type: GraphQLObjectType,
  property: string,
  nodes: readonly FieldNode[],
  scope: PlanScope,
): NumbersItem {
  const name = nodes[0]!.name.value
  if (name === '__typename') return { kind: 'constant', property, value: type.name }
  const field = type.getFields()[name]!
  const meaning = meaningOf(field)
  const inner = getNamedType(field.type) as GraphQLObjectType
  switch (meaning?.kind) {
    case 'results':
      return {
        kind: 'results',
        property,
        function: meaning.function,
        columns: columnsOf(inner, nodes, scope, (column, of, own) =>
          resultShaping(meaning.function, column, of, own, scope),
        ),
      }
    case 'key':
      return {
        kind: 'key',
        property,
        columns: columnsOf(inner, nodes, scope, (column, of, own) => shapingOf(column.type, of, own, scope)),
      }
    case 'groupBy':
      return planGroups(table, type, inner, property, nodes, scope)
    default:
      return { kind: 'count', property }
  }
}

function planGroups(
  table: Table,
  parent: GraphQLObjectType,
  type: GraphQLObjectType,
  property: string,
  nodes: readonly FieldNode[],
  scope: PlanScope,
): NumbersItem {
  const given = argumentsOf(parent, nodes, scope)
  const columns = [...new Set(given.columns as readonly string[])]
  if (columns.length === 0) refuse(property, 'names no column')
  for (const name of columns) {
    const { kind, name: typeName } = table.columnByName.get(name)!.type.base
    if (ungroupable.has(typeName))
      refuse(property, `${name} is ${kind === 'base' ? typeName : kind}, which cannot be grouped by`)
  }
  const { defaultPageSize, maxPageSize } = scope.limits
  const offset = wholeNumber(given.offset, `${property}(offset)`) ?? 0
  return {
    kind: 'groups',
    property,
    columns,
    limit: Math.min(wholeNumber(given.limit, `${property}(limit)`) ?? defaultPageSize, maxPageSize),
    offset: offset === 0 ? null : scope.slots.add(String(offset)),
    items: planItems(table, type, selectionsOf(nodes), scope),
  }
}

const ungroupable = new Set(['json', 'xml', 'point', 'line', 'lseg', 'box', 'path', 'polygon', 'circle'])

function refuse(property: string, reason: string): never {
  throw new Rejected('http/bad-request', `${property}(columns): ${reason}`, {
    details: { field: `${property}(columns)`, reason },
  })
}

type Shape = (column: Column, type: unknown, nodes: readonly FieldNode[]) => Shaping

function columnsOf(
  type: GraphQLObjectType,
  nodes: readonly FieldNode[],
  scope: PlanScope,
  shape: Shape,
): (ShapedColumn | Extract<NumbersItem, { kind: 'constant' }>)[] {
  return [...collectFields(type, selectionsOf(nodes), scope)].flatMap(
    ([property, own]): (ShapedColumn | Extract<NumbersItem, { kind: 'constant' }>)[] => {
      const name = own[0]!.name.value
      if (name === '__typename') return [{ kind: 'constant', property, value: type.name }]
      const field = type.getFields()[name]!
      const meaning = meaningOf(field)
      if (meaning?.kind !== 'column') return []
      return [
        {
          kind: 'column',
          property,
          column: meaning.column.name,
          shaping: shape(meaning.column, getNamedType(field.type), own),
        },
      ]
    },
  )
}

const exact = new Set(['int2', 'int4', 'int8', 'numeric'])

/** Sums and averages of whole and decimal numbers are wider than their column. */
function resultShaping(
  name: AggregateFunction,
  column: Column,
  type: unknown,
  nodes: readonly FieldNode[],
  scope: PlanScope,
): Shaping {
  if (name === 'min' || name === 'max') return shapingOf(column.type, type, nodes, scope)
  return { kind: exact.has(column.type.base.name) ? 'text' : 'plain' }
}
