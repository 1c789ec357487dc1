import type { DatabaseType } from '../data/catalog.ts'
import type { JsonValue } from './scalars.ts'
import { attributesOf } from './types.ts'

/** A value that GraphQL has coerced, as PostgreSQL reads it. */
export function textOf(value: unknown, type: DatabaseType): string {
  const { base } = type
  if (isJsonValue(value)) return value.json
  if (base.kind === 'array') return arrayText(value, base.element!)
  if (base.kind === 'composite') return compositeText(value, base)
  return String(value)
}

function arrayText(value: unknown, element: DatabaseType): string {
  const members = (value as readonly unknown[]).map((member) => {
    if (member === null || member === undefined) return 'NULL'
    if (Array.isArray(member)) return arrayText(member, element)
    return `"${textOf(member, element).replace(/["\\]/g, '\\$&')}"`
  })
  return `{${members.join(',')}}`
}

function compositeText(value: unknown, type: DatabaseType): string {
  const given = value as Readonly<Record<string, unknown>>
  const fields = attributesOf(type).map(([name, attribute]) => {
    const member = given[name]
    return member === null || member === undefined
      ? ''
      : `"${textOf(member, attribute.type).replace(/["\\]/g, '$&$&')}"`
  })
  return `(${fields.join(',')})`
}

/** The same as JSON text, in the words of the database: what an insert reads. */
export function jsonOf(value: unknown, type: DatabaseType): string {
  const { base } = type
  if (value === null || value === undefined) return 'null'
  if (isJsonValue(value)) return value.json
  if (base.kind === 'array')
    return `[${(value as readonly unknown[]).map((member) => jsonOf(member, base.element!)).join(',')}]`
  if (base.kind === 'composite') {
    const given = value as Readonly<Record<string, unknown>>
    const members = attributesOf(base)
      .filter(([name]) => given[name] !== undefined)
      .map(([name, attribute]) => `${JSON.stringify(attribute.name)}:${jsonOf(given[name], attribute.type)}`)
    return `{${members.join(',')}}`
  }
  return JSON.stringify(value)
}

function isJsonValue(value: unknown): value is JsonValue {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    'json' in value &&
    typeof value.json === 'string'
  )
}
