import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { isUnderWay } from '../../schemas/provisioning/operation.ts'
import { bodyOf, invalid, queryOf } from '../http/request.ts'
import { askOf, existing, operate } from './operations.ts'
import { type ByProject, choiceField, flagField, textField, waitOf } from './request.ts'
import type { ProvisioningService } from './service.ts'

interface Snapshot {
  readonly id: string
  readonly size: number
  readonly sha256: string
  readonly filePath: string
  readonly createdAt: string
}

interface BySnapshot {
  readonly Params: { readonly projectId: string; readonly snapshotId: string }
}

const formats = ['custom', 'plain', 'directory', 'tar'] as const
const maxTables = 100
/** Small databases are exported within the answer. */
const standardWaitSeconds = 30
const chunkBytes = 768 * 1024

/** Exports of an instance's database: made, listed, downloaded (also in parts), deleted. */
export function snapshotRoutes(app: FastifyInstance, service: ProvisioningService): void {
  app.post<ByProject>('/api/provision/:projectId/snapshot/export', async (request, reply) => {
    const { projectId } = request.params
    const { format = 'custom', schemaOnly = false, tables, excludeTables } = bodyOf(request, members)
    const wanted = {
      snapshotId: newId(projectId, service.now()),
      format: choiceField('format', format, formats),
      schemaOnly: flagField('schemaOnly', schemaOnly),
      ...(tables !== undefined && { tables: tableNames('tables', tables) }),
      ...(excludeTables !== undefined && { excludeTables: tableNames('excludeTables', excludeTables) }),
    }
    const seconds = waitOf(queryOf(request, ['wait']), standardWaitSeconds)
    const settled = await operate(
      service,
      { request, reply },
      projectId,
      { type: 'SNAPSHOT', request: wanted },
      seconds,
    )
    const { id, type, state } = settled
    const operation = { id, type, state }
    if (!isUnderWay(settled)) return { ...settled.result, operation }
    const { snapshotId } = wanted
    return reply.code(202).send({ id: snapshotId, ...wanted, projectId, status: 'IN_PROGRESS', operation })
  })
  app.get<ByProject>('/api/provision/:projectId/snapshot', async (request) => {
    return await askOf<readonly object[]>(service, request.params.projectId, 'snapshots')
  })
  app.get<BySnapshot>('/api/provision/:projectId/snapshot/:snapshotId/download', async (request, reply) => {
    return await download(service, request, reply)
  })
  app.delete<BySnapshot>('/api/provision/:projectId/snapshot/:snapshotId', async (request) => {
    const { projectId, snapshotId } = request.params
    await askOf(service, projectId, 'delete-snapshot', { snapshotId })
    return { status: 'deleted', snapshotId }
  })
}

const members = ['format', 'schemaOnly', 'tables', 'excludeTables']

/** Ours, so that a repetition after a kill exports under the same one; two within a second differ by their milliseconds. */
function newId(projectId: string, now: number): string {
  const digits = new Date(now).toISOString().replace(/\D/g, '')
  return `${projectId}-${digits.slice(0, 8)}-${digits.slice(8)}`
}

function tableNames(field: string, value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length > maxTables)
    throw invalid(field, `must be a list of at most ${maxTables} names`)
  return value.map((name, index) => textField(`${field}[${index}]`, name, { max: 127 }))
}

async function download(service: ProvisioningService, request: FastifyRequest<BySnapshot>, reply: FastifyReply) {
  const { projectId, snapshotId } = request.params
  existing(service, projectId)
  const { id, size, sha256, filePath, createdAt } = await askOf<Snapshot>(service, projectId, 'snapshot', {
    snapshotId,
  })
  const range = rangeOf(request.headers.range, size)
  const known = request.headers['if-none-match'] === `"${sha256}"`
  if (range === 'unsatisfiable' && !known) {
    reply.header('Content-Range', `bytes */${size}`)
    const details = { field: 'Range', reason: `must begin before ${size}` }
    throw new Rejected('provisioning/range-not-satisfiable', 'The snapshot has no such part', { details })
  }
  reply
    .type('application/octet-stream')
    .header('ETag', `"${sha256}"`)
    .header('X-Checksum-Sha256', sha256)
    .header('Last-Modified', new Date(createdAt).toUTCString())
    .header('Content-Disposition', `attachment; filename="${filePath}"`)
    .header('Accept-Ranges', 'bytes')
  if (known || range === 'unsatisfiable') return reply.code(304).send()
  const { from, to } = range ?? { from: 0, to: size - 1 }
  reply.header('Content-Length', String(to - from + 1))
  if (range !== null) reply.code(206).header('Content-Range', `bytes ${from}-${to}/${size}`)
  return reply.send(Readable.from(bytes(service, projectId, { snapshotId: id, from, to })))
}

async function* bytes(
  service: ProvisioningService,
  projectId: string,
  { snapshotId, from, to }: { readonly snapshotId: string; readonly from: number; readonly to: number },
): AsyncGenerator<Buffer> {
  for (let offset = from; offset <= to; ) {
    const length = Math.min(chunkBytes, to - offset + 1)
    const chunk = Buffer.from(
      await askOf<string>(service, projectId, 'snapshot-bytes', { snapshotId, offset, length }),
      'base64',
    )
    if (chunk.length === 0) throw new Error('The snapshot ended before its size')
    yield chunk
    offset += chunk.length
  }
}

/** One range, as browsers and resuming downloads send it; null for none or several. Source: RFC 9110, section 14. */
function rangeOf(header: string | undefined, size: number): { from: number; to: number } | 'unsatisfiable' | null {
  const found = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '')
  if (found === null || (found[1] === '' && found[2] === '')) return null
  const [, first = '', last = ''] = found
  const from = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const to = first === '' || last === '' ? size - 1 : Math.min(size - 1, Number(last))
  return from > to ? 'unsatisfiable' : { from, to }
}
