import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { lastMessage } from '../../bus/load.ts'
import { type AuditFilter, type AuditRow, allAudit, listAudit } from '../../projections/workflows/audit-read.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { AuditHead } from '../../schemas/workflows/audit.ts'
import { invalid } from '../http/request.ts'
import { auditPlace } from './audit-trail.ts'
import { type ChainPlace, headOf, verifyAudit } from './audit-verify.ts'
import { cursorOf, pageOf, placeOfCursor, queryOf, replyList, timeField, wholeNumber } from './request.ts'
import type { WorkflowService } from './service.ts'

const filters = ['username', 'action', 'resourceType', 'resourceId', 'status', 'ip', 'from', 'to'] as const
const statuses = ['SUCCESS', 'FAILED', 'DENIED']
const maxExports = 4
/** Messages that one answer walks over; each holds up to a hundred entries. */
const defaultVerified = 10_000
const maxVerified = 100_000
const maxVerifying = 2
const columns = [
  'number',
  'timestamp',
  'username',
  'role',
  'action',
  'resourceType',
  'resourceId',
  'status',
  'statusCode',
  'error',
  'ip',
  'requestId',
  'id',
  'hash',
] as const satisfies readonly (keyof AuditRow)[]

/** Who has commanded what, for admins. */
export function auditRoutes(app: FastifyInstance, service: WorkflowService): void {
  app.get('/api/v1/audit', { config: { role: 'admin' } }, async (request, reply) => {
    const query = queryOf(request, [...filters, 'limit', 'cursor'])
    const [filter, page] = [filterOf(query), pageOf(query)]
    await caughtUp(service)
    return replyList(request, reply, await listAudit(service.database, filter, page))
  })
  verifyRoute(app, service)
  let exporting = 0
  const config = { role: 'admin', audit: 'audit.export' } as const
  app.get('/api/v1/audit/export', { config, exposeHeadRoute: false }, async (request, reply) => {
    if (exporting >= maxExports) throw new Rejected('http/too-many-requests', `${maxExports} exports are under way`)
    const written = exportOf(service, request, reply)
    exporting++
    reply.raw.once('close', () => {
      exporting--
    })
    return reply.send(Readable.from(written))
  })
}

/** Each answer walks over a part of the chain and says where the next one begins. */
function verifyRoute(app: FastifyInstance, { bus }: WorkflowService): void {
  let verifying = 0
  app.get('/api/v1/audit/verify', { config: { role: 'admin' } }, async (request, reply) => {
    const { head, limit, cursor } = queryOf(request, ['head', 'limit', 'cursor'])
    const expected = head === undefined ? null : headOf(head)
    if (head !== undefined && expected === null) throw invalid('head', 'must be <number>:<hash> of an entry')
    const maxMessages =
      limit === undefined ? defaultVerified : wholeNumber('limit', limit, { min: 1, max: maxVerified })
    const after = cursor === undefined ? null : chainPlace(cursor)
    if (verifying >= maxVerifying) throw new Rejected('http/too-many-requests', `${maxVerifying} are under way`)
    verifying++
    try {
      const { first, entries, head, broken, next } = await verifyAudit(bus, { expected, after, maxMessages })
      const cursor = next === null ? null : cursorOf(`${next.sequence}:${next.head.number}:${next.head.hash}`)
      if (cursor !== null) {
        const query = new URLSearchParams({
          limit: String(maxMessages),
          ...(expected && { head: headText(expected) }),
          cursor,
        })
        reply.header('Link', `</api/v1/audit/verify?${query}>; rel="next"`)
      }
      const firstBroken = broken && { number: broken.number, sequence: broken.sequence, reason: broken.reason }
      return {
        valid: broken === null,
        checked: entries,
        first,
        head: headText(head),
        firstBroken,
        complete: next === null,
        cursor,
      }
    } finally {
      verifying--
    }
  })
}

function headText({ number, hash }: AuditHead): string {
  return `${number}:${hash}`
}

/** @throws {Rejected} `http/bad-request` */
function chainPlace(cursor: string): ChainPlace {
  const [, sequence, noted] = /^(\d{1,15}):(.*)$/.exec(placeOfCursor(cursor)) ?? []
  const head = headOf(noted ?? '')
  if (sequence === undefined || head === null) throw invalid('cursor', 'was not made by this route')
  return { sequence: Number(sequence), head }
}

/** @throws {Rejected} `http/bad-request` */
function exportOf({ database }: WorkflowService, request: FastifyRequest, reply: FastifyReply): AsyncIterable<string> {
  const { format = 'ndjson', ...query } = queryOf(request, [...filters, 'format'])
  if (format !== 'csv' && format !== 'ndjson') throw invalid('format', 'must be csv or ndjson')
  reply
    .type(format === 'csv' ? 'text/csv; charset=utf-8' : 'application/x-ndjson; charset=utf-8')
    .header('Content-Disposition', `attachment; filename="audit.${format}"`)
  const pages = allAudit(database, filterOf(query))
  return format === 'csv' ? csvOf(pages) : ndjsonOf(pages)
}

async function* ndjsonOf(pages: AsyncIterable<readonly AuditRow[]>): AsyncGenerator<string> {
  for await (const rows of pages) yield rows.map((row) => `${JSON.stringify(row)}\n`).join('')
}

/** Source: RFC 4180. */
async function* csvOf(pages: AsyncIterable<readonly AuditRow[]>): AsyncGenerator<string> {
  yield `${columns.join(',')}\r\n`
  for await (const rows of pages) {
    yield rows.map((row) => `${columns.map((column) => cellOf(row[column])).join(',')}\r\n`).join('')
  }
}

function cellOf(value: string | number | null): string {
  const text = String(value ?? '')
  // A spreadsheet would take it for a formula.
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** @throws {Rejected} `http/bad-request` */
function filterOf(query: Readonly<Partial<Record<(typeof filters)[number], string>>>): AuditFilter {
  const { from, to, ...equal } = query
  if (equal.status !== undefined && !statuses.includes(equal.status)) {
    throw invalid('status', `must be one of ${statuses.join(', ')}`)
  }
  return {
    ...equal,
    ...(from !== undefined && { from: timeField('from', from) }),
    ...(to !== undefined && { to: timeField('to', to) }),
  }
}

/** Whoever has commanded something finds it. */
async function caughtUp({ bus, readable }: WorkflowService): Promise<void> {
  const last = await lastMessage(bus, auditPlace.stream, auditPlace.subject)
  if (last !== null) await readable(auditPlace.stream, last.seq)
}
