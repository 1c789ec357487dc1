import { Rejected } from '../../schemas/failure.ts'
import type { Table } from '../data/catalog.ts'
import { valueFault } from '../data/filter-value.ts'
import type { ReadLimits } from '../data/read-limits.ts'
import { hinted, shown } from '../data/suggestion.ts'

/**
 * The key's values in key order. Composite keys are cut at commas before percent-decoding, so a comma inside a value is `%2C`;
 * a key of one column is never cut.
 * @param segment the path segment as it stands in the URL, still percent-encoded.
 * @throws {Rejected} `data/no-primary-key`, `data/invalid-key`
 */
export function parseKey(table: Table, segment: string, limits: ReadLimits): string[] {
  const { primaryKey } = table
  if (primaryKey.length === 0) throw new Rejected('data/no-primary-key', `${table.name} has no primary key`)
  if (segment.length > limits.maxValueLength)
    return refuse(`the key is longer than ${limits.maxValueLength} characters`, primaryKey)
  const parts = primaryKey.length === 1 ? [segment] : segment.split(',')
  if (parts.length !== primaryKey.length)
    return refuse(`expected ${primaryKey.length} values, not ${parts.length}`, primaryKey)
  return parts.map((part, index) => {
    const value = decoded(part, primaryKey)
    const column = table.columnByName.get(primaryKey[index]!)!
    const fault = valueFault(column.type, value)
    if (fault === null) return value
    return refuse(
      `${shown(value)} ${fault.reason} (column "${column.name}" is ${column.type.name})`,
      primaryKey,
      fault.hint,
    )
  })
}

function decoded(part: string, primaryKey: readonly string[]): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return refuse(`${shown(part)} has a malformed percent escape`, primaryKey)
  }
}

function refuse(reason: string, primaryKey: readonly string[], hint?: string): never {
  throw new Rejected('data/invalid-key', `the key in the path (${primaryKey.join(',')}): ${reason}`, {
    details: { field: 'key', columns: primaryKey, reason },
    ...hinted(hint),
  })
}
