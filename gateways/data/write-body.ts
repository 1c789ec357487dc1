import { Rejected } from '../../schemas/failure.ts'
import type { Column, Table } from './catalog.ts'
import { type ValueFault, valueFault } from './filter-value.ts'
import { isArray, isJson } from './operators.ts'
import { columnOf } from './select.ts'
import { hinted, shown } from './suggestion.ts'

export type JsonObject = Readonly<Record<string, unknown>>

/**
 * Parses a body of column values. The values themselves reach the database as the text they came in, so that no digit is lost;
 * what is parsed here serves the checks.
 * @throws {Rejected} `data/invalid-body`
 */
export function parseBody(text: string): JsonObject | readonly JsonObject[] {
  const body = parsed(text)
  if (isObject(body)) return body
  if (!Array.isArray(body)) return refuse('The body must be a JSON object, or an array of them')
  for (const [index, row] of body.entries())
    if (!isObject(row)) refuse(`The body’s row [${index}] is not a JSON object`)
  return body
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new Rejected('data/invalid-body', 'The body is not JSON', { cause, details: { reason: jsonFault(cause) } })
  }
}

/** Without the piece of the body that V8 quotes. */
function jsonFault(cause: unknown): string {
  return /at position \d+/.exec(cause instanceof Error ? cause.message : '')?.[0] ?? 'unexpected end or token'
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Checks the names and, where it is cheap and certain, the values of one row.
 * @param place goes before the column in errors: `[3].`, or nothing
 * @throws {Rejected} `data/unknown-column`, `data/invalid-body`, `data/invalid-value`
 */
export function checkRow(table: Table, row: JsonObject, place = ''): void {
  for (const name of Object.keys(row)) {
    const field = `${place}${name}`
    const column = table.columnByName.get(name) ?? columnOf(table, name, field)
    if (column.generated || column.identity === 'always') {
      refuse(`${field}: the database makes the values of this column`, {
        details: { field, column: name },
        hint: 'leave it out',
      })
    }
    const fault = bodyFault(column, row[name])
    if (fault === null) continue
    throw new Rejected(
      'data/invalid-value',
      `${field}: ${shown(JSON.stringify(row[name]))} ${fault.reason} (column "${name}" is ${column.type.name})`,
      {
        details: { field, column: name, reason: fault.reason },
        ...hinted(fault.hint),
      },
    )
  }
}

function bodyFault({ type }: Column, value: unknown): ValueFault | null {
  if (value === null || isJson(type)) return null
  switch (typeof value) {
    case 'string':
      return valueFault(type, value)
    case 'boolean':
      return type.base.name === 'bool'
        ? null
        : isArray(type)
          ? { reason: 'is not an array' }
          : valueFault(type, String(value))
    case 'number':
      // Beyond 2^53 the number is not what was written, and the database sees what was written.
      return Number.isSafeInteger(value) || Math.abs(value) < 1e15 ? numberFault(type, value) : null
    default:
      return null
  }
}

function numberFault(type: Column['type'], value: number): ValueFault | null {
  if (type.base.name === 'bool') return { reason: 'is not true or false' }
  return isArray(type) ? { reason: 'is not an array' } : valueFault(type, String(value))
}

function refuse(text: string, detail: { readonly details?: unknown; readonly hint?: string } = {}): never {
  throw new Rejected('data/invalid-body', text, detail)
}

/** @throws {Rejected} `data/invalid-body` when a key column of the body is not what the path says. */
export function checkKeyInBody(table: Table, row: JsonObject, text: string, key: readonly string[]): void {
  for (const [index, name] of table.primaryKey.entries()) {
    if (!Object.hasOwn(row, name)) continue
    if (sameKey(table.columnByName.get(name)!, row[name], key[index]!, () => sourceOf(text, name))) continue
    refuse(`${name}: the body names another key than the path`, {
      details: { field: name },
      hint: 'leave the key out of the body',
    })
  }
}

function sameKey({ type }: Column, value: unknown, wanted: string, source: () => string): boolean {
  if (typeof value === 'number') return value === Number(wanted) && (Number.isSafeInteger(value) || source() === wanted)
  if (typeof value !== 'string') return String(value) === wanted
  return type.base.name === 'uuid' ? value.toLowerCase() === wanted.toLowerCase() : value === wanted
}

/** A number of the body as it was written. */
function sourceOf(text: string, name: string): string {
  let source = ''
  JSON.parse(text, (key, value, context?: { readonly source?: string }) => {
    if (key === name && typeof value === 'number') source = context?.source ?? ''
    return value
  })
  return source
}
