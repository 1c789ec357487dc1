import { parseDuration } from './duration.ts'

/** What a value of the key-value store can be said to be. */
export const kvTypes = ['STRING', 'NUMBER', 'BOOLEAN', 'DATETIME', 'DATE', 'DURATION', 'JSON'] as const
export type KvType = (typeof kvTypes)[number]

/** What a value is when nobody says. */
export function kvTypeOf(value: unknown): KvType {
  switch (typeof value) {
    case 'string':
      return 'STRING'
    case 'number':
      return 'NUMBER'
    case 'boolean':
      return 'BOOLEAN'
    default:
      return 'JSON'
  }
}

const dateTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/
const date = /^\d{4}-\d\d-\d\d$/

/** Why a value is not what it is said to be; null when it is. */
export function kvTypeMistake(type: KvType, value: unknown): string | null {
  switch (type) {
    case 'JSON':
      return null
    case 'STRING':
      return typeof value === 'string' ? null : 'must be a text'
    case 'NUMBER':
      return typeof value === 'number' ? null : 'must be a number'
    case 'BOOLEAN':
      return typeof value === 'boolean' ? null : 'must be true or false'
    case 'DATETIME':
      return isTime(value, dateTime) ? null : 'must be a time, RFC 3339'
    case 'DATE':
      return isTime(value, date) ? null : 'must be a day, YYYY-MM-DD'
    case 'DURATION':
      return typeof value === 'string' && parseDuration(value) !== null ? null : 'must be a duration: PT1H30M, or 90m'
  }
}

/** `PT1H`, `90m`, or a number of seconds, in milliseconds; null for anything else. */
export function parseTtl(written: unknown): number | null {
  const seconds = typeof written === 'string' && /^\d+(\.\d+)?$/.test(written.trim()) ? Number(written) : written
  const ms = typeof seconds === 'number' ? seconds * 1_000 : parseDuration(seconds)
  return ms !== null && Number.isFinite(ms) && ms >= 1 ? Math.round(ms) : null
}

/** Whether it is written so and there is such a day: the calendar turns the 30th of February into March. */
function isTime(value: unknown, syntax: RegExp): boolean {
  if (typeof value !== 'string' || !syntax.test(value) || Number.isNaN(Date.parse(value))) return false
  const day = value.slice(0, 10)
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day)
}
