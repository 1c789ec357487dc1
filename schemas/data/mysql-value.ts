/** How a column's values are written in JSON, on the API and on the change streams alike. */
export type MysqlKind = 'boolean' | 'number' | 'text' | 'json' | 'bytes' | 'geometry' | 'datetime' | 'timestamp'

/**
 * What a column type, as `information_schema.columns.column_type` has it, comes to.
 *
 * @param isJson MariaDB keeps JSON in texts, with a check that they are
 */
export function mysqlKind(columnType: string, isJson = false): MysqlKind {
  const type = columnType.toLowerCase()
  if (isJson || type === 'json') return 'json'
  if (/^(tinyint|bit)\(1\)/.test(type)) return 'boolean'
  const [base = ''] = type.split(/[ (]/)
  if (numbers.has(base)) return 'number'
  if (/blob$|^(var)?binary$/.test(base)) return 'bytes'
  if (geometries.has(base)) return 'geometry'
  if (base === 'datetime' || base === 'timestamp') return base
  return 'text'
}

const numbers: ReadonlySet<string> = new Set([
  'tinyint',
  'smallint',
  'mediumint',
  'int',
  'integer',
  'bigint',
  'decimal',
  'numeric',
  'float',
  'double',
  'real',
  'year',
  'bit',
])

const geometries: ReadonlySet<string> = new Set([
  'geometry',
  'point',
  'linestring',
  'polygon',
  'multipoint',
  'multilinestring',
  'multipolygon',
  'geometrycollection',
  'geomcollection',
])
