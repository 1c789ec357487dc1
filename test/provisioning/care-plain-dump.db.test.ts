import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { PostgresNode } from '../../workers/provisioning/local/postgres-node.ts'
import { withSession } from '../../workers/provisioning/local/postgres-session.ts'
import { findTool } from '../../workers/provisioning/local/postgres-tools.ts'
import { dumpPlain } from '../../workers/provisioning/local/snapshots/plain-dump.ts'
import { exportSnapshot } from '../../workers/provisioning/local/snapshots/postgres-snapshot.ts'
import { snapshotFile } from '../../workers/provisioning/local/snapshots/snapshot-record.ts'
import { careGround } from './care-node.ts'
import { debianPostgres } from './debian-postgres.ts'

t.setTimeout(240_000)
const ground = careGround(t)
const node = await ground.create('shop')
const run = <T>(on: PostgresNode, sql: string) =>
  withSession(on, async (client) => (await client.query(sql)).rows as T[], { user: node.superuser })
const psql = join(await debianPostgres(), 'psql')
let files = 0
const dump = async (on: PostgresNode, plan: object = {}) => {
  const file = join(ground.folder, `${++files}.sql`)
  await dumpPlain(on, { schemaOnly: false, tables: [], excludeTables: [], ...plan }, file)
  return { file, text: readFileSync(file, 'utf8') }
}

await run(node, `
  create schema "Odd Name"; create extension hstore; create extension pg_trgm schema "Odd Name";
  create type mood as enum ('sad', 'it''s ok', 'happy'); create domain percent as int not null default 5 check (value between 0 and 100);
  create type pair as (a int, b text); create type span as range (subtype = date);
  create function half(n int) returns int language sql immutable as 'select n / 2';
  create table "Odd Name"."It em" (
    id int generated always as identity (start with 10), code serial, mood mood default 'sad', part percent, p pair, tags text[] default '{}', props hstore,
    amount numeric(10, 2) not null check (amount > 0), halved int generated always as (half(10)) stored, doc jsonb, at timestamptz default now(), bytes bytea, note text collate "C",
    primary key (id), unique (code, mood));
  insert into "Odd Name"."It em" (amount, tags, props, doc, p, bytes, note)
    select g, array['a', 'b\\c'], 'x=>1', '{"a": "tab\\tnew"}', row(g, 'x'::text)::pair, '\\x00ff', E'line\\nbreak\\ttab\\\\. ' || g from generate_series(1, 300) g;
  create table child (id int primary key, item int references "Odd Name"."It em" (id) on delete cascade deferrable, parent int);
  alter table child add foreign key (parent) references child (id);
  insert into child values (1, 10, 2), (2, null, 1);
  create table log (at date not null, n int, primary key (at, n)) partition by range (at);
  create table log_1 partition of log for values from ('2026-01-01') to ('2026-02-01'); create table log_rest partition of log default;
  insert into log values ('2026-01-05', 1), ('2025-01-05', 2);
  create index log_n on log (n); create index "by part" on "Odd Name"."It em" (part desc, lower(note)) where amount > 5;
  create table base (a int); create table derived (b text default 'x') inherits (base); insert into derived values (1, 'y');
  create view cheap as select id, amount from "Odd Name"."It em" where amount < 10; create view cheaper as select * from cheap where amount < 5;
  create materialized view totals as select count(*) as n, sum(amount) as total from cheap; create unique index on totals (n);
  create function cheap_count() returns bigint language sql begin atomic select count(*) from cheap; end;
  create function stamp() returns trigger language plpgsql as $f$ begin new.note := coalesce(new.note, 'none; $$'); return new; end $f$;
  create trigger stamp before insert on "Odd Name"."It em" for each row execute function stamp();
  create procedure tidy() language plpgsql as 'begin delete from child; end';
  alter table child enable row level security; create policy mine on child for select using (id > 1);
  create rule quiet as on delete to base do instead nothing; create statistics both_of on n, at from log; alter table child replica identity full;
  comment on table child is 'it''s a child'; comment on column child.item is 'which';
  create sequence counter increment by 5; select nextval('counter'), nextval('counter');
  create function typed(c child) returns int language sql as 'select c.id'; create table uses (c child, m mood[]);
`) // biome-ignore format: one script

t.test('a dump of our own loads, and what was loaded dumps the same', async (t) => {
  const { file, text } = await dump(node)
  await run(node, 'create database copy')
  const copy = { ...node, database: 'copy' }
  const load = (database: string, path: string) =>
    execFileSync(
      psql,
      [
        '-X',
        '-q',
        '-1',
        '-v',
        'ON_ERROR_STOP=1',
        '-h',
        '127.0.0.1',
        '-p',
        String(node.port),
        '-U',
        node.superuser.user,
        '-d',
        database,
        '-f',
        path,
      ],
      { env: { PGPASSWORD: node.superuser.password, LC_ALL: 'C' }, stdio: 'pipe' },
    )
  load('copy', file)
  const sorted = (sql: string) => sql.split('\n').sort()
  t.strictSame(sorted((await dump(copy)).text), sorted(text))
  for (const sql of [
    'select md5(string_agg(i::text, \'|\' order by id)) as v from "Odd Name"."It em" i', 'select count(*) as v from derived', 'select total as v from totals', 'select cheap_count() as v',
    'select tableoid::regclass::text as v from log order by n limit 1', "select nextval('counter') as v", 'select count(*) as v from child', 'select count(*) as v from cheaper',
  ]) t.strictSame(await run(copy, sql), await run(node, sql), sql) // biome-ignore format: a list
  await run(copy, 'insert into "Odd Name"."It em" (amount) values (7)')
  t.match(
    await run(copy, 'select id, code, note from "Odd Name"."It em" order by id desc limit 1'),
    [{ id: 310, code: 301, note: 'none; $$' }],
    'counters go on, triggers run',
  )
  await t.rejects(run(copy, 'insert into child values (5, 999, null); '), { message: /foreign key/ })

  await run(node, 'create database structure')
  const schema = await dump(node, { schemaOnly: true })
  t.notMatch(schema.text, /copy .* from stdin/)
  load('structure', schema.file)
  t.match(await run({ ...node, database: 'structure' }, 'select count(*)::int as n from child'), [{ n: 0 }])
  const one = await dump(node, { tables: ['public.base', 'child'] })
  t.match(one.text, /create table public\.child/)
  t.notMatch(one.text, /It em" \(id|create view/)
  t.notMatch((await dump(node, { excludeTables: ['derived'] })).text, /create table public.derived|copy public.derived/)
  await t.rejects(dump(node, { tables: ['nowhere'] }), { status: 400, field: 'tables', message: /does not exist/ })
})

t.test('where there is no pg_dump for the server, a snapshot is plain unless asked otherwise', async (t) => {
  const request = { projectId: 'shop', snapshotsFolder: join(ground.folder, 'snapshots') }
  const without = findTool(node, 'pg_dump', 'atLeast') === undefined
  const snapshot = await exportSnapshot(node, request)
  t.match(snapshot, { format: without ? 'plain' : 'custom', size: Number })
  if (!without) return
  t.match(
    readFileSync(snapshotFile(request.snapshotsFolder, snapshot), 'utf8'),
    /copy public\.child \(id, item, parent\) from stdin;\n1\t10\t2\n/,
  )
  await t.rejects(exportSnapshot(node, { ...request, format: 'custom' }), {
    status: 424,
    message: /install postgresql-client-/,
  })
})
