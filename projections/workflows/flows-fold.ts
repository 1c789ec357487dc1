import type { JsMsg } from '@nats-io/jetstream'
import { readMessage } from '../../bus/load.ts'
import { unescapeToken } from '../../bus/subject.ts'
import { flowEvents } from '../../schemas/workflows/flow.ts'
import type { ProjectionTarget } from '../projector.ts'
import { storableJson, storableText, storableTime } from '../storable.ts'

export const flowTables = `
create table flows (
  id text primary key,
  name text not null,
  namespace text not null,
  revision integer not null,
  yaml_content text not null,
  labels jsonb not null,
  enabled boolean not null default true,
  created_at timestamptz not null,
  created_by text not null,
  updated_at timestamptz not null,
  created_sequence bigint not null
);
create index on flows (namespace, name);
create table flow_revisions (
  flow_id text not null,
  revision integer not null,
  yaml_content text not null,
  created_at timestamptz not null,
  created_by text not null,
  restored_from integer,
  primary key (flow_id, revision)
);
`

const prefix = 'evt.workflows.flow.'

export async function applyFlows({ client, bus }: ProjectionTarget, messages: readonly JsMsg[]): Promise<void> {
  for (const message of messages) {
    if (!message.subject.startsWith(prefix)) continue
    const id = unescapeToken(message.subject.slice(prefix.length))
    const { facts } = await readMessage(bus, flowEvents, message)
    for (const { type, data } of facts) {
      if (type === 'workflows.flow.revised') {
        const { namespace, revision, plan } = data
        const [at, labels] = [storableTime(data.at), storableJson(plan.labels)]
        const [name, yamlContent, by] = [data.name, data.yamlContent, data.by].map(storableText)
        await client.query(upsertFlow, [id, name, namespace, revision, yamlContent, labels, at, by, message.seq])
        await client.query(insertRevision, [id, revision, yamlContent, at, by, data.restoredFrom ?? null])
      } else if (type === 'workflows.flow.enabled') {
        await client.query('update flows set enabled = $2 where id = $1', [id, data.enabled])
      } else {
        await client.query('delete from flows where id = $1', [id])
        await client.query('delete from flow_revisions where flow_id = $1', [id])
      }
    }
  }
}

const upsertFlow = `
insert into flows (id, name, namespace, revision, yaml_content, labels, created_at, updated_at, created_by, created_sequence)
values ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9)
on conflict (id) do update set name = excluded.name, namespace = excluded.namespace, revision = excluded.revision,
  yaml_content = excluded.yaml_content, labels = excluded.labels, updated_at = excluded.updated_at`

const insertRevision = `
insert into flow_revisions values ($1, $2, $3, $4, $5, $6) on conflict do nothing`
