import type { DatabaseType } from './catalog.ts'
import { compareDecimals } from './changes-decimal.ts'

/** Orders two JSON texts of values of one type. */
type Compare = (one: string, other: string) => number

export const compareAsTexts: Compare = (one, other) => (one === other ? 0 : one < other ? -1 : 1)

/** How values of a type are ordered, written as JSON; null when only the database knows. */
export function compareOf(type: DatabaseType): Compare | null {
  const { base } = type
  if (base.kind === 'enum') return (one, other) => rankIn(base, one) - rankIn(base, other)
  if (base.kind !== 'base') return null
  switch (base.name) {
    case 'int2':
    case 'int4':
    case 'int8':
    case 'numeric':
      return compareDecimals
    case 'float8':
      return (one, other) => compareNumbers(floatOf(one), floatOf(other))
    case 'float4':
      return (one, other) => compareNumbers(Math.fround(floatOf(one)), Math.fround(floatOf(other)))
    case 'bool':
    case 'uuid':
    case 'time':
      return compareAsTexts
    case 'date':
    case 'timestamp':
    case 'timestamptz':
      return (one, other) => compareMoments(JSON.parse(one) as string, JSON.parse(other) as string)
    case 'bpchar':
      return (one, other) =>
        compareBytes((JSON.parse(one) as string).trimEnd(), (JSON.parse(other) as string).trimEnd())
    case 'citext':
      return (one, other) =>
        compareBytes((JSON.parse(one) as string).toLowerCase(), (JSON.parse(other) as string).toLowerCase())
    case 'text':
    case 'varchar':
    case 'name':
      return (one, other) => (one === other ? 0 : compareBytes(JSON.parse(one) as string, JSON.parse(other) as string))
    default:
      return null
  }
}

function rankIn({ enumValues }: DatabaseType, json: string): number {
  return enumValues.indexOf(JSON.parse(json) as string)
}

function floatOf(json: string): number {
  return Number(json.startsWith('"') ? JSON.parse(json) : json)
}

function compareNumbers(one: number, other: number): number {
  if (Number.isNaN(one) || Number.isNaN(other)) return Number(Number.isNaN(one)) - Number(Number.isNaN(other))
  return one === other ? 0 : one < other ? -1 : 1
}

/** As with COLLATE "C": the database's own collations are not known here. */
function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other))
}

/**
 * Dates and timestamps as PostgreSQL writes them in JSON, all in one offset: texts compare like moments once years have one
 * length and the years before Christ run backwards.
 */
function compareMoments(one: string, other: string): number {
  const left = momentKey(one)
  const right = momentKey(other)
  return left.era === right.era
    ? compareAsTexts(left.text, right.text) * (left.era === 1 ? -1 : 1) || compareRest(left, right)
    : left.era - right.era
}

interface MomentKey {
  /** 0: -infinity, 1: before Christ, 2: after, 3: infinity. */
  readonly era: number
  /** The year. */
  readonly text: string
  readonly rest: string
}

function momentKey(text: string): MomentKey {
  if (text === '-infinity') return { era: 0, text: '', rest: '' }
  if (text === 'infinity') return { era: 3, text: '', rest: '' }
  const dash = text.indexOf('-')
  const before = text.endsWith(' BC')
  const rest = text.slice(dash, before ? -3 : undefined).replace(/\+00:00$/, '')
  return { era: before ? 1 : 2, text: text.slice(0, dash).padStart(7, '0'), rest }
}

function compareRest(one: MomentKey, other: MomentKey): number {
  return compareAsTexts(one.rest, other.rest)
}
