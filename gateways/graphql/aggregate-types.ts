import {
  GraphQLEnumType,
  type GraphQLFieldConfigMap,
  GraphQLFloat,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
} from 'graphql'
import type { Column, Table } from '../data/catalog.ts'
import type { AggregateFunction } from '../data/read-ast.ts'
import { means } from './meaning.ts'
import type { TableNames } from './naming.ts'
import { BigInt64, Decimal, Interval } from './scalars.ts'
import type { ColumnTypes } from './types.ts'

/** `<T>Aggregate` and what hangs on it. */
export class AggregateTypes {
  readonly #columnTypes: ColumnTypes

  constructor(columnTypes: ColumnTypes) {
    this.#columnTypes = columnTypes
  }

  of(table: Table, names: TableNames): GraphQLObjectType {
    const results = this.#results(table, names)
    const group = this.#group(table, names, results)
    const column = columnEnum(table, names)
    return new GraphQLObjectType({
      name: `${names.type}Aggregate`,
      fields: {
        ...results,
        groupBy: {
          type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(group))),
          description: 'The same for each combination of values of these columns, in their order.',
          args: {
            columns: { type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(column))) },
            limit: { type: GraphQLInt },
            offset: { type: GraphQLInt },
          },
          ...means({ kind: 'groupBy' }),
        },
      },
    })
  }

  #results(table: Table, { type, columns }: TableNames): GraphQLFieldConfigMap<unknown, unknown> {
    const of = (name: string, suitable: readonly Column[], result: (column: Column) => GraphQLOutputType) => {
      const fields = suitable.map((column) => {
        return [columns.get(column.name)!, { type: result(column), ...means({ kind: 'column', column }) }] as const
      })
      return fields.length === 0
        ? null
        : new GraphQLObjectType({ name: `${type}${name}`, fields: Object.fromEntries(fields) })
    }
    const numeric = table.columns.filter(isSummable)
    const sums = of('NumericAggregates', numeric, sumType)
    const averages = of('AverageAggregates', numeric, averageType)
    const extremes = of('ComparableAggregates', table.columns.filter(isComparable), (column) =>
      this.#columnTypes.output(column.type),
    )
    const field = (name: Exclude<AggregateFunction, 'count'>, results: GraphQLObjectType | null) =>
      results === null ? {} : { [name]: { type: results, ...means({ kind: 'results', function: name }) } }
    return {
      count: { type: new GraphQLNonNull(GraphQLInt), ...means({ kind: 'count' }) },
      ...field('sum', sums),
      ...field('avg', averages),
      ...field('min', extremes),
      ...field('max', extremes),
    }
  }

  #group(
    table: Table,
    { type, columns }: TableNames,
    results: GraphQLFieldConfigMap<unknown, unknown>,
  ): GraphQLObjectType {
    const keys = table.columns.map((column) => {
      return [
        columns.get(column.name)!,
        { type: this.#columnTypes.output(column.type), ...means({ kind: 'column', column }) },
      ] as const
    })
    const key = new GraphQLObjectType({
      name: `${type}GroupKey`,
      description: 'Null for columns that are not grouped by.',
      fields: Object.fromEntries(keys),
    })
    return new GraphQLObjectType({
      name: `${type}Group`,
      fields: { key: { type: new GraphQLNonNull(key), ...means({ kind: 'key' }) }, ...results },
    })
  }
}

function columnEnum(table: Table, { type, columns }: TableNames): GraphQLEnumType {
  const forbidden = new Set(['true', 'false', 'null'])
  const values = table.columns.map(({ name }) => {
    const as = columns.get(name)!
    return [forbidden.has(as) ? `${as}_` : as, { value: name }] as const
  })
  return new GraphQLEnumType({ name: `${type}Column`, values: Object.fromEntries(values) })
}

const summable = new Set(['int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'interval'])

function isSummable({ type }: Column): boolean {
  return summable.has(type.base.name)
}

/** Base types that every PostgreSQL we serve has min() and max() for, directly or by a cast it makes itself. */
const comparable = new Set(
  (
    'int2 int4 int8 float4 float8 numeric money oid text varchar bpchar name char citext date time timetz timestamp timestamptz interval ' +
    'inet pg_lsn xid8'
  ).split(' '),
)

function isComparable({ type }: Column): boolean {
  const { kind, name } = type.base
  return kind === 'enum' || (kind === 'base' && comparable.has(name))
}

function sumType({ type }: Column): GraphQLOutputType {
  switch (type.base.name) {
    case 'int2':
    case 'int4':
      return BigInt64
    case 'float4':
    case 'float8':
      return GraphQLFloat
    case 'interval':
      return Interval
    default:
      return Decimal
  }
}

function averageType({ type }: Column): GraphQLOutputType {
  switch (type.base.name) {
    case 'float4':
    case 'float8':
      return GraphQLFloat
    case 'interval':
      return Interval
    default:
      return Decimal
  }
}
