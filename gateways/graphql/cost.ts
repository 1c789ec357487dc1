import {
  type FieldNode,
  GraphQLError,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
  type ValueNode,
} from 'graphql'
import type { ReadLimits } from '../data/read-limits.ts'
import { type Meaning, meaningOf } from './meaning.ts'
import type { OperationScope } from './plan-scope.ts'
import { collectFields, selectionsOf } from './plan-select.ts'

/** What an operation may return at most, in rows. */
export interface Cost {
  readonly estimated: number
  /** 0: there is no limit. */
  readonly max: number
}

/**
 * Estimates how many rows an operation returns at most: a list counts its limit (the default page size where it has none), times one and
 * what each of its rows holds; a row through a foreign key counts one, so do an aggregate and a `totalCount`, a group of `groupBy` its
 * limit. No table's size goes in, so the same operation always costs the same.
 */
export class Costs {
  readonly #schema: GraphQLSchema
  readonly #limits: ReadLimits
  readonly #max: number
  /** What operations cost at most, whatever their variables. */
  readonly #ceilings = new WeakMap<OperationDefinitionNode, number>()

  constructor(schema: GraphQLSchema, limits: ReadLimits, max: number) {
    this.#schema = schema
    this.#limits = limits
    this.#max = max
  }

  /**
   * @param exact the estimate is wanted, not only the check; otherwise an operation that is cheap with any variables is not looked at again
   * @throws {GraphQLError} `data/too-complex`, with the estimate in `extensions.cost`
   */
  check(node: OperationDefinitionNode, scope: OperationScope, exact: boolean): Cost | null {
    if (!exact && (this.#max === 0 || this.#ceiling(node, scope.fragments) <= this.#max)) return null
    const estimated = this.#estimate(node, scope.fragments, scope)
    const cost = { estimated, max: this.#max }
    if (this.#max === 0 || estimated <= this.#max) return cost
    throw new GraphQLError(
      `The operation may return ${estimated} rows, more than ${this.#max}: ask for fewer with limit or first`,
      { extensions: { code: 'data/too-complex', cost } },
    )
  }

  #ceiling(node: OperationDefinitionNode, fragments: OperationScope['fragments']): number {
    let ceiling = this.#ceilings.get(node)
    if (ceiling === undefined) {
      ceiling = this.#estimate(node, fragments, null)
      this.#ceilings.set(node, ceiling)
    }
    return ceiling
  }

  #estimate(
    node: OperationDefinitionNode,
    fragments: OperationScope['fragments'],
    scope: OperationScope | null,
  ): number {
    const root = this.#schema.getRootType(node.operation)
    if (!root) return 0
    const rows = new Estimate(this.#limits, fragments, scope).fields(root, [node.selectionSet])
    return Math.min(rows, Number.MAX_SAFE_INTEGER)
  }
}

/** One walk over an operation. Without a scope every variable counts as the most it could be, and every directive includes. */
class Estimate {
  readonly #limits: ReadLimits
  readonly #fragments: OperationScope['fragments']
  readonly #scope: OperationScope | null

  constructor(limits: ReadLimits, fragments: OperationScope['fragments'], scope: OperationScope | null) {
    this.#limits = limits
    this.#fragments = fragments
    this.#scope = scope
  }

  fields(type: GraphQLObjectType, sets: readonly SelectionSetNode[]): number {
    let rows = 0
    for (const nodes of this.#collect(type, sets)) rows += this.#field(type, nodes)
    return rows
  }

  #collect(type: GraphQLObjectType, sets: readonly SelectionSetNode[]): Iterable<readonly FieldNode[]> {
    if (this.#scope !== null) return collectFields(type, sets, this.#scope).values()
    return sets.flatMap((set) => this.#all(set)).map((node) => [node])
  }

  #all({ selections }: SelectionSetNode): FieldNode[] {
    return selections.flatMap((selection) => {
      if (selection.kind === Kind.FIELD) return [selection]
      if (selection.kind === Kind.INLINE_FRAGMENT) return this.#all(selection.selectionSet)
      return this.#all(this.#fragments[selection.name.value]!.selectionSet)
    })
  }

  #field(parent: GraphQLObjectType, nodes: readonly FieldNode[]): number {
    const name = nodes[0]!.name.value
    const field = name.startsWith('__') ? undefined : parent.getFields()[name]
    if (field === undefined) return 0
    if (name === 'totalCount' && parent.name.endsWith('Connection')) return 1
    const type = getNamedType(field.type)
    if (!isObjectType(type)) return 0
    const inner = () => this.fields(type, selectionsOf(nodes))
    const meaning = meaningOf(field)
    switch (meaning?.kind) {
      case 'list':
        return this.#page(nodes, 'limit') * (1 + inner())
      case 'relation':
        return (isOne(meaning) ? 1 : this.#page(nodes, 'limit')) * (1 + inner())
      case 'connection':
        return this.#connection(type, nodes)
      case 'groupBy':
        return this.#page(nodes, 'limit')
      case 'createMany':
        return this.#inputs(nodes) * (1 + inner())
      case 'aggregate':
      case 'create':
      case 'update':
      case 'delete':
        return 1 + inner()
      case undefined:
        // An edge, a node, a page's info: they hold what their row holds.
        return inner()
      default:
        return 0
    }
  }

  #connection(type: GraphQLObjectType, nodes: readonly FieldNode[]): number {
    const first = this.#value(nodes, 'first')
    const size = this.#page(nodes, first === undefined || first === null ? 'last' : 'first')
    let rows = size
    for (const own of this.#collect(type, selectionsOf(nodes))) {
      const cost = this.#field(type, own)
      rows += own[0]!.name.value === 'edges' ? size * cost : cost
    }
    return rows
  }

  #page(nodes: readonly FieldNode[], argument: 'limit' | 'first' | 'last'): number {
    const { defaultPageSize, maxPageSize } = this.#limits
    const value = this.#value(nodes, argument)
    if (value === unknown) return maxPageSize
    return Math.min(typeof value === 'number' && value >= 0 ? value : defaultPageSize, maxPageSize)
  }

  #inputs(nodes: readonly FieldNode[]): number {
    const value = this.#value(nodes, 'inputs')
    if (value === unknown) return this.#limits.maxInsertRows
    return Array.isArray(value) ? value.length : 1
  }

  /** Of an argument: numbers and lists as such, null for null, undefined when it is not given. */
  #value(nodes: readonly FieldNode[], name: string): unknown {
    const given = nodes[0]!.arguments?.find((argument) => argument.name.value === name)?.value
    return given === undefined ? undefined : this.#valueOf(given)
  }

  #valueOf(given: ValueNode): unknown {
    switch (given.kind) {
      case Kind.VARIABLE:
        return this.#scope === null ? unknown : this.#scope.variables[given.name.value]
      case Kind.INT:
        return Number(given.value)
      case Kind.LIST:
        return given.values
      case Kind.NULL:
        return null
      default:
        return given
    }
  }
}

const unknown = Symbol('a variable')

function isOne({ relation }: Extract<Meaning, { readonly kind: 'relation' }>): boolean {
  return relation.kind === 'one'
}
