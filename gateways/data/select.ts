import { Rejected } from '../../schemas/failure.ts'
import type { Column, DatabaseType, Table } from './catalog.ts'
import type { Field } from './filter.ts'
import { hasEquality, hasOrder, isRange } from './operators.ts'
import type { Aggregate, AggregateFunction, Aggregation, RowSelection } from './read-ast.ts'
import { hinted, perhaps, shown } from './suggestion.ts'

export const everyColumn: RowSelection = { kind: 'rows', columns: null, expansions: [] }

/** @throws {Rejected} `data/unknown-column` */
export function columnOf(table: Table, name: string, place: string): Column {
  const column = table.columnByName.get(name)
  if (column) return column
  throw new Rejected('data/unknown-column', `${place}: ${table.name} has no column ${shown(name)}`, {
    details: { field: place, table: table.name },
    ...hinted(perhaps(name, table.columnByName.keys())),
  })
}

const summable = new Set(['int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'money', 'interval'])

/** PostgreSQL has no `min` for these, though some have an order. */
const withoutLeast = new Set(['bool', 'json', 'jsonb', 'bit', 'varbit', 'macaddr', 'macaddr8', 'tsvector', 'tsquery'])

/** @throws {Rejected} `data/invalid-select` when the column cannot be aggregated this way. */
export function checkAggregate(aggregate: AggregateFunction, column: Column, place: string): void {
  const { base } = column.type
  if (aggregate === 'count') return
  if (aggregate === 'min' || aggregate === 'max') {
    if (!hasOrder(base) || withoutLeast.has(base.name) || isRange(base))
      refuse(`${aggregate}() needs values that have a least and a greatest`, column, place)
  } else if (!summable.has(base.name) || (aggregate === 'avg' && base.name === 'money'))
    refuse(`${aggregate}() needs a number or interval`, column, place)
}

/** @throws {Rejected} `data/invalid-select` when the column's values cannot be told apart. */
export function checkGroup(column: Column, place: string): void {
  if (!hasEquality(column.type)) refuse('rows cannot be grouped by this column', column, place)
}

function refuse(reason: string, column: Column, place: string): never {
  throw new Rejected('data/invalid-select', `${place}: ${reason} (column "${column.name}" is ${column.type.name})`, {
    details: { field: place, column: column.name, reason },
  })
}

/**
 * Refuses a property given twice, which JSON readers would silently merge.
 * @throws {Rejected} `data/invalid-select`
 */
export function checkProperties(properties: Iterable<string>, place: string): void {
  const seen = new Set<string>()
  for (const property of properties) {
    if (seen.has(property)) {
      throw new Rejected('data/invalid-select', `${place}: two results are both named ${shown(property)}`, {
        details: { field: place, property },
        hint: 'name one of them, as in total:amount.sum()',
      })
    }
    seen.add(property)
  }
}

const numeric: DatabaseType = fixedType('numeric', 1700)
const int8: DatabaseType = fixedType('int8', 20)

/** The results of an aggregation as fields, for `having`: what sums and averages come out as is compared as numeric. */
export function aggregateFields(table: Table, aggregation: Aggregation): ReadonlyMap<string, Field> {
  const groups = aggregation.groups.map(({ property, column }) => ({
    name: property,
    type: table.columnByName.get(column)!.type,
  }))
  const results = aggregation.aggregates.map((aggregate) => ({
    name: aggregate.property,
    type: resultType(table, aggregate),
  }))
  return new Map([...groups, ...results].map((field) => [field.name, field]))
}

function resultType(table: Table, aggregate: Aggregate): DatabaseType {
  if (aggregate.function === 'count' || aggregate.column === null) return int8
  const { type } = table.columnByName.get(aggregate.column)!
  if (aggregate.function === 'min' || aggregate.function === 'max') return type
  return type.base.name === 'interval' || type.base.name === 'money' ? type : numeric
}

function fixedType(name: string, oid: number): DatabaseType {
  const type = {
    oid,
    schema: 'pg_catalog',
    name,
    sqlName: `pg_catalog.${name}`,
    kind: 'base',
    element: null,
    enumValues: [],
    attributes: [],
    comment: null,
  } as const
  return {
    ...type,
    get base() {
      return this
    },
  }
}
