import {
  GraphQLEnumType,
  type GraphQLInputFieldConfigMap,
  GraphQLInputObjectType,
  GraphQLList,
  GraphQLNonNull,
} from 'graphql'
import { type Catalog, type Column, type Table, tableKey } from '../data/catalog.ts'
import { FilterTypes } from './filter-types.ts'
import { means } from './meaning.ts'
import { type Naming, namesOf } from './naming.ts'
import type { ColumnTypes } from './types.ts'

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

/** Whether a column is in its table's inputs. */
export type MayWrite = (table: Table, column: Column) => boolean

/** What clients give: the inputs of tables, for filters, orders and writes. */
export class InputTypes {
  readonly #catalog: Catalog
  readonly #naming: Naming
  readonly #mayWrite: MayWrite
  readonly #columnTypes: ColumnTypes
  readonly #filterTypes: FilterTypes
  readonly #filters = new Map<Table, GraphQLInputObjectType>()
  readonly #listFilters = new Map<Table, GraphQLInputObjectType>()
  readonly #orders = new Map<Table, GraphQLInputObjectType>()

  constructor(catalog: Catalog, naming: Naming, columnTypes: ColumnTypes, mayWrite: MayWrite) {
    this.#catalog = catalog
    this.#naming = naming
    this.#columnTypes = columnTypes
    this.#mayWrite = mayWrite
    this.#filterTypes = new FilterTypes(columnTypes)
  }

  filter(table: Table): GraphQLInputObjectType {
    return made(this.#filters, table, () => {
      const { type } = namesOf(this.#naming, table)
      return new GraphQLInputObjectType({ name: `${type}Filter`, fields: () => this.#filterFields(table) })
    })
  }

  #filterFields(table: Table): GraphQLInputFieldConfigMap {
    const names = namesOf(this.#naming, table)
    const self = this.filter(table)
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
      const type = relation.kind === 'one' ? this.filter(target) : this.#listFilter(target)
      fields[name] = { type, ...means({ kind: 'relation', relation, target }) }
    }
    return fields
  }

  #listFilter(table: Table): GraphQLInputObjectType {
    return made(this.#listFilters, table, () => {
      const type = this.filter(table)
      return new GraphQLInputObjectType({
        name: `${namesOf(this.#naming, table).type}ListFilter`,
        fields: {
          some: { type, description: 'At least one related row matches' },
          none: { type, description: 'No related row matches' },
          every: { type, description: 'All related rows match' },
        },
      })
    })
  }

  order(table: Table): GraphQLInputObjectType {
    return made(this.#orders, table, () => {
      const { type, columns } = namesOf(this.#naming, table)
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
  input(table: Table): GraphQLInputObjectType | null {
    const { type, columns } = namesOf(this.#naming, table)
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

  /** The columns of the primary key alone. */
  pkInput(table: Table): GraphQLInputObjectType {
    const { type, columns } = namesOf(this.#naming, table)
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

function made<Made>(known: Map<Table, Made>, table: Table, make: () => Made): Made {
  let one = known.get(table)
  if (!one) {
    one = make()
    known.set(table, one)
  }
  return one
}
