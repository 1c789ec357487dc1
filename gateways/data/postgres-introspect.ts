import { hash } from 'node:crypto'
import type { Catalog, Column, DatabaseFunction, DatabaseType, ForeignKey, Table, TableKind } from './catalog.ts'
import { tableKey } from './catalog.ts'
import {
  attributesSql,
  columnsSql,
  foreignKeysSql,
  functionsSql,
  keysSql,
  schemasSql,
  tablesSql,
  typesSql,
} from './postgres-introspect-sql.ts'
import { type AttributeRow, buildTypes, type TypeMap, type TypeRow } from './postgres-types.ts'
import { relate } from './relations.ts'

/** What introspection needs of a connection; a `pg` client is one. */
export interface CatalogClient {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: readonly unknown[] }>
}

/** Schemas by name, or all that are neither the system's nor the platform's own. */
export type ExposedSchemas = readonly string[] | 'ALL'

/** A lock we wait for longer than this belongs to a migration at work: better to fail, and to try again later. */
const begin = `begin isolation level repeatable read, read only;
set local search_path = pg_catalog; set local lock_timeout = '2s'; set local statement_timeout = '60s'; set local jit = off`

/**
 * Runs the work in a transaction that sees the catalog at one moment and no user's names.
 * Relies on a connection that is in no transaction.
 */
export async function inCatalogSnapshot<Result>(client: CatalogClient, work: () => Promise<Result>): Promise<Result> {
  await client.query(begin)
  try {
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    // A connection that is gone cannot roll back; the first error says why.
    await client.query('rollback').catch(() => undefined)
    throw error
  }
}

/**
 * Reads the catalog of the schemas, in about ten statements whatever the number of tables. Left out: what belongs to the system
 * or to extensions, partitions, and what neither the login role nor a role it can switch to may read.
 * Relies on a connection that is in no transaction.
 */
export async function introspect(client: CatalogClient, schemas: ExposedSchemas): Promise<Catalog> {
  return inCatalogSnapshot(client, () => readCatalog(client, schemas))
}

/** As `introspect`, inside a transaction of `inCatalogSnapshot`. */
export async function readCatalog(client: CatalogClient, schemas: ExposedSchemas): Promise<Catalog> {
  const rows = await readRows(client, schemas)
  const types = buildTypes(rows.types, rows.attributes)
  const tables = new Map<string, Table>()
  const columnsOf = groupBy(rows.columns, (row) => row.table)
  const keysOf = groupBy(rows.keys, (row) => row.table)
  const foreignKeysOf = groupBy(rows.foreignKeys, (row) => row.table)
  for (const row of rows.tables) {
    const columns = columnsOf.get(row.oid) ?? []
    const table = buildTable(row, columns, keysOf.get(row.oid) ?? [], foreignKeysOf.get(row.oid) ?? [], types)
    tables.set(tableKey(table.schema, table.name), table)
  }
  return {
    version: hash('sha256', JSON.stringify(rows), 'base64url').slice(0, 16),
    schemas: rows.schemas.map(({ name }) => name),
    tables: relate(tables),
    functions: rows.functions.flatMap((row) => buildFunction(row, types) ?? []),
    types: new Map([...types].map(([oid, { type }]) => [oid, type])),
  }
}

interface TableRow {
  readonly oid: number
  readonly schema: string
  readonly name: string
  readonly kind: keyof typeof kinds
  readonly security: boolean
  readonly identity: keyof typeof identities
  readonly comment: string | null
  readonly whole: boolean
  /** Bits by command number. */
  readonly events: number
}

interface ColumnRow {
  readonly table: number
  readonly number: number
  readonly name: string
  readonly type: number
  readonly modifier: number
  readonly typeSql: string
  readonly required: boolean
  readonly dimensions: number
  readonly identity: string
  readonly generated: boolean
  readonly default: string | null
  readonly comment: string | null
}

interface KeyRow {
  readonly table: number
  readonly primary: boolean
  /** Column numbers between spaces. */
  readonly columns: string
}

interface ForeignKeyRow {
  readonly table: number
  readonly constraint: string
  readonly columns: string
  readonly targetSchema: string
  readonly targetTable: string
  readonly targetColumns: readonly string[]
}

interface FunctionRow {
  readonly schema: string
  readonly name: string
  readonly comment: string | null
  readonly volatility: keyof typeof volatilities
  readonly names: readonly string[] | null
  readonly modes: readonly string[] | null
  readonly types: readonly string[]
  readonly defaults: number
  readonly returns: number
  readonly set: boolean
}

async function readRows(client: CatalogClient, schemas: ExposedSchemas) {
  const read = async <Row>(text: string, ...values: unknown[]): Promise<readonly Row[]> =>
    (await client.query(text, values)).rows as readonly Row[]
  const found = await read<{ oid: number; name: string }>(schemasSql, schemas === 'ALL' ? null : schemas)
  const schemaIds = found.map(({ oid }) => oid)
  const tables = await read<TableRow>(tablesSql, schemaIds)
  const tableIds = tables.map(({ oid }) => oid)
  const columns = await read<ColumnRow>(
    columnsSql,
    tableIds,
    idsOf(tables, (table) => !table.whole),
  )
  const keys = await read<KeyRow>(keysSql, tableIds)
  const foreignKeys = await read<ForeignKeyRow>(foreignKeysSql, tableIds)
  const functions = await read<FunctionRow>(functionsSql, schemaIds)
  const seeds = new Set(columns.map(({ type }) => type))
  for (const row of functions) for (const type of [row.returns, ...row.types.map(Number)]) seeds.add(type)
  const types = await read<TypeRow>(typesSql, [...seeds])
  const relations = types.flatMap(({ relation }) => (relation === null ? [] : [relation]))
  const attributes = await read<AttributeRow>(attributesSql, relations)
  return { schemas: found, tables, columns, keys, foreignKeys, functions, types, attributes }
}

function idsOf(tables: readonly TableRow[], condition: (table: TableRow) => boolean): number[] {
  return tables.filter(condition).map(({ oid }) => oid)
}

const kinds = { r: 'table', p: 'partitioned-table', v: 'view', m: 'materialized-view', f: 'foreign-table' } as const
const identities = { d: 'default', f: 'full', n: 'nothing', i: 'index' } as const
const volatilities = { i: 'immutable', s: 'stable', v: 'volatile' } as const
/** Bits of `pg_relation_is_updatable`, by PostgreSQL's command numbers. */
const bits = { update: 1 << 2, insert: 1 << 3, delete: 1 << 4 }

function buildTable(
  row: TableRow,
  columnRows: readonly ColumnRow[],
  keyRows: readonly KeyRow[],
  foreignKeyRows: readonly ForeignKeyRow[],
  types: TypeMap,
): Table {
  const names = new Map(columnRows.map(({ number, name }) => [String(number), name]))
  const named = (numbers: string): string[] => numbers.split(' ').flatMap((number) => names.get(number) ?? [])
  // A key with a column that may not be read is no use to anybody here.
  const visible = ({ columns }: { readonly columns: string }) => named(columns).length === columns.split(' ').length
  const keys = keyRows.filter(visible)
  const primary = keys.find((key) => key.primary)
  const columns = columnRows.map((column) => buildColumn(column, types))
  const kind: TableKind = kinds[row.kind]
  return {
    oid: row.oid,
    schema: row.schema,
    name: row.name,
    kind,
    comment: row.comment,
    columns,
    columnByName: new Map(columns.map((column) => [column.name, column])),
    primaryKey: primary ? named(primary.columns) : [],
    uniqueKeys: keys.map((key) => named(key.columns)),
    foreignKeys: foreignKeyRows.filter(visible).map((key) => buildForeignKey(key, named(key.columns))),
    relations: [],
    relationByName: new Map(),
    rowSecurity: row.security,
    replicaIdentity: identities[row.identity],
    insertable: (row.events & bits.insert) !== 0,
    updatable: (row.events & bits.update) !== 0,
    deletable: (row.events & bits.delete) !== 0,
  }
}

function buildForeignKey(row: ForeignKeyRow, columns: readonly string[]): ForeignKey {
  const { constraint, targetSchema, targetTable, targetColumns } = row
  return { constraint, columns, targetSchema, targetTable, targetColumns }
}

function buildColumn(row: ColumnRow, types: TypeMap): Column {
  const { type, required, defaultSql, maxLength } = types.get(row.type)!
  return {
    name: row.name,
    type,
    typeSql: row.typeSql,
    dimensions: type.element === null ? 0 : Math.max(1, row.dimensions),
    maxLength: maxLength(row.modifier),
    nullable: !row.required && !required,
    defaultSql: row.default ?? (row.generated || row.identity !== '' ? null : defaultSql),
    identity: row.identity === 'a' ? 'always' : row.identity === 'd' ? 'by-default' : null,
    generated: row.generated,
    comment: row.comment,
  }
}

/** Null for functions whose rows have no known columns (`returns setof record` and no `out` arguments). */
function buildFunction(row: FunctionRow, types: TypeMap): DatabaseFunction | null {
  const parameters = row.types.map((oid, index) => ({
    name: row.names?.[index] ?? '',
    type: typeOf(Number(oid), types),
    mode: row.modes?.[index] ?? 'i',
  }))
  const inputs = parameters.filter(({ mode }) => mode === 'i' || mode === 'b' || mode === 'v')
  const outputs = parameters.filter(({ mode }) => mode === 'o' || mode === 'b' || mode === 't')
  const type = typeOf(row.returns, types)
  if (type.name === 'record' && outputs.length === 0) return null
  return {
    schema: row.schema,
    name: row.name,
    comment: row.comment,
    volatility: volatilities[row.volatility],
    arguments: inputs.map((input, index) => ({
      name: input.name,
      type: input.type,
      optional: index >= inputs.length - row.defaults,
      variadic: input.mode === 'v',
    })),
    returns: {
      type,
      set: row.set,
      void: type.name === 'void' && type.schema === 'pg_catalog',
      columns: type.name === 'record' ? outputs.map(({ name, type }) => ({ name, type })) : [],
    },
  }
}

function typeOf(oid: number, types: TypeMap): DatabaseType {
  return types.get(oid)!.type
}

function groupBy<Row>(rows: readonly Row[], keyOf: (row: Row) => number): ReadonlyMap<number, readonly Row[]> {
  const groups = new Map<number, Row[]>()
  for (const row of rows) {
    const key = keyOf(row)
    const group = groups.get(key)
    if (group) group.push(row)
    else groups.set(key, [row])
  }
  return groups
}
