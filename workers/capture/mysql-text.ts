import { type MysqlKind, mysqlKind } from '../../schemas/data/mysql-value.ts'
import type { Encode } from './row-event.ts'

/** How a value of the log becomes the text of an event, and that text JSON. */
export interface ValueWriter {
  readonly text: (value: unknown) => string | null
  readonly encode: Encode
}

const jsonNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
const asText: Encode = (text) => JSON.stringify(text)
const asNumber: Encode = (text) => (jsonNumber.test(text) ? text : JSON.stringify(text))
const asItIs: Encode = (text) => text

/** @param geometry code of the subtype, as the log has it; 0 or absent: any */
export function valueWriter(columnType: string, isJson: boolean, geometry = 0): ValueWriter {
  const kind = mysqlKind(columnType, isJson)
  const text = texts[kind]
  return {
    text: (value) => (value === null || value === undefined ? null : text(value, geometry)),
    encode: encodes[kind],
  }
}

const encodes: Readonly<Record<MysqlKind, Encode>> = {
  boolean: asItIs,
  number: asNumber,
  text: asText,
  json: asItIs,
  bytes: asText,
  geometry: asItIs,
  datetime: (text) => JSON.stringify(text.replace(' ', 'T')),
  timestamp: (text) => JSON.stringify(`${text.replace(' ', 'T')}Z`),
}

const texts: Readonly<Record<MysqlKind, (value: unknown, geometry: number) => string>> = {
  boolean: (value) => String(Number(bitValue(value)) !== 0),
  number: (value) => bitValue(value),
  text: plain,
  // Line ends can only stand between the tokens.
  json: (value) => plain(value).replace(/[\r\n]/g, ' '),
  // As the API writes it.
  bytes: (value) => `\\x${(Buffer.isBuffer(value) ? value : Buffer.from(plain(value), 'latin1')).toString('hex')}`,
  geometry: (value, code) => JSON.stringify(geoJson(value, code)),
  datetime: plain,
  timestamp: plain,
}

function plain(value: unknown): string {
  return Buffer.isBuffer(value) ? value.toString('utf8') : String(value)
}

/** BIT comes as bytes where it is long. */
function bitValue(value: unknown): string {
  return Buffer.isBuffer(value) ? BigInt(`0x${value.toString('hex') || '0'}`).toString() : plain(value)
}

const geometryNames = [
  null,
  'Point',
  'LineString',
  'Polygon',
  'MultiPoint',
  'MultiLineString',
  'MultiPolygon',
  'GeometryCollection',
] as const

/** As RFC 7946 writes it. The log has points as `{x, y}` and all else as arrays of them, so that the kind must be told. */
function geoJson(value: unknown, code: number): object {
  const type = geometryNames[code] ?? guessed(value)
  if (type === 'GeometryCollection' && Array.isArray(value)) {
    return { type, geometries: value.map((each) => geoJson(each, 0)) }
  }
  return { type, coordinates: coordinates(value) }
}

function guessed(value: unknown): string {
  if (!Array.isArray(value)) return 'Point'
  if (!Array.isArray(value[0])) return 'LineString'
  return Array.isArray(value[0][0]) ? 'MultiPolygon' : 'Polygon'
}

function coordinates(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(coordinates)
  const { x, y } = value as { readonly x: number; readonly y: number }
  return [x, y]
}
