import {
  type FieldNode,
  GraphQLError,
  type GraphQLFormattedError,
  type GraphQLObjectType,
  getOperationAST,
  getVariableValues,
  type OperationDefinitionNode,
  OperationTypeNode,
  valueFromASTUntyped,
} from 'graphql'
import type { CommandMessage } from '../../schemas/data/change.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { Compiled } from '../data/dialect.ts'
import { shapeOf } from '../data/read-request.ts'
import { isStale } from '../data/stale.ts'
import type { CallContext, RawResult, Run } from '../data/statement.ts'
import { isCallerGone } from '../http/caller.ts'
import type { ReadDocument } from './document.ts'
import { fieldError } from './errors.ts'
import { introspect } from './introspect.ts'
import type { KeyedWrites } from './keyed-writes.ts'
import { planRoot, type RootPlan } from './plan-root.ts'
import type { OperationScope } from './plan-scope.ts'
import { collectFields } from './plan-select.ts'
import { emptyField } from './schema.ts'
import type { SchemaState, SchemaView } from './schema-state.ts'

/** An operation that can be executed: parsed, validated, its variables still as they were sent. */
export interface Operation {
  readonly state: SchemaState
  readonly document: Extract<ReadDocument, { errors: null }>
  readonly node: OperationDefinitionNode
  readonly variables: Readonly<Record<string, unknown>>
}

export interface ExecutionContext {
  /** The caller's. */
  readonly watch: Pick<SchemaView, 'reload'>
  readonly run: Run
  /** Of the caller, without what belongs to a single statement. */
  readonly caller: Pick<CallContext, 'role' | 'claims' | 'anonymous'>
  readonly requestId: string
  /** Null: writes emit none. */
  readonly command: Omit<CommandMessage, 'operation'> | null
  /** Aborts when the caller goes away; asked for by statements that may take long. */
  readonly untilGone?: () => AbortSignal
  /** Of a request with an Idempotency-Key. */
  readonly keyed?: KeyedWrites
  /** Whether the answer tells what the operation costs. Default false. */
  readonly reportCost?: boolean
  readonly onFault: (error: unknown) => void
}

/** @returns the operation, or the errors of a request that cannot begin */
export function readOperation(
  state: SchemaState,
  read: ReadDocument,
  operationName: string | null | undefined,
  variables: Readonly<Record<string, unknown>>,
): Operation | { readonly errors: readonly GraphQLError[] } {
  if (read.errors !== null) return { errors: read.errors }
  const node = getOperationAST(read.document, operationName)
  if (node) return { state, document: read, node, variables }
  const text = operationName
    ? `There is no operation ${JSON.stringify(operationName.slice(0, 100))}`
    : 'operationName must choose one of several operations'
  return { errors: [new GraphQLError(text, { extensions: { code: 'http/bad-request' } })] }
}

/**
 * The whole response body: `{"data": …}`, with `errors` where fields failed.
 * @throws {GraphQLError} `data/too-complex` for an operation that costs too much
 * @throws {Rejected} `data/idempotency-mismatch`
 */
export async function executeToBytes(operation: Operation, context: ExecutionContext): Promise<Buffer> {
  const coerced = scopeOf(operation)
  if ('errors' in coerced) return Buffer.from(JSON.stringify({ errors: coerced.errors }))
  const cost = operation.state.costs.check(operation.node, coerced, context.reportCost === true)
  const writes = operation.node.operation === OperationTypeNode.MUTATION
  const root = writes ? operation.state.schema.getMutationType()! : operation.state.schema.getQueryType()!
  const fields = [...collectFields(root, [operation.node.selectionSet], coerced)]
  const results: Field[] = []
  if (writes) {
    context.keyed?.begin(contentOf(operation), fields.length)
    for (const [place, [name, nodes]] of fields.entries())
      results.push(await field(root, name, nodes, coerced, operation, context, place))
  } else
    results.push(
      ...(await Promise.all(fields.map(([name, nodes]) => field(root, name, nodes, coerced, operation, context)))),
    )
  return bodyOf(
    results,
    cost !== null && context.reportCost === true ? `,"extensions":${JSON.stringify({ cost })}}` : '}',
  )
}

/** What makes two requests with one key the same, however the document was sent. */
function contentOf({ document, node, variables }: Operation): readonly unknown[] {
  return [document.document.loc?.source.body, node.name?.value, variables]
}

/** Of values that nest deeper than the stack, graphql-js reports what was thrown. */
function variableError(error: Error): GraphQLFormattedError {
  const said = error instanceof GraphQLError ? error.toJSON() : { message: 'The variables nest too deeply' }
  return { ...said, extensions: { code: 'BAD_USER_INPUT' } }
}

/** What is not sent stands as the operation says. */
function withDefaults({ variableDefinitions = [] }: OperationDefinitionNode, sent: Operation['variables']) {
  const defaults = variableDefinitions.flatMap(({ variable: { name }, defaultValue }) =>
    defaultValue === undefined || Object.hasOwn(sent, name.value)
      ? []
      : [[name.value, valueFromASTUntyped(defaultValue)] as const],
  )
  return defaults.length === 0 ? sent : { ...sent, ...Object.fromEntries(defaults) }
}

interface Field {
  readonly name: string
  readonly json: Buffer | null
  readonly error: GraphQLFormattedError | null
}

function bodyOf(results: readonly Field[], end: string): Buffer {
  const pieces: Buffer[] = []
  const errors = results.flatMap(({ error }) => error ?? [])
  let head = errors.length === 0 ? '{"data":{' : `{"errors":${JSON.stringify(errors)},"data":{`
  for (const { name, json } of results) {
    pieces.push(Buffer.from(`${head}${JSON.stringify(name)}:`), json ?? jsonNull)
    head = ','
  }
  if (results.length === 0) pieces.push(Buffer.from(head))
  pieces.push(Buffer.from(`}${end}`))
  return Buffer.concat(pieces)
}

const jsonNull = Buffer.from('null')

/** The variables, coerced by the schema. */
export function scopeOf({
  state,
  document,
  node,
  variables,
}: Operation): OperationScope | { readonly errors: readonly GraphQLFormattedError[] } {
  const coerced = getVariableValues(state.schema, node.variableDefinitions ?? [], variables, { maxErrors: 20 })
  if (coerced.errors) return { errors: coerced.errors.map(variableError) }
  return {
    catalog: state.catalog,
    schema: state.schema,
    naming: state.naming,
    fragments: document.fragments,
    variables: coerced.coerced,
    rawVariables: withDefaults(node, variables),
    limits: state.limits,
  }
}

async function field(
  root: GraphQLObjectType,
  name: string,
  nodes: readonly FieldNode[],
  scope: OperationScope,
  operation: Operation,
  context: ExecutionContext,
  place = 0,
): Promise<Field> {
  const own = nodes[0]!.name.value
  if (own === '__typename') return { name, json: Buffer.from(JSON.stringify(root.name)), error: null }
  if (own === emptyField) return { name, json: jsonNull, error: null }
  try {
    if (own.startsWith('__')) return { name, json: await introspect(name, nodes, operation), error: null }
    return { name, json: await runField(root, nodes, scope, operation, context, place), error: null }
  } catch (error) {
    // Another request has the key: nothing of this one was done.
    if (error instanceof Rejected && error.code === 'data/idempotency-mismatch') throw error
    const { formatted, fault } = fieldError(error, [name], context.requestId)
    if (fault && !isCallerGone(error)) context.onFault(error)
    const start = nodes[0]!.loc?.startToken
    const locations = start === undefined ? {} : { locations: [{ line: start.line, column: start.column }] }
    return { name, json: null, error: { ...formatted, ...locations } }
  }
}

async function runField(
  root: GraphQLObjectType,
  nodes: readonly FieldNode[],
  scope: OperationScope,
  operation: Operation,
  context: ExecutionContext,
  place: number,
): Promise<Buffer> {
  const { state } = operation
  const plan = planRoot(root, nodes, scope)
  try {
    return await answer(plan, state, context, place)
  } catch (error) {
    if (!isStale(error)) throw error
    // The statement was compiled for a schema that has changed since, and had no effect.
    const fresh = await context.watch.reload()
    if (fresh === state) throw error
    const again = freshRoot(fresh, operation)
    if (again === null) throw error
    const anew = planRoot(again.root, nodes, again.scope)
    return await answer(anew, fresh, context, place)
  }
}

async function answer(plan: RootPlan, state: SchemaState, context: ExecutionContext, place: number): Promise<Buffer> {
  const { keyed } = context
  if (!plan.writes || keyed === undefined) return plan.reply(await runPlan(plan, state, context, context.run))
  return await keyed.write(place, async (run) => plan.reply(await runPlan(plan, state, context, run)))
}

/** The operation on another schema; null when it does not fit any more. */
function freshRoot(
  state: SchemaState,
  operation: Operation,
): { readonly root: GraphQLObjectType; readonly scope: OperationScope } | null {
  const document = state.documents.check(operation.document.document)
  if (document.errors !== null) return null
  const scope = scopeOf({ ...operation, state, document })
  const root = state.schema.getRootType(operation.node.operation)
  return 'errors' in scope || !root ? null : { root, scope }
}

async function runPlan(plan: RootPlan, state: SchemaState, context: ExecutionContext, run: Run): Promise<RawResult> {
  const key = shapeOf(plan)
  let compiled: Compiled | undefined = state.compiled.get(key)
  if (!compiled) {
    compiled = plan.compile(state.catalog, state.dialect)
    state.compiled.set(key, compiled)
  }
  const { weight, statement } = compiled
  return await run(statement, plan.parameters, {
    ...context.caller,
    weight,
    ...(plan.writes ? writing(plan, context) : reading(context, weight)),
  })
}

function reading(
  { untilGone }: ExecutionContext,
  weight: Compiled['weight'],
): Pick<CallContext, 'readOnly' | 'signal'> {
  return { readOnly: true, ...(weight === 'heavy' && untilGone !== undefined ? { signal: untilGone() } : {}) }
}

function writing({ table, shape }: RootPlan, { command }: ExecutionContext): Pick<CallContext, 'readOnly' | 'command'> {
  if (command === null) return { readOnly: false }
  const operation = `graphql.${shape.kind} ${table.schema}.${table.name}`
  return { readOnly: false, command: JSON.stringify({ ...command, operation }) }
}
