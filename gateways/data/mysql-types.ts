import { type MysqlKind, mysqlKind } from '../../schemas/data/mysql-value.ts'
import type { DatabaseType } from './catalog.ts'

/** A column as `information_schema.columns` has it. */
export interface ColumnTypeRow {
  /** `bigint(20) unsigned` */
  readonly columnType: string
  /** MariaDB keeps JSON in texts, with a check that they are. */
  readonly isJson: boolean
  readonly schema: string
  readonly table: string
  readonly name: string
}

/** What of a MySQL type is beyond the type of ours that it is served as. */
export interface MysqlType extends DatabaseType {
  readonly mysql: { readonly kind: MysqlKind; readonly base: string; readonly unsigned: boolean }
}

/**
 * The types of MySQL as the names that the doors know: those of PostgreSQL, which say the same of values (`int8` is a whole number with
 * all its digits, `timestamptz` a moment). What stands in SQL is `sqlName`, a type to cast a text to.
 */
export function mysqlType({ columnType, isJson, ...place }: ColumnTypeRow): MysqlType {
  const base = columnType.toLowerCase().split(/[ (]/)[0]!
  const kind = mysqlKind(columnType, isJson)
  const enumValues = base === 'enum' ? labelsOf(columnType) : []
  const { name, sqlName } =
    // An enum is its column's own.
    base === 'enum' ? { name: `${place.table}_${place.name}`, sqlName: 'char' } : named(kind, base, columnType)
  const type: Omit<MysqlType, 'base'> & { base: MysqlType | null } = {
    oid: oidOf(base === 'enum' ? `${place.schema}.${name}` : name),
    schema: base === 'enum' ? place.schema : 'mysql',
    name,
    sqlName,
    kind: enumValues.length > 0 ? 'enum' : 'base',
    base: null,
    element: null,
    enumValues,
    attributes: [],
    comment: null,
    unsigned: base === 'bigint' && /\bunsigned\b/i.test(columnType),
    mysql: { kind, base, unsigned: /\bunsigned\b/i.test(columnType) },
  }
  type.base = type as MysqlType
  return type as MysqlType
}

/** Characters that fit. */
export function maxLengthOf(columnType: string): number | null {
  const length = /^(?:var)?char\((\d+)\)/i.exec(columnType)?.[1]
  return length === undefined ? null : Number(length)
}

const integers: Readonly<Record<string, string>> = {
  tinyint: 'int2',
  smallint: 'int2',
  mediumint: 'int4',
  int: 'int4',
  integer: 'int4',
  bigint: 'int8',
  year: 'int2',
  bit: 'int8',
}

function named(kind: MysqlKind, base: string, columnType: string): { readonly name: string; readonly sqlName: string } {
  switch (kind) {
    case 'boolean':
      return { name: 'bool', sqlName: 'signed' }
    case 'number': {
      const integer = integers[base]
      if (integer !== undefined) return { name: wide(base, integer, columnType), sqlName: 'decimal(20)' }
      if (base === 'float' || base === 'double' || base === 'real') return { name: 'float8', sqlName: 'double' }
      return { name: 'numeric', sqlName: `decimal(65,${fractionDigits(columnType)})` }
    }
    case 'json':
      return { name: 'jsonb', sqlName: 'json' }
    case 'geometry':
      return { name: 'jsonb', sqlName: 'json' }
    case 'bytes':
      return { name: 'bytea', sqlName: 'binary' }
    case 'datetime':
      return { name: 'timestamp', sqlName: 'datetime(6)' }
    case 'timestamp':
      return { name: 'timestamptz', sqlName: 'datetime(6)' }
    case 'text':
      if (base === 'date') return { name: 'date', sqlName: 'date' }
      if (base === 'time') return { name: 'time', sqlName: 'time(6)' }
      if (base === 'uuid') return { name: 'uuid', sqlName: 'char' }
      return { name: 'text', sqlName: 'char' }
  }
}

/** As many as leave room for the digits in front of the point. */
function fractionDigits(columnType: string): number {
  const [, digits = '10', fraction = '0'] = /\((\d+)(?:,(\d+))?\)/.exec(columnType) ?? []
  return Math.min(30, 65 - (Number(digits) - Number(fraction)))
}

/** A number without a sign can be twice as large. */
function wide(base: string, integer: string, columnType: string): string {
  if (!/\bunsigned\b/i.test(columnType)) return integer
  return base === 'int' || base === 'integer' ? 'int8' : base === 'smallint' ? 'int4' : integer
}

function labelsOf(columnType: string): string[] {
  return [...columnType.matchAll(/'((?:[^']|'')*)'/g)].map(([, label]) => label!.replaceAll("''", "'"))
}

const oids = new Map<string, number>()

function oidOf(name: string): number {
  const known = oids.get(name) ?? oids.size + 1
  oids.set(name, known)
  return known
}
