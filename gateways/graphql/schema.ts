import {
  GraphQLBoolean,
  type GraphQLFieldConfigMap,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  GraphQLSchema,
  specifiedScalarTypes,
} from 'graphql'
import type { Catalog, Table } from '../data/catalog.ts'
import { AggregateTypes } from './aggregate-types.ts'
import { changeArguments, changeTypes } from './change-types.ts'
import { scalarFilterNames } from './filter-types.ts'
import { InputTypes, type MayWrite } from './input-types.ts'
import { means } from './meaning.ts'
import { type Naming, type NamingStyle, nameCatalog, namesOf } from './naming.ts'
import { list, RowTypes } from './row-types.ts'
import { scalars } from './scalars.ts'
import { ColumnTypes } from './types.ts'

export interface SchemaOptions {
  /** Default `spec`. */
  readonly naming?: NamingStyle
  /** Whether there are change streams to subscribe to. */
  readonly changes: boolean
  /** Names of a whole of which the catalog is a part; default: the catalog's own. */
  readonly names?: Naming
  /** Columns of a table's inputs; default: all that are not the database's own to fill. */
  readonly writable?: MayWrite
}

/** The field of a query type that has no other: there must be one. */
export const emptyField = '_empty'

export interface DataSchema {
  readonly schema: GraphQLSchema
  readonly naming: Naming
}

/** The GraphQL schema of everything the catalog exposes. Source: specification A, "Resources and their fields". */
export function buildSchema(catalog: Catalog, options: SchemaOptions): DataSchema {
  const { naming: style = 'spec', changes, names, writable: mayWrite = () => true } = options
  const taken = scalarFilterNames([...specifiedScalarTypes, ...scalars].map(({ name }) => name))
  const naming = names ?? nameCatalog(catalog, style, taken)
  const fields = new RootFields(catalog, naming, mayWrite)
  const tables = [...catalog.tables.values()].filter(({ columns }) => columns.length > 0)
  const query = new GraphQLObjectType({ name: 'Query', fields: () => fields.queries(tables) })
  const writable = tables.filter(({ insertable, updatable, deletable }) => insertable || updatable || deletable)
  const mutation = new GraphQLObjectType({ name: 'Mutation', fields: () => fields.mutations(writable) })
  const watched = tables.filter(({ kind }) => kind === 'table' || kind === 'partitioned-table')
  const subscription = new GraphQLObjectType({ name: 'Subscription', fields: () => fields.subscriptions(watched) })
  const schema = new GraphQLSchema({
    query,
    ...(Object.keys(mutation.getFields()).length > 0 ? { mutation } : {}),
    ...(changes && watched.length > 0 ? { subscription } : {}),
    types: [...scalars],
  })
  return { schema, naming }
}

/** The fields of the three operations. */
class RootFields {
  readonly #naming: Naming
  readonly #columnTypes: ColumnTypes
  readonly #inputs: InputTypes
  readonly #rows: RowTypes
  readonly #aggregates: AggregateTypes

  constructor(catalog: Catalog, naming: Naming, mayWrite: MayWrite) {
    this.#naming = naming
    this.#columnTypes = new ColumnTypes(naming)
    this.#inputs = new InputTypes(catalog, naming, this.#columnTypes, mayWrite)
    this.#rows = new RowTypes(catalog, naming, this.#columnTypes, this.#inputs)
    this.#aggregates = new AggregateTypes(this.#columnTypes)
  }

  queries(tables: readonly Table[]): GraphQLFieldConfigMap<unknown, unknown> {
    const fields: GraphQLFieldConfigMap<unknown, unknown> = {}
    for (const table of tables) {
      const { field } = namesOf(this.#naming, table)
      fields[field] = {
        type: list(this.#rows.row(table)),
        description: table.comment,
        args: this.#rows.listArguments(table),
        ...means({ kind: 'list', table }),
      }
      fields[`${field}Connection`] = {
        type: this.#rows.connection(table),
        description: `Pages of ${table.name} by cursor`,
        args: this.#rows.connectionArguments(table),
        ...means({ kind: 'connection', table }),
      }
      fields[`${field}Aggregate`] = {
        type: this.#aggregates.of(table, namesOf(this.#naming, table)),
        description: `Numbers over ${table.name}`,
        args: { where: { type: this.#inputs.filter(table) } },
        ...means({ kind: 'aggregate', table }),
      }
    }
    if (Object.keys(fields).length > 0) return fields
    return { [emptyField]: { type: GraphQLBoolean, description: 'There is no table to read.' } }
  }

  mutations(tables: readonly Table[]): GraphQLFieldConfigMap<unknown, unknown> {
    const fields: GraphQLFieldConfigMap<unknown, unknown> = {}
    for (const table of tables) {
      const { type } = namesOf(this.#naming, table)
      const row = this.#rows.row(table)
      const input = this.#inputs.input(table)
      if (table.insertable && input) {
        fields[`create${type}`] = {
          type: row,
          args: { input: { type: new GraphQLNonNull(input) } },
          ...means({ kind: 'create', table }),
        }
        fields[`createMany${type}`] = {
          type: list(row),
          description: 'All or none.',
          args: { inputs: { type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(input))) } },
          ...means({ kind: 'createMany', table }),
        }
      }
      if (table.primaryKey.length === 0) continue
      if (table.updatable && input) {
        fields[`update${type}`] = {
          type: row,
          description: 'The row of the primary key in the input; only the other given columns change.',
          args: { input: { type: new GraphQLNonNull(input) } },
          ...means({ kind: 'update', table }),
        }
      }
      if (table.deletable) {
        fields[`delete${type}`] = {
          type: row,
          description: 'The row as it was.',
          args: { input: { type: new GraphQLNonNull(this.#inputs.pkInput(table)) } },
          ...means({ kind: 'delete', table }),
        }
      }
    }
    return fields
  }

  subscriptions(tables: readonly Table[]): GraphQLFieldConfigMap<unknown, unknown> {
    const fields: GraphQLFieldConfigMap<unknown, unknown> = {}
    for (const table of tables) {
      const names = namesOf(this.#naming, table)
      fields[`${names.field}Changes`] = {
        type: new GraphQLNonNull(changeTypes(table, names, this.#columnTypes)),
        description: `Changes of ${table.name} as they happen`,
        args: changeArguments(this.#inputs.filter(table)),
        ...means({ kind: 'changes', table }),
      }
    }
    return fields
  }
}
