import type pg from 'pg'
import { schemaOf } from '../projector.ts'
import type { Page } from './executions-read.ts'
import { workflowProjection } from './projection.ts'

/** An entry of the audit log, as the API shows it. */
export interface AuditRow {
  readonly id: string
  /** Its place in the chain. */
  readonly number: number
  /** RFC 3339, UTC. */
  readonly timestamp: string
  readonly username: string
  readonly role: string | null
  readonly action: string
  readonly resourceType: string
  readonly resourceId: string | null
  readonly status: 'SUCCESS' | 'FAILED' | 'DENIED'
  /** Of HTTP; null at the command line. */
  readonly statusCode: number | null
  readonly error: string | null
  readonly ip: string | null
  readonly requestId: string | null
  readonly hash: string
}

export interface AuditFilter {
  readonly username?: string
  /** `flow.create`, or `flow.*` for all of a kind. */
  readonly action?: string
  readonly resourceType?: string
  readonly resourceId?: string
  readonly status?: string
  readonly ip?: string
  readonly from?: Date
  readonly to?: Date
}

const schema = schemaOf(workflowProjection)

const where = `
  where ($1::text is null or lower(username) = lower($1)) and ($2::text is null or action = $2)
    and ($3::text is null or resource_type = $3) and ($4::text is null or resource_id = $4)
    and ($5::text is null or outcome = $5) and ($6::text is null or ip = $6)
    and ($7::timestamptz is null or at >= $7) and ($8::timestamptz is null or at < $8)`

function valuesOf({ username, action, resourceType, resourceId, status, ip, from, to }: AuditFilter): unknown[] {
  const kind = action?.endsWith('.*') === true ? action.slice(0, -2) : undefined
  const told = [
    username,
    kind === undefined ? action : undefined,
    kind ?? resourceType,
    resourceId,
    status,
    ip,
    from,
    to,
  ]
  return told.map((value) => value ?? null)
}

/** Newest first. @param cursor `next` of the page before */
export async function listAudit(
  database: pg.Pool,
  filter: AuditFilter,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string },
): Promise<Page<AuditRow>> {
  const counted = database.query(`select count(*)::integer as total from ${schema}.audit ${where}`, valuesOf(filter))
  const [{ rows: totals }, rows] = await Promise.all([
    counted,
    auditPage(database, filter, { limit: limit + 1, before: cursor }),
  ])
  const page = rows.slice(0, limit)
  const next = rows.length > limit ? String(page.at(-1)!.number) : null
  return { rows: page, total: totals[0].total, next }
}

/** All that a filter finds, newest first, in pages. */
export async function* allAudit(database: pg.Pool, filter: AuditFilter): AsyncGenerator<readonly AuditRow[]> {
  const limit = 1_000
  let before: string | undefined
  while (true) {
    const rows = await auditPage(database, filter, { limit, before })
    if (rows.length > 0) yield rows
    if (rows.length < limit) return
    before = String(rows.at(-1)!.number)
  }
}

async function auditPage(
  database: pg.Pool,
  filter: AuditFilter,
  { limit, before }: { readonly limit: number; readonly before: string | undefined },
): Promise<readonly AuditRow[]> {
  const { rows } = await database.query<AuditRow>(
    `select id, number::float8, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as timestamp, username, role, action,
       resource_type as "resourceType", resource_id as "resourceId", outcome as status, status_code as "statusCode", error, ip,
       request_id as "requestId", hash
     from ${schema}.audit ${where} ${before === undefined ? '' : `and number < ${Number(before)}`}
     order by number desc limit ${limit}`,
    valuesOf(filter),
  )
  return rows
}
