import type { FastifyInstance } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, Column, DatabaseType, Table } from '../data/catalog.ts'
import { hinted, perhaps, shown } from '../data/suggestion.ts'
import { docsPage } from './docs-page.ts'
import { buildOpenApi, openApiYaml } from './openapi.ts'
import { type RestService, splitUrl, tableNamed } from './service.ts'

export interface DescribeOptions {
  /** Tokens are on. */
  readonly jwt: boolean
  /** Tables have streams of their changes. */
  readonly changes: boolean
}

/** The routes that say what there is: tables, columns, types, the OpenAPI document and the page to try it on. */
export async function describeRoutes(
  app: FastifyInstance,
  service: RestService,
  options: DescribeOptions,
): Promise<void> {
  openApiRoutes(app, service, options)
  app.get('/api/v1', async () => ({ tables: tablesOf(service).map(summaryOf) }))
  app.get('/api/v1/:table/schema', async (request) => {
    const { segments } = splitUrl(request.raw.url ?? '')
    return tableSchema(tableNamed(service.catalog.current(), service.schema, decodeURIComponent(segments[0] ?? '')))
  })
  app.get('/api/v1/types/:name', async (request) => {
    const { segments } = splitUrl(request.raw.url ?? '')
    return typeSchema(service, decodeURIComponent(segments[1] ?? ''))
  })
  await docsPage(app, { specUrl: '/api/v1/openapi.json' })
  app.get('/', (_request, reply) => reply.redirect('/docs'))
}

/** The document is made once for each version of the catalog. */
function openApiRoutes(app: FastifyInstance, { schema, catalog, limits }: RestService, options: DescribeOptions): void {
  const { defaultPageSize, maxPageSize } = limits
  const build = (current: Catalog) => {
    const document = buildOpenApi(current, {
      schema,
      title: `Busbar REST API: ${schema}`,
      version: '1.0.0',
      serverUrl: '',
      defaultPageSize,
      maxPageSize,
      ...options,
    })
    return { version: current.version, json: JSON.stringify(document), yaml: openApiYaml(document) }
  }
  let made = { version: '', json: '', yaml: '' }
  const described = () => {
    const current = catalog.current()
    if (made.version !== current.version) made = build(current)
    return made
  }
  app.get('/api/v1/openapi.json', (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(described().json),
  )
  app.get('/api/v1/openapi.yaml', (_request, reply) =>
    reply.type('application/yaml; charset=utf-8').send(described().yaml),
  )
}

function tablesOf({ catalog, schema }: RestService): readonly Table[] {
  return [...catalog.current().tables.values()].filter((table) => table.schema === schema)
}

function summaryOf({ name, kind, comment }: Table) {
  return { name, kind, comment, url: `/api/v1/${encodeURIComponent(name)}` }
}

function tableSchema(table: Table) {
  const { primaryKey, foreignKeys, relations, insertable, updatable, deletable, rowSecurity } = table
  return {
    ...summaryOf(table),
    primaryKey,
    insertable,
    updatable,
    deletable,
    rowSecurity,
    columns: table.columns.map((column) => columnSchema(column, table)),
    foreignKeys: foreignKeys.map(({ constraint, columns, targetTable, targetColumns }) => ({
      constraint,
      columns,
      targetTable,
      targetColumns,
    })),
    relations: relations.map(({ name, aliases, kind, targetTable }) => ({ name, aliases, kind, table: targetTable })),
  }
}

function columnSchema(column: Column, table: Table) {
  const { name, typeSql, type, nullable, defaultSql, identity, generated, comment } = column
  return {
    name,
    type: typeSql,
    nullable,
    primaryKey: table.primaryKey.includes(name),
    default: defaultSql,
    identity,
    generated,
    comment,
    ...(type.base.kind === 'enum' ? { values: type.base.enumValues } : {}),
  }
}

/** Enums and composite types of the exposed schema, by name. @throws {Rejected} `http/not-found` */
function typeSchema({ catalog, schema }: RestService, name: string) {
  const types = [...catalog.current().types.values()].filter((type) => type.schema === schema && isDescribed(type))
  const type = types.find((each) => each.name === name)
  if (!type) {
    throw new Rejected('http/not-found', `There is no type ${shown(name)}`, {
      details: { type: name.slice(0, 100) },
      ...hinted(
        perhaps(
          name,
          types.map((each) => each.name),
        ),
      ),
    })
  }
  return {
    name: type.name,
    kind: type.kind,
    comment: type.comment,
    ...(type.kind === 'enum' ? { values: type.enumValues } : {}),
    ...(type.kind === 'composite'
      ? { fields: type.attributes.map((field) => ({ name: field.name, type: field.type.name })) }
      : {}),
    ...(type.kind === 'domain' ? { base: type.base.name } : {}),
  }
}

function isDescribed({ kind }: DatabaseType): boolean {
  return kind === 'enum' || kind === 'composite' || kind === 'domain'
}
