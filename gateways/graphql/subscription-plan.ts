import { GraphQLError, type GraphQLInputObjectType, type GraphQLObjectType, getNamedType } from 'graphql'
import { Rejected } from '../../schemas/failure.ts'
import type { Table } from '../data/catalog.ts'
import { type ChangeAccess, openView, rowView } from '../data/changes-access.ts'
import type { ChangeType } from '../data/changes-event.ts'
import { compileChangeFilter } from '../data/changes-filter.ts'
import type { GuardedStream } from '../data/changes-guard.ts'
import type { ChangeRequest } from '../data/changes-subscription.ts'
import type { Filter } from '../data/read-ast.ts'
import type { CallContext, Database, Parameter } from '../data/statement.ts'
import { type Operation, scopeOf } from './execute.ts'
import { type Meaning, meaningOf } from './meaning.ts'
import { planFilter } from './plan-filter.ts'
import { planScope } from './plan-scope.ts'
import { argumentsOf, collectFields } from './plan-select.ts'
import { columnsOf, type EventPlan, planEvent } from './subscription-event.ts'

/** What a subscription asks for. */
export interface SubscriptionPlan {
  /** Name of the field in the response. */
  readonly property: string
  readonly table: Table
  readonly types: ReadonlySet<ChangeType> | null
  readonly filter: Filter | null
  readonly parameters: readonly Parameter[]
  readonly event: EventPlan
}

/** Errors of a request that cannot begin. */
export class RequestErrors extends Error {
  readonly errors: readonly object[]

  constructor(errors: readonly object[]) {
    super('The operation cannot begin')
    this.errors = errors
  }
}

/**
 * @throws {RequestErrors} for variables that do not fit
 * @throws {Rejected} for arguments that cannot be used
 */
export function planSubscription(operation: Operation): SubscriptionPlan {
  const scope = scopeOf(operation)
  if ('errors' in scope) throw new RequestErrors(scope.errors)
  const root = operation.state.schema.getSubscriptionType()!
  const [field, ...others] = collectFields(root, [operation.node.selectionSet], scope)
  if (field === undefined || others.length > 0) throw new RequestErrors([oneField])
  const [property, nodes] = field
  const definition = root.getFields()[nodes[0]!.name.value]!
  const { table } = meaningOf(definition) as Extract<Meaning, { readonly table: Table }>
  const { where, operations } = argumentsOf(root, nodes, scope) as {
    readonly where?: unknown
    readonly operations?: readonly ChangeType[] | null
  }
  const plan = planScope(scope)
  const filterType = definition.args.find(({ name }) => name === 'where')!.type as GraphQLInputObjectType
  const filter = planFilter(where, filterType, `${property}(where)`, plan)
  return {
    property,
    table,
    types: operations ? new Set(operations) : null,
    filter,
    parameters: plan.slots.values,
    event: planEvent(getNamedType(definition.type) as GraphQLObjectType, nodes, scope),
  }
}

const oneField = new GraphQLError('A subscription has exactly one field at its root', {
  extensions: { code: 'GRAPHQL_VALIDATION_FAILED' },
})

/** Also a column that is gone cannot be read, which the catalog may not know yet. */
export class UnreadableColumn extends Rejected {}

/** What the hub and the guard need to serve a plan to a caller, by the caller's rights. */
export interface PreparedSubscription {
  readonly request: Omit<ChangeRequest, 'from'>
  readonly guarded: Omit<GuardedStream, 'end' | 'expiresAt'>
}

/** @throws {Rejected} when the caller may not see the changes, or a stream cannot filter by the condition */
export async function prepareSubscription(
  { table, types, filter, parameters, property, event }: SubscriptionPlan,
  access: ChangeAccess,
  database: Database,
  context: CallContext,
): Promise<PreparedSubscription> {
  const { columns, byRow } = access
  const place = `${property}(where)`
  if (columns !== null) {
    if (filter !== null) requireReadable(filter, columns, place)
    for (const [path, column] of columnsOf(event)) {
      // Without this a column that may not be read would look like one that is null.
      if (!columns.has(column)) refuseColumn(column, [property, ...path].join('.'))
    }
  }
  const passes = await compileChangeFilter(filter, parameters, table, { database, context }).catch((error: unknown) => {
    throw ofArgument(error, place)
  })
  const view = byRow ? rowView(table, columns, database, context) : openView(columns)
  return {
    request: { schema: table.schema, table: table.name, types, filter: passes, view, snapshot: null },
    // The selection is for the columns as they are.
    guarded: { table, access, context, boundToColumns: true },
  }
}

/** What a filter lets through would tell what the column holds. */
function requireReadable(filter: Filter, columns: ReadonlySet<string>, place: string): void {
  if (filter.kind === 'not') requireReadable(filter.item, columns, place)
  else if (filter.kind === 'and' || filter.kind === 'or')
    for (const item of filter.items) requireReadable(item, columns, place)
  else if (filter.kind === 'compare' && !columns.has(filter.column)) refuseColumn(filter.column, place)
}

function refuseColumn(column: string, place: string): never {
  throw new UnreadableColumn('data/forbidden', `${place}: ${column} may not be read`, { details: { field: place } })
}

function ofArgument(error: unknown, place: string): unknown {
  if (!(error instanceof Rejected) || error.code !== 'data/invalid-filter') return error
  const { code, message, details, hint, cause } = error
  const named = { ...(details as object | undefined), argument: place }
  return new Rejected(code, `${place}: ${message}`, { details: named, ...(hint === undefined ? {} : { hint }), cause })
}
