import {
  type FieldNode,
  GraphQLIncludeDirective,
  type GraphQLInputObjectType,
  type GraphQLObjectType,
  GraphQLSkipDirective,
  getDirectiveValues,
  getNamedType,
  isObjectType,
  Kind,
  type SelectionSetNode,
} from 'graphql'
import { Rejected } from '../../schemas/failure.ts'
import type { Column, DatabaseType, Table } from '../data/catalog.ts'
import { checkSortable, completeOrder, type WantedSort } from '../data/order.ts'
import type { Expansion, Filter, LayoutItem, RowSelection, ShapedColumn, Shaping } from '../data/read-ast.ts'
import { coerceArguments } from './arguments.ts'
import { meaningOf } from './meaning.ts'
import { planFilter } from './plan-filter.ts'
import type { OperationScope, PlanScope } from './plan-scope.ts'

/** Fields of a selection under their response names, in order; the same name given twice is one field with both selections. */
export function collectFields(
  type: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
  scope: OperationScope,
): Map<string, FieldNode[]> {
  const fields = new Map<string, FieldNode[]>()
  const visited = new Set<string>()
  const visit = (set: SelectionSetNode): void => {
    for (const selection of set.selections) {
      if (!isIncluded(selection, scope)) continue
      if (selection.kind === Kind.FIELD) {
        const name = selection.alias?.value ?? selection.name.value
        const known = fields.get(name)
        if (known) known.push(selection)
        else fields.set(name, [selection])
        continue
      }
      if (selection.kind === Kind.FRAGMENT_SPREAD) {
        const { value } = selection.name
        if (visited.has(value)) continue
        visited.add(value)
      }
      const fragment = selection.kind === Kind.FRAGMENT_SPREAD ? scope.fragments[selection.name.value]! : selection
      const condition = fragment.typeCondition?.name.value
      if (condition === undefined || condition === type.name) visit(fragment.selectionSet)
    }
  }
  for (const set of sets) visit(set)
  return fields
}

function isIncluded(node: { readonly directives?: FieldNode['directives'] }, { variables }: OperationScope): boolean {
  if (node.directives === undefined || node.directives.length === 0) return true
  const values = { directives: node.directives }
  if (getDirectiveValues(GraphQLSkipDirective, values, variables)?.if === true) return false
  return getDirectiveValues(GraphQLIncludeDirective, values, variables)?.if !== false
}

export function selectionsOf(nodes: readonly FieldNode[]): SelectionSetNode[] {
  return nodes.flatMap(({ selectionSet }) => selectionSet ?? [])
}

export function argumentsOf(
  type: GraphQLObjectType,
  nodes: readonly FieldNode[],
  scope: OperationScope,
): Readonly<Record<string, unknown>> {
  const [node] = nodes
  return coerceArguments(type.getFields()[node!.name.value]!, node!, scope.variables)
}

/** What rows of the table shall look like. @throws {Rejected} `data/too-complex` and what arguments are refused for */
export function planRow(
  type: GraphQLObjectType,
  sets: readonly SelectionSetNode[],
  place: string,
  scope: PlanScope,
): RowSelection {
  const layout: LayoutItem[] = []
  const expansions: Expansion[] = []
  for (const [property, nodes] of collectFields(type, sets, scope)) {
    const name = nodes[0]!.name.value
    if (name === '__typename') {
      layout.push({ kind: 'constant', property, value: type.name })
      continue
    }
    const field = type.getFields()[name]!
    const meaning = meaningOf(field)
    if (meaning?.kind === 'column')
      layout.push(planColumn(property, meaning.column, nodes, getNamedType(field.type), scope))
    else if (meaning?.kind === 'relation') {
      countExpansion(place, scope)
      layout.push({ kind: 'expansion', property })
      const target = getNamedType(field.type) as GraphQLObjectType
      const select = planRow(target, selectionsOf(nodes), `${place}.${property}`, scope)
      const list =
        meaning.relation.kind === 'one'
          ? single
          : planListArguments(meaning.target, type, nodes, `${place}.${property}`, scope)
      expansions.push({ property, relation: meaning.relation.name, select, ...list })
    }
  }
  return { kind: 'rows', columns: [], expansions, layout }
}

const single = { filter: null, order: [], limit: null, offset: null } as const

function countExpansion(place: string, { expanded, limits }: PlanScope): void {
  expanded.count += 1
  if (expanded.count <= limits.maxExpansions) return
  throw new Rejected(
    'data/too-complex',
    `${place}: more than ${limits.maxExpansions} relations in one field of the operation`,
    { details: { field: place } },
  )
}

/** `where`, `orderBy`, `limit` and `offset` of a list. */
export function planListArguments(
  table: Table,
  parent: GraphQLObjectType,
  nodes: readonly FieldNode[],
  place: string,
  scope: PlanScope,
): Pick<Expansion, 'filter' | 'order' | 'offset'> & { readonly limit: number } {
  const given = argumentsOf(parent, nodes, scope)
  const offset = wholeNumber(given.offset, `${place}(offset)`) ?? 0
  const { defaultPageSize, maxPageSize } = scope.limits
  return {
    filter: planFilterOf(parent, nodes, place, scope, given),
    order: planOrder(table, given.orderBy, place, parent, nodes, scope),
    limit: Math.min(wholeNumber(given.limit, `${place}(limit)`) ?? defaultPageSize, maxPageSize),
    offset: offset === 0 ? null : scope.slots.add(String(offset)),
  }
}

/** @throws {Rejected} `data/invalid-page` for a negative number */
export function wholeNumber(value: unknown, place: string): number | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number' && value >= 0) return value
  throw new Rejected('data/invalid-page', `${place}: expected a whole number, not ${String(value)}`, {
    details: { field: place },
  })
}

/** The columns of `orderBy` in the order they are written in, completed to a unique order. */
export function planOrder(
  table: Table,
  given: unknown,
  place: string,
  parent: GraphQLObjectType,
  nodes: readonly FieldNode[],
  scope: PlanScope,
): Expansion['order'] {
  const orderType = parent.getFields()[nodes[0]!.name.value]!.args.find(({ name }) => name === 'orderBy')
  const fields = orderType === undefined ? {} : (getNamedType(orderType.type) as GraphQLInputObjectType).getFields()
  const wanted: WantedSort[] = []
  for (const part of (given ?? []) as readonly Readonly<Record<string, Omit<WantedSort, 'column'> | null>>[]) {
    for (const [name, direction] of Object.entries(inWrittenOrder(part, nodes, scope))) {
      const meaning = fields[name]?.extensions.meaning as { readonly column: Column } | undefined
      if (direction && meaning) wanted.push({ column: meaning.column.name, ...direction })
    }
  }
  if (wanted.length > scope.limits.maxSortKeys) {
    throw new Rejected('data/too-complex', `${place}(orderBy): more than ${scope.limits.maxSortKeys} columns`, {
      details: { field: `${place}(orderBy)` },
    })
  }
  for (const sort of wanted) checkSortable(table, sort, `${place}(orderBy)`)
  return completeOrder(table, wanted).keys
}

/** graphql-js coerces the members of an input object in the order of its type; what counts is how they were written. */
function inWrittenOrder<Value>(
  part: Readonly<Record<string, Value>>,
  nodes: readonly FieldNode[],
  scope: OperationScope,
): Readonly<Record<string, Value>> {
  const names = Object.keys(part)
  if (names.length < 2) return part
  const argument = nodes[0]!.arguments?.find(({ name }) => name.value === 'orderBy')?.value
  const written =
    argument?.kind === Kind.VARIABLE
      ? writtenNames(scope.rawVariables[argument.name.value])
      : argument?.kind === Kind.LIST
        ? argument.values.map((value) =>
            value.kind === Kind.OBJECT
              ? value.fields.map(({ name }) => name.value)
              : value.kind === Kind.VARIABLE
                ? (writtenNames(scope.rawVariables[value.name.value])[0] ?? [])
                : [],
          )
        : argument?.kind === Kind.OBJECT
          ? [argument.fields.map(({ name }) => name.value)]
          : []
  const own = written.find((list) => list.length === names.length && names.every((name) => list.includes(name)))
  return own === undefined ? part : Object.fromEntries(own.map((name) => [name, part[name]!]))
}

function writtenNames(value: unknown): string[][] {
  return [value].flat().map((part) => (typeof part === 'object' && part !== null ? Object.keys(part) : []))
}

function planColumn(
  property: string,
  column: Column,
  nodes: readonly FieldNode[],
  type: unknown,
  scope: OperationScope,
): ShapedColumn {
  return { kind: 'column', property, column: column.name, shaping: shapingOf(column.type, type, nodes, scope) }
}

const asText = new Set(['int8', 'numeric', 'money'])

/** How values of the type become what its GraphQL type promises. */
export function shapingOf(
  type: DatabaseType,
  graphqlType: unknown,
  nodes: readonly FieldNode[],
  scope: OperationScope,
): Shaping {
  const element = elementOf(type)
  if (element.kind === 'enum') {
    const names = [...(scope.naming.enumValues.get(element.oid) ?? [])].filter(([label, name]) => label !== name)
    return names.length === 0 ? { kind: 'plain' } : { kind: 'renamed', names }
  }
  if (element.kind === 'composite' && isObjectType(graphqlType)) {
    return { kind: 'object', items: planAttributes(graphqlType, nodes, scope) }
  }
  return { kind: element.kind === 'base' && asText.has(element.name) ? 'text' : 'plain' }
}

function elementOf({ base }: DatabaseType): DatabaseType {
  return base.kind === 'array' ? elementOf(base.element!) : base
}

type ShapedItem = Extract<Shaping, { kind: 'object' }>['items'][number]

function planAttributes(
  type: GraphQLObjectType,
  nodes: readonly FieldNode[],
  scope: OperationScope,
): Extract<Shaping, { kind: 'object' }>['items'] {
  return [...collectFields(type, selectionsOf(nodes), scope)].flatMap(([property, inner]): ShapedItem[] => {
    const name = inner[0]!.name.value
    if (name === '__typename') return [{ kind: 'constant', property, value: type.name }]
    const field = type.getFields()[name]!
    const meaning = meaningOf(field)
    if (meaning?.kind !== 'attribute') return []
    const { attribute } = meaning
    return [
      {
        kind: 'column',
        property,
        column: attribute.name,
        shaping: shapingOf(attribute.type, getNamedType(field.type), inner, scope),
      },
    ]
  })
}

/** The `where` of a field. */
export function planFilterOf(
  parent: GraphQLObjectType,
  nodes: readonly FieldNode[],
  place: string,
  scope: PlanScope,
  { where } = argumentsOf(parent, nodes, scope),
): Filter | null {
  const type = parent.getFields()[nodes[0]!.name.value]!.args.find(({ name }) => name === 'where')!.type
  return planFilter(where, type as GraphQLInputObjectType, `${place}(where)`, scope)
}
