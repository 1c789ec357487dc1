import { type FieldNode, type GraphQLObjectType, getNamedType, isObjectType } from 'graphql'
import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, Table } from '../data/catalog.ts'
import { cursorDigest, decodeCursor } from '../data/cursor.ts'
import type { Compiled, Dialect } from '../data/dialect.ts'
import type { NumbersShape } from '../data/numbers-ast.ts'
import type { CursorPage, ListShape, RowSelection } from '../data/read-ast.ts'
import type { Parameter, RawResult } from '../data/statement.ts'
import type { WriteRequest } from '../data/write-request.ts'
import { type Meaning, meaningOf } from './meaning.ts'
import { planNumbers } from './plan-aggregate.ts'
import { type OperationScope, type PlanScope, planScope } from './plan-scope.ts'
import {
  argumentsOf,
  collectFields,
  planFilterOf,
  planListArguments,
  planOrder,
  planRow,
  selectionsOf,
  wholeNumber,
} from './plan-select.ts'
import { planCreate, planDelete, planUpdate } from './plan-write.ts'
import { connectionReply, createdReply, listReply, nodePlace, numbersReply, rowReply } from './reply.ts'

/** One field of the operation's root: one statement, and how its result becomes the field's JSON. */
export interface RootPlan {
  readonly table: Table
  readonly writes: boolean
  /** Key of the compiled statement, to be joined with the catalog's version. */
  readonly shape: ListShape | NumbersShape | WriteRequest['shape']
  readonly parameters: readonly Parameter[]
  compile(catalog: Catalog, dialect: Dialect): Compiled
  /** @throws {Rejected} when the result is a refusal: a row that is not there. */
  reply(result: RawResult): Buffer
}

/** @throws {Rejected} for arguments that cannot be used */
export function planRoot(parent: GraphQLObjectType, nodes: readonly FieldNode[], operation: OperationScope): RootPlan {
  const field = parent.getFields()[nodes[0]!.name.value]!
  const meaning = meaningOf(field) as Extract<Meaning, { readonly table: Table }>
  const scope = planScope(operation)
  const place = nodes[0]!.alias?.value ?? nodes[0]!.name.value
  const type = getNamedType(field.type)
  if (!isObjectType(type)) throw new Error(`${field.name} has no object type`)
  switch (meaning.kind) {
    case 'list':
      return planList(meaning.table, parent, type, nodes, place, scope)
    case 'connection':
      return planConnection(meaning.table, parent, type, nodes, place, scope)
    case 'aggregate': {
      const filter = planFilterOf(parent, nodes, place, scope)
      const shape = planNumbers(meaning.table, type, selectionsOf(nodes), filter, scope)
      const { values: parameters } = scope.slots
      return {
        table: meaning.table,
        writes: false,
        shape,
        parameters,
        compile: (catalog, dialect) => dialect.compileNumbers(catalog, shape),
        reply: numbersReply,
      }
    }
    default:
      return planMutation(meaning, parent, type, nodes, place, scope)
  }
}

function planList(
  table: Table,
  parent: GraphQLObjectType,
  type: GraphQLObjectType,
  nodes: readonly FieldNode[],
  place: string,
  scope: PlanScope,
): RootPlan {
  const select = planRow(type, selectionsOf(nodes), place, scope)
  const { filter, order, limit, offset } = planListArguments(table, parent, nodes, place, scope)
  const shape: ListShape = { ...listOf(table, select), filter, order, page: { kind: 'offset', limit, offset } }
  return {
    table,
    writes: false,
    shape,
    parameters: scope.slots.values,
    compile: (catalog, dialect) => dialect.compileList(catalog, { shape }),
    reply: listReply,
  }
}

function listOf(
  { schema, name }: Table,
  select: RowSelection,
): Pick<ListShape, 'kind' | 'schema' | 'table' | 'select' | 'having' | 'count'> {
  return { kind: 'list', schema, table: name, select, having: null, count: false }
}

function planConnection(
  table: Table,
  parent: GraphQLObjectType,
  type: GraphQLObjectType,
  nodes: readonly FieldNode[],
  place: string,
  scope: PlanScope,
): RootPlan {
  const fields = collectFields(type, selectionsOf(nodes), scope)
  const named = (name: string) => [...fields].filter(([, [node]]) => node!.name.value === name)
  const edgeType = getNamedType(type.getFields().edges!.type) as GraphQLObjectType
  const nodeType = getNamedType(edgeType.getFields().node!.type) as GraphQLObjectType
  const asNodes = new Map(
    named('edges').flatMap(([edgesProperty, edges]) =>
      [...collectFields(edgeType, selectionsOf(edges), scope)]
        .filter(([, [node]]) => node!.name.value === 'node')
        .map(([property, found]) => [nodePlace(edgesProperty, property), found] as const),
    ),
  )
  const select = planNodes(nodeType, [...asNodes.values()], place, scope)
  const given = argumentsOf(parent, nodes, scope)
  const order = planOrder(table, given.orderBy, place, parent, nodes, scope)
  const { page, limit, hasAfter, hasBefore } = planCursors(table, given, order, place, scope)
  const shape: ListShape = {
    ...listOf(table, select),
    filter: planFilterOf(parent, nodes, place, scope, given),
    order,
    page,
    count: named('totalCount').length > 0,
  }
  const digest = cursorDigest(table, order)
  const asked = {
    type,
    edgeType,
    fields,
    nodePlaces: [...asNodes.keys()],
    scope,
    digest,
    limit,
    backward: page.backward,
    hasAfter,
    hasBefore,
  }
  return {
    table,
    writes: false,
    shape,
    parameters: scope.slots.values,
    compile: (catalog, dialect) => dialect.compileList(catalog, { shape }),
    reply: (result) => connectionReply(asked, result),
  }
}

/** A node that is asked for in several places is an object of one property a place, by its number. */
function planNodes(
  type: GraphQLObjectType,
  found: readonly (readonly FieldNode[])[],
  place: string,
  scope: PlanScope,
): RowSelection {
  const selects = found.map((nodes) => planRow(type, selectionsOf(nodes), place, scope))
  if (selects.length < 2) return selects[0] ?? nothing
  return {
    kind: 'rows',
    columns: [],
    expansions: selects.flatMap(({ expansions }) => expansions),
    layout: selects.map((select, index) => ({ kind: 'row', property: String(index), select })),
  }
}

/** Rows of which only the number or the cursors are wanted. */
const nothing: RowSelection = {
  kind: 'rows',
  columns: [],
  expansions: [],
  layout: [{ kind: 'constant', property: '__typename', value: '' }],
}

function planCursors(
  table: Table,
  given: Readonly<Record<string, unknown>>,
  order: ListShape['order'],
  place: string,
  scope: PlanScope,
) {
  const first = wholeNumber(given.first, `${place}(first)`)
  const last = wholeNumber(given.last, `${place}(last)`)
  if (first !== null && last !== null) {
    throw new Rejected('data/invalid-page', `${place}: first and last cannot be combined`, {
      details: { field: `${place}(last)` },
    })
  }
  const { defaultPageSize, maxPageSize } = scope.limits
  const limit = Math.min(first ?? last ?? defaultPageSize, maxPageSize)
  const bound = (name: 'after' | 'before') => {
    const cursor = given[name]
    if (typeof cursor !== 'string') return null
    return decodeCursor(cursor, table, order, `${place}(${name})`).map((value) =>
      value === null ? null : scope.slots.add(value),
    )
  }
  const after = bound('after')
  const before = bound('before')
  const backward = last !== null || (before !== null && after === null && first === null)
  const page: CursorPage = { kind: 'cursor', backward, limit: limit + 1, after, before }
  return { page, limit, hasAfter: after !== null, hasBefore: before !== null }
}

function planMutation(
  { kind, table }: Extract<Meaning, { readonly table: Table }>,
  parent: GraphQLObjectType,
  type: GraphQLObjectType,
  nodes: readonly FieldNode[],
  place: string,
  scope: PlanScope,
): RootPlan {
  const select = planRow(type, selectionsOf(nodes), place, scope)
  const given = argumentsOf(parent, nodes, scope)
  const field = parent.getFields()[nodes[0]!.name.value]!
  const input = getNamedType(field.args[0]!.type)
  const write = { table, input, given, select, place, scope }
  const written = (request: WriteRequest, reply: RootPlan['reply']): RootPlan => ({
    table,
    writes: true,
    shape: request.shape,
    parameters: request.parameters,
    compile: (catalog, dialect) => dialect.compileWrite(catalog, request),
    reply,
  })
  const oneRow: RootPlan['reply'] = (result) => rowReply(result, table)
  switch (kind) {
    case 'createMany': {
      const { places, ...request } = planCreate(write, true)
      return written(request, createdReply(places))
    }
    case 'create':
      return written(planCreate(write, false), oneRow)
    case 'update':
      return written(planUpdate(write), oneRow)
    default:
      return written(planDelete(write), oneRow)
  }
}
