import {
  GraphQLBoolean,
  GraphQLEnumType,
  type GraphQLFieldConfigArgumentMap,
  type GraphQLFieldConfigMap,
  type GraphQLInputFieldConfigMap,
  GraphQLInputObjectType,
  GraphQLInt,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  GraphQLSchema,
  GraphQLString,
  specifiedScalarTypes,
} from 'graphql'
import { type Catalog, type Column, type Table, tableKey } from '../data/catalog.ts'
import { AggregateTypes } from './aggregate-types.ts'
import { changeArguments, changeTypes } from './change-types.ts'
import { FilterTypes, scalarFilterNames } from './filter-types.ts'
import { means } from './meaning.ts'
import { type Naming, type NamingStyle, nameCatalog, namesOf, type TableNames } from './naming.ts'
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
  readonly writable?: (table: Table, column: Column) => boolean
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
  const builder = new SchemaBuilder(catalog, naming, mayWrite)
  const tables = [...catalog.tables.values()].filter(({ columns }) => columns.length > 0)
  const query = new GraphQLObjectType({ name: 'Query', fields: () => builder.queries(tables) })
  const writable = tables.filter(({ insertable, updatable, deletable }) => insertable || updatable || deletable)
  const mutation = new GraphQLObjectType({ name: 'Mutation', fields: () => builder.mutations(writable) })
  const watched = tables.filter(({ kind }) => kind === 'table' || kind === 'partitioned-table')
  const subscription = new GraphQLObjectType({ name: 'Subscription', fields: () => builder.subscriptions(watched) })
  const schema = new GraphQLSchema({
    query,
    ...(Object.keys(mutation.getFields()).length > 0 ? { mutation } : {}),
    ...(changes && watched.length > 0 ? { subscription } : {}),
    types: [...scalars],
  })
  return { schema, naming }
}

const OrderDirection = new GraphQLEnumType({
  name: 'OrderDirection',
  description: 'NULLs count as larger than everything, unless the direction says where they go.',
  values: {
    ASC: { value: { descending: false } },
    DESC: { value: { descending: true } },
    ASC_NULLS_FIRST: { value: { descending: false, nullsFirst: true } },
    ASC_NULLS_LAST: { value: { descending: false, nullsFirst: false } },
    DESC_NULLS_FIRST: { value: { descending: true, nullsFirst: true } },
    DESC_NULLS_LAST: { value: { descending: true, nullsFirst: false } },
  },
})

const PageInfo = new GraphQLObjectType({
  name: 'PageInfo',
  fields: {
    hasNextPage: { type: new GraphQLNonNull(GraphQLBoolean) },
    hasPreviousPage: { type: new GraphQLNonNull(GraphQLBoolean) },
    startCursor: { type: GraphQLString },
    endCursor: { type: GraphQLString },
  },
})

class SchemaBuilder {
  readonly #catalog: Catalog
  readonly #naming: Naming
  readonly #mayWrite: NonNullable<SchemaOptions['writable']>
  readonly #columnTypes: ColumnTypes
  readonly #filterTypes: FilterTypes
  readonly #aggregates: AggregateTypes
  readonly #rows = new Map<Table, GraphQLObjectType>()
  readonly #filters = new Map<Table, GraphQLInputObjectType>()
  readonly #listFilters = new Map<Table, GraphQLInputObjectType>()
  readonly #orders = new Map<Table, GraphQLInputObjectType>()

  constructor(catalog: Catalog, naming: Naming, mayWrite: NonNullable<SchemaOptions['writable']>) {
    this.#mayWrite = mayWrite
    this.#catalog = catalog
    this.#naming = naming
    this.#columnTypes = new ColumnTypes(naming)
    this.#filterTypes = new FilterTypes(this.#columnTypes)
    this.#aggregates = new AggregateTypes(this.#columnTypes)
  }

  queries(tables: readonly Table[]): GraphQLFieldConfigMap<unknown, unknown> {
    const fields: GraphQLFieldConfigMap<unknown, unknown> = {}
    for (const table of tables) {
      const { field } = this.#names(table)
      fields[field] = {
        type: list(this.#row(table)),
        description: table.comment,
        args: this.#listArguments(table),
        ...means({ kind: 'list', table }),
      }
      fields[`${field}Connection`] = {
        type: this.#connection(table),
        description: `Pages of ${table.name} by cursor`,
        args: this.#connectionArguments(table),
        ...means({ kind: 'connection', table }),
      }
      fields[`${field}Aggregate`] = {
        type: this.#aggregates.of(table, this.#names(table)),
        description: `Numbers over ${table.name}`,
        args: { where: { type: this.#filter(table) } },
        ...means({ kind: 'aggregate', table }),
      }
    }
    if (Object.keys(fields).length > 0) return fields
    return { [emptyField]: { type: GraphQLBoolean, description: 'There is no table to read.' } }
  }

  mutations(tables: readonly Table[]): GraphQLFieldConfigMap<unknown, unknown> {
    const fields: GraphQLFieldConfigMap<unknown, unknown> = {}
    for (const table of tables) {
      const { type } = this.#names(table)
      const row = this.#row(table)
      const input = this.#input(table)
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
          args: { input: { type: new GraphQLNonNull(this.#pkInput(table)) } },
          ...means({ kind: 'delete', table }),
        }
      }
    }
    return fields
  }

  subscriptions(tables: readonly Table[]): GraphQLFieldConfigMap<unknown, unknown> {
    const fields: GraphQLFieldConfigMap<unknown, unknown> = {}
    for (const table of tables) {
      const names = this.#names(table)
      fields[`${names.field}Changes`] = {
        type: new GraphQLNonNull(changeTypes(table, names, this.#columnTypes)),
        description: `Changes of ${table.name} as they happen`,
        args: changeArguments(this.#filter(table)),
        ...means({ kind: 'changes', table }),
      }
    }
    return fields
  }

  #names(table: Table): TableNames {
    return namesOf(this.#naming, table)
  }

  #row(table: Table): GraphQLObjectType {
    return made(this.#rows, table, () => {
      const { type } = this.#names(table)
      return new GraphQLObjectType({ name: type, description: table.comment, fields: () => this.#rowFields(table) })
    })
  }

  #rowFields(table: Table): GraphQLFieldConfigMap<unknown, unknown> {
    const names = this.#names(table)
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
        type: one ? this.#row(target) : new GraphQLNonNull(list(this.#row(target))),
        args: one ? {} : this.#listArguments(target),
        ...means({ kind: 'relation', relation, target }),
      }
    }
    return fields
  }

  #listArguments(table: Table): GraphQLFieldConfigArgumentMap {
    return {
      where: { type: this.#filter(table) },
      orderBy: { type: new GraphQLList(new GraphQLNonNull(this.#order(table))) },
      limit: { type: GraphQLInt },
      offset: { type: GraphQLInt },
    }
  }

  #connectionArguments(table: Table): GraphQLFieldConfigArgumentMap {
    return {
      first: { type: GraphQLInt },
      after: { type: GraphQLString },
      last: { type: GraphQLInt },
      before: { type: GraphQLString },
      where: { type: this.#filter(table) },
      orderBy: { type: new GraphQLList(new GraphQLNonNull(this.#order(table))) },
    }
  }

  #connection(table: Table): GraphQLObjectType {
    const { type } = this.#names(table)
    const edge = new GraphQLObjectType({
      name: `${type}Edge`,
      fields: {
        node: { type: new GraphQLNonNull(this.#row(table)) },
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

  #filter(table: Table): GraphQLInputObjectType {
    return made(this.#filters, table, () => {
      const { type } = this.#names(table)
      return new GraphQLInputObjectType({ name: `${type}Filter`, fields: () => this.#filterFields(table) })
    })
  }

  #filterFields(table: Table): GraphQLInputFieldConfigMap {
    const names = this.#names(table)
    const self = this.#filter(table)
    const many = new GraphQLList(new GraphQLNonNull(self))
    const fields: GraphQLInputFieldConfigMap = {
      and: { type: many, description: 'All of them', ...means({ kind: 'and' }) },
      or: { type: many, description: 'One of them', ...means({ kind: 'or' }) },
      not: { type: self, ...means({ kind: 'not' }) },
    }
    for (const column of table.columns) {
      const type = this.#filterTypes.of(column.type)
      fields[names.filterColumns.get(column.name)!] = { type, ...means({ kind: 'column', column }) }
    }
    for (const relation of table.relations) {
      const target = this.#catalog.tables.get(tableKey(relation.targetSchema, relation.targetTable))
      const name = names.relations.get(relation.name)
      if (!target || name === undefined || target.columns.length === 0) continue
      const type = relation.kind === 'one' ? this.#filter(target) : this.#listFilter(target)
      fields[name] = { type, ...means({ kind: 'relation', relation, target }) }
    }
    return fields
  }

  #listFilter(table: Table): GraphQLInputObjectType {
    return made(this.#listFilters, table, () => {
      const type = this.#filter(table)
      return new GraphQLInputObjectType({
        name: `${this.#names(table).type}ListFilter`,
        fields: {
          some: { type, description: 'At least one related row matches' },
          none: { type, description: 'No related row matches' },
          every: { type, description: 'All related rows match' },
        },
      })
    })
  }

  #order(table: Table): GraphQLInputObjectType {
    return made(this.#orders, table, () => {
      const { type, columns } = this.#names(table)
      const fields = table.columns.map((column) => {
        const field = { type: OrderDirection, ...means({ kind: 'column', column }) }
        return [columns.get(column.name)!, field] as const
      })
      return new GraphQLInputObjectType({
        name: `${type}OrderBy`,
        description: 'Columns count in the order they are written in.',
        fields: Object.fromEntries(fields),
      })
    })
  }

  /** Null when nothing of the table can be written. */
  #input(table: Table): GraphQLInputObjectType | null {
    const { type, columns } = this.#names(table)
    const writable = [...table.columnByName.values()].filter(
      (column) =>
        !column.generated &&
        (column.identity !== 'always' || table.primaryKey.includes(column.name)) &&
        this.#mayWrite(table, column),
    )
    if (writable.length === 0) return null
    const fields = writable.map((column) => {
      const field = {
        type: this.#columnTypes.input(column.type),
        description: column.comment,
        ...means({ kind: 'column', column }),
      }
      return [columns.get(column.name)!, field] as const
    })
    return new GraphQLInputObjectType({ name: `${type}Input`, fields: Object.fromEntries(fields) })
  }

  #pkInput(table: Table): GraphQLInputObjectType {
    const { type, columns } = this.#names(table)
    const fields = table.primaryKey.map((name) => {
      const column = table.columnByName.get(name)!
      const field = {
        type: new GraphQLNonNull(this.#columnTypes.input(column.type)),
        ...means({ kind: 'column', column }),
      }
      return [columns.get(name)!, field] as const
    })
    return new GraphQLInputObjectType({ name: `${type}PkInput`, fields: Object.fromEntries(fields) })
  }
}

function list(type: GraphQLObjectType): GraphQLList<GraphQLNonNull<GraphQLObjectType>> {
  return new GraphQLList(new GraphQLNonNull(type))
}

function made<Made>(known: Map<Table, Made>, table: Table, make: () => Made): Made {
  let one = known.get(table)
  if (!one) {
    one = make()
    known.set(table, one)
  }
  return one
}
