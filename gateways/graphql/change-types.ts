import {
  GraphQLEnumType,
  type GraphQLFieldConfigArgumentMap,
  type GraphQLInputObjectType,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  GraphQLString,
} from 'graphql'
import type { Table } from '../data/catalog.ts'
import { means } from './meaning.ts'
import type { TableNames } from './naming.ts'
import { BigInt64, DateTime } from './scalars.ts'
import type { ColumnTypes } from './types.ts'

const ChangeOperation = new GraphQLEnumType({
  name: 'ChangeOperation',
  values: { INSERT: {}, UPDATE: {}, DELETE: {}, TRUNCATE: {} },
})

/**
 * `<T>ChangeEvent`. `data` has the columns of the row as it is now (of a DELETE the key, or with replica identity full the row), and
 * for an UPDATE `old` and `new`.
 */
export function changeTypes(table: Table, { type, columns }: TableNames, columnTypes: ColumnTypes): GraphQLObjectType {
  const data: GraphQLObjectType = new GraphQLObjectType({
    name: `${type}ChangeData`,
    fields: () => {
      const fields = table.columns.map((column) => {
        return [
          columns.get(column.name)!,
          { type: columnTypes.output(column.type), ...means({ kind: 'column', column }) },
        ] as const
      })
      const named = Object.fromEntries(fields)
      const former = { old: { type: data }, new: { type: data } }
      // Columns go before what they share a name with.
      return { ...former, ...named }
    },
  })
  return new GraphQLObjectType({
    name: `${type}ChangeEvent`,
    fields: {
      table: { type: new GraphQLNonNull(GraphQLString) },
      schema: { type: new GraphQLNonNull(GraphQLString) },
      operation: { type: new GraphQLNonNull(ChangeOperation) },
      timestamp: { type: new GraphQLNonNull(DateTime), description: 'When the change was committed' },
      sequence: { type: new GraphQLNonNull(BigInt64), description: 'Its place on the stream of changes' },
      data: { type: data },
    },
  })
}

/** Of a field that streams changes. */
export function changeArguments(filter: GraphQLInputObjectType): GraphQLFieldConfigArgumentMap {
  return {
    where: { type: filter, description: 'Only changes of rows that match' },
    operations: { type: new GraphQLList(new GraphQLNonNull(ChangeOperation)), description: 'All unless given' },
  }
}
