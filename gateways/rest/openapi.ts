import { stringify } from 'yaml'
import {
  type Catalog,
  type Column,
  type DatabaseFunction,
  type DatabaseType,
  type Table,
  tableKey,
} from '../data/catalog.ts'
import { fixedPaths, introduction } from './openapi-about.ts'
import { fixedHeaders, fixedParameters, fixedResponses, fixedSchemas } from './openapi-components.ts'
import { functionPaths } from './openapi-functions.ts'
import { Components, isLegalName, type Shared, UniqueNames } from './openapi-names.ts'
import { isInsertable, isUpdatable, writableColumns } from './openapi-table-parts.ts'
import { tablePaths } from './openapi-tables.ts'
import {
  columnSchema,
  described,
  exampleOf,
  type Json,
  type TypeReferences,
  typeSchema,
  valueSchema,
} from './openapi-types.ts'

export interface OpenApiOptions {
  /** The exposed schema. */
  readonly schema: string
  readonly title: string
  readonly version: string
  /** Where the service is, without the base path `/api/v1`; empty for the place the document comes from. */
  readonly serverUrl: string
  readonly maxPageSize: number
  readonly defaultPageSize: number
  /** Whether requests can carry a bearer token. */
  readonly jwt: boolean
  /** Whether there are change streams. */
  readonly changes: boolean
}

/** Of more columns than this the filters are described once for all: every column's own would make tens of megabytes. */
const maxFilteredColumns = 20_000

/** Table names whose path is another route's. */
const shadowed = new Set(['openapi.json', 'openapi.yaml'])

/**
 * The OpenAPI 3.1 document of the REST API as the catalog is. It takes a while for thousands of tables: keep it for each version of
 * the catalog.
 */
export function buildOpenApi(catalog: Catalog, options: OpenApiOptions): Json {
  const tables = [...catalog.tables.values()].filter(
    ({ schema, name }) => schema === options.schema && !shadowed.has(name),
  )
  const functions = catalog.functions.filter(({ schema }) => schema === options.schema)
  const named = nameComponents(tables, functions)
  const shared: Shared = {
    parameters: new Components('parameters', fixedParameters(options)),
    responses: new Components('responses', fixedResponses()),
    examples: new Components('examples'),
    requestBodies: new Components('requestBodies'),
  }
  const filters = tables.reduce((sum, { columns }) => sum + columns.length, 0) <= maxFilteredColumns
  const { jwt, changes } = options
  const plans = tables.map((table) => ({ table, component: named.rows.get(table)!, shared, filters, jwt, changes }))
  const paths = {
    ...fixedPaths(catalog, options),
    ...Object.assign({}, ...plans.map(tablePaths)),
    ...rpcPaths(functions, named.references, options),
  }
  return {
    openapi: '3.1.0',
    info: { title: options.title, version: options.version, description: introduction(options) },
    servers: [{ url: `${options.serverUrl.replace(/\/+$/, '')}/api/v1` }],
    ...(jwt ? { security: [{ bearerAuth: [] }, {}] } : {}),
    tags: tags(tables, functions),
    paths,
    components: {
      schemas: { ...fixedSchemas, ...schemas(tables, named) },
      parameters: shared.parameters.all,
      requestBodies: shared.requestBodies.all,
      responses: shared.responses.all,
      examples: shared.examples.all,
      headers: fixedHeaders,
      ...(jwt ? { securitySchemes: { bearerAuth: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } } : {}),
    },
  }
}

/** The document as YAML. */
export function openApiYaml(document: Json): string {
  return stringify(document, { aliasDuplicateObjects: false, lineWidth: 0 })
}

interface NamedComponents {
  readonly rows: ReadonlyMap<Table, string>
  readonly types: ReadonlyMap<DatabaseType, string>
  readonly references: TypeReferences
}

/** Gives every table and every named type its component. */
function nameComponents(tables: readonly Table[], functions: readonly DatabaseFunction[]): NamedComponents {
  const names = new UniqueNames(Object.keys(fixedSchemas))
  const legalFirst = [
    ...tables.filter(({ name }) => isLegalName(name)),
    ...tables.filter(({ name }) => !isLegalName(name)),
  ]
  const rows = new Map(legalFirst.map((table) => [table, names.take(table.name, ['Input'])]))
  const rowTypes = new Map(tables.map((table) => [tableKey(table.schema, table.name), rows.get(table)!]))
  const rowOf = (type: DatabaseType) =>
    type.kind === 'composite' ? rowTypes.get(tableKey(type.schema, type.name)) : undefined
  const own = usedTypes(tables, functions).filter((type) => rowOf(type) === undefined)
  const types = new Map(own.map((type) => [type, names.take(type.name)]))
  return { rows, types, references: (type) => types.get(type) ?? rowOf(type) }
}

function schemas(tables: readonly Table[], { rows, types, references }: NamedComponents): Json {
  return {
    ...Object.assign({}, ...tables.map((table) => tableSchemas(table, rows.get(table)!, references))),
    ...Object.fromEntries([...types].map(([type, name]) => [name, namedTypeSchema(type, references)])),
  }
}

/** Enums and composite types that columns and functions use, directly or inside others. */
function usedTypes(tables: readonly Table[], functions: readonly DatabaseFunction[]): DatabaseType[] {
  const found = new Map<number, DatabaseType>()
  const visit = ({ base: type }: DatabaseType) => {
    if (found.has(type.oid)) return
    found.set(type.oid, type)
    if (type.element) visit(type.element)
    for (const attribute of type.attributes) visit(attribute.type)
  }
  for (const { columns } of tables) for (const { type } of columns) visit(type)
  for (const { arguments: all, returns } of functions) {
    for (const { type } of [...all, ...returns.columns, returns]) visit(type)
  }
  return [...found.values()].filter(({ kind }) => kind === 'enum' || kind === 'composite')
}

function namedTypeSchema(type: DatabaseType, references: TypeReferences): Json {
  const schema = typeSchema(type, (other) => (other === type ? undefined : references(other)))
  return { ...schema, examples: [exampleOf(type)] }
}

function tableSchemas(table: Table, component: string, references: TypeReferences): Json {
  const properties = Object.fromEntries(
    table.columns.map((column) => [column.name, columnSchema(column, references, remarks(table, column))]),
  )
  const row = {
    type: 'object',
    ...described(table.comment),
    properties,
    required: table.columns.map(({ name }) => name),
  }
  if (!isInsertable(table) && !isUpdatable(table)) return { [component]: row }
  const input = {
    type: 'object',
    description: `What can be written of ${table.name}.`,
    properties: Object.fromEntries(
      writableColumns(table).map((column) => [column.name, valueSchema(column, references)]),
    ),
  }
  return { [component]: row, [`${component}Input`]: input }
}

function remarks(table: Table, { name, typeSql, defaultSql, identity, generated }: Column): string[] {
  const targets = table.foreignKeys
    .filter(({ columns }) => columns.includes(name))
    .flatMap(({ columns, targetTable, targetColumns }) =>
      table.relations.some((relation) => relation.kind === 'one' && relation.targetTable === targetTable)
        ? `Refers to \`${targetTable}.${targetColumns[columns.indexOf(name)]}\`.`
        : [],
    )
  return [
    `\`${typeSql}\`.`,
    ...(table.primaryKey.includes(name) ? ['Primary key.'] : []),
    ...targets,
    ...(defaultSql === null ? [] : [`Default: \`${defaultSql}\`.`]),
    ...(generated ? ['Computed by the database.'] : []),
    ...(identity === null ? [] : ['Numbered by the database.']),
  ]
}

function rpcPaths(functions: readonly DatabaseFunction[], references: TypeReferences, { jwt }: OpenApiOptions): Json {
  const names = new UniqueNames()
  const byName = Map.groupBy(functions, ({ name }) => name)
  const plans = [...byName].map(([name, overloads]) => ({
    overloads,
    component: `rpc_${names.take(name)}`,
    references,
    jwt,
  }))
  return Object.assign({}, ...plans.map(functionPaths))
}

function tags(tables: readonly Table[], functions: readonly DatabaseFunction[]): Json[] {
  return [
    { name: 'about', description: 'The API itself' },
    ...tables.map(({ name, comment }) => ({ name, ...described(comment) })),
    ...(functions.length > 0 ? [{ name: 'rpc', description: 'Functions of the database' }] : []),
  ]
}
