import { type Relation, type Table, tableKey } from './catalog.ts'

/**
 * Gives every table its relations. They come from foreign keys: `one` from the table that has the key, `many` back to it, and
 * `many-to-many` between the two ends of a link table, whose primary key (or another unique key without NULLs) consists of two
 * foreign keys.
 *
 * Names a relation goes by, the more telling first; `far` is the table it leads to:
 *
 * | | `one` | `many` | `many-to-many` |
 * |---|---|---|---|
 * | the related table | `far` | `far` | `far` |
 * | after the column | the key's column without `_id` | | the same of the link's, from a table to itself |
 * | singular | `far` without its plural ending | | |
 * | by column | `far!column` | `far!column`, `far_by_column` | `far!link`, `far!link!column`, `far!column` |
 * | by constraint | `far!constraint`, `constraint` | `far!constraint`, `constraint` | `far!link!constraint` |
 * | across schemas | `schema.far`, and with all of the above | the same | the same |
 *
 * When a name fits several relations: the related table's name goes before any other kind of name, and `one` before `many` before
 * `many-to-many`. Of several `one` relations to a table the one whose column is named after it has the plain name
 * (`customer_id` -> `customers`, beside `recommended_by` -> `customers`). A name that still fits several chooses none.
 * So a self reference is followed upwards by the table's own name, and downwards by `table_by_column`.
 */
export function relate(tables: ReadonlyMap<string, Table>): ReadonlyMap<string, Table> {
  const found = new Map<string, Candidate[]>()
  const add = (from: Table, candidate: Candidate) => {
    const key = tableKey(from.schema, from.name)
    const candidates = found.get(key)
    if (candidates) candidates.push(candidate)
    else found.set(key, [candidate])
  }
  for (const table of tables.values()) {
    const keys = referencesOf(table, tables)
    for (const key of keys) {
      add(table, forward(key))
      add(key.target, reverse(key))
    }
    for (const [near, far] of linksOf(table, keys)) add(near.target, through(near, far))
  }
  const related = (key: string, table: Table): Table => ({ ...table, ...named(table, inOrder(found.get(key) ?? [])) })
  return new Map([...tables].map(([key, table]) => [key, related(key, table)]))
}

/** A foreign key with both its tables. */
interface Reference {
  readonly table: Table
  readonly columns: readonly string[]
  readonly target: Table
  readonly targetColumns: readonly string[]
  readonly constraint: string
}

/** A relation that is not named yet. */
type Unnamed = Omit<Relation, 'name' | 'aliases'>

interface Candidate {
  readonly relation: Unnamed
  /** Names it would go by, each with its rank: of all relations that have a name, those of the lowest rank stand for it. */
  readonly names: readonly (readonly [name: string, rank: number])[]
}

/** In steps of ten; the kinds of relations come one after the other within a step. */
const rank = { table: 0, column: 10, singular: 20, hint: 30, constraint: 40 } as const
const step = { one: 1, many: 2, manyToMany: 3 } as const

function referencesOf(table: Table, tables: ReadonlyMap<string, Table>): Reference[] {
  return table.foreignKeys.flatMap(({ columns, targetSchema, targetTable, targetColumns, constraint }) => {
    const target = tables.get(tableKey(targetSchema, targetTable))
    if (!target || !targetColumns.every((name) => target.columnByName.has(name))) return []
    return [{ table, columns, target, targetColumns, constraint }]
  })
}

function forward({ table, columns, target, targetColumns, constraint }: Reference): Candidate {
  const role = columns.length === 1 ? withoutId(columns[0]!) : null
  const own = role !== null && (role === target.name || role === singular(target.name))
  const names: [string, number][] = [[target.name, rank.table + (own ? 0 : step.one)]]
  if (role !== null) names.push([role, rank.column + step.one])
  names.push([singular(target.name), rank.singular + (own ? 0 : step.one)])
  for (const column of columns) names.push([`${target.name}!${column}`, rank.hint + step.one])
  names.push([`${target.name}!${constraint}`, rank.constraint + step.one], [constraint, rank.constraint + step.one])
  return {
    relation: { kind: 'one', ...leadingTo(target), columns, targetColumns, link: null, constraint },
    names: acrossSchemas(names, target, table),
  }
}

function reverse({ table, columns, target, targetColumns, constraint }: Reference): Candidate {
  const names: [string, number][] = [[table.name, rank.table + step.many]]
  for (const column of columns) names.push([`${table.name}!${column}`, rank.hint + step.many])
  names.push([`${table.name}_by_${columns.join('_')}`, rank.hint + step.many])
  names.push([`${table.name}!${constraint}`, rank.constraint + step.many], [constraint, rank.constraint + step.many])
  return {
    relation: {
      kind: 'many',
      ...leadingTo(table),
      columns: targetColumns,
      targetColumns: columns,
      link: null,
      constraint,
    },
    names: acrossSchemas(names, table, target),
  }
}

function through(near: Reference, far: Reference): Candidate {
  const link = near.table
  const names: [string, number][] = [[far.target.name, rank.table + step.manyToMany]]
  const telling = `${far.target.name}!${link.name}`
  names.push([telling, rank.hint + step.manyToMany])
  for (const column of far.columns) {
    names.push([`${telling}!${column}`, rank.hint + step.manyToMany])
    names.push([`${far.target.name}!${column}`, rank.hint + step.manyToMany])
  }
  // From a table to itself only the column tells the two directions apart.
  const role = far.target === near.target && far.columns.length === 1 ? withoutId(far.columns[0]!) : null
  if (role !== null) names.unshift([role, rank.column + step.manyToMany])
  names.push([`${telling}!${far.constraint}`, rank.constraint + step.manyToMany])
  names.push([`${telling}!${near.constraint}!${far.constraint}`, rank.constraint + step.manyToMany])
  return {
    relation: {
      kind: 'many-to-many',
      ...leadingTo(far.target),
      columns: near.targetColumns,
      targetColumns: far.targetColumns,
      link: { schema: link.schema, table: link.name, sourceColumns: near.columns, targetColumns: far.columns },
      constraint: far.constraint,
    },
    names: acrossSchemas(names, far.target, near.target),
  }
}

function leadingTo({ schema, name }: Table): Pick<Relation, 'targetSchema' | 'targetTable'> {
  return { targetSchema: schema, targetTable: name }
}

/** To another schema the names can be written with it; without it a table of the own schema goes first. */
function acrossSchemas(names: readonly [string, number][], far: Table, from: Table): [string, number][] {
  if (far.schema === from.schema) return [...names]
  return [
    ...names.map(([name, at]): [string, number] => [name, at + 0.5]),
    ...names.map(([name, at]): [string, number] => [`${far.schema}.${name}`, at]),
  ]
}

/** Pairs of a link table's references, in both directions: together they are exactly a key of it. */
function linksOf(table: Table, keys: readonly Reference[]): [Reference, Reference][] {
  const unique = table.uniqueKeys.filter((columns) =>
    columns.every((name) => table.columnByName.get(name)?.nullable === false),
  )
  const pairs: [Reference, Reference][] = []
  for (const key of unique) {
    const inside = keys.filter(
      ({ columns }) => columns.length < key.length && columns.every((name) => key.includes(name)),
    )
    for (const near of inside) {
      for (const far of inside) {
        if (near === far || pairs.some(([a, b]) => a === near && b === far)) continue
        if (new Set([...near.columns, ...far.columns]).size === key.length) pairs.push([near, far])
      }
    }
  }
  return pairs
}

function inOrder(candidates: readonly Candidate[]): Candidate[] {
  const place = { one: step.one, many: step.many, 'many-to-many': step.manyToMany }
  return candidates.toSorted((a, b) => place[a.relation.kind] - place[b.relation.kind])
}

/** Decides who has which name. */
function named(table: Table, candidates: readonly Candidate[]): Pick<Table, 'relations' | 'relationByName'> {
  const holders = new Map<string, { rank: number; by: Candidate[] }>()
  for (const candidate of candidates) {
    for (const [name, at] of new Map(candidate.names.toReversed())) {
      const holder = holders.get(name)
      if (!holder || at < holder.rank) holders.set(name, { rank: at, by: [candidate] })
      else if (at === holder.rank) holder.by.push(candidate)
    }
  }
  const relations: Relation[] = []
  const relationByName = new Map<string, Relation>()
  for (const candidate of candidates) {
    const mine = [...new Set(candidate.names.map(([name]) => name))].filter((name) =>
      holders.get(name)!.by.includes(candidate),
    )
    const alone = mine.filter((name) => holders.get(name)!.by.length === 1)
    const name = alone.find((one) => !table.columnByName.has(one)) ?? alone[0] ?? spareName(candidate.relation, holders)
    const relation: Relation = { ...candidate.relation, name, aliases: mine.filter((alias) => alias !== name) }
    relations.push(relation)
    for (const chosen of [name, ...alone]) relationByName.set(chosen, relation)
  }
  return { relations, relationByName }
}

/** Nobody else's: for two constraints that are alike in everything, such as one key declared twice over a link table. */
function spareName(relation: Unnamed, holders: Map<string, { rank: number; by: Candidate[] }>): string {
  const stem = `${relation.targetSchema}.${relation.targetTable}!${relation.constraint}`
  let name = stem
  for (let number = 2; holders.has(name); number++) name = `${stem}!${number}`
  holders.set(name, { rank: 0, by: [] })
  return name
}

/** `customer_id` and `customerId` are named after a customer; a key that is called by no more than that, `id`, after nobody. */
function withoutId(column: string): string | null {
  const role = column.replace(/(?:_id|_ID|Id|ID)$/, '')
  return role === '' || /^id$/i.test(role) ? null : role
}

/** English plurals as tables are named; irregular ones stay as they are. */
function singular(name: string): string {
  if (/[^aeiou]ies$/i.test(name)) return `${name.slice(0, -3)}y`
  if (/(?:ss|sh|ch|x|z)es$/i.test(name)) return name.slice(0, -2)
  return /[^siu]s$/i.test(name) ? name.slice(0, -1) : name
}
