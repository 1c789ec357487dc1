import {
  type DocumentNode,
  type FragmentDefinitionNode,
  GraphQLError,
  type GraphQLSchema,
  Kind,
  NoSchemaIntrospectionCustomRule,
  parse,
  type SelectionSetNode,
  specifiedRules,
  validate,
} from 'graphql'
import { LRUCache } from 'lru-cache'

/** What a stranger's document may hold. */
export interface DocumentLimits {
  /** Fields inside each other. */
  readonly maxDepth: number
  readonly maxAliases: number
  readonly maxTokens: number
  /** Characters. */
  readonly maxLength: number
  /** Fields of the operation's root: each is a statement. */
  readonly maxRootFields: number
  readonly introspection: boolean
}

export const defaultDocumentLimits: DocumentLimits = {
  maxDepth: 20,
  maxAliases: 100,
  maxTokens: 5000,
  maxLength: 50_000,
  maxRootFields: 50,
  introspection: true,
}

export type ReadDocument =
  | {
      readonly document: DocumentNode
      readonly fragments: Readonly<Record<string, FragmentDefinitionNode>>
      readonly errors: null
    }
  | { readonly document: null; readonly errors: readonly GraphQLError[] }

/** Parses and validates documents, each text once for a schema. */
export class Documents {
  readonly #schema: GraphQLSchema
  readonly #limits: DocumentLimits
  readonly #known: LRUCache<string, ReadDocument>

  /** @param memoryShare of what is kept, for one of many schemas */
  constructor(schema: GraphQLSchema, limits: DocumentLimits, memoryShare = 1) {
    this.#schema = schema
    this.#limits = limits
    this.#known = new LRUCache<string, ReadDocument>({
      max: 2000,
      maxSize: Math.ceil(16 * 1024 * 1024 * memoryShare),
      sizeCalculation: (_document, text) => 2048 + text.length * 8,
    })
  }

  read(text: string): ReadDocument {
    if (text.length > this.#limits.maxLength)
      return refused(`The document has more than ${this.#limits.maxLength} characters`)
    let read = this.#known.get(text)
    if (!read) {
      read = this.#readNew(text)
      this.#known.set(text, read)
    }
    return read
  }

  #readNew(text: string): ReadDocument {
    let document: DocumentNode
    try {
      document = parse(text, { maxTokens: this.#limits.maxTokens, noLocation: false })
    } catch (error) {
      return {
        document: null,
        errors: [
          error instanceof GraphQLError
            ? withCode(error, 'GRAPHQL_PARSE_FAILED')
            : new GraphQLError('The document cannot be parsed'),
        ],
      }
    }
    return this.check(document)
  }

  /** @returns the document, or why it cannot be executed */
  check(document: DocumentNode): ReadDocument {
    const tooMuch = overLimit(document, this.#limits)
    if (tooMuch !== null) return refused(tooMuch)
    const rules = this.#limits.introspection ? specifiedRules : [...specifiedRules, NoSchemaIntrospectionCustomRule]
    const errors = errorsOf(() => validate(this.#schema, document, rules, { maxErrors: 20 }))
    if (errors.length > 0)
      return { document: null, errors: errors.map((error) => withCode(error, 'GRAPHQL_VALIDATION_FAILED')) }
    const definitions = document.definitions.filter((one) => one.kind === Kind.FRAGMENT_DEFINITION)
    return { document, fragments: Object.fromEntries(definitions.map((one) => [one.name.value, one])), errors: null }
  }
}

/** The rule of one field at the root of a subscription throws for a directive there that has a variable. */
function errorsOf(check: () => readonly GraphQLError[]): readonly GraphQLError[] {
  try {
    return check()
  } catch (error) {
    if (error instanceof GraphQLError) return [error]
    throw error
  }
}

function refused(text: string): ReadDocument {
  return { document: null, errors: [new GraphQLError(text, { extensions: { code: 'data/too-complex' } })] }
}

function withCode(error: GraphQLError, code: string): GraphQLError {
  const { nodes, source, positions, path, originalError } = error
  return new GraphQLError(error.message, {
    nodes,
    source,
    positions,
    path,
    originalError,
    extensions: { code },
  } as never)
}

/** Counted before validation, whose own work grows with these. Fragments count where they are spread, each spread anew. */
function overLimit(document: DocumentNode, limits: DocumentLimits): string | null {
  const fragments = new Map(
    document.definitions.flatMap((one) =>
      one.kind === Kind.FRAGMENT_DEFINITION ? [[one.name.value, one] as const] : [],
    ),
  )
  let aliases = 0
  let visited = 0
  const visit = (set: SelectionSetNode, depth: number, within: readonly string[]): string | null => {
    if (depth > limits.maxDepth) return `The document nests deeper than ${limits.maxDepth}`
    for (const selection of set.selections) {
      visited += 1
      if (visited > maxVisited) return 'The document spreads its fragments too often'
      let found: string | null = null
      if (selection.kind === Kind.FIELD) {
        if (selection.alias) aliases += 1
        if (aliases > limits.maxAliases) return `The document has more than ${limits.maxAliases} aliases`
        if (selection.selectionSet) found = visit(selection.selectionSet, depth + 1, within)
      } else if (selection.kind === Kind.INLINE_FRAGMENT) found = visit(selection.selectionSet, depth, within)
      else {
        const name = selection.name.value
        const fragment = fragments.get(name)
        // A circle is the validation's to refuse.
        if (fragment && !within.includes(name)) found = visit(fragment.selectionSet, depth, [...within, name])
      }
      if (found !== null) return found
    }
    return null
  }
  for (const definition of document.definitions) {
    if (definition.kind !== Kind.OPERATION_DEFINITION) continue
    if (definition.selectionSet.selections.length > limits.maxRootFields)
      return `The operation has more than ${limits.maxRootFields} fields at its root`
    const found = visit(definition.selectionSet, 1, [])
    if (found !== null) return found
  }
  return null
}

const maxVisited = 20_000
