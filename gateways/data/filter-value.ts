import type { DatabaseType } from './catalog.ts'
import { hinted, perhaps } from './suggestion.ts'

export interface ValueFault {
  readonly reason: string
  readonly hint?: string
}

const integerRanges: Readonly<Record<string, readonly [bigint, bigint]>> = {
  int2: [-32_768n, 32_767n],
  int4: [-2_147_483_648n, 2_147_483_647n],
  int8: [-9_223_372_036_854_775_808n, 9_223_372_036_854_775_807n],
  uint8: [0n, 18_446_744_073_709_551_615n],
}

const integerPattern = /^[+-]?\d+$/
const numberPattern = /^[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)$/i
const uuidPattern = /^\{?[0-9a-f]{4}(?:-?[0-9a-f]{4}){7}\}?$/i
const truths = new Set(['t', 'true', 'f', 'false', 'y', 'yes', 'n', 'no', 'on', 'off', '1', '0'])

/**
 * Why the text cannot be a value of the type, or null when the database is to judge: only what is cheap and certain is
 * checked here, so that the answer can name the field.
 */
export function valueFault(type: DatabaseType, text: string): ValueFault | null {
  if (text.includes('\0')) return { reason: 'holds the character U+0000, which PostgreSQL cannot store' }
  const { base } = type
  switch (base.kind) {
    case 'enum':
      return enumFault(base, text)
    case 'array':
      return /^\s*[{[]/.test(text) ? null : { reason: 'is not an array; write it in braces, as in {a,b}' }
    case 'range':
      return /^\s*(?:[[(]|empty\s*$)/i.test(text) ? null : { reason: 'is not a range; write it as in [1,10)' }
    case 'base':
      return baseFault(base.unsigned === true ? 'uint8' : base.name, text.trim())
    default:
      return null
  }
}

function baseFault(name: string, text: string): ValueFault | null {
  switch (name) {
    case 'int2':
    case 'int4':
    case 'int8':
    case 'uint8':
      return integerFault(name, text)
    case 'numeric':
    case 'float4':
    case 'float8':
      return numberPattern.test(text) ? null : { reason: 'is not a number', ...nullHint(text) }
    case 'bool':
      return truths.has(text.toLowerCase()) ? null : { reason: 'is not true or false', ...nullHint(text) }
    case 'uuid':
      return uuidPattern.test(text) ? null : { reason: 'is not a UUID', ...nullHint(text) }
    case 'json':
    case 'jsonb':
      return isJsonText(text) ? null : { reason: 'is not JSON', ...nullHint(text) }
    default:
      return null
  }
}

function integerFault(name: string, text: string): ValueFault | null {
  if (!integerPattern.test(text)) return { reason: 'is not an integer', ...nullHint(text) }
  if (text.length < 5) return null
  const [least, most] = integerRanges[name]!
  // Longer texts are out of every range, and a BigInt of thousands of digits is not for free.
  if (text.replace(/^[+-]?0*/, '').length > 20) return { reason: `is out of range (${least} to ${most})` }
  const value = BigInt(text.replace(/^\+/, ''))
  return value >= least && value <= most ? null : { reason: `is out of range (${least} to ${most})` }
}

function enumFault(type: DatabaseType, text: string): ValueFault | null {
  if (type.enumValues.includes(text)) return null
  const listed = type.enumValues.length <= 20 ? type.enumValues.join(', ') : `the ${type.enumValues.length} of its type`
  return { reason: `is none of ${listed}`, ...hinted(perhaps(text, type.enumValues)) }
}

function nullHint(text: string): { readonly hint?: string } {
  return hinted(text.toLowerCase() === 'null' ? 'to find NULL write is.null' : undefined)
}

export function isJsonText(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
