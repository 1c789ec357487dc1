import type { Column, DatabaseType } from './catalog.ts'
import { quoted, textLiteral } from './mysql-sql.ts'
import { type Conversion, listMark, slotMark } from './mysql-statement.ts'
import type { MysqlType } from './mysql-types.ts'
import type { Shaping } from './read-ast.ts'

/** What of a column's type is MySQL's own. */
export function mysqlOf(type: DatabaseType): MysqlType['mysql'] {
  const { mysql } = type as Partial<MysqlType>
  return mysql ?? { kind: 'text', base: 'text', unsigned: false }
}

export function conversionOf(type: DatabaseType): Conversion {
  switch (mysqlOf(type).kind) {
    case 'boolean':
      return 'boolean'
    case 'bytes':
      return 'bytes'
    case 'json':
    case 'geometry':
      return 'json'
    case 'datetime':
    case 'timestamp':
      return 'moment'
    default:
      return 'text'
  }
}

/** A parameter (`?`) as a value of the type, to be compared with. Texts stay as they are, so that the column's collation rules. */
function operand(type: DatabaseType): string {
  const { kind, base } = mysqlOf(type)
  switch (kind) {
    case 'boolean':
      return 'cast(? as unsigned)'
    case 'number':
      return base === 'float' ? 'cast(? as float)' : `cast(? as ${type.sqlName})`
    case 'datetime':
    case 'timestamp':
      return 'cast(? as datetime(6))'
    default:
      return base === 'date' || base === 'time' ? `cast(? as ${type.sqlName})` : '?'
  }
}

export function parameter(slot: number, type: DatabaseType): string {
  return operand(type).replace('?', slotMark(slot, conversionOf(type)))
}

export function parameterList(slot: number, type: DatabaseType): string {
  return listMark(slot, conversionOf(type), operand(type))
}

/** A parameter (`?`) as it is stored. Bits read a text as its bytes. */
export function stored(type: DatabaseType): string {
  const { kind, base } = mysqlOf(type)
  if (kind === 'geometry') return 'st_geomfromgeojson(?)'
  return base === 'bit' ? 'cast(? as unsigned)' : '?'
}

/** A column as it is compared and sorted by. */
export function comparable(alias: string, { name, type }: Pick<Column, 'name' | 'type'>): string {
  const sql = `${alias}.${quoted(name)}`
  const { kind, base } = mysqlOf(type)
  if (kind === 'geometry') return `st_asgeojson(${sql})`
  // A set is sorted by its bits, and compared by its text.
  if (base === 'set') return `cast(${sql} as char)`
  return base === 'bit' ? `${sql} + 0` : sql
}

/** The value as text, as a parameter of the type may be given. NULL stays NULL. */
export function textSql(sql: string, type: DatabaseType): string {
  const { kind, base } = mysqlOf(type)
  switch (kind) {
    case 'boolean':
      return `case when ${sql} <> 0 then 'true' when ${sql} = 0 then 'false' end`
    case 'number':
      // As it is in its eight bytes: what MySQL shows of a float has lost digits. Sums lose the zeros in front.
      if (base === 'float') return `concat(cast(${sql} as double))`
      return base === 'decimal' || base === 'numeric' || base === 'double' || base === 'real'
        ? `concat(${sql})`
        : `concat(${sql} + 0)`
    case 'bytes':
      return `concat(${textLiteral('\\x')}, lower(hex(${sql})))`
    case 'geometry':
      return `st_asgeojson(${sql})`
    case 'datetime':
      return `replace(${sql}, ' ', 'T')`
    case 'timestamp':
      return `concat(replace(${sql}, ' ', 'T'), 'Z')`
    default:
      return base === 'date' || base === 'time' ? `concat(${sql})` : `convert(${sql} using utf8mb4)`
  }
}

/** The value as JSON text; NULL stays NULL. */
export function jsonSql(sql: string, type: DatabaseType, shaping: Shaping): string {
  const text = textSql(sql, type)
  if (shaping.kind === 'renamed') {
    const cases = shaping.names.map(
      ([label, name]) => `when ${textLiteral(label)} then ${textLiteral(JSON.stringify(name))}`,
    )
    return `case ${text} ${cases.join(' ')} else json_quote(${text}) end`
  }
  switch (mysqlOf(type).kind) {
    case 'boolean':
    case 'json':
    case 'geometry':
      return text
    case 'number':
      return shaping.kind === 'text' ? quotedJson(text) : text
    case 'datetime':
    case 'timestamp':
      return quotedJson(text)
    default:
      return `json_quote(${text})`
  }
}

/** Of a text that needs no escapes. */
function quotedJson(text: string): string {
  return `concat('"', ${text}, '"')`
}

export interface Member {
  readonly property: string
  /** JSON text; NULL stands for null. */
  readonly sql: string
  /** NULL is no value of it, but a sign that it could not be made. */
  readonly required?: boolean
}

/**
 * One JSON object of the members, as text: MySQL's own objects lose the order of their members, and MariaDB's read what is nested in
 * them again at each level.
 */
export function objectSql(members: readonly Member[]): string {
  const parts: string[] = []
  let literal = '{'
  for (const [index, { property, sql, required }] of members.entries()) {
    literal += `${index === 0 ? '' : ','}${JSON.stringify(property)}:`
    parts.push(textLiteral(literal), required === true ? sql : `coalesce(${sql}, 'null')`)
    literal = ''
  }
  return `concat(${[...parts, textLiteral(`${literal}}`)].join(', ')})`
}

/** JSON array text of the values as texts; NULL stays null in it. */
export function keyTexts(columns: readonly Pick<Column, 'name' | 'type'>[], alias: string): string {
  const texts = columns.map(({ name, type }) => {
    return `coalesce(json_quote(${textSql(`${alias}.${quoted(name)}`, type)}), 'null')`
  })
  return `concat('[', ${texts.join(", ',', ")}, ']')`
}
