import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, DatabaseType } from '../data/catalog.ts'
import { hinted, perhaps, shown } from '../data/suggestion.ts'
import { docsPage } from '../http/docs-page.ts'
import { bodyTag } from './etag.ts'
import { buildOpenApi, openApiYaml } from './openapi.ts'
import { tableDefinition, tableListing, typeDefinition } from './openapi-describe.ts'
import type { Json } from './openapi-types.ts'
import { replyTagged } from './read.ts'
import { type RestService, splitUrl, tableNamed } from './service.ts'

export interface DescribeOptions {
  /** Tokens are on. */
  readonly jwt: boolean
  /** Tables have streams of their changes. */
  readonly changes: boolean
}

/** The routes that say what there is: tables, columns, types, the OpenAPI document and the page to try it on. */
export function describeRoutes(app: FastifyInstance, service: RestService, options: DescribeOptions): void {
  openApiRoutes(app, service, options)
  app.get('/api/v1', (request, reply) =>
    replyDescription(request, reply, tableListing(service.catalog.current(), service.schema)),
  )
  app.get('/api/v1/:table/schema', (request, reply) => {
    const { segments } = splitUrl(request.raw.url ?? '')
    const table = tableNamed(service.catalog.current(), service.schema, decodeURIComponent(segments[0] ?? ''))
    return replyDescription(request, reply, tableDefinition(table))
  })
  app.get('/api/v1/types/:name', (request, reply) => {
    const { segments } = splitUrl(request.raw.url ?? '')
    return replyDescription(request, reply, namedType(service, decodeURIComponent(segments[1] ?? '')))
  })
  docsPage(app, { specUrl: '/api/v1/openapi.json' })
}

function replyDescription(request: FastifyRequest, reply: FastifyReply, description: Json): FastifyReply {
  const body = Buffer.from(JSON.stringify(description))
  return replyTagged(request, reply, body, bodyTag(body))
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

/** Enums, domains and composite types of the exposed schema. @throws {Rejected} `http/not-found` */
function namedType({ catalog, schema }: RestService, name: string): Json {
  const types = [...catalog.current().types.values()].filter((type) => type.schema === schema && isDescribed(type))
  const type = types.find((each) => each.name === name)
  if (type) return typeDefinition(type)
  const near = perhaps(
    name,
    types.map((each) => each.name),
  )
  throw new Rejected('http/not-found', `There is no type ${shown(name)}`, {
    details: { type: name.slice(0, 100) },
    ...hinted(near),
  })
}

function isDescribed({ kind }: DatabaseType): boolean {
  return kind === 'enum' || kind === 'composite' || kind === 'domain'
}
