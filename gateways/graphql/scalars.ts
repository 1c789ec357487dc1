import { GraphQLError, GraphQLScalarType, Kind, type ValueNode } from 'graphql'
import { isJsonText } from '../data/filter-value.ts'

/** A scalar whose values travel as texts, so that no digit is lost. `parse` gives the text or says why not. */
function textScalar(
  name: string,
  description: string,
  parse: (text: string) => string | null,
): GraphQLScalarType<string, string> {
  const read = (text: string): string => {
    const value = parse(text)
    if (value === null) throw new GraphQLError(`${JSON.stringify(text.slice(0, 100))} is not a ${name}`)
    return value
  }
  return new GraphQLScalarType<string, string>({
    name,
    description,
    parseValue(value) {
      if (typeof value === 'string') return read(value)
      if (typeof value === 'bigint') return read(String(value))
      if (typeof value === 'number' && Number.isSafeInteger(value)) return read(String(value))
      if (typeof value === 'number' && !Number.isInteger(value)) return read(String(value))
      throw new GraphQLError(
        `${name} must be sent as a string: ${typeof value === 'number' ? 'a number of this size has lost digits' : 'this is none'}`,
      )
    },
    parseLiteral(node) {
      if (node.kind === Kind.STRING || node.kind === Kind.INT || node.kind === Kind.FLOAT) return read(node.value)
      throw new GraphQLError(`${name} must be written as a string or a number`, { nodes: node })
    },
  })
}

const any = (text: string): string => text
const matching =
  (pattern: RegExp) =>
  (text: string): string | null =>
    pattern.test(text.trim()) ? text.trim() : null

export const BigInt64 = textScalar(
  'BigInt',
  'A whole number of 64 bits, as a string: JSON numbers would lose digits.',
  matching(/^[+-]?\d{1,40}$/),
)
export const Decimal = textScalar(
  'Decimal',
  'A number with all its digits, as a string.',
  matching(/^[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,5})?|nan|inf(?:inity)?)$/i),
)
export const DateTime = textScalar(
  'DateTime',
  'A time in ISO 8601, with its offset where the column has a time zone.',
  any,
)
export const DateOnly = textScalar('Date', 'A day, as `2024-02-29`.', any)
export const Time = textScalar('Time', 'A time of day, as `12:30:00`.', any)
export const Interval = textScalar('Interval', 'A span of time as an ISO 8601 duration, as `P1DT2H`.', any)
export const Uuid = textScalar('UUID', 'A UUID.', matching(/^\{?[0-9a-f]{4}(?:-?[0-9a-f]{4}){7}\}?$/i))
export const Inet = textScalar('Inet', 'A network address, as `10.0.0.0/8`.', any)
export const Bytes = textScalar('Bytes', 'Bytes in hexadecimal, as `\\xcafe`.', matching(/^\\x(?:[0-9a-f]{2})*$/i))
export const Range = textScalar('Range', 'A range, as `[1,10)`; several in braces for a multirange.', any)

/** What a JSON value is inside: its text. */
export interface JsonValue {
  readonly json: string
}

export const Json = new GraphQLScalarType<JsonValue, unknown>({
  name: 'JSON',
  description: 'Any JSON value. A string that is sent is a JSON string, not JSON text.',
  parseValue: (value) => ({ json: JSON.stringify(value) }),
  parseLiteral: (node, variables) => ({ json: literalJson(node, variables ?? {}) }),
})

function literalJson(node: ValueNode, variables: Readonly<Record<string, unknown>>): string {
  switch (node.kind) {
    case Kind.STRING:
    case Kind.ENUM:
      return JSON.stringify(node.value)
    case Kind.INT:
    case Kind.FLOAT:
      // The digits as they were written.
      return isJsonText(node.value) ? node.value : 'null'
    case Kind.BOOLEAN:
      return String(node.value)
    case Kind.NULL:
      return 'null'
    case Kind.LIST:
      return `[${node.values.map((value) => literalJson(value, variables)).join(',')}]`
    case Kind.OBJECT:
      return `{${node.fields.map(({ name, value }) => `${JSON.stringify(name.value)}:${literalJson(value, variables)}`).join(',')}}`
    case Kind.VARIABLE:
      return jsonOf(variables[node.name.value])
  }
}

/** A variable has been through a scalar of ours already, or is plain. */
function jsonOf(value: unknown): string {
  if (typeof value === 'object' && value !== null && 'json' in value && typeof value.json === 'string')
    return value.json
  return JSON.stringify(value ?? null)
}

export const scalars: readonly GraphQLScalarType[] = [
  BigInt64,
  Decimal,
  DateTime,
  DateOnly,
  Time,
  Interval,
  Uuid,
  Inet,
  Bytes,
  Range,
  Json,
]
