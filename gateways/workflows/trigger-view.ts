import type { LastExecution, TriggerRow } from '../../projections/workflows/triggers-read.ts'
import { mayAct } from '../../schemas/workflows/role.ts'
import type { SavedTrigger } from '../../schemas/workflows/trigger.ts'
import { nextTriggerTick } from '../../schemas/workflows/trigger-ticks.ts'
import type { Principal } from './auth-principal.ts'

/** A trigger as the API has it. Who may not change it does not see the key that fires it. */
export function shownTrigger(row: TriggerRow, { role }: Principal, now: number) {
  const { id, flowId, name, type, enabled, config, inputs, declared, since, lastTick, lastRefusal, last } = row
  const { key, ...open } = config
  const saved = { triggerId: id, flowId, name, type, enabled, config, inputs, declared, by: '', at: since }
  const next = enabled ? nextTriggerTick({ saved, since }, Math.max(now, lastTick ?? 0)) : null
  return {
    id,
    flowId,
    type,
    name,
    enabled,
    config: key === undefined || !mayAct(role, 'editor') ? open : { key, ...open },
    inputs,
    declared,
    lastFiredAt: iso(last?.at ?? null),
    lastExecution: last === null ? null : { id: last.id, status: last.status, error: last.error },
    lastRefusal:
      lastRefusal === null ? null : { at: iso(lastRefusal.at), code: lastRefusal.code, error: lastRefusal.message },
    nextFireAt: iso(next),
    createdAt: iso(row.createdAt),
    updatedAt: iso(row.updatedAt),
  }
}

export function rowOf(
  { saved, enabled, since, lastTick, lastRefusal, createdAt, updatedAt }: SavedTrigger,
  last: LastExecution | null,
): TriggerRow {
  const { triggerId: id, flowId, name, type, config, inputs, declared } = saved
  return {
    id,
    flowId,
    name,
    type,
    enabled,
    config,
    inputs,
    declared,
    since,
    lastTick,
    lastRefusal: lastRefusal ?? null,
    last,
    createdAt,
    updatedAt,
  }
}

function iso(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}
