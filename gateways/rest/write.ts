import { isUtf8 } from 'node:buffer'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, Table } from '../data/catalog.ts'
import type { Compiled } from '../data/dialect.ts'
import { requestFingerprint, type StoredReply, withIdempotency } from '../data/idempotency.ts'
import { compileWrite } from '../data/postgres-sql-write.ts'
import { shapeOf } from '../data/read-request.ts'
import type { Run } from '../data/statement.ts'
import type { Returning } from '../data/write-ast.ts'
import { outcomeOf, type WriteOutcome, type WriteRequest } from '../data/write-request.ts'
import { countedEnvelope } from './envelope.ts'
import { matchDigests, rowTag } from './etag.ts'
import { acceptedRepresentation } from './media-type.ts'
import { parseBulkDelete, parseBulkPatch, parseDelete, parseInsert, parsePatch, parseReplace } from './parse-write.ts'
import { type Preferences, parsePrefer, preferenceApplied } from './prefer.ts'
import { rowNotFound } from './read.ts'
import { compiledCache, onCurrentCatalog, type RestService, splitUrl, tableNamed, writeContext } from './service.ts'

type Handler = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>

/** A request to write, as far as it is the same for every kind of write. */
interface Write {
  readonly catalog: Catalog
  readonly table: Table
  /** The key of the path, still percent-encoded; empty for a write on the table itself. */
  readonly key: string
  readonly query: URLSearchParams
  readonly body: string
  readonly preferences: Preferences
  readonly match: readonly string[] | null
}

/** One kind of write: what to parse, and how to answer what it did. */
interface Kind {
  /** Begins the operation of the command on the bus. */
  readonly verb: string
  readonly parse: (write: Write, service: RestService) => WriteRequest
  readonly answer: (write: Write, request: WriteRequest, outcome: WriteOutcome) => Answer
}

interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Buffer
}

const jsonType = 'application/json; charset=utf-8'

/** `POST /<table>`: one row, or an array of them, all or none; an upsert with `Prefer: resolution`. */
export function insertHandler(service: RestService): Handler {
  return writeHandler(service, {
    verb: 'insert',
    parse: ({ catalog, table, query, body, preferences }, { limits }) =>
      parseInsert(catalog, table, body, query, {
        limits,
        returning: preferences.return === null ? 'rows' : returningOf(preferences, 'keys'),
        ...(preferences.resolution === null ? {} : { resolution: preferences.resolution }),
      }),
    answer: answerInsert,
  })
}

/** `PUT /<table>/<key>`: what the body leaves out goes back to its default, or NULL. */
export function replaceHandler(service: RestService): Handler {
  return writeHandler(service, {
    verb: 'replace',
    parse: ({ catalog, table, key, query, body, ...write }, { limits }) =>
      parseReplace(catalog, table, key, body, query, changeOptions(write, limits, 'rows')),
    answer: answerRow,
  })
}

/** `PATCH /<table>/<key>` */
export function patchHandler(service: RestService): Handler {
  return writeHandler(service, {
    verb: 'update',
    parse: ({ catalog, table, key, query, body, ...write }, { limits }) =>
      parsePatch(catalog, table, key, body, query, changeOptions(write, limits, 'rows')),
    answer: answerRow,
  })
}

/** `DELETE /<table>/<key>` */
export function deleteHandler(service: RestService): Handler {
  return writeHandler(service, {
    verb: 'delete',
    parse: ({ catalog, table, key, query, ...write }, { limits }) =>
      parseDelete(catalog, table, key, query, changeOptions(write, limits, 'nothing')),
    answer: answerRow,
  })
}

/** `PATCH /<table>?<filters>` */
export function bulkPatchHandler(service: RestService): Handler {
  return writeHandler(service, {
    verb: 'update',
    parse: ({ catalog, table, query, body, preferences }, { limits }) =>
      parseBulkPatch(catalog, table, body, query, { limits, returning: returningOf(preferences, 'rows') }),
    answer: answerRows,
  })
}

/** `DELETE /<table>?<filters>` */
export function bulkDeleteHandler(service: RestService): Handler {
  return writeHandler(service, {
    verb: 'delete',
    parse: ({ catalog, table, query, preferences }, { limits }) =>
      parseBulkDelete(catalog, table, query, { limits, returning: returningOf(preferences, 'nothing') }),
    answer: answerRows,
  })
}

function changeOptions(
  { preferences, match }: Pick<Write, 'preferences' | 'match'>,
  limits: RestService['limits'],
  usual: Returning['kind'],
) {
  return { limits, returning: returningOf(preferences, usual), ...(match === null ? {} : { match }) }
}

function returningOf(preferences: Preferences, usual: Returning['kind']): Returning['kind'] {
  if (preferences.return === null) return usual
  if (preferences.return === 'representation') return 'rows'
  return usual === 'keys' ? 'keys' : 'nothing'
}

function writeHandler(service: RestService, kind: Kind): Handler {
  const compiled = compiledCache<Compiled>()
  return async (request, reply) => {
    const { segments, query } = splitUrl(request.raw.url ?? '')
    const preferences = parsePrefer(request.headers.prefer)
    const representation = acceptedRepresentation(request.headers.accept)
    if (representation === 'csv') throw jsonOnly()
    const body = bodyText(request.body)
    const principal = await service.authenticate(request.headers)
    const done = await onCurrentCatalog(service, async (catalog) => {
      const table = tableNamed(catalog, service.schema, decodeURIComponent(segments[0] ?? ''))
      const key = segments.slice(1).join('/')
      const match = key === '' ? null : matchDigests(request.headers['if-match'])
      const write: Write = { catalog, table, key, query, body, preferences, match }
      const parsed = kind.parse(write, service)
      const plan = compiledFor(compiled, catalog, parsed)
      const operation = `rest.${kind.verb} ${table.schema}.${table.name}`
      const context = { ...writeContext(service, principal, request, operation), weight: plan.weight }
      return await oncePerKey(service, request, { actor: principal.actor, body }, async (run) => {
        const outcome = outcomeOf(parsed, await run(plan.statement, parsed.parameters, context))
        const { status, headers = {}, body: content = Buffer.alloc(0) } = kind.answer(write, parsed, outcome)
        const applied = preferenceApplied(preferences)
        return {
          status,
          headers: applied === null ? headers : { ...headers, 'Preference-Applied': applied },
          body: content,
        }
      })
    })
    return replyStored(reply, done)
  }
}

function compiledFor(
  compiled: ReturnType<typeof compiledCache<Compiled>>,
  catalog: Catalog,
  request: WriteRequest,
): Compiled {
  const key = `${catalog.version} ${shapeOf(request)}`
  let plan = compiled.get(key)
  if (!plan) {
    plan = compileWrite(catalog, request)
    compiled.set(key, plan)
  }
  return plan
}

/** With an Idempotency-Key the work is done at most once, in one transaction with the key and the answer. */
export async function oncePerKey(
  service: RestService,
  request: FastifyRequest,
  { actor, body }: { readonly actor: string; readonly body: string },
  work: (run: Run) => Promise<StoredReply>,
): Promise<StoredReply> {
  const key = request.headers['idempotency-key']
  if (key === undefined) return await work(service.database.run)
  const path = request.raw.url ?? ''
  // What the answer looks like is part of the request.
  const content = `${request.headers.prefer ?? ''}\n${request.headers['if-match'] ?? ''}\n${body}`
  const fingerprint = requestFingerprint(request.method, path, content)
  return await withIdempotency(service.database, { key: String(key), actor, fingerprint }, work)
}

export function replyStored(reply: FastifyReply, { status, headers, body }: StoredReply): FastifyReply {
  reply.code(status).headers(headers)
  return body.length === 0 ? reply.send() : reply.type(jsonType).send(body)
}

/** @throws {Rejected} `data/invalid-body` when the bytes are not UTF-8, which would reach the database as other characters. */
export function bodyText(body: unknown): string {
  if (!Buffer.isBuffer(body)) return ''
  if (!isUtf8(body)) throw new Rejected('data/invalid-body', 'The body is not UTF-8')
  return body.toString('utf8')
}

export function jsonOnly(): Rejected {
  return new Rejected('http/not-acceptable', 'What was written is answered as JSON', { details: { header: 'Accept' } })
}

function answerInsert({ table }: Write, { shape }: WriteRequest, { rows, count }: WriteOutcome): Answer {
  const many = shape.kind === 'insert' && shape.many
  // Passed over as a duplicate, or by a rule or trigger of the database.
  if (!many && count === 0) return { status: 204 }
  const keys = rows[0]?.[1]?.toString() ?? null
  const location: Record<string, string> = many || keys === null ? {} : { Location: locationOf(table, keys) }
  if (shape.returning.kind !== 'rows') return { status: 201, headers: location }
  if (many) return { status: count === 0 ? 200 : 201, body: countedEnvelope(rows, count) }
  return { status: 201, ...taggedRow(shape.returning, rows[0]?.[0], location) }
}

/** @throws {Rejected} `data/row-not-found`; `data/precondition-failed` when the row is there and If-Match names another content. */
function answerRow({ table }: Write, { shape }: WriteRequest, { rows, count, found }: WriteOutcome): Answer {
  if (count === 0) throw found ? preconditionFailed(table) : rowNotFound(table)
  if (shape.returning.kind !== 'rows') return { status: 204 }
  return { status: 200, ...taggedRow(shape.returning, rows[0]?.[0]) }
}

function preconditionFailed({ name }: Table): Rejected {
  return new Rejected('data/precondition-failed', `The row of ${name} is not the one that If-Match names`, {
    details: { header: 'If-Match' },
    hint: 'Read it again: somebody has changed it.',
  })
}

/** The number of rows comes in `Content-Range` where there is no body. */
function answerRows(_write: Write, { shape }: WriteRequest, { rows, count }: WriteOutcome): Answer {
  if (shape.returning.kind !== 'rows') return { status: 204, headers: { 'Content-Range': `*/${count}` } }
  return { status: 200, body: countedEnvelope(rows, count) }
}

/** The tag is of the whole row, so only a whole row gets one. */
function taggedRow(
  { select }: Returning,
  row: Buffer | null | undefined,
  headers: Readonly<Record<string, string>> = {},
): Pick<Answer, 'headers' | 'body'> {
  const body = row ?? Buffer.from('null')
  const whole = select.columns === null && select.expansions.length === 0
  return { headers: whole ? { ...headers, ETag: rowTag(body) } : headers, body }
}

/** @param keys JSON array of the key's texts */
function locationOf({ name }: Table, keys: string): string {
  const values = (JSON.parse(keys) as readonly string[]).map(encodeURIComponent)
  return `/api/v1/${encodeURIComponent(name)}/${values.join(',')}`
}
