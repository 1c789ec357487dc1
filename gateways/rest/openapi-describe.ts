import type { Catalog, DatabaseType, Table } from '../data/catalog.ts'
import { operatorsFor } from './openapi-filters.ts'
import type { Json } from './openapi-types.ts'

/** Body of `GET /api/v1`: what can be asked for. */
export function tableListing(catalog: Catalog, schema: string): Json {
  const tables = [...catalog.tables.values()].filter((table) => table.schema === schema)
  return { tables: tables.map(({ name }) => name) }
}

export const tableListSchema = {
  type: 'object',
  required: ['tables'],
  properties: { tables: { type: 'array', items: { type: 'string' } } },
} as const satisfies Json

/** Body of `GET /<table>/schema`. */
export function tableDefinition(table: Table): Json {
  const { name, kind, comment, primaryKey, uniqueKeys, relations, insertable, updatable, deletable } = table
  return {
    table: name,
    kind,
    comment,
    primaryKey,
    uniqueKeys,
    insertable,
    updatable,
    deletable,
    columns: table.columns.map((column) => ({
      name: column.name,
      type: column.typeSql,
      nullable: column.nullable,
      default: column.defaultSql,
      identity: column.identity,
      generated: column.generated,
      enumValues: column.type.base.kind === 'enum' ? column.type.base.enumValues : null,
      comment: column.comment,
      operators: operatorsFor(column.type),
    })),
    relations: relations.map((relation) => ({
      name: relation.name,
      aliases: relation.aliases,
      kind: relation.kind,
      table: relation.targetTable,
      columns: relation.columns,
      targetColumns: relation.targetColumns,
      through: relation.link?.table ?? null,
    })),
  }
}

/** Body of `GET /types/<name>`. */
export function typeDefinition({ name, kind, comment, enumValues, attributes, base }: DatabaseType): Json {
  return {
    name,
    kind,
    comment,
    values: kind === 'enum' ? enumValues : null,
    fields: kind === 'composite' ? attributes.map((field) => ({ name: field.name, type: field.type.name })) : null,
    base: kind === 'domain' ? base.name : null,
  }
}

const names: Json = { type: 'array', items: { type: 'string' } }
const textOrNull: Json = { type: ['string', 'null'] }
const truth: Json = { type: 'boolean' }

function closed(properties: Readonly<Record<string, Json>>): Json {
  return { type: 'object', required: Object.keys(properties), properties }
}

export const definitionSchema = closed({
  table: { type: 'string' },
  kind: { enum: ['table', 'partitioned-table', 'view', 'materialized-view', 'foreign-table'] },
  comment: textOrNull,
  primaryKey: names,
  uniqueKeys: { type: 'array', items: names },
  insertable: truth,
  updatable: truth,
  deletable: truth,
  columns: {
    type: 'array',
    items: closed({
      name: { type: 'string' },
      type: { type: 'string' },
      nullable: truth,
      default: textOrNull,
      identity: { enum: ['always', 'by-default', null] },
      generated: truth,
      enumValues: { type: ['array', 'null'], items: { type: 'string' } },
      comment: textOrNull,
      operators: names,
    }),
  },
  relations: {
    type: 'array',
    items: closed({
      name: { type: 'string' },
      aliases: names,
      kind: { enum: ['one', 'many', 'many-to-many'] },
      table: { type: 'string' },
      columns: names,
      targetColumns: names,
      through: textOrNull,
    }),
  },
})

export const typeDefinitionSchema = closed({
  name: { type: 'string' },
  kind: { enum: ['enum', 'composite', 'domain'] },
  comment: textOrNull,
  values: { ...names, type: ['array', 'null'] },
  fields: {
    type: ['array', 'null'],
    items: closed({ name: { type: 'string' }, type: { type: 'string' } }),
  },
  base: textOrNull,
})

export const definitionExample: Json = {
  table: 'film',
  kind: 'table',
  comment: null,
  primaryKey: ['id'],
  uniqueKeys: [['id']],
  insertable: true,
  updatable: true,
  deletable: true,
  columns: [
    {
      name: 'id',
      type: 'integer',
      nullable: false,
      default: null,
      identity: 'always',
      generated: false,
      enumValues: null,
      comment: null,
      operators: ['eq', 'neq'],
    },
  ],
  relations: [
    {
      name: 'language',
      aliases: ['film_language_id_fkey'],
      kind: 'one',
      table: 'language',
      columns: ['language_id'],
      targetColumns: ['id'],
      through: null,
    },
  ],
}
