import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Catalog } from '../data/catalog.ts'
import type { Compiled } from '../data/dialect.ts'
import type { StoredReply } from '../data/idempotency.ts'
import { compileCall } from '../data/postgres-sql-rpc.ts'
import { shapeOf } from '../data/read-request.ts'
import type { CallRequest } from '../data/rpc-request.ts'
import type { RawRow } from '../data/statement.ts'
import { untilCallerGone } from '../http/caller.ts'
import { rowsToCsv } from './csv.ts'
import { joinRows } from './envelope.ts'
import { bodyTag } from './etag.ts'
import { acceptedRepresentation } from './media-type.ts'
import { parseCallByBody, parseCallByQuery } from './parse-rpc.ts'
import { replyTagged } from './read.ts'
import { compiledCache, onCurrentCatalog, type RestService, readContext, splitUrl, writeContext } from './service.ts'
import { bodyText, jsonOnly, oncePerKey, replyStored } from './write.ts'

type Handler = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>

/** `GET /rpc/<name>`: functions that change nothing, in a read-only transaction. */
export function readCallHandler(service: RestService): Handler {
  const compiled = compiledCache<Compiled>()
  return async (request, reply) => {
    const { segments, query } = splitUrl(request.raw.url ?? '')
    const representation = acceptedRepresentation(request.headers.accept)
    const context = readContext(await service.authenticate(request.headers))
    return await onCurrentCatalog(service, async (catalog) => {
      const call = parseCallByQuery(catalog, service.schema, nameOf(segments), query, service.limits)
      const plan = compiledFor(compiled, catalog, call)
      const result = await service.database.run(plan.statement, call.parameters, {
        ...context,
        weight: 'heavy',
        signal: untilCallerGone(reply),
      })
      const rows = pageRows(call, result.rows)
      reply.headers(rangeOf(call, rows))
      if (representation === 'csv' && (call.result === 'rows' || call.result === 'row')) {
        return reply.type('text/csv; charset=utf-8').send(rowsToCsv(rows, []))
      }
      if (representation === 'csv') throw jsonOnly()
      const body = bodyOf(call, rows)
      return body === null ? reply.code(204).send() : replyTagged(request, reply, body, bodyTag(body))
    })
  }
}

/** `POST /rpc/<name>`: any function; one that may change data is a command like a write. */
export function callHandler(service: RestService): Handler {
  const compiled = compiledCache<Compiled>()
  return async (request, reply) => {
    const { segments, query } = splitUrl(request.raw.url ?? '')
    if (acceptedRepresentation(request.headers.accept) === 'csv') throw jsonOnly()
    const text = bodyText(request.body)
    const principal = await service.authenticate(request.headers)
    const done = await onCurrentCatalog(service, async (catalog) => {
      const call = parseCallByBody(catalog, service.schema, nameOf(segments), text, query, service.limits)
      const plan = compiledFor(compiled, catalog, call)
      const operation = `rest.call ${call.shape.schema}.${call.shape.name}`
      const context =
        call.volatility === 'volatile'
          ? writeContext(service, principal, request, operation)
          : { ...readContext(principal), weight: 'heavy' as const }
      return await oncePerKey(service, request, { actor: principal.actor, body: text }, async (run) => {
        const { rows } = await run(plan.statement, call.parameters, context)
        return answerOf(call, pageRows(call, rows))
      })
    })
    return replyStored(reply, done)
  }
}

function nameOf(segments: readonly string[]): string {
  return decodeURIComponent(segments[1] ?? '')
}

function compiledFor(
  compiled: ReturnType<typeof compiledCache<Compiled>>,
  catalog: Catalog,
  call: CallRequest,
): Compiled {
  const key = `${catalog.version} ${shapeOf(call)}`
  let plan = compiled.get(key)
  if (!plan) {
    plan = compileCall(catalog, call)
    compiled.set(key, plan)
  }
  return plan
}

/** One row more than the page was asked for, to see whether there are more. */
function pageRows({ page }: CallRequest, rows: readonly RawRow[]): readonly RawRow[] {
  return page === null ? rows : rows.slice(0, page.limit)
}

function rangeOf({ page }: CallRequest, rows: readonly RawRow[]): Record<string, string> {
  if (page === null) return {}
  return { 'Content-Range': rows.length === 0 ? '*/*' : `${page.offset}-${page.offset + rows.length - 1}/*` }
}

function answerOf(call: CallRequest, rows: readonly RawRow[]): StoredReply {
  const body = bodyOf(call, rows)
  return { status: body === null ? 204 : 200, headers: rangeOf(call, rows), body: body ?? Buffer.alloc(0) }
}

/** A value comes bare, a row as an object, a set as an array of them; null where the function returns nothing. */
function bodyOf({ result }: CallRequest, rows: readonly RawRow[]): Buffer | null {
  switch (result) {
    case 'void':
      return null
    case 'value':
    case 'row':
      return rows[0]?.[0] ?? jsonNull
    case 'values':
    case 'rows': {
      const present = rows.map((row) => (row[0] === null ? [jsonNull] : row))
      return joinRows(present, Buffer.from('['), Buffer.from(']'))
    }
  }
}

const jsonNull = Buffer.from('null')
