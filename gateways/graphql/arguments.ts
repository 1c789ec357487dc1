import {
  type FieldNode,
  type GraphQLField,
  type GraphQLInputObjectType,
  type GraphQLInputType,
  getArgumentValues,
  isInputObjectType,
  isListType,
  isNonNullType,
  Kind,
  type ObjectValueNode,
  type ValueNode,
} from 'graphql'

type Values = Readonly<Record<string, unknown>>
type Coerce = (variables: Values) => unknown

/** What is left to graphql-js: literals it would refuse or fill in otherwise, variables that were not given. */
const unusual = Symbol('unusual')

interface Known {
  readonly field: GraphQLField<unknown, unknown>
  readonly coerce: Coerce | null
}

/** A document is kept for a while, and a filter's type has a member for each column and operator: most of them are not given. */
const known = new WeakMap<FieldNode, Known>()

/**
 * The coerced arguments of a field, as `getArgumentValues` of graphql-js gives them; what does not depend on variables is worked out once
 * for a document.
 */
export function coerceArguments(
  field: GraphQLField<unknown, unknown>,
  node: FieldNode,
  variables: Values,
): Readonly<Record<string, unknown>> {
  let prepared = known.get(node)
  if (prepared?.field !== field) {
    prepared = { field, coerce: prepare(field, node) }
    known.set(node, prepared)
  }
  const values = prepared.coerce === null ? unusual : prepared.coerce(variables)
  return values === unusual ? getArgumentValues(field, node, variables) : (values as Values)
}

function prepare({ args }: GraphQLField<unknown, unknown>, node: FieldNode): Coerce | null {
  return prepareMembers(args, new Map(node.arguments?.map(({ name, value }) => [name.value, value])))
}

interface Member {
  readonly name: string
  readonly type: GraphQLInputType
  readonly defaultValue?: unknown
}

/** Members that are given, in the order of the type. */
function prepareMembers(members: readonly Member[], given: ReadonlyMap<string, ValueNode>): Coerce | null {
  const prepared: (readonly [string, Coerce])[] = []
  for (const { name, type, defaultValue } of members) {
    const value = given.get(name)
    if (value === undefined) {
      if (defaultValue !== undefined || isNonNullType(type)) return null
      continue
    }
    const coerce = prepareValue(value, type)
    if (coerce === null) return null
    prepared.push([name, coerce])
  }
  return (variables) => {
    const values: Record<string, unknown> = Object.create(null)
    for (const [name, coerce] of prepared) {
      const value = coerce(variables)
      if (value === unusual) return unusual
      values[name] = value
    }
    return values
  }
}

function prepareValue(node: ValueNode, type: GraphQLInputType): Coerce | null {
  if (node.kind === Kind.VARIABLE) return prepareVariable(node.name.value, isNonNullType(type))
  if (isNonNullType(type)) return node.kind === Kind.NULL ? null : prepareValue(node, type.ofType)
  if (node.kind === Kind.NULL) return () => null
  if (isListType(type)) return prepareList(node, type.ofType)
  if (isInputObjectType(type)) return node.kind === Kind.OBJECT ? prepareObject(node, type) : null
  // A literal in there may hold variables.
  if (node.kind === Kind.LIST || node.kind === Kind.OBJECT) return null
  try {
    const value: unknown = type.parseLiteral(node, undefined)
    return value === undefined ? null : () => value
  } catch {
    return null
  }
}

/** Its value has been coerced with the operation's variables. */
function prepareVariable(name: string, required: boolean): Coerce {
  return (variables) => {
    const value = Object.hasOwn(variables, name) ? variables[name] : undefined
    return value === undefined || (required && value === null) ? unusual : value
  }
}

function prepareList(node: ValueNode, type: GraphQLInputType): Coerce | null {
  const items = (node.kind === Kind.LIST ? node.values : [node]).map((item) => prepareValue(item, type))
  if (items.some((item) => item === null)) return null
  return (variables) => {
    const values = items.map((item) => item!(variables))
    return values.includes(unusual) ? unusual : values
  }
}

function prepareObject(node: ObjectValueNode, type: GraphQLInputObjectType): Coerce | null {
  if (type.isOneOf) return null
  const given = new Map(node.fields.map(({ name, value }) => [name.value, value]))
  return prepareMembers(Object.values(type.getFields()), given)
}
