import { type Catalog, type DatabaseType, type Relation, type Table, tableKey } from '../data/catalog.ts'

/** `spec`: names as they are, with their first letter in upper case; `pascal`: underscores go, every word begins in upper case. */
export type NamingStyle = 'spec' | 'pascal'

/** A name of the database that GraphQL does not allow, or that another one had already. */
export interface Renamed {
  readonly what: 'table' | 'column' | 'filter member' | 'relation' | 'type' | 'enum value'
  /** As in the database, with what it belongs to. */
  readonly name: string
  readonly as: string
  readonly because: 'not a GraphQL name' | 'the name was taken'
}

export interface TableNames {
  /** `PublicFilm`: the object type, and the stem of all other types of the table. */
  readonly type: string
  /** `publicFilm`: the list, and the stem of its other fields. */
  readonly field: string
  readonly columns: ReadonlyMap<string, string>
  /** The same in filters, where `and`, `or` and `not` are taken. */
  readonly filterColumns: ReadonlyMap<string, string>
  /** By the relation's name in the catalog. */
  readonly relations: ReadonlyMap<string, string>
}

export interface Naming {
  readonly tables: ReadonlyMap<string, TableNames>
  /** Of enums and composite types, by oid. */
  readonly types: ReadonlyMap<number, string>
  readonly enumValues: ReadonlyMap<number, ReadonlyMap<string, string>>
  readonly renamed: readonly Renamed[]
}

/** What is put behind a table's stem; a stem is free when all of these are. */
const typeSuffixes = [
  '',
  'Input',
  'PkInput',
  'Filter',
  'ListFilter',
  'OrderBy',
  'Connection',
  'Edge',
  'Aggregate',
  'NumericAggregates',
  'AverageAggregates',
  'ComparableAggregates',
  'Group',
  'GroupKey',
  'Column',
  'ChangeEvent',
  'ChangeData',
] as const
const fieldSuffixes = ['', 'Connection', 'Aggregate', 'Changes'] as const

/** Names of GraphQL itself and of the types every schema has. */
const ownTypes = [
  'Query',
  'Mutation',
  'Subscription',
  'String',
  'Int',
  'Float',
  'Boolean',
  'ID',
  'PageInfo',
  'OrderDirection',
  'ChangeOperation',
]

/** Names everything that is exposed, the same way whenever the catalog is the same. */
export function nameCatalog(catalog: Catalog, style: NamingStyle, taken: Iterable<string> = []): Naming {
  const renamed: Renamed[] = []
  const typeNames = new Set([...ownTypes, ...taken])
  const fieldNames = new Set<string>()
  const tables = new Map<string, TableNames>()
  const inOrder = [...catalog.tables.values()].toSorted(byLegalThenName)
  for (const table of inOrder) {
    const stem = stemOf(table, style)
    const claimed = claimStem(stem, typeNames, fieldNames)
    note(renamed, 'table', `${table.schema}.${table.name}`, raw(table, style), claimed.type)
    tables.set(tableKey(table.schema, table.name), {
      ...claimed,
      columns: new Map(),
      filterColumns: new Map(),
      relations: new Map(),
    })
  }
  for (const table of inOrder) {
    const key = tableKey(table.schema, table.name)
    tables.set(key, { ...tables.get(key)!, ...nameFields(table, tables, renamed) })
  }
  const { types, enumValues } = nameTypes(catalog, style, typeNames, renamed)
  return { tables, types, enumValues, renamed }
}

export function namesOf(naming: Naming, table: { readonly schema: string; readonly name: string }): TableNames {
  return naming.tables.get(tableKey(table.schema, table.name))!
}

interface Stem {
  readonly type: string
  readonly field: string
}

function raw({ schema, name }: { readonly schema: string; readonly name: string }, style: NamingStyle): string {
  return style === 'pascal' ? pascal(schema) + pascal(name) : upperFirst(schema) + upperFirst(name)
}

function stemOf(of: { readonly schema: string; readonly name: string }, style: NamingStyle): Stem {
  const type = legal(raw(of, style))
  return { type, field: legal(lowerFirst(raw(of, style), of.schema, style)) }
}

/** `<schema>` stays as it is in front of a field's name; in the other style it begins in lower case. */
function lowerFirst(name: string, schema: string, style: NamingStyle): string {
  return style === 'pascal' ? name.slice(0, 1).toLowerCase() + name.slice(1) : schema + name.slice(schema.length)
}

function claimStem({ type, field }: Stem, typeNames: Set<string>, fieldNames: Set<string>): Stem {
  for (let number = 1; ; number++) {
    const mark = number === 1 ? '' : `_${number}`
    const stem = { type: `${type}${mark}`, field: `${field}${mark}` }
    const types = typeSuffixes.map((suffix) => `${stem.type}${suffix}`)
    const fields = fieldSuffixes.map((suffix) => `${stem.field}${suffix}`)
    if (types.some((name) => typeNames.has(name)) || fields.some((name) => fieldNames.has(name))) continue
    for (const name of types) typeNames.add(name)
    for (const name of fields) fieldNames.add(name)
    return stem
  }
}

function nameFields(
  table: Table,
  tables: ReadonlyMap<string, TableNames>,
  renamed: Renamed[],
): Pick<TableNames, 'columns' | 'filterColumns' | 'relations'> {
  const place = `${table.schema}.${table.name}`
  const used = new Set<string>()
  const columns = new Map<string, string>()
  for (const { name } of table.columns.toSorted((a, b) => byLegalThenName(a, b))) {
    const as = claim(legal(name), used)
    columns.set(name, as)
    note(renamed, 'column', `${place}.${name}`, name, as)
  }
  // Members of the filter input that are no columns.
  const combining = ['and', 'or', 'not']
  for (const name of combining) used.add(name)
  const filterColumns = new Map(columns)
  for (const [name, as] of columns) {
    if (!combining.includes(as)) continue
    filterColumns.set(name, claim(as, used))
    note(renamed, 'filter member', `${place}.${name}`, as, filterColumns.get(name)!)
  }
  const relations = new Map<string, string>()
  for (const relation of table.relations) {
    const target = tables.get(tableKey(relation.targetSchema, relation.targetTable))
    if (!target) continue
    const wanted = relationNames(table, relation, target.field)
    const free = wanted.find((name) => !used.has(name))
    const as = free ?? claim(wanted.at(-1)!, used)
    used.add(as)
    relations.set(relation.name, as)
    if (free === undefined) note(renamed, 'relation', `${place} ${relation.constraint}`, wanted.at(-1)!, as)
  }
  return { columns, filterColumns, relations }
}

/**
 * `publicCustomers`; when that is another relation of the table, `publicCustomersByBilling_address_id` after the key's columns (through a
 * link table, `…Via<link>` and `…Via<link>By<columns>`; back along a key whose own direction has that name, `…ListBy<columns>`), or after
 * the constraint.
 */
function relationNames(table: Table, relation: Relation, field: string): string[] {
  const { kind, link, columns, targetColumns, constraint, targetSchema, targetTable } = relation
  const plain = table.relationByName.get(`${targetSchema}.${targetTable}`) ?? table.relationByName.get(targetTable)
  const first = plain === undefined || plain === relation ? [field] : []
  const by = (names: readonly string[]) => `By${names.map((name) => upperFirst(legal(name))).join('')}`
  const after = {
    one: [`${field}${by(columns)}`],
    many: [`${field}${by(targetColumns)}`, `${field}List${by(targetColumns)}`],
    'many-to-many': link
      ? [
          `${field}Via${upperFirst(legal(link.table))}`,
          `${field}Via${upperFirst(legal(link.table))}${by(link.targetColumns)}`,
        ]
      : [],
  }[kind]
  return [...first, ...after, `${field}By${upperFirst(legal(constraint))}`]
}

function nameTypes(catalog: Catalog, style: NamingStyle, typeNames: Set<string>, renamed: Renamed[]) {
  const types = new Map<number, string>()
  const enumValues = new Map<number, ReadonlyMap<string, string>>()
  for (const type of usedTypes(catalog).toSorted(byLegalThenName)) {
    const wanted = raw(type, style)
    let name = legal(wanted)
    for (let number = 2; typeNames.has(name) || typeNames.has(`${name}Filter`); number++)
      name = `${legal(wanted)}_${number}`
    for (const suffix of ['', 'Filter', 'ListFilter', 'Input']) typeNames.add(`${name}${suffix}`)
    types.set(type.oid, name)
    note(renamed, 'type', `${type.schema}.${type.name}`, wanted, name)
    if (type.kind === 'enum') enumValues.set(type.oid, nameValues(type, renamed))
  }
  return { types, enumValues }
}

/** Enums and composite types of columns, directly or inside others. */
function usedTypes(catalog: Catalog): DatabaseType[] {
  const found = new Map<number, DatabaseType>()
  const visit = ({ base: type }: DatabaseType): void => {
    if (found.has(type.oid)) return
    found.set(type.oid, type)
    if (type.element) visit(type.element)
    for (const attribute of type.attributes) visit(attribute.type)
  }
  for (const { columns } of catalog.tables.values()) for (const { type } of columns) visit(type)
  return [...found.values()].filter(({ kind }) => kind === 'enum' || kind === 'composite')
}

function nameValues(type: DatabaseType, renamed: Renamed[]): ReadonlyMap<string, string> {
  // Words of the language itself.
  const used = new Set(['true', 'false', 'null'])
  const values = new Map<string, string>()
  for (const value of type.enumValues) {
    const as = claim(legal(value), used)
    values.set(value, as)
    note(renamed, 'enum value', `${type.schema}.${type.name} ${value}`, value, as)
  }
  return values
}

function claim(name: string, used: Set<string>): string {
  let free = name
  for (let number = 2; used.has(free); number++) free = `${name}_${number}`
  used.add(free)
  return free
}

function note(renamed: Renamed[], what: Renamed['what'], name: string, wanted: string, as: string): void {
  if (wanted === as) return
  renamed.push({ what, name, as, because: legal(wanted) === wanted ? 'the name was taken' : 'not a GraphQL name' })
}

/** Every character that GraphQL does not allow becomes an underscore; two in front, which are GraphQL's own, get an `x` before them. */
function legal(name: string): string {
  const letters = name.replace(/[^_0-9A-Za-z]/gu, '_')
  if (letters === '') return '_'
  if (letters.startsWith('__')) return `x${letters}`
  return /^\d/.test(letters) ? `_${letters}` : letters
}

function upperFirst(name: string): string {
  return name.slice(0, 1).toUpperCase() + name.slice(1)
}

function pascal(name: string): string {
  const words = name.split(/[^0-9A-Za-z]+/).filter((word) => word !== '')
  return words.length === 0 ? upperFirst(name) : words.map(upperFirst).join('')
}

/** Names that need no change keep theirs. */
function byLegalThenName(
  a: { readonly schema?: string; readonly name: string },
  b: { readonly schema?: string; readonly name: string },
): number {
  const odd = Number(legal(a.name) !== a.name) - Number(legal(b.name) !== b.name)
  if (odd !== 0) return odd
  const [left, right] = [`${a.schema ?? ''}.${a.name}`, `${b.schema ?? ''}.${b.name}`]
  return left < right ? -1 : left > right ? 1 : 0
}
