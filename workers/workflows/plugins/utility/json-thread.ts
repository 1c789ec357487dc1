import { applyPatch, createPatch, type Operation } from 'rfc6902'
import { Errors } from 'typebox/schema'
import { TaskFailure } from '../../plugin.ts'
import { parsedJson, parsedLines } from '../json-text.ts'
import { jsonValue } from '../json-value.ts'
import { keyOf } from '../list-properties.ts'

const maxErrors = 1_000
const operationsOfPatches = new Set(['add', 'remove', 'replace', 'move', 'copy', 'test'])

export function parse({ text, lines }: { readonly text: string; readonly lines: boolean }): unknown {
  return lines ? parsedLines(text) : parsedJson(text)
}

interface Stringify {
  readonly value: unknown
  readonly lines: boolean
  readonly indent: number
  readonly sortKeys: boolean
}

export function stringify({ value, lines, indent, sortKeys }: Stringify): string {
  const written = (each: unknown) => {
    const plain = jsonValue(each)
    return JSON.stringify(sortKeys ? JSON.parse(keyOf(plain)) : plain, null, indent)
  }
  if (!lines) return written(value)
  if (!Array.isArray(value)) throw new TaskFailure('refused', 'properties.value is no list, and lines are made of one')
  return value.map((each) => `${JSON.stringify(sortKeys ? JSON.parse(keyOf(each)) : each)}\n`).join('')
}

interface Pointed {
  readonly value: unknown
  readonly pointer: string
  readonly otherwise: unknown
}

/** Source: RFC 6901 */
export function pointed({ value, pointer, otherwise }: Pointed): unknown {
  if (pointer !== '' && !pointer.startsWith('/')) {
    throw new TaskFailure('refused', 'properties.pointer is none: it is empty or begins with /')
  }
  if (/~(?![01])/.test(pointer)) throw new TaskFailure('refused', 'properties.pointer: after ~ comes 0 or 1')
  let found = value
  for (const step of pointer.split('/').slice(1)) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
    const isThere = Array.isArray(found)
      ? /^(0|[1-9]\d*)$/.test(key) && Number(key) < found.length
      : found !== null && typeof found === 'object' && Object.hasOwn(found, key)
    if (!isThere) {
      if (otherwise !== undefined) return otherwise
      throw new TaskFailure('refused', `There is nothing at ${pointer}`)
    }
    found = (found as Record<string, unknown>)[key]
  }
  return found
}

/** All of it or nothing. Source: RFC 6902 */
export function patched({ value, patch }: { readonly value: unknown; readonly patch: unknown }): unknown {
  if (!Array.isArray(patch)) throw new TaskFailure('refused', 'properties.patch is no list of operations')
  for (const [index, operation] of patch.entries()) checkOperation(operation, `properties.patch[${index}]`)
  // As the member of another, so that the whole document can be replaced as well.
  const held = { document: structuredClone(value) }
  const inside = (patch as Operation[]).map((operation) => ({
    ...operation,
    path: `/document${operation.path}`,
    ...('from' in operation && { from: `/document${operation.from}` }),
  }))
  const failed = applyPatch(held, inside as Operation[]).findIndex((error) => error !== null)
  if (failed < 0) return held.document ?? null
  const { op, path } = patch[failed] as Operation
  const told = op === 'test' ? 'is another value' : 'cannot be done: there is nothing there'
  throw new TaskFailure('refused', `properties.patch[${failed}]: ${op} ${path} ${told}`)
}

function checkOperation(operation: unknown, place: string): void {
  const { op, path, from, ...rest } = (operation ?? {}) as Record<string, unknown>
  const told = (what: string) => new TaskFailure('refused', `${place} ${what}`)
  if (!operationsOfPatches.has(String(op))) throw told(`has no op that is known: ${JSON.stringify(op)}`)
  const isPointer = (text: unknown) => typeof text === 'string' && /^(\/([^~/]|~[01])*)*$/.test(text)
  if (!isPointer(path)) throw told('has no path that is a JSON Pointer')
  if ((op === 'move' || op === 'copy') && !isPointer(from)) throw told('has no from that is a JSON Pointer')
  if (op === 'move' && String(path).startsWith(`${from}/`)) throw told('moves a value into itself')
  if (['add', 'replace', 'test'].includes(String(op)) && !('value' in rest)) throw told('has no value')
  if (/(^|\/)__proto__(\/|$)/.test(`${path} ${from}`)) throw told('leads to __proto__')
}

/** Source: RFC 7396 */
export function mergePatched({ value, patch }: { readonly value: unknown; readonly patch: unknown }): unknown {
  if (!isObject(patch)) return patch
  const merged = new Map(isObject(value) ? Object.entries(value) : [])
  for (const [key, part] of Object.entries(patch)) {
    if (part === null) merged.delete(key)
    else merged.set(key, mergePatched({ value: merged.get(key), patch: part }))
  }
  return Object.fromEntries(merged)
}

export function difference({ value, other }: { readonly value: unknown; readonly other: unknown }): Operation[] {
  return createPatch(value, other)
}

interface Validate {
  readonly value: unknown
  readonly schema: Readonly<Record<string, unknown>>
  readonly failWhenInvalid: boolean
}

/** Source: https://json-schema.org/draft/2020-12 */
export function validated({ value, schema, failWhenInvalid }: Validate) {
  const [valid, faults] = errorsOf(schema, value)
  const errors = faults.slice(0, maxErrors).map(({ instancePath, message }) => ({ path: instancePath, message }))
  const [first] = errors
  if (failWhenInvalid && first !== undefined) {
    throw new TaskFailure('refused', `The value does not fit: ${first.path || 'it'} ${first.message}`)
  }
  return { valid, errors }
}

function errorsOf(schema: Readonly<Record<string, unknown>>, value: unknown) {
  try {
    // Looked at step by step: a schema of somebody else never becomes code.
    return Errors(schema, value)
  } catch (error) {
    const told = error instanceof RangeError ? 'it never ends' : (error as Error).message
    throw new TaskFailure('refused', `properties.schema cannot be used: ${told}`, error)
  }
}

export function flattened({ value }: { readonly value: unknown }): Record<string, unknown> {
  const flat: [string, unknown][] = []
  const visit = (each: unknown, path: string): void => {
    if (each === null || typeof each !== 'object' || Object.keys(each).length === 0) flat.push([path, each])
    else if (Array.isArray(each)) for (const [index, inner] of each.entries()) visit(inner, `${path}[${index}]`)
    else for (const [key, inner] of Object.entries(each)) visit(inner, path + (path === '' ? key : `.${key}`))
  }
  visit(value, '')
  return Object.fromEntries(flat)
}

export function unflattened({ value }: { readonly value: unknown }): unknown {
  if (!isObject(value)) throw new TaskFailure('refused', 'properties.value is no object')
  const root = { value: undefined as unknown }
  for (const [path, each] of Object.entries(value)) {
    let holder: object = root
    let key: string | number = 'value'
    for (const step of stepsOf(path)) {
      const inside: unknown = Object.hasOwn(holder, key) ? (holder as Record<string, unknown>)[key] : undefined
      const isFit = typeof step === 'number' ? Array.isArray(inside) : isObject(inside)
      if (inside !== undefined && !isFit)
        throw new TaskFailure('refused', `properties.value: ${path} fits no other key`)
      const next = inside ?? (typeof step === 'number' ? [] : {})
      put(holder, key, next)
      holder = next as object
      key = step
    }
    put(holder, key, each)
  }
  return jsonValue(root.value ?? {})
}

function stepsOf(path: string): (string | number)[] {
  return [...path.matchAll(/\[(\d{1,6})\]|[^.[\]]+/g)].map(([text, index]) =>
    index === undefined ? text : Number(index),
  )
}

function put(holder: object, key: string | number, value: unknown): void {
  Object.defineProperty(holder, key, { value, configurable: true, enumerable: true, writable: true })
}

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}
