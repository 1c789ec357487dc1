/** What the data APIs know of a database: immutable once built; a DDL change builds a new one beside the old and swaps it in. */
export interface Catalog {
  /** Changes with every DDL change; part of every cache key. */
  readonly version: string
  readonly schemas: readonly string[]
  /** Keyed by `tableKey(schema, name)`. */
  readonly tables: ReadonlyMap<string, Table>
  readonly functions: readonly DatabaseFunction[]
  readonly types: ReadonlyMap<number, DatabaseType>
}

export type TableKind = 'table' | 'partitioned-table' | 'view' | 'materialized-view' | 'foreign-table'

export interface Table {
  readonly oid: number
  readonly schema: string
  readonly name: string
  readonly kind: TableKind
  readonly comment: string | null
  /** In attribute order. */
  readonly columns: readonly Column[]
  readonly columnByName: ReadonlyMap<string, Column>
  /** Column names in key order; empty when there is none. */
  readonly primaryKey: readonly string[]
  /** Column names of each unique constraint or unconditional unique index, the primary key included. */
  readonly uniqueKeys: readonly (readonly string[])[]
  readonly foreignKeys: readonly ForeignKey[]
  /** To the other tables of the exposed schemas, both directions and through link tables. Names are unique within the table. */
  readonly relations: readonly Relation[]
  /** By name and by every alias that chooses a single relation; a name that fits several is absent. */
  readonly relationByName: ReadonlyMap<string, Relation>
  readonly rowSecurity: boolean
  readonly replicaIdentity: 'default' | 'full' | 'nothing' | 'index'
  readonly insertable: boolean
  readonly updatable: boolean
  readonly deletable: boolean
}

export interface Column {
  readonly name: string
  readonly type: DatabaseType
  /** The type as PostgreSQL writes it, with the column's own modifier: `character varying(20)`. For documentation only. */
  readonly typeSql: string
  /** Of array columns as they were declared, which PostgreSQL does not hold them to; 0 for others. */
  readonly dimensions: number
  /** Characters that fit, of `varchar(n)` and `char(n)`, domains over them included. */
  readonly maxLength: number | null
  readonly nullable: boolean
  /** The default's SQL text, for documentation only; null when there is none. */
  readonly defaultSql: string | null
  readonly identity: 'always' | 'by-default' | null
  readonly generated: boolean
  readonly comment: string | null
}

export type TypeKind = 'base' | 'enum' | 'array' | 'composite' | 'domain' | 'range' | 'multirange' | 'pseudo'

export interface DatabaseType {
  readonly oid: number
  readonly schema: string
  readonly name: string
  /** Quoted, schema-qualified where needed, safe to put behind `::` in SQL; without a column's own modifier. */
  readonly sqlName: string
  readonly kind: TypeKind
  /** Base type under domains, else the type itself. */
  readonly base: DatabaseType
  /** Of an array (or of a domain over one). */
  readonly element: DatabaseType | null
  readonly enumValues: readonly string[]
  /** Of MySQL's largest whole numbers: from 0 to twice as much. Default false. */
  readonly unsigned?: boolean
  readonly attributes: readonly { readonly name: string; readonly type: DatabaseType }[]
  readonly comment: string | null
}

export interface ForeignKey {
  readonly constraint: string
  readonly columns: readonly string[]
  readonly targetSchema: string
  readonly targetTable: string
  readonly targetColumns: readonly string[]
}

/**
 * `one`: this table's columns point at the target (an object, or null). `many`: the target's columns point here (an array).
 * `many-to-many`: through `link` (an array).
 */
export interface Relation {
  readonly name: string
  /** Further names that fit the relation (`relations.ts` says which); when others of the table have one too, it chooses none of them. */
  readonly aliases: readonly string[]
  readonly kind: 'one' | 'many' | 'many-to-many'
  readonly targetSchema: string
  readonly targetTable: string
  /** Columns of this table, pairwise with `targetColumns` (`one`, `many`) or with `link.sourceColumns`. */
  readonly columns: readonly string[]
  readonly targetColumns: readonly string[]
  readonly link: {
    readonly schema: string
    readonly table: string
    readonly sourceColumns: readonly string[]
    /** Pairwise with `targetColumns`. */
    readonly targetColumns: readonly string[]
  } | null
  readonly constraint: string
}

export interface DatabaseFunction {
  readonly schema: string
  readonly name: string
  readonly comment: string | null
  readonly volatility: 'immutable' | 'stable' | 'volatile'
  readonly arguments: readonly {
    readonly name: string
    readonly type: DatabaseType
    readonly optional: boolean
    readonly variadic: boolean
  }[]
  readonly returns: {
    readonly type: DatabaseType
    readonly set: boolean
    readonly void: boolean
    /** Of a row that the function itself declares (`returns table`, `out` arguments); empty for values and rows of a named type. */
    readonly columns: readonly { readonly name: string; readonly type: DatabaseType }[]
  }
}

export function tableKey(schema: string, name: string): string {
  return `${schema}.${name}`
}
