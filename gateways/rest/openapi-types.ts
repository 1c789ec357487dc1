import type { Column, DatabaseType } from '../data/catalog.ts'

/** A piece of an OpenAPI document. */
export type Json = Readonly<Record<string, unknown>>

/** Where a type's schema is when it has one of its own (enums, composites, rows of tables); undefined for all others. */
export type TypeReferences = (type: DatabaseType) => string | undefined

interface BaseType {
  readonly schema: Json
  readonly example: unknown
}

const text = (example: string, more: Json = {}): BaseType => ({ schema: { type: 'string', ...more }, example })
const integer = (format: string, minimum: number, maximum: number): BaseType => ({
  schema: { type: 'integer', format, minimum, maximum },
  example: 1,
})
const notANumber = 'NaN and infinities come as texts.'

/** How PostgreSQL writes values of these types into JSON, and takes them from it. Types that are not here are texts. */
const baseTypes: Readonly<Record<string, BaseType>> = {
  bool: { schema: { type: 'boolean' }, example: true },
  int2: integer('int32', -32_768, 32_767),
  int4: integer('int32', -2_147_483_648, 2_147_483_647),
  int8: { schema: { type: 'integer', format: 'int64' }, example: 1 },
  oid: integer('int64', 0, 4_294_967_295),
  float4: { schema: { type: 'number', format: 'float', description: notANumber }, example: 1.5 },
  float8: { schema: { type: 'number', format: 'double', description: notANumber }, example: 1.5 },
  numeric: { schema: { type: 'number', description: `All digits count. ${notANumber}` }, example: 12.5 },
  money: text('$12.50'),
  text: text('text'),
  varchar: text('text'),
  bpchar: text('text'),
  name: text('name'),
  char: text('c', { maxLength: 1 }),
  citext: text('Text', { description: 'Compares without regard to case.' }),
  bytea: text('\\x00ff', { pattern: '^\\\\x([0-9a-f]{2})*$', description: 'Bytes in hexadecimal.' }),
  uuid: text('00000000-0000-4000-8000-000000000001', { format: 'uuid' }),
  date: text('2024-02-29', { format: 'date' }),
  time: text('12:30:00', { description: 'Time of day.' }),
  timetz: text('12:30:00+00', { description: 'Time of day with its offset.' }),
  timestamp: text('2024-02-29T12:30:00.123456', { description: 'Date and time without an offset.' }),
  timestamptz: text('2024-02-29T12:30:00.123456+00:00', { format: 'date-time' }),
  interval: text('1 day 02:30:00', { description: 'As PostgreSQL writes intervals; ISO 8601 durations are read too.' }),
  json: { schema: { description: 'Any JSON.' }, example: { key: 'value' } },
  jsonb: { schema: { description: 'Any JSON.' }, example: { key: 'value' } },
  hstore: { schema: { type: 'object', additionalProperties: { type: ['string', 'null'] } }, example: { key: 'value' } },
  geometry: {
    schema: { type: 'object', description: 'GeoJSON.' },
    example: { type: 'Point', coordinates: [1.5, 2.5] },
  },
  geography: {
    schema: { type: 'object', description: 'GeoJSON.' },
    example: { type: 'Point', coordinates: [1.5, 2.5] },
  },
  xml: text('<a/>', { contentMediaType: 'application/xml' }),
  inet: text('192.0.2.1/24'),
  cidr: text('192.0.2.0/24'),
  macaddr: text('08:00:2b:01:02:03'),
  bit: text('1', { pattern: '^[01]*$' }),
  varbit: text('101', { pattern: '^[01]*$' }),
  point: text('(1.5,2.5)'),
  tsvector: text(`'cat' 'fat'`),
  tsquery: text(`'fat' & 'cat'`),
}

const other = text('text')

const bounds: Readonly<Record<string, readonly [string, string]>> = {
  int4range: ['1', '10'],
  int8range: ['1', '10'],
  numrange: ['1.5', '2.5'],
  daterange: ['2024-01-01', '2024-02-01'],
  tsrange: ['"2024-01-01 00:00:00"', '"2024-02-01 00:00:00"'],
  tstzrange: ['"2024-01-01 00:00:00+00"', '"2024-02-01 00:00:00+00"'],
}

function rangeExample(name: string): string {
  const [from, to] = bounds[name.replace('multirange', 'range')] ?? ['', '']
  return `[${from},${to})`
}

/** The type's values in JSON, NULL left out. */
export function typeSchema(type: DatabaseType, references: TypeReferences): Json {
  const name = references(type.base)
  const schema = name === undefined ? plainSchema(type.base, references) : { $ref: `#/components/schemas/${name}` }
  return type.kind === 'domain' && type.comment !== null ? { ...schema, description: type.comment } : schema
}

function plainSchema(type: DatabaseType, references: TypeReferences): Json {
  switch (type.kind) {
    case 'enum':
      return { type: 'string', enum: [...type.enumValues], ...described(type.comment) }
    case 'array':
      return { type: 'array', items: orNull(typeSchema(type.element!, references)) }
    case 'composite':
      return {
        type: 'object',
        properties: Object.fromEntries(
          type.attributes.map((attribute) => [attribute.name, orNull(typeSchema(attribute.type, references))]),
        ),
        ...described(type.comment),
      }
    case 'range':
      return { type: 'string', pattern: '^(empty|[\\[(].*,.*[\\])])$' }
    case 'multirange':
      return { type: 'string', pattern: '^\\{.*\\}$' }
    default:
      return (baseTypes[type.name] ?? other).schema
  }
}

/** The schema with NULL among its values. */
export function orNull(schema: Json): Json {
  const { type, enum: values } = schema
  if (schema.$ref !== undefined) {
    const { $ref, ...rest } = schema
    return { anyOf: [{ $ref }, { type: 'null' }], ...rest }
  }
  if (type === undefined) return schema
  const nullable = { ...schema, type: [...(Array.isArray(type) ? type : [type]), 'null'] }
  return Array.isArray(values) ? { ...nullable, enum: [...values, null] } : nullable
}

/** A value as it stands in JSON. */
export function exampleOf({ base: type }: DatabaseType): unknown {
  switch (type.kind) {
    case 'enum':
      return type.enumValues[0] ?? null
    case 'array':
      return [exampleOf(type.element!)]
    case 'composite':
      return Object.fromEntries(type.attributes.map((attribute) => [attribute.name, exampleOf(attribute.type)]))
    case 'range':
      return rangeExample(type.name)
    case 'multirange':
      return `{${rangeExample(type.name)}}`
    default:
      return (baseTypes[type.name] ?? other).example
  }
}

/** A value as it stands in a URL; arrays and objects in PostgreSQL's own notation. */
export function exampleText(type: DatabaseType): string {
  const example = exampleOf(type)
  if (Array.isArray(example)) return `{${example.map((item) => String(item)).join(',')}}`
  return typeof example === 'object' ? JSON.stringify(example) : String(example)
}

/** The row's value of a column: what is shorter than the type allows is cut to fit. */
export function columnExample({ type, dimensions, maxLength }: Column): unknown {
  let example = exampleOf(type)
  for (let level = 1; level < dimensions; level++) example = [example]
  return typeof example === 'string' && maxLength !== null ? example.slice(0, maxLength) : example
}

/** What may be written into a column. */
export function valueSchema({ type, dimensions, maxLength, nullable }: Column, references: TypeReferences): Json {
  let schema = typeSchema(type, references)
  for (let level = 1; level < dimensions; level++) schema = { type: 'array', items: schema }
  const limited = maxLength === null || schema.type !== 'string' ? schema : { ...schema, maxLength }
  return nullable ? orNull(limited) : limited
}

/** @param remarks sentences after the comment */
export function columnSchema(column: Column, references: TypeReferences, remarks: readonly string[]): Json {
  const { description, ...schema } = valueSchema(column, references)
  const sentences = [column.comment, description, ...remarks].filter((one) => typeof one === 'string' && one !== '')
  return {
    ...schema,
    description: sentences.join('\n\n'),
    ...(column.generated || column.identity === 'always' ? { readOnly: true } : {}),
    examples: [columnExample(column)],
  }
}

export function described(comment: string | null): { readonly description?: string } {
  return comment === null ? {} : { description: comment }
}

/**
 * A parameter that may be left out. Its example stands in the schema: pages that try requests fill in the examples of parameters
 * themselves, and a request with every parameter at once finds nothing.
 */
export function optional(
  place: 'query' | 'header',
  name: string,
  description: string,
  schema: Json,
  example?: unknown,
): Json {
  const examples = example === undefined ? {} : { examples: [example] }
  return { name, in: place, description, schema: { ...schema, ...examples } }
}
