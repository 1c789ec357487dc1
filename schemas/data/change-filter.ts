import type { ChangeEvent } from './change.ts'

/** Which changes of a table are wanted. */
export interface ChangeFilter {
  /** Default: all. */
  readonly operations?: readonly ChangeEvent['type'][]
  /** Column to value: all of them must be equal, in the new row of an update. */
  readonly where?: Readonly<Record<string, unknown>>
}

export function wantsChange({ operations, where = {} }: ChangeFilter, { type, data }: ChangeEvent): boolean {
  if (operations !== undefined && !operations.includes(type)) return false
  const row = (type === 'UPDATE' ? data.new : data) as Readonly<Record<string, unknown>> | undefined
  return Object.entries(where).every(([column, value]) => sameValue(row?.[column], value))
}

/** Numbers that are too long for JavaScript come as texts. */
function sameValue(found: unknown, wanted: unknown): boolean {
  if (typeof found === 'object' || typeof wanted === 'object') return JSON.stringify(found) === JSON.stringify(wanted)
  return found !== undefined && String(found) === String(wanted)
}
