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
  -- What lists show of those that are too large for them.
  brief_inputs jsonb,
  brief_outputs jsonb,
  brief_trigger jsonb,
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
  -- The place of the question among all that were asked.
  asked bigint,
  until timestamptz,
  scheduled_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  worker text,
  position bigint not null,
  primary key (execution_id, run)
);
create index on task_runs (asked) where asked is not null;
-- Of executions that have ended, so that nobody has to count them; the type is empty for the executions themselves.
create table ended_totals (
  type text not null,
  status text not null,
  total bigint not null,
  -- Of those that have begun.
  timed bigint not null,
  sum_seconds float8 not null,
  counts bigint[] not null,
  primary key (type, status)
);
`

/** Upper bounds of the counts of durations, seconds. */
export const durationBounds = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1_800, 3_600] as const

const countsOfDurations = durationBounds.map((bound) => `count(*) filter (where seconds <= ${bound})`).join(', ')
const sumsOfCounts = durationBounds
  .map((_, index) => `t.counts[${index + 1}] + excluded.counts[${index + 1}]`)
  .join(', ')

/** Adds executions, which have ended and change no more, and their tasks. */
export const addEnded = `
insert into ended_totals as t (type, status, total, timed, sum_seconds, counts)
select type, status, count(*), count(seconds), coalesce(sum(seconds), 0), array[${countsOfDurations}]
from (
  select '' as type, status, extract(epoch from finished_at - started_at) as seconds from executions where id = any($1)
  union all
  select task_type, status, extract(epoch from finished_at - started_at) from task_runs
  where execution_id = any($1) and task_type <> ''
) ended
group by type, status
on conflict (type, status) do update set total = t.total + excluded.total, timed = t.timed + excluded.timed,
  sum_seconds = t.sum_seconds + excluded.sum_seconds, counts = array[${sumsOfCounts}]`

const createdColumns = `id, flow_id, flow_name, namespace, revision, status, tasks_total, inputs, trigger, labels, actor, parent, origin,
  brief_inputs, brief_trigger, created_at, created_sequence`

export const insertCreated = `
insert into executions (${createdColumns}, last_sequence, last_at)
select ${createdColumns}, created_sequence, created_at
from json_populate_recordset(null::executions, $1)
on conflict (id) do nothing`

export const updateChanged = `
update executions e set
  status = case when c.status <> 'RESUMED' then c.status when c.status is null then e.status
    when coalesce(c.started_at, e.started_at) is null then 'QUEUED' else 'RUNNING' end,
  started_at = coalesce(c.started_at, e.started_at),
  finished_at = coalesce(c.finished_at, e.finished_at),
  outputs = coalesce(c.outputs, e.outputs),
  brief_outputs = coalesce(c.brief_outputs, e.brief_outputs),
  failure = coalesce(c.failure, e.failure),
  last_sequence = coalesce(c.last_sequence, e.last_sequence),
  last_at = coalesce(c.last_at, e.last_at),
  tasks_executed = case when e.id = any($2) then (
    select count(distinct task_name) from task_runs t where t.execution_id = e.id and t.status in ('SUCCESS', 'FAILED')
  ) else e.tasks_executed end
from json_populate_recordset(null::executions, $1) c
where e.id = c.id`

/** One that is scheduled begins anew: what its last attempt left is gone. */
const ofAttempt = ['outputs', 'failure', 'question', 'answer', 'asked', 'until', 'started_at', 'finished_at', 'worker']
  .map(
    (name) =>
      `${name} = case when excluded.scheduled_at is null then coalesce(excluded.${name}, t.${name}) else excluded.${name} end`,
  )
  .join(',\n  ')

export const upsertTasks = `
insert into task_runs as t (execution_id, run, task_name, task_type, status, attempt, outputs, failure, question, answer, asked, until,
  scheduled_at, started_at, finished_at, worker, position)
select execution_id, run, coalesce(task_name, run), coalesce(task_type, ''), status, coalesce(attempt, 1), outputs, failure, question,
  answer, asked, until, scheduled_at, started_at, finished_at, worker, position
from json_populate_recordset(null::task_runs, $1)
on conflict (execution_id, run) do update set
  status = coalesce(excluded.status, t.status),
  attempt = case when excluded.scheduled_at is null then t.attempt else excluded.attempt end,
  scheduled_at = coalesce(excluded.scheduled_at, t.scheduled_at),
  ${ofAttempt}`

/** What was live is cancelled, and what was never begun is skipped. */
export const endLive = `
update task_runs t set status = case when scheduled_at is null then 'SKIPPED' else 'CANCELLED' end, finished_at = e.at::timestamptz
from unnest($1::text[], $2::text[]) as e(id, at)
where t.execution_id = e.id and t.status in ('PENDING', 'RUNNING', 'WAITING')`
