import {
  type DocumentNode,
  type ExecutionResult,
  execute,
  type FieldNode,
  type GraphQLSchema,
  Kind,
  type OperationDefinitionNode,
  OperationTypeNode,
} from 'graphql'

interface Introspected {
  readonly state: { readonly schema: GraphQLSchema }
  readonly document: { readonly document: DocumentNode }
  readonly node: OperationDefinitionNode
  readonly variables: Readonly<Record<string, unknown>>
}

/** `__schema` and `__type` are graphql-js' own. */
export async function introspect(
  name: string,
  nodes: readonly FieldNode[],
  { state, document, node, variables }: Introspected,
): Promise<Buffer> {
  const definitions = document.document.definitions.filter(({ kind }) => kind === Kind.FRAGMENT_DEFINITION)
  const only: OperationDefinitionNode = {
    ...node,
    operation: OperationTypeNode.QUERY,
    selectionSet: { kind: Kind.SELECTION_SET, selections: nodes },
  }
  const result: ExecutionResult = await execute({
    schema: state.schema,
    document: { kind: Kind.DOCUMENT, definitions: [only, ...definitions] },
    variableValues: variables,
  })
  if (result.errors?.[0]) throw result.errors[0]
  return Buffer.from(JSON.stringify(result.data?.[name] ?? null))
}
