import {
  GraphQLBoolean,
  type GraphQLFieldConfigArgumentMap,
  type GraphQLFieldConfigMap,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  GraphQLString,
} from 'graphql'
import { type Catalog, type Table, tableKey } from '../data/catalog.ts'
import type { InputTypes } from './input-types.ts'
import { means } from './meaning.ts'
import { type Naming, namesOf } from './naming.ts'
import type { ColumnTypes } from './types.ts'

const PageInfo = new GraphQLObjectType({
  name: 'PageInfo',
  fields: {
    hasNextPage: { type: new GraphQLNonNull(GraphQLBoolean) },
    hasPreviousPage: { type: new GraphQLNonNull(GraphQLBoolean) },
    startCursor: { type: GraphQLString },
    endCursor: { type: GraphQLString },
  },
})

/** What clients get: the rows of tables, alone, in lists and in pages, and the arguments that choose them. */
export class RowTypes {
  readonly #catalog: Catalog
  readonly #naming: Naming
  readonly #columnTypes: ColumnTypes
  readonly #inputs: InputTypes
  readonly #rows = new Map<Table, GraphQLObjectType>()

  constructor(catalog: Catalog, naming: Naming, columnTypes: ColumnTypes, inputs: InputTypes) {
    this.#catalog = catalog
    this.#naming = naming
    this.#columnTypes = columnTypes
    this.#inputs = inputs
  }

  row(table: Table): GraphQLObjectType {
    let row = this.#rows.get(table)
    if (!row) {
      const { type } = namesOf(this.#naming, table)
      row = new GraphQLObjectType({ name: type, description: table.comment, fields: () => this.#rowFields(table) })
      this.#rows.set(table, row)
    }
    return row
  }

  #rowFields(table: Table): GraphQLFieldConfigMap<unknown, unknown> {
    const names = namesOf(this.#naming, table)
    const fields: GraphQLFieldConfigMap<unknown, unknown> = {}
    for (const column of table.columns) {
      const type = this.#columnTypes.output(column.type)
      fields[names.columns.get(column.name)!] = {
        type: column.nullable || table.kind === 'view' ? type : new GraphQLNonNull(type),
        description: column.comment,
        ...means({ kind: 'column', column }),
      }
    }
    for (const relation of table.relations) {
      const target = this.#catalog.tables.get(tableKey(relation.targetSchema, relation.targetTable))
      const name = names.relations.get(relation.name)
      if (!target || name === undefined || target.columns.length === 0) continue
      const one = relation.kind === 'one'
      fields[name] = {
        type: one ? this.row(target) : new GraphQLNonNull(list(this.row(target))),
        args: one ? {} : this.listArguments(target),
        ...means({ kind: 'relation', relation, target }),
      }
    }
    return fields
  }

  listArguments(table: Table): GraphQLFieldConfigArgumentMap {
    return {
      where: { type: this.#inputs.filter(table) },
      orderBy: { type: new GraphQLList(new GraphQLNonNull(this.#inputs.order(table))) },
      limit: { type: GraphQLInt },
      offset: { type: GraphQLInt },
    }
  }

  connectionArguments(table: Table): GraphQLFieldConfigArgumentMap {
    return {
      first: { type: GraphQLInt },
      after: { type: GraphQLString },
      last: { type: GraphQLInt },
      before: { type: GraphQLString },
      where: { type: this.#inputs.filter(table) },
      orderBy: { type: new GraphQLList(new GraphQLNonNull(this.#inputs.order(table))) },
    }
  }

  connection(table: Table): GraphQLObjectType {
    const { type } = namesOf(this.#naming, table)
    const edge = new GraphQLObjectType({
      name: `${type}Edge`,
      fields: {
        node: { type: new GraphQLNonNull(this.row(table)) },
        cursor: { type: new GraphQLNonNull(GraphQLString) },
      },
    })
    return new GraphQLObjectType({
      name: `${type}Connection`,
      fields: {
        edges: { type: new GraphQLNonNull(list(edge)) },
        pageInfo: { type: new GraphQLNonNull(PageInfo) },
        totalCount: { type: new GraphQLNonNull(GraphQLInt), description: 'Rows that match `where`, on all pages.' },
      },
    })
  }
}

/** What is never null, nor has null in it. */
export function list(type: GraphQLObjectType): GraphQLList<GraphQLNonNull<GraphQLObjectType>> {
  return new GraphQLList(new GraphQLNonNull(type))
}
