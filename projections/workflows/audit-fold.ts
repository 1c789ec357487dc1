import type { JsMsg } from '@nats-io/jetstream'
import { readMessage } from '../../bus/load.ts'
import { auditEvents } from '../../schemas/workflows/audit.ts'
import type { ProjectionTarget } from '../projector.ts'
import { storableJson, storableTime } from '../storable.ts'

export const auditTables = `
create table audit (
  number bigint primary key,
  id text not null,
  at timestamptz not null,
  username text not null,
  role text,
  action text not null,
  resource_type text not null,
  resource_id text,
  outcome text not null,
  status_code integer,
  error text,
  ip text,
  request_id text,
  hash text not null
);
create index on audit (lower(username), number desc);
create index on audit (resource_type, resource_id, number desc);
create index on audit (action, number desc);
create index on audit (at);
`

export async function applyAudit({ client, bus }: ProjectionTarget, messages: readonly JsMsg[]): Promise<void> {
  const rows: unknown[] = []
  for (const message of messages) {
    const { facts } = await readMessage(bus, auditEvents, message)
    for (const { data } of facts) rows.push({ ...data, at: storableTime(data.at) })
  }
  if (rows.length > 0) await client.query(insert, [storableJson(rows)])
}

const insert = `
insert into audit
select number, id, at, username, role, action, "resourceType", "resourceId", outcome, "statusCode", error, ip, "requestId", hash
from jsonb_to_recordset($1::jsonb) as entry (number bigint, id text, at timestamptz, username text, role text, action text,
  "resourceType" text, "resourceId" text, outcome text, "statusCode" integer, error text, ip text, "requestId" text, hash text)
on conflict (number) do nothing`
