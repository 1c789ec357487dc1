/**
 * The statements that read a catalog out of PostgreSQL 13 and newer: a fixed number of them, however many tables there are.
 * They run with `search_path = pg_catalog`, so that every name of a user's schema comes out qualified.
 */

/** Roles a request may run as: the login role and all it can `set role` to. */
const roles = "roles as materialized (select oid from pg_roles where pg_has_role(oid, 'member'))"

/** `has_…_privilege(<subject>, …)` for the login role, else for one of its roles. */
function allowed(call: (subject: string) => string): string {
  return `case when ${call('')} then true else exists (select from roles where ${call('roles.oid, ')}) end`
}

/** Relations somebody alters or waits to alter: functions that open them would wait too. */
const altered = `altered as materialized (
  select relation from pg_locks where locktype = 'relation' and mode = 'AccessExclusiveLock'
    and database = (select oid from pg_database where datname = current_database()))`

const ownedByExtension = (catalog: string, oid: string) =>
  `exists (select from pg_depend where classid = '${catalog}'::regclass and objid = ${oid} and deptype = 'e')`

/** $1: the schemas asked for, null for all that are not the system's or ours. */
export const schemasSql = `
with ${roles}
select n.oid, n.nspname::text as name from pg_namespace n
where case when $1::text[] is null
  then n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'busbar')
  else n.nspname = any ($1::text[]) and n.nspname !~ '^pg_(toast|temp)' and n.nspname not in ('pg_catalog', 'information_schema') end
  and ${allowed((subject) => `has_schema_privilege(${subject}n.oid, 'usage')`)}
order by n.nspname`

/** $1: schemas. Partitions are reached through their parent; tables of extensions and tables nobody may read are left out. */
export const tablesSql = `
with ${roles}, ${altered}, found as (
  select c.*, ${allowed((subject) => `has_table_privilege(${subject}c.oid, 'select')`)} as whole
  from pg_class c
  where c.relnamespace = any ($1::oid[]) and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
    and not ${ownedByExtension('pg_class', 'c.oid')})
select f.oid, n.nspname::text as schema, f.relname::text as name, f.relkind::text as kind, f.relrowsecurity as security,
  f.relreplident::text as identity, d.description as comment, f.whole,
  case
    when f.relkind in ('r', 'p') then 28
    when f.relkind = 'm' then 0
    when f.relkind = 'f' and not exists (
      select from pg_foreign_table t join pg_foreign_server s on s.oid = t.ftserver
      join pg_foreign_data_wrapper w on w.oid = s.srvfdw where t.ftrelid = f.oid and w.fdwhandler <> 0) then 0
    when f.oid in (select relation from altered) then 28
    else pg_relation_is_updatable(f.oid, true)
  end as events
from found f
join pg_namespace n on n.oid = f.relnamespace
left join pg_description d on d.objoid = f.oid and d.classoid = 'pg_class'::regclass and d.objsubid = 0
where f.whole or ${allowed((subject) => `has_any_column_privilege(${subject}f.oid, 'select')`)}
order by n.nspname, f.relname`

/** $1: tables. $2: those of them of which only some columns may be read. */
export const columnsSql = `
with ${roles}, ${altered}
select a.attrelid as table, a.attnum as number, a.attname::text as name, a.atttypid as type, a.atttypmod as modifier,
  format_type(a.atttypid, a.atttypmod) as "typeSql", a.attnotnull as required, a.attndims as dimensions, a.attidentity::text as identity,
  a.attgenerated <> '' as generated, d.description as comment,
  case
    when e.oid is null or a.attgenerated <> '' then null
    when a.attrelid in (select relation from altered) then '…'
    else pg_get_expr(e.adbin, e.adrelid)
  end as default
from unnest($1::oid[]) as wanted (oid)
join pg_attribute a on a.attrelid = wanted.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef e on e.adrelid = a.attrelid and e.adnum = a.attnum
left join pg_description d on d.objoid = a.attrelid and d.classoid = 'pg_class'::regclass and d.objsubid = a.attnum
where not a.attrelid = any ($2::oid[])
  or exists (select from roles where has_column_privilege(roles.oid, a.attrelid, a.attnum, 'select'))
order by a.attrelid, a.attnum`

/** $1: tables. The primary key first, then unique constraints and unconditional unique indexes over plain columns. */
export const keysSql = `
select i.indrelid as table, i.indisprimary as primary, array_to_string((i.indkey::int2[])[0:i.indnkeyatts - 1], ' ') as columns
from unnest($1::oid[]) as wanted (oid)
join pg_index i on i.indrelid = wanted.oid
where i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
order by i.indrelid, i.indisprimary desc, i.indexrelid`

/**
 * $1: tables. Foreign keys as they were declared, without the copies PostgreSQL keeps for partitions, and without temporal ones,
 * which hold for ranges and not for equal values.
 */
export const foreignKeysSql = `
select c.conrelid as table, c.conname::text as constraint, array_to_string(c.conkey, ' ') as columns,
  n.nspname::text as "targetSchema", t.relname::text as "targetTable",
  array(select a.attname::text from unnest(c.confkey) with ordinality as k (number, place)
    join pg_attribute a on a.attrelid = c.confrelid and a.attnum = k.number order by k.place) as "targetColumns"
from unnest($1::oid[]) as wanted (oid)
join pg_constraint c on c.conrelid = wanted.oid and c.contype = 'f' and c.conparentid = 0
join pg_class t on t.oid = c.confrelid
join pg_namespace n on n.oid = t.relnamespace
where coalesce(to_jsonb(c) ->> 'conperiod', 'false') <> 'true'
order by c.conrelid, c.conname`

/** $1: schemas. Functions somebody may call that take and return values; no triggers, procedures, aggregates. */
export const functionsSql = `
with ${roles}
select n.nspname::text as schema, p.proname::text as name, d.description as comment, p.provolatile::text as volatility,
  p.proargnames as names, p.proargmodes::text[] as modes, coalesce(p.proallargtypes, p.proargtypes::oid[])::int8[]::text[] as types,
  p.pronargdefaults as defaults, p.prorettype as returns, p.proretset as set
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
left join pg_description d on d.objoid = p.oid and d.classoid = 'pg_proc'::regclass and d.objsubid = 0
where p.pronamespace = any ($1::oid[]) and p.prokind = 'f' and not ${ownedByExtension('pg_proc', 'p.oid')}
  and not exists (select from pg_type t where t.oid = any (p.proargtypes::oid[]) and t.typtype = 'p')
  and (p.prorettype in ('void'::regtype, 'record'::regtype)
    or not exists (select from pg_type t where t.oid = p.prorettype and t.typtype = 'p'))
  and ${allowed((subject) => `has_function_privilege(${subject}p.oid, 'execute')`)}
order by n.nspname, p.proname, p.oid`

/** $1: types. They and all they are made of. */
export const typesSql = `
with recursive reached as (
  select oid from unnest($1::oid[]) as seed (oid)
  union
  select part.oid from reached join pg_type t on t.oid = reached.oid cross join lateral (
    select t.typelem as oid where t.typelem <> 0
    union all select t.typbasetype where t.typtype = 'd'
    union all select a.atttypid from pg_attribute a
      where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) part)
select t.oid, n.nspname::text as schema, t.typname::text as name, t.typtype::text as kind,
  quote_ident(n.nspname) || '.' || quote_ident(t.typname) as "sqlName",
  (select e.oid from pg_type e where e.oid = t.typelem and e.typarray = t.oid) as element, nullif(t.typbasetype, 0) as base,
  t.typnotnull as required, t.typdefault as default, t.typtypmod as modifier, nullif(t.typrelid, 0) as relation,
  array(select l.enumlabel::text from pg_enum l where t.typtype = 'e' and l.enumtypid = t.oid order by l.enumsortorder) as labels,
  d.description as comment
from reached
join pg_type t on t.oid = reached.oid
join pg_namespace n on n.oid = t.typnamespace
left join pg_description d on d.objoid = t.oid and d.classoid = 'pg_type'::regclass and d.objsubid = 0
order by t.oid`

/** $1: the relations behind composite types. */
export const attributesSql = `
select a.attrelid as relation, a.attname::text as name, a.atttypid as type
from unnest($1::oid[]) as wanted (oid)
join pg_attribute a on a.attrelid = wanted.oid and a.attnum > 0 and not a.attisdropped
order by a.attrelid, a.attnum`
