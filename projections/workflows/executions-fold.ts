import type { JsMsg } from '@nats-io/jetstream'
import { readMessage } from '../../bus/load.ts'
import { unescapeToken } from '../../bus/subject.ts'
import { type ExecutionFact, executionEvents } from '../../schemas/workflows/execution-facts.ts'
import type { ProjectionTarget } from '../projector.ts'

export const executionTables = `
create table executions (
  id text primary key,
  flow_id text not null,
  flow_name text not null,
  namespace text not null,
  revision integer not null,
  status text not null,
  tasks_total integer not null,
  tasks_executed integer not null default 0,
  inputs jsonb not null,
  outputs jsonb,
  failure jsonb,
  trigger jsonb not null,
  labels jsonb not null,
  actor text not null,
  parent jsonb,
  origin jsonb,
  created_at timestamptz not null,
  started_at timestamptz,
  finished_at timestamptz,
  created_sequence bigint not null,
  last_sequence bigint not null,
  last_at timestamptz not null
);
create index on executions (created_sequence desc);
create index on executions (flow_id, created_sequence desc);
create index on executions (namespace, created_sequence desc);
create index on executions (status, created_sequence desc);
create index on executions (last_at) where finished_at is null;
create table task_runs (
  execution_id text not null,
  run text not null,
  task_name text not null,
  task_type text not null,
  status text not null,
  attempt integer not null,
  outputs jsonb,
  failure jsonb,
  question jsonb,
  answer jsonb,
  until timestamptz,
  scheduled_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  worker text,
  position bigint not null,
  primary key (execution_id, run)
);
create index on task_runs (question) where question is not null and answer is null;
`

/** Columns of \`executions\` that a message changes; absent: stays as it is. */
type ExecutionRow = Record<string, unknown> & { readonly id: string }
type TaskRow = Record<string, unknown> & { execution_id: string; run: string; reset: boolean }

/** What the facts of many messages come to, so that each row is written once. */
export interface ExecutionRows {
  readonly created: Map<string, ExecutionRow>
  readonly changed: Map<string, ExecutionRow>
  readonly tasks: Map<string, TaskRow>
  /** Executions whose live tasks are cancelled with their end. */
  readonly ended: Map<string, string>
  /** Executions that one more task of may have run to its end. */
  readonly counted: Set<string>
}

export async function applyExecutions({ client, bus }: ProjectionTarget, messages: readonly JsMsg[]): Promise<void> {
  const rows: ExecutionRows = {
    created: new Map(),
    changed: new Map(),
    tasks: new Map(),
    ended: new Map(),
    counted: new Set(),
  }
  for (const message of messages) {
    const id = unescapeToken(message.subject.split('.').at(-1)!)
    const { facts } = await readMessage(bus, executionEvents, message)
    for (const [index, fact] of facts.entries()) foldFact(rows, id, fact, message.seq, index)
    const row = changedRow(rows, id)
    row.last_sequence = message.seq
    row.last_at = new Date(Math.floor(message.info.timestampNanos / 1e6)).toISOString()
  }
  await write(client, rows)
}

/** Adds one fact. Pure but for the rows it is given. */
function foldFact(rows: ExecutionRows, id: string, fact: ExecutionFact, sequence: number, index: number): void {
  const row = changedRow(rows, id)
  switch (fact.type) {
    case 'executions.execution.created': {
      const { data } = fact
      rows.created.set(id, {
        id,
        flow_id: data.flowId,
        flow_name: data.flowName,
        namespace: data.namespace,
        revision: data.revision,
        status: 'QUEUED',
        tasks_total: data.tasksTotal,
        inputs: data.inputs,
        trigger: data.trigger,
        labels: data.labels,
        actor: data.actor,
        parent: data.parent ?? null,
        origin: data.origin ?? null,
        created_at: time(data.at),
        created_sequence: sequence,
      })
      return
    }
    case 'executions.execution.started':
      Object.assign(row, { status: 'RUNNING', started_at: time(fact.data.at) })
      return
    case 'executions.execution.paused':
      row.status = 'PAUSED'
      return
    case 'executions.execution.resumed':
      row.status = 'RUNNING'
      return
    case 'executions.execution.end-requested':
      row.status = 'RUNNING'
      return
    case 'executions.execution.ended': {
      const { status, at, outputs = null, failure = null } = fact.data
      Object.assign(row, { status: publicStatus(status), finished_at: time(at), outputs, failure })
      rows.ended.set(id, time(at))
      endTasks(rows, id, time(at))
      return
    }
    case 'executions.execution.slot-requested':
    case 'executions.execution.sla-missed':
    case 'executions.task.claimed':
    case 'executions.task.entered':
    case 'executions.task.iteration-started':
    case 'executions.task.iteration-ended':
    case 'executions.task.late-result':
      return
    default:
      foldTask(rows, id, fact, sequence * 1_000 + index)
  }
}

type TaskFact = Exclude<
  Extract<ExecutionFact, { type: `executions.task.${string}` }>,
  {
    type:
      | 'executions.task.claimed'
      | 'executions.task.entered'
      | 'executions.task.iteration-started'
      | 'executions.task.iteration-ended'
      | 'executions.task.late-result'
  }
>

function foldTask(rows: ExecutionRows, id: string, fact: TaskFact, position: number): void {
  const { run } = fact.data
  if (run.startsWith('$')) return
  const row = taskRow(rows, id, run, position)
  switch (fact.type) {
    case 'executions.task.scheduled': {
      const { task, type, attempt, at, lease } = fact.data
      const status = lease === null ? 'PENDING' : 'RUNNING'
      if (attempt > 1) Object.assign(row, { reset: true, finished_at: null, failure: null, outputs: null })
      Object.assign(row, { task_name: task, task_type: type, status, attempt, scheduled_at: time(at) })
      return
    }
    case 'executions.task.opened': {
      const { opening, startedAt } = fact.data
      const waits = opening.kind === 'pause' || (opening.kind === 'child' && opening.wait)
      Object.assign(row, { status: waits ? 'WAITING' : 'RUNNING', started_at: time(startedAt) })
      if (opening.kind === 'pause') {
        Object.assign(row, { question: opening.question, until: opening.until === null ? null : time(opening.until) })
      }
      return
    }
    case 'executions.task.succeeded': {
      const { outputs, startedAt, at, worker = null } = fact.data
      Object.assign(row, { status: 'SUCCESS', outputs, started_at: time(startedAt), finished_at: time(at), worker })
      rows.counted.add(id)
      return
    }
    case 'executions.task.failed': {
      const { failure, startedAt, at, retryAt, worker = null } = fact.data
      const status = retryAt === null ? 'FAILED' : 'WAITING'
      Object.assign(row, { status, failure, started_at: time(startedAt), worker })
      if (retryAt === null) row.finished_at = time(at)
      rows.counted.add(id)
      return
    }
    case 'executions.task.skipped': {
      const { task, type, at } = fact.data
      Object.assign(row, { task_name: task, task_type: type, status: 'SKIPPED', finished_at: time(at) })
      return
    }
    case 'executions.task.cancelled':
      Object.assign(row, { status: 'CANCELLED', finished_at: time(fact.data.at) })
      return
    case 'executions.task.question-answered': {
      const { answer, by, comment, at } = fact.data
      row.answer = { answer, by, comment, at: time(at) }
      // Until it is decided what follows.
      row.status ??= 'WAITING'
      return
    }
    default:
      fact satisfies never
  }
}

const live = new Set(['PENDING', 'RUNNING', 'WAITING'])

function endTasks(rows: ExecutionRows, id: string, at: string): void {
  for (const row of rows.tasks.values()) {
    if (row.execution_id === id && live.has(String(row.status))) {
      Object.assign(row, { status: 'CANCELLED', finished_at: at })
    }
  }
}

function changedRow({ changed }: ExecutionRows, id: string): ExecutionRow & Record<string, unknown> {
  const known = changed.get(id)
  if (known !== undefined) return known
  const row = { id }
  changed.set(id, row)
  return row
}

function taskRow({ tasks }: ExecutionRows, id: string, run: string, position: number): TaskRow {
  const key = `${id}/${run}`
  const known = tasks.get(key)
  if (known !== undefined) return known
  const row: TaskRow = { execution_id: id, run, reset: false, position }
  tasks.set(key, row)
  return row
}

/** As the specification writes it. */
function publicStatus(status: 'success' | 'failed' | 'cancelled' | 'timed-out'): string {
  return status === 'timed-out' ? 'TIMED_OUT' : status.toUpperCase()
}

function time(at: number): string {
  return new Date(at).toISOString()
}

async function write(client: ProjectionTarget['client'], rows: ExecutionRows): Promise<void> {
  const json = (values: Iterable<unknown>) => JSON.stringify([...values])
  if (rows.created.size > 0) await client.query(insertCreated, [json(rows.created.values())])
  if (rows.tasks.size > 0) await client.query(upsertTasks, [json(rows.tasks.values())])
  if (rows.ended.size > 0) {
    await client.query(cancelLive, [[...rows.ended.keys()], [...rows.ended.values()]])
  }
  await client.query(updateChanged, [json(rows.changed.values()), [...rows.counted]])
}

const createdColumns =
  'id, flow_id, flow_name, namespace, revision, status, tasks_total, inputs, trigger, labels, actor, parent, origin, created_at, created_sequence'

const insertCreated = `
insert into executions (${createdColumns}, last_sequence, last_at)
select ${createdColumns}, created_sequence, created_at
from json_populate_recordset(null::executions, $1)
on conflict (id) do nothing`

const updateChanged = `
update executions e set
  status = coalesce(c.status, e.status),
  started_at = coalesce(c.started_at, e.started_at),
  finished_at = coalesce(c.finished_at, e.finished_at),
  outputs = coalesce(c.outputs, e.outputs),
  failure = coalesce(c.failure, e.failure),
  last_sequence = coalesce(c.last_sequence, e.last_sequence),
  last_at = coalesce(c.last_at, e.last_at),
  tasks_executed = case when e.id = any($2) then (
    select count(distinct task_name) from task_runs t where t.execution_id = e.id and t.status in ('SUCCESS', 'FAILED')
  ) else e.tasks_executed end
from json_populate_recordset(null::executions, $1) c
where e.id = c.id`

const upsertTasks = `
insert into task_runs as t (execution_id, run, task_name, task_type, status, attempt, outputs, failure, question, answer, until,
  scheduled_at, started_at, finished_at, worker, position)
select execution_id, run, coalesce(task_name, run), coalesce(task_type, ''), status, coalesce(attempt, 1), outputs, failure, question,
  answer, until, scheduled_at, started_at, finished_at, worker, position
from json_to_recordset($1) as r(execution_id text, run text, task_name text, task_type text, status text, attempt integer,
  outputs jsonb, failure jsonb, question jsonb, answer jsonb, until timestamptz, scheduled_at timestamptz, started_at timestamptz,
  finished_at timestamptz, worker text, position bigint, reset boolean)
on conflict (execution_id, run) do update set
  status = coalesce(excluded.status, t.status),
  attempt = greatest(excluded.attempt, t.attempt),
  outputs = coalesce(excluded.outputs, t.outputs),
  failure = coalesce(excluded.failure, t.failure),
  question = coalesce(excluded.question, t.question),
  answer = coalesce(excluded.answer, t.answer),
  until = coalesce(excluded.until, t.until),
  scheduled_at = coalesce(excluded.scheduled_at, t.scheduled_at),
  started_at = coalesce(excluded.started_at, t.started_at),
  finished_at = case when excluded.status in ('PENDING', 'RUNNING', 'WAITING') then excluded.finished_at
    else coalesce(excluded.finished_at, t.finished_at) end,
  worker = coalesce(excluded.worker, t.worker)`

const cancelLive = `
update task_runs t set status = 'CANCELLED', finished_at = e.at::timestamptz
from unnest($1::text[], $2::text[]) as e(id, at)
where t.execution_id = e.id and t.status in ('PENDING', 'RUNNING', 'WAITING')`
