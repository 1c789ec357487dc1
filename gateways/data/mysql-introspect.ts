import { hash } from 'node:crypto'
import type { Catalog, Column, ForeignKey, Table } from './catalog.ts'
import { tableKey } from './catalog.ts'
import { maxLengthOf, mysqlType } from './mysql-types.ts'
import type { ExposedSchemas } from './postgres-introspect.ts'
import { relate } from './relations.ts'

/** What introspection needs of a connection. */
export interface MysqlCatalogClient {
  /** Rows as objects; parameters are `?`. */
  query(text: string, values: readonly unknown[]): Promise<readonly unknown[]>
}

/** The last one is ours. */
const systemSchemas = ['mysql', 'information_schema', 'performance_schema', 'sys', 'busbar']

/** Reads the catalog of the databases (MySQL's schemas), in seven statements whatever the number of tables. */
export async function introspectMysql(client: MysqlCatalogClient, schemas: ExposedSchemas): Promise<Catalog> {
  const rows = await readRows(client, schemas)
  const tables = new Map<string, Table>()
  const jsonColumns = new Set(rows.checks.flatMap(jsonColumnOf))
  for (const [index, row] of rows.tables.entries()) {
    const table = buildTable(row, index + 1, rows, jsonColumns)
    tables.set(tableKey(table.schema, table.name), table)
  }
  const types = [...tables.values()].flatMap(({ columns }) => columns.map(({ type }) => [type.oid, type] as const))
  return {
    version: hash('sha256', JSON.stringify(rows), 'base64url').slice(0, 16),
    schemas: rows.schemas.map(({ name }) => name),
    tables: relate(tables),
    functions: [],
    types: new Map(types),
  }
}

interface TableRow {
  readonly schema: string
  readonly name: string
  readonly kind: string
  readonly comment: string
  /** Of a view. */
  readonly updatable: string | null
}

interface ColumnRow {
  readonly schema: string
  readonly table: string
  readonly name: string
  readonly columnType: string
  readonly nullable: string
  readonly default: string | null
  readonly extra: string
  readonly comment: string
}

interface KeyRow {
  readonly schema: string
  readonly table: string
  readonly key: string
  readonly column: string
}

interface ForeignKeyRow extends KeyRow {
  readonly targetSchema: string
  readonly targetTable: string
  readonly targetColumn: string
}

interface CheckRow {
  readonly schema: string
  readonly table: string
  readonly clause: string
}

interface CatalogRows {
  readonly schemas: readonly { readonly name: string }[]
  readonly tables: readonly TableRow[]
  readonly columns: readonly ColumnRow[]
  readonly keys: readonly KeyRow[]
  readonly foreignKeys: readonly ForeignKeyRow[]
  readonly checks: readonly CheckRow[]
}

async function readRows(client: MysqlCatalogClient, schemas: ExposedSchemas): Promise<CatalogRows> {
  const read = async <Row>(text: string, values: readonly unknown[]) =>
    (await client.query(text, values)) as readonly Row[]
  const wanted = schemas === 'ALL' ? [...systemSchemas] : [...schemas]
  const found = await read<{ name: string }>(
    `select schema_name as name from information_schema.schemata
     where schema_name ${schemas === 'ALL' ? 'not in' : 'in'} (${marks(wanted)}) order by schema_name`,
    wanted,
  )
  const names = found.map(({ name }) => name)
  if (names.length === 0) return { schemas: [], tables: [], columns: [], keys: [], foreignKeys: [], checks: [] }
  const among = `in (${marks(names)})`
  const [mariadb] = await read<{ there: number }>(
    `select count(*) as there from information_schema.columns
     where table_schema = 'information_schema' and table_name = 'CHECK_CONSTRAINTS' and column_name = 'TABLE_NAME'`,
    [],
  )
  return {
    schemas: found,
    tables: await read<TableRow>(
      `select t.table_schema as \`schema\`, t.table_name as name, t.table_type as kind, t.table_comment as comment,
         v.is_updatable as updatable
       from information_schema.tables t
       left join information_schema.views v on v.table_schema = t.table_schema and v.table_name = t.table_name
       where t.table_schema ${among} and t.table_type in ('BASE TABLE', 'VIEW', 'SYSTEM VERSIONED')
       order by t.table_schema, t.table_name`,
      names,
    ),
    columns: await read<ColumnRow>(
      `select table_schema as \`schema\`, table_name as \`table\`, column_name as name, column_type as columnType,
         is_nullable as nullable, column_default as \`default\`, extra as extra, column_comment as comment
       from information_schema.columns where table_schema ${among}
       order by table_schema, table_name, ordinal_position`,
      names,
    ),
    // Of what may be NULL several rows can have the same value, but it is unique where it is there.
    keys: await read<KeyRow>(
      `select table_schema as \`schema\`, table_name as \`table\`, index_name as \`key\`, column_name as \`column\`
       from information_schema.statistics where table_schema ${among} and non_unique = 0
       order by table_schema, table_name, index_name, seq_in_index`,
      names,
    ),
    foreignKeys: await read<ForeignKeyRow>(
      `select table_schema as \`schema\`, table_name as \`table\`, constraint_name as \`key\`, column_name as \`column\`,
         referenced_table_schema as targetSchema, referenced_table_name as targetTable,
         referenced_column_name as targetColumn
       from information_schema.key_column_usage
       where table_schema ${among} and referenced_table_name is not null
       order by table_schema, table_name, constraint_name, ordinal_position`,
      names,
    ),
    checks:
      Number(mariadb?.there) === 0
        ? []
        : await read<CheckRow>(
            `select constraint_schema as \`schema\`, table_name as \`table\`, check_clause as clause
             from information_schema.check_constraints
             where constraint_schema ${among} and check_clause like '%json_valid%'
             order by constraint_schema, table_name, constraint_name`,
            names,
          ),
  }
}

const marks = (values: readonly unknown[]) => values.map(() => '?').join(', ')

function jsonColumnOf({ schema, table, clause }: CheckRow): string[] {
  const column = /^json_valid\(`(.+)`\)$/i.exec(clause)?.[1]
  return column === undefined ? [] : [columnKey(schema, table, column)]
}

const columnKey = (...names: readonly string[]) => JSON.stringify(names)

function buildTable(row: TableRow, oid: number, rows: CatalogRows, jsonColumns: ReadonlySet<string>): Table {
  const { schema, name } = row
  const ours = <Row extends { readonly schema: string; readonly table: string }>(all: readonly Row[]) =>
    all.filter((each) => each.schema === schema && each.table === name)
  const columns = ours(rows.columns).map((column) => buildColumn(column, jsonColumns))
  const keys = Map.groupBy(ours(rows.keys), ({ key }) => key)
  const uniqueKeys = [...keys.values()].map((parts) => parts.map(({ column }) => column))
  const isView = row.kind === 'VIEW'
  const writable = !isView || row.updatable === 'YES'
  return {
    oid,
    schema,
    name,
    kind: isView ? 'view' : 'table',
    comment: isView ? null : row.comment || null,
    columns,
    columnByName: new Map(columns.map((column) => [column.name, column])),
    primaryKey: keys.get('PRIMARY')?.map(({ column }) => column) ?? [],
    uniqueKeys,
    foreignKeys: foreignKeysOf(ours(rows.foreignKeys)),
    relations: [],
    relationByName: new Map(),
    rowSecurity: false,
    // The log has whole rows.
    replicaIdentity: 'full',
    insertable: writable,
    updatable: writable,
    deletable: writable,
  }
}

function foreignKeysOf(rows: readonly ForeignKeyRow[]): ForeignKey[] {
  return [...Map.groupBy(rows, ({ key }) => key)].map(([constraint, parts]) => ({
    constraint,
    columns: parts.map(({ column }) => column),
    targetSchema: parts[0]!.targetSchema,
    targetTable: parts[0]!.targetTable,
    targetColumns: parts.map(({ targetColumn }) => targetColumn),
  }))
}

function buildColumn(row: ColumnRow, jsonColumns: ReadonlySet<string>): Column {
  const isJson = jsonColumns.has(columnKey(row.schema, row.table, row.name))
  const extra = row.extra.toLowerCase()
  // MariaDB writes the word where MySQL has nothing.
  const defaultSql = row.default === null || row.default === 'NULL' ? null : row.default
  return {
    name: row.name,
    type: mysqlType({ ...row, isJson }),
    typeSql: isJson ? 'json' : row.columnType,
    dimensions: 0,
    maxLength: maxLengthOf(row.columnType),
    nullable: row.nullable === 'YES',
    defaultSql: defaultSql ?? (/on update|default_generated/.test(extra) ? extra : null),
    identity: extra.includes('auto_increment') ? 'by-default' : null,
    generated: /\b(virtual|stored|persistent) generated\b/.test(extra) || /^(virtual|stored|persistent)/.test(extra),
    comment: row.comment || null,
  }
}
