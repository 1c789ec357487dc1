import type { Client } from 'pg'

/** Something that a dump makes with one statement or a few, and what must be there before it. */
export interface DumpObject {
  /** `<catalogue>:<oid>`, as pg_depend names it. */
  readonly key: string
  /** Lower ones first where nothing else decides. */
  readonly rank: number
  readonly oid: number
  readonly sql: string
}

/** Left out everywhere: what is PostgreSQL's own, and what belongs to an extension. */
const users = (catalogue: string, oid: string, schema: string) => `
  ${schema} !~ '^pg_' and ${schema} <> 'information_schema' and not exists (
    select from pg_depend x where x.classid = '${catalogue}'::regclass and x.objid = ${oid} and x.deptype = 'e')`

const column = `quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod)
  || case when a.attcollation <> 0 and a.attcollation <> t.typcollation
    then (select ' collate ' || quote_ident(cn.nspname) || '.' || quote_ident(co.collname)
      from pg_collation co join pg_namespace cn on cn.oid = co.collnamespace where co.oid = a.attcollation) else '' end`

const tableColumns = `(select string_agg('  ' || ${column}
    || case when a.attgenerated = 's' then ' generated always as (' || pg_get_expr(d.adbin, d.adrelid) || ') stored'
      when a.attgenerated = 'v' then ' generated always as (' || pg_get_expr(d.adbin, d.adrelid) || ') virtual'
      when d.adbin is not null then ' default ' || pg_get_expr(d.adbin, d.adrelid) else '' end
    || case when a.attnotnull then ' not null' else '' end, E',\\n' order by a.attnum)
  from pg_attribute a join pg_type t on t.oid = a.atttypid
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and (a.attislocal or c.relispartition))`

const parents = `(select string_agg(i.inhparent::regclass::text, ', ' order by i.inhseqno) from pg_inherits i where i.inhrelid = c.oid)`

/** One query a kind: `key`, `oid` and `sql`. In a session whose search_path is empty, so that every name is whole. */
const kinds: readonly (readonly [rank: number, sql: string])[] = [
  [0, `select 'pg_namespace:' || n.oid as key, n.oid, 'create schema ' || quote_ident(nspname) || ';' as sql
    from pg_namespace n where nspname <> 'public' and ${users('pg_namespace', 'n.oid', 'nspname')}`],
  [1, `select 'pg_extension:' || e.oid as key, e.oid, 'create extension if not exists ' || quote_ident(extname) || ' with schema ' || quote_ident(n.nspname) || ';' as sql
    from pg_extension e join pg_namespace n on n.oid = extnamespace where extname <> 'plpgsql'`],
  [2, `select 'pg_type:' || t.oid as key, t.oid, case
      when typtype = 'e' then 'create type ' || t.oid::regtype || ' as enum (' || (select string_agg(quote_literal(enumlabel), ', ' order by enumsortorder) from pg_enum where enumtypid = t.oid) || ');'
      when typtype = 'd' then 'create domain ' || t.oid::regtype || ' as ' || format_type(typbasetype, typtypmod)
        || coalesce(' default ' || typdefault, '') || case when typnotnull then ' not null' else '' end
        || coalesce((select string_agg(' constraint ' || quote_ident(conname) || ' ' || pg_get_constraintdef(k.oid), '' order by conname) from pg_constraint k where contypid = t.oid and contype = 'c'), '') || ';'
      when typtype = 'r' then 'create type ' || t.oid::regtype || ' as range (subtype = ' || (select rngsubtype::regtype::text from pg_range where rngtypid = t.oid) || ');'
      else 'create type ' || t.oid::regtype || ' as (' || (select string_agg(quote_ident(attname) || ' ' || format_type(atttypid, atttypmod), ', ' order by attnum)
        from pg_attribute where attrelid = t.typrelid and attnum > 0 and not attisdropped) || ');' end as sql
    from pg_type t join pg_namespace n on n.oid = typnamespace
    where (typtype in ('e', 'd', 'r') or (typtype = 'c' and (select relkind from pg_class where oid = typrelid) = 'c')) and ${users('pg_type', 't.oid', 'nspname')}`],
  [3, `select 'pg_class:' || c.oid as key, c.oid, 'create sequence ' || c.oid::regclass || ' as ' || s.seqtypid::regtype || ' increment by ' || seqincrement || ' minvalue ' || seqmin
      || ' maxvalue ' || seqmax || ' start with ' || seqstart || ' cache ' || seqcache || case when seqcycle then ' cycle' else '' end || ';' as sql
    from pg_class c join pg_sequence s on s.seqrelid = c.oid join pg_namespace n on n.oid = relnamespace
    where not exists (select from pg_depend i where i.classid = 'pg_class'::regclass and i.objid = c.oid and i.deptype = 'i') and ${users('pg_class', 'c.oid', 'nspname')}`],
  [4, `select 'pg_proc:' || p.oid as key, p.oid, pg_get_functiondef(p.oid) || ';' as sql from pg_proc p join pg_namespace n on n.oid = pronamespace
    where prokind in ('f', 'p', 'w') and ${users('pg_proc', 'p.oid', 'nspname')}`],
  [5, `select 'pg_class:' || c.oid as key, c.oid, 'create ' || case relpersistence when 'u' then 'unlogged ' else '' end || 'table ' || c.oid::regclass || E' (\\n' || coalesce(${tableColumns}, '') || E'\\n)'
      || case when not relispartition and ${parents} is not null then ' inherits (' || ${parents} || ')' else '' end
      || case when relkind = 'p' then ' partition by ' || pg_get_partkeydef(c.oid) else '' end
      || case when reloptions is not null then ' with (' || array_to_string(reloptions, ', ') || ')' else '' end || ';'
      || case when relispartition then E'\\nalter table only ' || ${parents} || ' attach partition ' || c.oid::regclass || ' ' || pg_get_expr(relpartbound, c.oid) || ';' else '' end as sql
    from pg_class c join pg_namespace n on n.oid = relnamespace where relkind in ('r', 'p') and relpersistence <> 't' and ${users('pg_class', 'c.oid', 'nspname')}`],
  [6, `select 'pg_class:' || c.oid as key, c.oid, case relkind when 'v' then 'create view ' || c.oid::regclass
      || case when reloptions is not null then ' with (' || array_to_string(reloptions, ', ') || ')' else '' end || E' as\\n' || pg_get_viewdef(c.oid)
      else 'create materialized view ' || c.oid::regclass || E' as\\n' || rtrim(pg_get_viewdef(c.oid), ';') || E'\\n  with no data;' end as sql
    from pg_class c join pg_namespace n on n.oid = relnamespace where relkind in ('v', 'm') and ${users('pg_class', 'c.oid', 'nspname')}`],
] // biome-ignore format: a table

/** What the objects' parts are called in pg_depend, and which object they are a part of. */
const dependencies = `
  with parts as (
    select 'pg_type'::regclass::oid as catalogue, t.oid as part, 'pg_class'::regclass::oid as owner_catalogue, typrelid as owner
      from pg_type t join pg_class c on c.oid = typrelid where c.relkind <> 'c'
    union all select 'pg_type'::regclass, a.oid, 'pg_type'::regclass, e.oid from pg_type e join pg_type a on a.oid = e.typarray where e.typrelid = 0
    union all select 'pg_type'::regclass, a.oid, 'pg_class'::regclass, e.typrelid from pg_type e join pg_type a on a.oid = e.typarray join pg_class c on c.oid = e.typrelid where c.relkind <> 'c'
    union all select 'pg_class'::regclass, c.oid, 'pg_type'::regclass, t.oid from pg_class c join pg_type t on t.typrelid = c.oid where relkind = 'c'
    union all select 'pg_attrdef'::regclass, oid, 'pg_class'::regclass, adrelid from pg_attrdef
    union all select 'pg_rewrite'::regclass, oid, 'pg_class'::regclass, ev_class from pg_rewrite where rulename = '_RETURN'
  )
  select distinct coalesce(p.owner_catalogue, d.classid)::regclass::text || ':' || coalesce(p.owner, d.objid) as needs,
    coalesce(r.owner_catalogue, d.refclassid)::regclass::text || ':' || coalesce(r.owner, d.refobjid) as needed
  from pg_depend d
    left join parts p on p.catalogue = d.classid and p.part = d.objid
    left join parts r on r.catalogue = d.refclassid and r.part = d.refobjid
  where d.deptype in ('n', 'i', 'a') and not (d.deptype = 'a' and d.classid = 'pg_class'::regclass and (select relkind from pg_class where oid = d.objid) = 'S')
  union all select 'pg_class:' || inhrelid, 'pg_class:' || inhparent from pg_inherits` // biome-ignore format: a query

/** The objects in an order in which each finds what it needs. */
export async function readDumpObjects(client: Client): Promise<readonly DumpObject[]> {
  const objects: DumpObject[] = []
  for (const [rank, sql] of kinds) {
    const { rows } = await client.query<Omit<DumpObject, 'rank'>>(sql)
    objects.push(...rows.map((row) => ({ ...row, rank })))
  }
  const { rows } = await client.query<{ needs: string; needed: string }>(dependencies)
  return inOrder(objects, rows)
}

/** Pure: depth first from the lowest rank; a circle is cut where it closes. */
export function inOrder(
  objects: readonly DumpObject[],
  edges: readonly { readonly needs: string; readonly needed: string }[],
): readonly DumpObject[] {
  const known = new Map(objects.map((object) => [object.key, object]))
  const needed = new Map<string, string[]>()
  for (const edge of edges) {
    if (!known.has(edge.needs) || !known.has(edge.needed) || edge.needs === edge.needed) continue
    needed.set(edge.needs, [...(needed.get(edge.needs) ?? []), edge.needed])
  }
  const ordered: DumpObject[] = []
  const seen = new Set<string>()
  const sorted = objects.toSorted((a, b) => a.rank - b.rank || a.oid - b.oid)
  for (const root of sorted) {
    // An own stack: a chain of views can be longer than the one of calls.
    const stack: { readonly key: string; next: number }[] = [{ key: root.key, next: 0 }]
    if (seen.has(root.key)) continue
    seen.add(root.key)
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const child = needed.get(top.key)?.[top.next++]
      if (child === undefined) {
        ordered.push(known.get(top.key)!)
        stack.pop()
      } else if (!seen.has(child)) {
        seen.add(child)
        stack.push({ key: child, next: 0 })
      }
    }
  }
  return ordered
}
