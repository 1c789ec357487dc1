import type { JsMsg } from '@nats-io/jetstream'
import { readMessage } from '../../bus/load.ts'
import { unescapeToken } from '../../bus/subject.ts'
import { triggerEvents } from '../../schemas/workflows/trigger.ts'
import type { ProjectionTarget } from '../projector.ts'
import { storableJson, storableText, storableTime } from '../storable.ts'

export const triggerTables = `
create table triggers (
  id text primary key,
  flow_id text not null,
  name text not null,
  type text not null,
  enabled boolean not null,
  config jsonb not null,
  inputs jsonb not null,
  declared boolean not null,
  since timestamptz not null,
  last_tick timestamptz,
  last_refusal jsonb,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  created_sequence bigint not null
);
create index on triggers (flow_id);
create index on executions ((trigger->>'id'), created_at desc) where trigger ? 'id';
`

const prefix = 'evt.workflows.trigger.'

export async function applyTriggers({ client, bus }: ProjectionTarget, messages: readonly JsMsg[]): Promise<void> {
  for (const message of messages) {
    if (!message.subject.startsWith(prefix)) continue
    const id = unescapeToken(message.subject.slice(prefix.length))
    const { facts } = await readMessage(bus, triggerEvents, message)
    for (const fact of facts) {
      switch (fact.type) {
        case 'workflows.trigger.saved': {
          const { flowId, type, enabled, declared, at } = fact.data
          const name = storableText(fact.data.name)
          const [config, inputs] = [storableJson(fact.data.config), storableJson(fact.data.inputs)]
          const values = [id, flowId, name, type, enabled, config, inputs, declared, storableTime(at), message.seq]
          await client.query(upsert, values)
          break
        }
        case 'workflows.trigger.enabled': {
          const { enabled, at } = fact.data
          const values = [id, enabled, storableTime(at)]
          await client.query('update triggers set enabled = $2, since = $3, updated_at = $3 where id = $1', values)
          break
        }
        case 'workflows.trigger.fired':
          await client.query('update triggers set last_tick = $2 where id = $1', [id, storableTime(fact.data.tick)])
          break
        case 'workflows.trigger.refused': {
          const { triggerId: _, ...refusal } = fact.data
          await client.query('update triggers set last_refusal = $2 where id = $1', [id, storableJson(refusal)])
          break
        }
        case 'workflows.trigger.deleted':
          await client.query('delete from triggers where id = $1', [id])
          break
        case 'workflows.trigger.resealed':
          break
        default:
          fact satisfies never
      }
    }
  }
}

/** Its times begin anew when they may have changed, as in the aggregate. */
const upsert = `
insert into triggers (id, flow_id, name, type, enabled, config, inputs, declared, since, created_at, updated_at, created_sequence)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $9, $10)
on conflict (id) do update set flow_id = excluded.flow_id, name = excluded.name, type = excluded.type, enabled = excluded.enabled,
  config = excluded.config, inputs = excluded.inputs, declared = excluded.declared, updated_at = excluded.updated_at,
  since = case when (triggers.type, triggers.enabled, triggers.config) = (excluded.type, excluded.enabled, excluded.config)
    then triggers.since else excluded.since end,
  last_tick = case when (triggers.type, triggers.enabled, triggers.config) = (excluded.type, excluded.enabled, excluded.config)
    then triggers.last_tick end`
