import { TaskFailure } from '../plugin.ts'

const maxDepth = 200

/**
 * As JSON can hold it: dates as ISO 8601, bytes as base64, whole numbers that would lose digits as a text of them, nothing as null.
 *
 * @throws {TaskFailure} `refused` for what is no number, and what nests deeper than 200
 */
export function jsonValue(value: unknown, depth = 0): unknown {
  if (depth > maxDepth) throw new TaskFailure('refused', `It nests deeper than ${maxDepth}`)
  if (typeof value === 'bigint') return String(Number(value)) === String(value) ? Number(value) : String(value)
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new TaskFailure('refused', `${value} is no number that JSON can carry`)
  }
  if (value === undefined || typeof value === 'function' || typeof value === 'symbol') return null
  if (value === null || typeof value !== 'object') return value
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString()
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (Array.isArray(value)) return value.map((each) => jsonValue(each, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, jsonValue(each, depth + 1)]))
}
