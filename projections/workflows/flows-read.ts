import type pg from 'pg'
import { schemaOf } from '../projector.ts'
import type { Page } from './executions-read.ts'
import { workflowProjection } from './projection.ts'

/** The text of a flow, or of a list how large it is where it is too large for that. */
export interface YamlOf {
  readonly yamlContent: string | null
  readonly truncated?: true
  readonly sizeBytes?: number
}

/** A flow in the list. Times are RFC 3339, UTC. */
export interface FlowRecord extends YamlOf {
  readonly id: string
  readonly name: string
  readonly namespace: string
  readonly revision: number
  readonly labels: Readonly<Record<string, string>>
  readonly enabled: boolean
  readonly createdAt: string
  readonly createdBy: string
  readonly updatedAt: string
}

export interface RevisionRecord extends YamlOf {
  readonly flowId: string
  readonly revision: number
  readonly createdAt: string
  readonly createdBy: string
  readonly restoredFrom: number | null
}

export interface FlowFilter {
  readonly namespace?: string
  readonly enabled?: boolean
  readonly labels?: Readonly<Record<string, string>>
  /** In the name or the YAML. */
  readonly text?: string
}

const schema = schemaOf(workflowProjection)
const iso = (column: string) => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

const maxListedBytes = 16 * 1024
const listedYaml = `
  case when octet_length(yaml_content) <= ${maxListedBytes} then yaml_content end as "yamlContent",
  octet_length(yaml_content) as "sizeBytes"`

/** Newest first. @param cursor `next` of the page before */
export async function listFlows(
  database: pg.Pool,
  { namespace, enabled, labels, text }: FlowFilter,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string },
): Promise<Page<FlowRecord>> {
  const where = `
    where ($1::text is null or namespace = $1) and ($2::boolean is null or enabled = $2)
      and ($3::jsonb is null or labels @> $3) and ($4::text is null or name ilike $4 or yaml_content ilike $4)`
  const pattern = text === undefined ? null : `%${text.replace(/[\\%_]/g, '\\$&')}%`
  const values = [namespace ?? null, enabled ?? null, labels === undefined ? null : JSON.stringify(labels), pattern]
  const counted = database.query(`select count(*)::integer as total from ${schema}.flows ${where}`, values)
  const found = database.query<FlowRecord & { readonly sizeBytes: number; readonly sequence: string }>(
    `select id, name, namespace, revision, ${listedYaml}, labels, enabled, ${iso('created_at')} as "createdAt",
       created_by as "createdBy", ${iso('updated_at')} as "updatedAt", created_sequence::text as sequence
     from ${schema}.flows ${where} ${cursor === undefined ? '' : `and created_sequence < ${Number(cursor)}`}
     order by created_sequence desc limit ${limit + 1}`,
    values,
  )
  const [{ rows: totals }, { rows }] = await Promise.all([counted, found])
  const page = rows.slice(0, limit)
  const next = rows.length > limit ? page.at(-1)!.sequence : null
  return { rows: page.map(({ sequence: _, ...row }) => shownYaml(row)), total: totals[0].total, next }
}

/** Newest first; none of a flow that is deleted. @param cursor `next` of the page before */
export async function listRevisions(
  database: pg.Pool,
  flowId: string,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string },
): Promise<Page<RevisionRecord>> {
  const where = `from ${schema}.flow_revisions where flow_id = $1`
  const counted = database.query(`select count(*)::integer as total ${where}`, [flowId])
  const found = database.query<RevisionRecord & { readonly sizeBytes: number }>(
    `select flow_id as "flowId", revision, ${listedYaml}, ${iso('created_at')} as "createdAt",
       created_by as "createdBy", restored_from as "restoredFrom"
     ${where} ${cursor === undefined ? '' : `and revision < ${Number(cursor)}`} order by revision desc limit ${limit + 1}`,
    [flowId],
  )
  const [{ rows: totals }, { rows }] = await Promise.all([counted, found])
  const page = rows.slice(0, limit)
  const next = rows.length > limit ? String(page.at(-1)!.revision) : null
  return { rows: page.map(shownYaml), total: totals[0].total, next }
}

function shownYaml<Row extends YamlOf>({ sizeBytes, ...rest }: Row & { readonly sizeBytes: number }) {
  return rest.yamlContent === null ? { ...rest, truncated: true as const, sizeBytes } : rest
}
