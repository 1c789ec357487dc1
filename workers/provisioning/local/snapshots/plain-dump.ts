import { type FileHandle, open } from 'node:fs/promises'
import type { Client } from 'pg'
import { refuse } from '../care-failure.ts'
import type { PostgresNode } from '../postgres-node.ts'
import { withSession } from '../postgres-session.ts'
import { copyOut } from './copy-out.ts'
import { readDumpObjects } from './dump-objects.ts'

export interface PlainDumpPlan {
  readonly schemaOnly: boolean
  readonly tables: readonly string[]
  readonly excludeTables: readonly string[]
  readonly signal?: AbortSignal
}

const header = `-- Loads with psql into an empty database.
set statement_timeout = 0;
set client_encoding = 'UTF8';
set standard_conforming_strings = on;
set check_function_bodies = false;
set row_security = off;
select pg_catalog.set_config('search_path', '', false);
`

const mine = (schema: string) => `${schema} !~ '^pg_' and ${schema} <> 'information_schema'`
const notExtension = (catalogue: string, oid: string) =>
  `not exists (select from pg_depend x where x.classid = '${catalogue}'::regclass and x.objid = ${oid} and x.deptype = 'e')`

/** What is made after the rows are there, in this order. Each query gives `sql` and the table it is of (`relation`). */
const afterData: readonly string[] = [
  `select 'alter table only ' || conrelid::regclass || ' add constraint ' || quote_ident(conname) || ' ' || pg_get_constraintdef(k.oid) || ';' as sql, conrelid as relation
    from pg_constraint k join pg_class c on c.oid = conrelid join pg_namespace n on n.oid = c.relnamespace
    where contype in ('p', 'u', 'x', 'c') and conparentid = 0 and conislocal and ${mine('nspname')} and ${notExtension('pg_class', 'c.oid')} order by contype = 'c', k.oid`,
  `select pg_get_indexdef(i.indexrelid) || ';' || case when i.indisclustered then E'\\nalter table ' || i.indrelid::regclass || ' cluster on ' || quote_ident(x.relname) || ';' else '' end as sql, i.indrelid as relation
    from pg_index i join pg_class x on x.oid = i.indexrelid join pg_namespace n on n.oid = x.relnamespace
    where ${mine('nspname')} and ${notExtension('pg_class', 'i.indrelid')} and not exists (select from pg_constraint where conindid = i.indexrelid and contype in ('p', 'u', 'x'))
      and not exists (select from pg_inherits where inhrelid = i.indexrelid) order by i.indexrelid`,
  `select 'alter table only ' || conrelid::regclass || ' add constraint ' || quote_ident(conname) || ' ' || pg_get_constraintdef(k.oid) || ';' as sql, conrelid as relation
    from pg_constraint k join pg_class c on c.oid = conrelid join pg_namespace n on n.oid = c.relnamespace
    where contype = 'f' and conparentid = 0 and ${mine('nspname')} order by k.oid`,
  `select pg_get_statisticsobjdef(s.oid) || ';' as sql, stxrelid as relation from pg_statistic_ext s join pg_namespace n on n.oid = stxnamespace where ${mine('nspname')} order by s.oid`,
  `select pg_get_ruledef(r.oid) as sql, ev_class as relation from pg_rewrite r join pg_class c on c.oid = ev_class join pg_namespace n on n.oid = relnamespace
    where rulename <> '_RETURN' and ${mine('nspname')} and ${notExtension('pg_class', 'c.oid')} order by r.oid`,
  `select pg_get_triggerdef(t.oid) || ';' as sql, tgrelid as relation from pg_trigger t join pg_class c on c.oid = tgrelid join pg_namespace n on n.oid = relnamespace
    where not tgisinternal and tgparentid = 0 and ${mine('nspname')} and ${notExtension('pg_class', 'c.oid')} order by t.oid`,
  `select 'alter table ' || c.oid::regclass || ' enable row level security;' || case when relforcerowsecurity then E'\\nalter table ' || c.oid::regclass || ' force row level security;' else '' end as sql, c.oid as relation
    from pg_class c join pg_namespace n on n.oid = relnamespace where relrowsecurity and ${mine('nspname')} order by c.oid`,
  `select 'create policy ' || quote_ident(polname) || ' on ' || polrelid::regclass || case when polpermissive then '' else ' as restrictive' end
      || ' for ' || case polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end
      || case when polroles = '{0}' then '' else ' to ' || (select string_agg(quote_ident(rolname), ', ' order by rolname) from pg_roles where oid = any(polroles)) end
      || coalesce(' using (' || pg_get_expr(polqual, polrelid) || ')', '') || coalesce(' with check (' || pg_get_expr(polwithcheck, polrelid) || ')', '') || ';' as sql, polrelid as relation
    from pg_policy p join pg_class c on c.oid = polrelid join pg_namespace n on n.oid = relnamespace where ${mine('nspname')} order by p.oid`,
  `select 'alter table ' || c.oid::regclass || ' replica identity ' || case relreplident when 'f' then 'full' when 'n' then 'nothing'
      else 'using index ' || (select quote_ident(x.relname) from pg_index i join pg_class x on x.oid = i.indexrelid where i.indrelid = c.oid and i.indisreplident) end || ';' as sql, c.oid as relation
    from pg_class c join pg_namespace n on n.oid = relnamespace where relkind in ('r', 'p') and relreplident <> 'd' and ${mine('nspname')} and ${notExtension('pg_class', 'c.oid')} order by c.oid`,
  `select 'comment on ' || case when d.objsubid > 0 then 'column ' || c.oid::regclass || '.' || quote_ident(a.attname)
      else case c.relkind when 'v' then 'view ' when 'm' then 'materialized view ' when 'S' then 'sequence ' when 'i' then 'index ' else 'table ' end || c.oid::regclass end
      || ' is ' || quote_literal(d.description) || ';' as sql, c.oid as relation
    from pg_description d join pg_class c on c.oid = d.objoid join pg_namespace n on n.oid = relnamespace left join pg_attribute a on a.attrelid = c.oid and a.attnum = d.objsubid
    where d.classoid = 'pg_class'::regclass and ${mine('nspname')} and ${notExtension('pg_class', 'c.oid')} order by c.oid, d.objsubid`,
  `select 'refresh materialized view ' || c.oid::regclass || ';' as sql, c.oid as relation from pg_class c join pg_namespace n on n.oid = relnamespace
    where relkind = 'm' and relispopulated and ${mine('nspname')} and ${notExtension('pg_class', 'c.oid')} order by c.oid`,
] // biome-ignore format: a table of queries

/** Before the rows: identity columns and the owners of sequences, which name columns of tables. */
const beforeData: readonly string[] = [
  `select 'alter table ' || c.oid::regclass || ' alter column ' || quote_ident(a.attname) || ' add generated ' || case a.attidentity when 'a' then 'always' else 'by default' end
      || ' as identity (increment by ' || seqincrement || ' minvalue ' || seqmin || ' maxvalue ' || seqmax || ' start with ' || seqstart || ' cache ' || seqcache || case when seqcycle then ' cycle' else '' end || ');' as sql, c.oid as relation
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    join pg_depend d on d.refobjid = c.oid and d.refobjsubid = a.attnum and d.deptype = 'i' and d.classid = 'pg_class'::regclass join pg_sequence s on s.seqrelid = d.objid
    where a.attidentity <> '' and not c.relispartition and ${mine('nspname')} order by c.oid, a.attnum`,
  `select 'alter sequence ' || s.oid::regclass || ' owned by ' || c.oid::regclass || '.' || quote_ident(a.attname) || ';' as sql, c.oid as relation
    from pg_class s join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = s.oid and d.deptype = 'a' join pg_class c on c.oid = d.refobjid
    join pg_attribute a on a.attrelid = c.oid and a.attnum = d.refobjsubid join pg_namespace n on n.oid = s.relnamespace where s.relkind = 'S' and ${mine('nspname')} order by s.oid`,
] // biome-ignore format: a table of queries

interface TableRow {
  readonly oid: number
  readonly name: string
  readonly bare: string
  readonly schema: string
  readonly columns: string | null
}

/**
 * Writes the instance's database as SQL, for servers without a pg_dump of their version on the machine: structure, rows as
 * COPY, then keys, indexes, views' rows, triggers, rules, policies and comments, all of one consistent state. Owners, rights,
 * aggregates, operators, text search, foreign servers, publications and large objects are not in it.
 *
 * @throws {CareFailure} `refused` (400), field `tables`, for a table that does not exist; (422) for large objects.
 */
export async function dumpPlain(node: PostgresNode, plan: PlainDumpPlan, file: string): Promise<void> {
  const output = await open(file, 'wx', 0o600)
  try {
    await withSession(
      node,
      async (client) => {
        await client.query('begin isolation level repeatable read, read only')
        await client.query(
          "set local search_path = ''; set local lock_timeout = '60s'; set local extra_float_digits = 3; set local row_security = off; set local intervalstyle = 'postgres'; set local datestyle = 'ISO'",
        )
        await dump(client, plan, output)
      },
      { statementTimeoutMs: 0, applicationName: 'busbar snapshot' },
    )
    await output.sync()
  } finally {
    await output.close()
  }
}

async function dump(client: Client, plan: PlainDumpPlan, output: FileHandle): Promise<void> {
  const tables = await chosenTables(client, plan)
  const whole = plan.tables.length === 0 && plan.excludeTables.length === 0
  const chosen = new Set(tables.map(({ oid }) => oid))
  const write = (text: string) => output.write(`${text}\n`)
  await write(header)
  const left = await excludedKeys(client, chosen)
  for (const { key, sql } of await readDumpObjects(client)) {
    const kept =
      whole ||
      (plan.tables.length === 0 ? !left.has(key) : chosen.has(Number(key.split(':')[1])) && key.startsWith('pg_class'))
    if (kept) await write(sql)
  }
  const statements = async (queries: readonly string[]) => {
    for (const query of queries) {
      const { rows } = await client.query<{ sql: string; relation: number }>(query)
      for (const { sql, relation } of rows) if (whole || chosen.has(relation)) await write(sql)
    }
  }
  await statements(beforeData)
  if (!plan.schemaOnly) await dumpRows(client, plan, tables, output)
  if (!plan.schemaOnly && whole) await dumpSequences(client, write)
  // A schema alone has no rows to refresh from.
  await statements(plan.schemaOnly ? afterData.slice(0, -1) : afterData)
}

async function chosenTables(client: Client, plan: PlainDumpPlan): Promise<readonly TableRow[]> {
  const { rows } = await client.query<TableRow & { kind: string }>(`
    select c.oid, c.oid::regclass::text as name, relname as bare, nspname as schema, relkind as kind,
      (select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped and attgenerated = '') as columns
    from pg_class c join pg_namespace n on n.oid = relnamespace
    where relkind in ('r', 'p', 'v', 'm') and relpersistence <> 't' and ${mine('nspname')} and ${notExtension('pg_class', 'c.oid')} order by c.oid`)
  const isNamed = (names: readonly string[]) => ({ bare, schema }: TableRow) => names.includes(bare) || names.includes(`${schema}.${bare}`) // biome-ignore format: one function
  const missing = plan.tables.find((name) => !rows.some(isNamed([name])))
  if (missing !== undefined) refuse('tables: a table of this name does not exist.', { field: 'tables' })
  const wanted = plan.tables.length === 0 ? rows : rows.filter(isNamed(plan.tables))
  const chosen = wanted.filter((row) => !isNamed(plan.excludeTables)(row))
  return chosen.map((row) => (row.kind === 'r' ? row : { ...row, columns: null }))
}

/** The relations that were not chosen, and the views on them, which could not be made. */
async function excludedKeys(client: Client, chosen: ReadonlySet<number>): Promise<ReadonlySet<string>> {
  const { rows } = await client.query<{ oid: number }>("select oid from pg_class where relkind in ('r', 'p', 'v', 'm')")
  return new Set(rows.filter(({ oid }) => !chosen.has(oid)).map(({ oid }) => `pg_class:${oid}`))
}

async function dumpRows(
  client: Client,
  plan: PlainDumpPlan,
  tables: readonly TableRow[],
  output: FileHandle,
): Promise<void> {
  const { rows } = await client.query<{ some: boolean }>('select exists (select from pg_largeobject_metadata) as some')
  if (rows[0]!.some)
    refuse('The database has large objects: a snapshot of it needs pg_dump of its version.', { status: 422 })
  for (const { name, columns } of tables) {
    plan.signal?.throwIfAborted()
    if (columns === null) continue
    await output.write(`copy ${name} (${columns}) from stdin;\n`)
    await copyOut(client, `copy ${name} (${columns}) to stdout`, output)
    await output.write('\\.\n\n')
  }
}

async function dumpSequences(client: Client, write: (text: string) => Promise<unknown>): Promise<void> {
  const { rows } = await client.query<{ name: string; value: string | null; start: string }>(`
    select quote_ident(schemaname) || '.' || quote_ident(sequencename) as name, last_value as value, start_value as start
    from pg_sequences where ${mine('schemaname')} order by 1`)
  for (const { name, value, start } of rows) {
    const quoted = client.escapeLiteral(name)
    await write(`select pg_catalog.setval(${quoted}, ${value ?? start}, ${value !== null});`)
  }
}
