import type { FastifyReply, FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { blamed } from '../data/blame.ts'
import type { Catalog, Table } from '../data/catalog.ts'
import { encodeCursor } from '../data/cursor.ts'
import type { Compiled } from '../data/dialect.ts'
import { compileList, compileRow, weightOf } from '../data/postgres-sql-read.ts'
import { type ListRequest, pageOf, type RowRequest, shapeOf } from '../data/read-request.ts'
import type { CallContext, RawResult, RawRow } from '../data/statement.ts'
import { untilCallerGone } from '../http/caller.ts'
import { rowsToCsv } from './csv.ts'
import { listEnvelope, type Pagination } from './envelope.ts'
import { bodyTag, matchesNone, rowTag } from './etag.ts'
import { acceptedRepresentation, type Representation } from './media-type.ts'
import { parseList, parseRow } from './parse-list.ts'
import { type Preferences, parsePrefer, preferenceApplied } from './prefer.ts'
import { compiledCache, onCurrentCatalog, type RestService, readContext, splitUrl, tableNamed } from './service.ts'

const jsonType = 'application/json; charset=utf-8'
const csvType = 'text/csv; charset=utf-8'

type Handler = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>

/** `GET /<table>`: filters, select, order, pages, aggregates, expansion; the envelope of specification B. */
export function listHandler(service: RestService): Handler {
  const compiled = compiledCache<Compiled>()
  return async (request, reply) => {
    const { segments, query } = splitUrl(request.raw.url ?? '')
    const representation = acceptedRepresentation(request.headers.accept)
    const preferences = parsePrefer(request.headers.prefer)
    const context = readContext(await service.authenticate(request.headers))
    return await onCurrentCatalog(service, async (catalog) => {
      const table = tableNamed(catalog, service.schema, decodeURIComponent(segments[0] ?? ''))
      const list = parseList(catalog, table, query, { limits: service.limits, count: preferences.count === 'exact' })
      const key = `${catalog.version} ${shapeOf(list)}`
      let plan = compiled.get(key)
      if (!plan) {
        plan = compileList(catalog, list)
        compiled.set(key, plan)
      }
      const weight = weightOf(plan, list)
      const patience = weight === 'heavy' ? { signal: untilCallerGone(reply) } : {}
      const result = await service.database
        .run(plan.statement, list.parameters, { ...context, weight, ...patience })
        .catch((error: unknown) => Promise.reject(blamed(error, list)))
      return replyList(request, reply, { table, list, result, representation, preferences })
    })
  }
}

/** `GET /<table>/<pk>`: the bare row. */
export function rowHandler(service: RestService): Handler {
  const compiled = compiledCache<Compiled>()
  return async (request, reply) => {
    const { segments, query } = splitUrl(request.raw.url ?? '')
    const representation = acceptedRepresentation(request.headers.accept)
    const context = readContext(await service.authenticate(request.headers))
    return await onCurrentCatalog(service, async (catalog) => {
      const table = tableNamed(catalog, service.schema, decodeURIComponent(segments[0] ?? ''))
      const row = parseRow(catalog, table, segments.slice(1).join('/'), query, service)
      const found = await findRow(service, catalog, row, context, compiled)
      if (!found) throw rowNotFound(table)
      if (representation === 'csv') return reply.type(csvType).send(rowsToCsv([[found]], []))
      return replyTagged(request, reply, found, rowTag(found))
    })
  }
}

export function rowNotFound(table: Table): Rejected {
  return new Rejected('data/row-not-found', `${table.name} has no row with this key`, {
    details: { table: table.name },
  })
}

async function findRow(
  service: RestService,
  catalog: Catalog,
  row: RowRequest,
  context: CallContext,
  compiled: ReturnType<typeof compiledCache<Compiled>>,
): Promise<Buffer | null> {
  const key = `${catalog.version} ${shapeOf(row)}`
  let plan = compiled.get(key)
  if (!plan) {
    plan = compileRow(catalog, row)
    compiled.set(key, plan)
  }
  const { rows } = await service.database
    .run(plan.statement, row.parameters, { ...context, weight: plan.weight })
    .catch((error: unknown) => Promise.reject(blamed(error, row)))
  return rows[0]?.[0] ?? null
}

interface ListAnswer {
  readonly table: Table
  readonly list: ListRequest
  readonly result: RawResult
  readonly representation: Representation
  readonly preferences: Preferences
}

function replyList(request: FastifyRequest, reply: FastifyReply, answer: ListAnswer): FastifyReply {
  const { table, list, result, representation, preferences } = answer
  const total = list.shape.count ? (result.rows[0]?.[2]?.toString() ?? '0') : undefined
  const present = list.shape.count ? result.rows.filter((row) => row[0] !== null) : result.rows
  const { rows, hasMore, hasPrevious } = pageOf(list, present)
  const applied = preferenceApplied(preferences)
  if (applied !== null) reply.header('Preference-Applied', applied)
  if (total !== undefined) reply.header('Content-Range', contentRange(list.page.offset, rows.length, total))
  if (representation === 'singular') return replySingular(request, reply, rows)
  if (representation === 'csv') return reply.type(csvType).send(rowsToCsv(rows, columnsOf(table, list)))
  const body = listEnvelope(rows, pagination(list, rows, { hasMore, hasPrevious, total }))
  return replyTagged(request, reply, body, bodyTag(body))
}

function pagination(
  list: ListRequest,
  rows: readonly RawRow[],
  {
    hasMore,
    hasPrevious,
    total,
  }: { readonly hasMore: boolean; readonly hasPrevious: boolean; readonly total: string | undefined },
): Pagination {
  const { limit, offset, cursorDigest } = list.page
  if (cursorDigest === null) return { total, offset, limit, hasMore }
  const cursorOf = (row: RawRow | undefined): string | null =>
    row?.[1] ? encodeCursor(cursorDigest, row[1].toString()) : null
  return {
    total,
    offset,
    limit,
    hasMore,
    hasPrevious,
    startCursor: cursorOf(rows[0]),
    endCursor: cursorOf(rows.at(-1)),
  }
}

/** RFC 9110 14.4 in the form REST APIs use it: `0-24/573`, with a star for the range when there is nothing. */
function contentRange(offset: number, rowCount: number, total: string): string {
  return rowCount === 0 ? `*/${total}` : `${offset}-${offset + rowCount - 1}/${total}`
}

function replySingular(request: FastifyRequest, reply: FastifyReply, rows: readonly RawRow[]): FastifyReply {
  const row = rows[0]?.[0]
  if (rows.length !== 1 || !row) {
    throw new Rejected(
      'data/not-singular',
      `One row was asked for and ${rows.length === 0 ? 'none' : 'several'} match`,
      {
        hint: 'Filter by a key, or accept application/json.',
      },
    )
  }
  return replyTagged(request, reply, row, rowTag(row))
}

export function replyTagged(request: FastifyRequest, reply: FastifyReply, body: Buffer, tag: string): FastifyReply {
  reply.header('ETag', tag).header('Vary', 'Accept, Authorization, Prefer')
  if (matchesNone(request.headers['if-none-match'], tag)) return reply.code(304).send()
  return reply.type(jsonType).send(body)
}

function columnsOf(table: Table, { shape }: ListRequest): readonly string[] {
  if (shape.select.kind === 'aggregate')
    return [...shape.select.groups, ...shape.select.aggregates].map(({ property }) => property)
  return (shape.select.columns ?? table.columns.map(({ name }) => ({ property: name }))).map(({ property }) => property)
}
