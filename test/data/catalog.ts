import {
  type Catalog,
  type Column,
  type DatabaseType,
  type ForeignKey,
  type Table,
  tableKey,
} from '../../gateways/data/catalog.ts'
import { relate } from '../../gateways/data/relations.ts'

/*
 * A catalog without a database: a small shop, for tests that compile.
 */

function typeOf(name: string, more: Partial<DatabaseType> = {}): DatabaseType {
  const type: DatabaseType = {
    oid: 0,
    schema: 'pg_catalog',
    name,
    sqlName: name,
    kind: 'base',
    element: null,
    enumValues: [],
    attributes: [],
    comment: null,
    get base() {
      return this
    },
    ...more,
  }
  return type
}

const text = typeOf('text')
const types: Readonly<Record<string, DatabaseType>> = {
  int4: typeOf('int4'),
  numeric: typeOf('numeric'),
  text,
  jsonb: typeOf('jsonb'),
  json: typeOf('json'),
  timestamptz: typeOf('timestamptz'),
  'text[]': typeOf('_text', { sqlName: 'text[]', kind: 'array', element: text }),
}

interface Sketch {
  readonly name: string
  /** `name type`, with `?` behind when it may be NULL. */
  readonly columns: readonly string[]
  readonly primaryKey: readonly string[]
  readonly foreignKeys?: readonly (readonly [column: string, table: string])[]
}

function tableOf({ name, columns: sketched, primaryKey, foreignKeys = [] }: Sketch): Table {
  const columns = sketched.map((sketch): Column => {
    const [column = '', type = ''] = sketch.split(' ')
    return {
      name: column,
      type: types[type.replace('?', '')]!,
      typeSql: type.replace('?', ''),
      dimensions: 0,
      maxLength: null,
      nullable: type.endsWith('?'),
      defaultSql: null,
      identity: null,
      generated: false,
      comment: null,
    }
  })
  return {
    oid: 0,
    schema: 'shop',
    name,
    kind: 'table',
    comment: null,
    columns,
    columnByName: new Map(columns.map((column) => [column.name, column])),
    primaryKey,
    uniqueKeys: [primaryKey],
    foreignKeys: foreignKeys.map(
      ([column, target]): ForeignKey => ({
        constraint: `${name}_${column}_fkey`,
        columns: [column],
        targetSchema: 'shop',
        targetTable: target,
        targetColumns: ['id'],
      }),
    ),
    relations: [],
    relationByName: new Map(),
    rowSecurity: false,
    replicaIdentity: 'default',
    insertable: true,
    updatable: true,
    deletable: true,
  }
}

const tables = [
  tableOf({ name: 'customer', columns: ['id int4', 'name text', 'data jsonb', 'labels text[]?'], primaryKey: ['id'] }),
  tableOf({
    name: 'purchase',
    columns: ['id int4', 'customer_id int4', 'status text', 'total numeric?', 'at timestamptz'],
    primaryKey: ['id'],
    foreignKeys: [['customer_id', 'customer']],
  }),
  tableOf({ name: 'tag', columns: ['id int4', 'word text'], primaryKey: ['id'] }),
  tableOf({
    name: 'customer_tag',
    columns: ['customer_id int4', 'tag_id int4'],
    primaryKey: ['customer_id', 'tag_id'],
    foreignKeys: [
      ['customer_id', 'customer'],
      ['tag_id', 'tag'],
    ],
  }),
]

export const shop: Catalog = {
  version: '1',
  schemas: ['shop'],
  tables: relate(new Map(tables.map((table) => [tableKey(table.schema, table.name), table]))),
  functions: [],
  types: new Map(),
}
