import type { DatabaseType, Table } from './catalog.ts'
import type { Statement } from './statement.ts'

/** A statement ready to run with any values of its shape. */
export interface Compiled {
  readonly statement: Statement
  /** `heavy` statements should not share a pipelined connection with others. */
  readonly weight: 'cheap' | 'heavy'
}

/** Identifiers come from the catalog, never from a request; they are quoted all the same. */
export function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`
}

export function tableName({ schema, name }: Pick<Table, 'schema' | 'name'>): string {
  return `${quoted(schema)}.${quoted(name)}`
}

/** Their plain names mean a length of 1: `'abc'::character` is `a`. */
const ofAnyLength: Readonly<Record<string, string>> = {
  bpchar: 'pg_catalog.bpchar',
  bit: 'pg_catalog."bit"',
  _bpchar: 'pg_catalog.bpchar[]',
  _bit: 'pg_catalog."bit"[]',
}

export function typeName(type: DatabaseType): string {
  return (type.schema === 'pg_catalog' && ofAnyLength[type.name]) || type.sqlName
}

/** A parameter as a value of the type. Domains are read as their base: a value outside of one just matches nothing. */
export function parameter(slot: number, type: DatabaseType): string {
  return `$${slot}::${typeName(type.base)}`
}
