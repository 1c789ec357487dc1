import { Value } from 'typebox/value'
import type { ConfigKey } from './key.ts'

/** The value a text stands for, or why it stands for none. */
export type Reading = { readonly value: unknown } | { readonly reason: string }

/** Reads a value as it is written in the environment, on the command line or in a file (there a list may be a list). */
export function readValue(key: ConfigKey, written: string | readonly string[]): Reading {
  const reading = convert(key, written)
  if ('reason' in reading || Value.Check(key.schema, reading.value)) return reading
  return { reason: expectation(key) }
}

/** The value as one writes it, for `busbar config` and the reference. */
export function writeValue(value: unknown): string {
  return Array.isArray(value) ? value.join(',') : String(value)
}

interface SchemaShape {
  readonly type?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly pattern?: string
  readonly anyOf?: readonly { readonly const: string }[]
}

function convert(key: ConfigKey, written: string | readonly string[]): Reading {
  const shape = key.schema as SchemaShape
  if (shape.type === 'array') {
    const parts = typeof written === 'string' ? written.split(',') : written
    return { value: parts.map((part) => part.trim()).filter((part) => part !== '') }
  }
  if (typeof written !== 'string') return { reason: 'must be one value, not a list' }
  const text = written.trim()
  if (shape.type === 'boolean') return readFlag(text)
  if (shape.type === 'integer') return readNumber(key, text)
  return { value: text }
}

function readFlag(text: string): Reading {
  if (/^(true|on|yes|1)$/i.test(text)) return { value: true }
  if (/^(false|off|no|0)$/i.test(text)) return { value: false }
  return { reason: 'must be true or false' }
}

const factors = {
  ms: { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 },
  bytes: { B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 },
} as const

function readNumber(key: ConfigKey, text: string): Reading {
  const match = /^(-?\d{1,15})\s*([A-Za-z]*)$/.exec(text)
  const suffix = match?.[2] ?? ''
  const known: Readonly<Record<string, number>> = key.unit === undefined ? {} : factors[key.unit]
  const factor = suffix === '' ? 1 : (known[suffix] ?? known[suffix.toUpperCase()] ?? known[suffix.toLowerCase()])
  if (match === null || factor === undefined) return { reason: expectation(key) }
  return { value: Number(match[1]) * factor }
}

/** What the key takes, in words. */
export function expectation(key: ConfigKey): string {
  const { type, anyOf, minimum, maximum, minLength, pattern } = key.schema as SchemaShape
  if (anyOf !== undefined) return `must be one of ${anyOf.map((each) => each.const).join(', ')}`
  if (type === 'boolean') return 'must be true or false'
  if (type === 'integer') return `must be a whole number${units(key)} between ${minimum} and ${maximum}`
  if (type === 'array') return 'must be a list separated by commas, with at least one entry'
  if (pattern !== undefined) return `must match ${pattern}`
  return `must have ${minLength === 1 ? 'at least one character' : `${minLength} characters or more`}`
}

function units(key: ConfigKey): string {
  if (key.unit === undefined) return ''
  return key.unit === 'ms' ? ' (milliseconds, or with ms, s, m, h, d)' : ' (bytes, or with KB, MB, GB, TB)'
}
