import type pg from 'pg'
import type { Refusal } from '../../schemas/workflows/trigger.ts'
import type { TriggerType } from '../../schemas/workflows/trigger-plan.ts'
import { schemaOf } from '../projector.ts'
import type { Page } from './executions-read.ts'
import { workflowProjection } from './projection.ts'

/** A trigger in the list. Times are epoch ms. */
export interface TriggerRow {
  readonly id: string
  readonly flowId: string
  readonly name: string
  readonly type: TriggerType
  readonly enabled: boolean
  readonly config: Readonly<Record<string, unknown>>
  readonly inputs: Readonly<Record<string, unknown>>
  readonly declared: boolean
  readonly since: number
  readonly lastTick: number | null
  /** Why it last could not start an execution; null: it always could. */
  readonly lastRefusal: Refusal | null
  readonly last: LastExecution | null
  readonly createdAt: number
  readonly updatedAt: number
}

/** The execution that a trigger started last. */
export interface LastExecution {
  readonly id: string
  readonly status: string
  readonly error: string | null
  /** When it was created. */
  readonly at: number
}

export interface TriggerFilter {
  readonly namespace?: string
  readonly flowId?: string
  readonly type?: TriggerType
  readonly enabled?: boolean
  /** In the name. */
  readonly text?: string
}

const schema = schemaOf(workflowProjection)
const ms = (column: string) => `(extract(epoch from ${column}) * 1000)::float8`
const lastExecution = (id: string) =>
  `(select json_build_object('id', e.id, 'status', e.status, 'error', e.failure->>'message', 'at', ${ms('e.created_at')})
    from ${schema}.executions e where e.trigger ? 'id' and e.trigger->>'id' = ${id} order by e.created_at desc limit 1)`

/** Newest first. @param cursor `next` of the page before */
export async function listTriggers(
  database: pg.Pool,
  { namespace, flowId, type, enabled, text }: TriggerFilter,
  { limit, cursor }: { readonly limit: number; readonly cursor?: string },
): Promise<Page<TriggerRow>> {
  const from = `
    from ${schema}.triggers t where ($1::text is null or flow_id = $1) and ($2::text is null or type = $2)
      and ($3::boolean is null or enabled = $3) and ($4::text is null or name ilike $4)
      and ($5::text is null or exists (select 1 from ${schema}.flows f where f.id = t.flow_id and f.namespace = $5))`
  const pattern = text === undefined ? null : `%${text.replace(/[\\%_]/g, '\\$&')}%`
  const values = [flowId ?? null, type ?? null, enabled ?? null, pattern, namespace ?? null]
  const counted = database.query(`select count(*)::integer as total ${from}`, values)
  const found = database.query(
    `select id, flow_id as "flowId", name, type, enabled, config, inputs, declared, ${ms('since')} as since,
       ${ms('last_tick')} as "lastTick", last_refusal as "lastRefusal", ${lastExecution('t.id')} as last, ${ms('created_at')} as "createdAt",
       ${ms('updated_at')} as "updatedAt", created_sequence::text as sequence
     ${from} ${cursor === undefined ? '' : `and created_sequence < ${Number(cursor)}`}
     order by created_sequence desc limit ${limit + 1}`,
    values,
  )
  const [{ rows: totals }, { rows }] = await Promise.all([counted, found])
  const page = rows.slice(0, limit)
  const next = rows.length > limit ? (page.at(-1)!.sequence as string) : null
  return { rows: page.map(({ sequence: _, ...row }) => row), total: totals[0].total, next }
}

/** What a trigger has started last; null when it never has. */
export async function lastStarted(database: pg.Pool, triggerId: string): Promise<LastExecution | null> {
  const { rows } = await database.query(`select ${lastExecution('$1')} as last`, [triggerId])
  return rows[0].last
}
