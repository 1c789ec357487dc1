import { type FieldNode, type GraphQLObjectType, getNamedType } from 'graphql'
import type { ChangeType, RawMembers } from '../data/changes-event.ts'
import { rawElements, rawMembers } from '../data/changes-json.ts'
import type { Shaping } from '../data/read-ast.ts'
import { meaningOf } from './meaning.ts'
import type { OperationScope } from './plan-scope.ts'
import { collectFields, selectionsOf, shapingOf } from './plan-select.ts'

/** A change as the bus has it. */
export interface ChangeData {
  readonly type: ChangeType
  readonly sequence: number
  readonly body: Buffer
  /** The row as it is now; of a DELETE what is known of the row that was. */
  readonly row: RawMembers
  /** Before an UPDATE. */
  readonly old: RawMembers
}

type EventItem =
  | { readonly kind: 'constant'; readonly property: string; readonly json: string }
  | { readonly kind: 'operation' | 'timestamp' | 'sequence'; readonly property: string }
  | { readonly kind: 'data'; readonly property: string; readonly items: readonly DataItem[] }

type DataItem =
  | { readonly kind: 'constant'; readonly property: string; readonly json: string }
  | { readonly kind: 'column'; readonly property: string; readonly column: string; readonly shaping: Shaping }
  | { readonly kind: 'old' | 'new'; readonly property: string; readonly items: readonly DataItem[] }

/** What of a `<T>ChangeEvent` is asked for; its JSON tells selections apart. */
export type EventPlan = readonly EventItem[]

/** The selection of a field of type `<T>ChangeEvent`. */
export function planEvent(type: GraphQLObjectType, nodes: readonly FieldNode[], scope: OperationScope): EventPlan {
  const { table } = meaningOf(scope.schema.getSubscriptionType()!.getFields()[nodes[0]!.name.value]!) as {
    readonly table: { readonly schema: string; readonly name: string }
  }
  return [...collectFields(type, selectionsOf(nodes), scope)].map(([property, inner]): EventItem => {
    const name = inner[0]!.name.value
    switch (name) {
      case '__typename':
        return { kind: 'constant', property, json: JSON.stringify(type.name) }
      case 'table':
        return { kind: 'constant', property, json: JSON.stringify(table.name) }
      case 'schema':
        return { kind: 'constant', property, json: JSON.stringify(table.schema) }
      case 'data': {
        const data = getNamedType(type.getFields().data!.type) as GraphQLObjectType
        return { kind: 'data', property, items: planData(data, inner, scope) }
      }
      default:
        return { kind: name as 'operation' | 'timestamp' | 'sequence', property }
    }
  })
}

function planData(type: GraphQLObjectType, nodes: readonly FieldNode[], scope: OperationScope): DataItem[] {
  return [...collectFields(type, selectionsOf(nodes), scope)].map(([property, inner]): DataItem => {
    const name = inner[0]!.name.value
    if (name === '__typename') return { kind: 'constant', property, json: JSON.stringify(type.name) }
    const field = type.getFields()[name]!
    const meaning = meaningOf(field)
    if (meaning?.kind !== 'column')
      return { kind: name as 'old' | 'new', property, items: planData(type, inner, scope) }
    const { column } = meaning
    return {
      kind: 'column',
      property,
      column: column.name,
      shaping: shapingOf(column.type, getNamedType(field.type), inner, scope),
    }
  })
}

/** The event's JSON, from the texts of the database: numbers keep all their digits. */
export function writeEvent(plan: EventPlan, change: ChangeData): string {
  return objectText(plan, (item) => {
    switch (item.kind) {
      case 'constant':
        return item.json
      case 'operation':
        return JSON.stringify(change.type)
      case 'timestamp':
        return timestampText(change)
      case 'sequence':
        return `"${change.sequence}"`
      case 'data':
        return change.type === 'TRUNCATE' ? 'null' : writeData(item.items, change.row, change)
    }
  })
}

/** Where in the event the columns are that are selected. */
export function columnsOf(plan: EventPlan): readonly (readonly [path: readonly string[], column: string])[] {
  return plan.flatMap((item) => (item.kind === 'data' ? columnsOfData(item.items, [item.property]) : []))
}

function columnsOfData(items: readonly DataItem[], path: readonly string[]): (readonly [readonly string[], string])[] {
  return items.flatMap((item) => {
    if (item.kind === 'constant') return []
    const here = [...path, item.property]
    return item.kind === 'column' ? [[here, item.column] as const] : columnsOfData(item.items, here)
  })
}

/**
 * Where in the event of an INSERT or UPDATE there is null because the database left the value out: a large one that has not changed.
 * Of former rows and deleted ones everybody knows that only the key may be there.
 */
export function unsentIn(plan: EventPlan, { type, row }: ChangeData): readonly (readonly string[])[] {
  if (type === 'DELETE' || type === 'TRUNCATE') return []
  const present = plan.flatMap((item): EventPlan => {
    if (item.kind !== 'data') return []
    const now = item.items.flatMap((inner): DataItem[] => {
      if (inner.kind === 'column') return [inner]
      // Inside of it are columns, and what is null by definition.
      if (inner.kind === 'new' && type === 'UPDATE')
        return [{ ...inner, items: inner.items.filter(({ kind }) => kind === 'column') }]
      return []
    })
    return [{ ...item, items: now }]
  })
  return columnsOf(present).flatMap(([path, column]) => (row.has(column) ? [] : [path]))
}

function timestampText({ body }: ChangeData): string {
  const epochMs = Number(rawMembers(body.toString('utf8')).get('timestamp'))
  return JSON.stringify(new Date(epochMs).toISOString())
}

/** @param change whose former states can be asked for; null inside of them */
function writeData(items: readonly DataItem[], row: RawMembers, change: ChangeData | null): string {
  return objectText(items, (item) => {
    switch (item.kind) {
      case 'constant':
        return item.json
      case 'column':
        return shaped(row.get(item.column) ?? 'null', item.shaping)
      default:
        if (change?.type !== 'UPDATE') return 'null'
        return writeData(item.items, item.kind === 'old' ? change.old : change.row, null)
    }
  })
}

function objectText<Item extends { readonly property: string }>(
  items: readonly Item[],
  write: (item: Item) => string,
): string {
  return `{${items.map((item) => `${JSON.stringify(item.property)}:${write(item)}`).join(',')}}`
}

/** A value as its GraphQL type promises; arrays element by element. */
function shaped(json: string, shaping: Shaping): string {
  if (shaping.kind === 'plain' || json === 'null') return json
  if (json.startsWith('['))
    return `[${rawElements(json)
      .map((element) => shaped(element, shaping))
      .join(',')}]`
  switch (shaping.kind) {
    case 'text':
      return json.startsWith('"') ? json : `"${json}"`
    case 'renamed': {
      const label = JSON.parse(json) as string
      return JSON.stringify(shaping.names.find(([from]) => from === label)?.[1] ?? label)
    }
    case 'object': {
      // A composite value that could not be read is a text, which has no attributes.
      if (!json.startsWith('{')) return 'null'
      const members = rawMembers(json)
      return objectText(shaping.items, (item) =>
        item.kind === 'constant'
          ? JSON.stringify(item.value)
          : shaped(members.get(item.column) ?? 'null', item.shaping),
      )
    }
  }
}
