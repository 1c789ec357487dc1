import { type Catalog, type Column, type Relation, type Table, tableKey } from '../data/catalog.ts'
import { type Run, statement } from '../data/statement.ts'
import type { Principal } from '../http/auth.ts'

/** What a role may do with the tables of a catalog. */
export interface Privileges {
  /** As the database gave them: equal texts are equal rights. */
  readonly text: string
  /** By the table's oid; a table that is absent may not be touched. */
  readonly tables: ReadonlyMap<number, TablePrivileges>
}

interface TablePrivileges {
  readonly delete: boolean
  /** Null: every column. */
  readonly select: ReadonlySet<string> | null
  readonly insert: ReadonlySet<string> | null
  readonly update: ReadonlySet<string> | null
}

const columnsWith = (right: string) => `case when pg_catalog.has_table_privilege(c.oid, '${right}') then null else
    (select coalesce(json_agg(a.attname order by a.attnum), '[]') from pg_catalog.pg_attribute a
     where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and pg_catalog.has_column_privilege(c.oid, a.attnum, '${right}')) end`

/** $1: oids. Runs as the role itself, so that a role that is not there or not allowed fails as every statement of its would. */
const privilegesSql = statement(`
select coalesce(json_agg(json_build_array(c.oid::int8, pg_catalog.has_table_privilege(c.oid, 'DELETE'),
  ${columnsWith('SELECT')}, ${columnsWith('INSERT')}, ${columnsWith('UPDATE')}) order by c.oid), '[]')::text
from pg_catalog.pg_class c
where c.oid = any ($1::oid[]) and pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE')`)

type Listed = readonly string[] | null

/** @throws {Rejected} what every statement of an unknown role throws */
export async function readPrivileges(
  run: Run,
  { tables }: Catalog,
  { role, claims, anonymous }: Principal,
): Promise<Privileges> {
  const oids = `{${[...tables.values()].map(({ oid }) => oid).join(',')}}`
  const { rows } = await run(privilegesSql, [oids], {
    anonymous,
    readOnly: true,
    ...(role === undefined ? {} : { role }),
    ...(claims === undefined ? {} : { claims }),
  })
  const text = rows[0]?.[0]?.toString('utf8') ?? '[]'
  const listed = JSON.parse(text) as readonly (readonly [number, boolean, Listed, Listed, Listed])[]
  const setOf = (names: Listed) => (names === null ? null : new Set(names))
  return {
    text,
    tables: new Map(
      listed.map(([oid, mayDelete, select, insert, update]) => [
        oid,
        { delete: mayDelete, select: setOf(select), insert: setOf(insert), update: setOf(update) },
      ]),
    ),
  }
}

function has(set: ReadonlySet<string> | null | undefined, name: string): boolean {
  return set === null || set?.has(name) === true
}

function hasAny(set: ReadonlySet<string> | null): boolean {
  return set === null || set.size > 0
}

/** Whether a column belongs into the inputs of its table. */
export function mayWrite({ tables }: Privileges, table: Table, { name }: Column): boolean {
  const own = tables.get(table.oid)
  if (has(own?.insert, name) || has(own?.update, name)) return true
  return own !== undefined && hasAny(own.update) && table.primaryKey.includes(name)
}

/**
 * The part of the catalog that a role may read, with what it may write there. Tables keep all columns in `columnByName`: a column that may
 * be written and not read is an input's alone. What is written is answered, so a table without a readable column is left out.
 */
export function restrictCatalog(catalog: Catalog, privileges: Privileges, version: string): Catalog {
  const readable = (schema: string, name: string, columns: readonly string[]): boolean => {
    const table = catalog.tables.get(tableKey(schema, name))
    const own = table && privileges.tables.get(table.oid)
    return own !== undefined && columns.every((column) => has(own.select, column))
  }
  const tables = new Map<string, Table>()
  for (const [key, table] of catalog.tables) {
    const own = privileges.tables.get(table.oid)
    const columns = own ? table.columns.filter(({ name }) => has(own.select, name)) : []
    if (!own || columns.length === 0) continue
    const all = (names: readonly string[]) => names.every((name) => has(own.select, name))
    tables.set(key, {
      ...table,
      columns,
      primaryKey: all(table.primaryKey) ? table.primaryKey : [],
      uniqueKeys: table.uniqueKeys.filter(all),
      relations: table.relations.filter((relation) => all(relation.columns) && isReadable(relation, readable)),
      insertable: table.insertable && hasAny(own.insert),
      updatable: table.updatable && hasAny(own.update),
      deletable: table.deletable && own.delete,
    })
  }
  return { ...catalog, version, tables }
}

function isReadable(
  { targetSchema, targetTable, targetColumns, link }: Relation,
  readable: (schema: string, table: string, columns: readonly string[]) => boolean,
): boolean {
  if (!readable(targetSchema, targetTable, targetColumns)) return false
  return link === null || readable(link.schema, link.table, [...link.sourceColumns, ...link.targetColumns])
}
