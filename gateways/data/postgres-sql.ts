import type { DatabaseType, Table } from './catalog.ts'

/** Identifiers come from the catalog, never from a request; they are quoted all the same. */
export function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`
}

export function tableName({ schema, name }: Pick<Table, 'schema' | 'name'>): string {
  return `${quoted(schema)}.${quoted(name)}`
}

/** All of the table's columns; those that a part of a catalog holds, where the caller has no right to the others. */
export function everyColumn({ columns, columnByName }: Pick<Table, 'columns' | 'columnByName'>, alias: string): string {
  if (columns.length === columnByName.size) return `${alias}.*`
  return columns.map(({ name }) => `${alias}.${quoted(name)}`).join(', ')
}

/** The type behind `::`, of any length: a column's own modifier is not part of it. Domains are read as their base. */
export function typeName(type: DatabaseType): string {
  return type.base.sqlName
}

/** A parameter as a value of the type; one outside of a domain just matches nothing. */
export function parameter(slot: number, type: DatabaseType): string {
  return `$${slot}::${typeName(type)}`
}
