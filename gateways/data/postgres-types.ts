import type { DatabaseType, TypeKind } from './catalog.ts'

export interface TypeRow {
  readonly oid: number
  readonly schema: string
  readonly name: string
  readonly kind: string
  readonly sqlName: string
  /** Of arrays. */
  readonly element: number | null
  /** Of domains. */
  readonly base: number | null
  readonly required: boolean
  readonly default: string | null
  readonly modifier: number
  readonly relation: number | null
  readonly labels: readonly string[]
  readonly comment: string | null
}

export interface AttributeRow {
  readonly relation: number
  readonly name: string
  readonly type: number
}

/** A type with what a column takes over from it. */
export interface KnownType {
  readonly type: DatabaseType
  /** Domains can forbid NULL. */
  readonly required: boolean
  /** Domains can have a default. */
  readonly defaultSql: string | null
  /** Characters that fit, given the modifier of the column. */
  maxLength(modifier: number): number | null
}

export type TypeMap = ReadonlyMap<number, KnownType>

const kinds: Readonly<Record<string, TypeKind>> = {
  b: 'base',
  e: 'enum',
  c: 'composite',
  d: 'domain',
  r: 'range',
  m: 'multirange',
  p: 'pseudo',
}

type Mutable<Type> = { -readonly [Key in keyof Type]: Type[Key] }

/**
 * Types refer to each other (elements, bases, attributes), so they are made first and joined then. The rows are closed: every type
 * a row refers to has a row.
 */
export function buildTypes(rows: readonly TypeRow[], attributes: readonly AttributeRow[]): TypeMap {
  const rowByOid = new Map(rows.map((row) => [row.oid, row]))
  const types = new Map(rows.map((row) => [row.oid, unjoined(row)]))
  const attributesOf = Map.groupBy(attributes, ({ relation }) => relation)
  for (const row of rows) {
    const type = types.get(row.oid)!
    const base = rowByOid.get(baseOf(row, rowByOid))!
    type.base = types.get(base.oid)!
    if (base.element !== null) type.element = types.get(base.element)!
    if (type.kind === 'array') type.sqlName = `${elementOf(row, rowByOid).sqlName}[]`
    if (row.relation !== null) {
      const members = attributesOf.get(row.relation) ?? []
      type.attributes = members.map((member) => ({ name: member.name, type: types.get(member.type)! }))
    }
  }
  return new Map(rows.map((row) => [row.oid, known(row, types.get(row.oid)!, rowByOid)]))
}

function unjoined({ oid, schema, name, sqlName, kind, element, labels, comment }: TypeRow): Mutable<DatabaseType> {
  const type: Omit<DatabaseType, 'base'> & { base?: DatabaseType } = {
    oid,
    schema,
    name,
    sqlName,
    kind: element === null ? (kinds[kind] ?? 'base') : 'array',
    element: null,
    enumValues: labels,
    attributes: [],
    comment,
  }
  return type as Mutable<DatabaseType>
}

function baseOf(row: TypeRow, rows: ReadonlyMap<number, TypeRow>): number {
  return row.base === null ? row.oid : baseOf(rows.get(row.base)!, rows)
}

function elementOf(row: TypeRow, rows: ReadonlyMap<number, TypeRow>): TypeRow {
  return rows.get(row.element!)!
}

function known(row: TypeRow, type: DatabaseType, rows: ReadonlyMap<number, TypeRow>): KnownType {
  const domains = domainsOf(row, rows)
  const counted = type.base.schema === 'pg_catalog' && (type.base.name === 'varchar' || type.base.name === 'bpchar')
  return {
    type,
    required: domains.some(({ required }) => required),
    defaultSql: domains.find((domain) => domain.default !== null)?.default ?? null,
    maxLength(modifier) {
      const given = [modifier, ...domains.map((domain) => domain.modifier)].find((number) => number >= 4)
      return counted && given !== undefined ? given - 4 : null
    },
  }
}

/** From the outermost in. */
function domainsOf(row: TypeRow, rows: ReadonlyMap<number, TypeRow>): TypeRow[] {
  return row.base === null ? [] : [row, ...domainsOf(rows.get(row.base)!, rows)]
}
