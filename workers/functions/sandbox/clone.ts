// biome-ignore-all lint/complexity/noArguments: Web IDL counts arguments, undefined ones too
import { DOMException } from './dom-exception.ts'
import { bytesOf, isArrayBuffer, typedArrayName } from './intrinsics.ts'

const errorTypes: Readonly<Record<string, ErrorConstructor>> = {
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
} as never

/** HTML's structured clone for what a function can hold; transferred buffers are detached. */
export function structuredClone(value: unknown, options?: { transfer?: Iterable<unknown> }): unknown {
  if (arguments.length === 0) throw new TypeError('structuredClone needs a value')
  const seen = new Map<unknown, unknown>()
  for (const item of options?.transfer ?? []) {
    if (!isArrayBuffer(item)) throw cannot('a value that cannot be transferred')
    if (seen.has(item)) throw cannot('a buffer that is transferred twice')
    seen.set(item, null)
  }
  for (const item of [...seen.keys()]) seen.set(item, (item as ArrayBuffer).transfer())
  return clone(value, seen)
}

const cannot = (what: string) => new DOMException(`${what} could not be cloned.`, 'DataCloneError')

function clone(value: unknown, seen: Map<unknown, unknown>): unknown {
  if (typeof value === 'function') throw cannot(`The function ${value.name}`)
  if (typeof value === 'symbol') throw cannot('A symbol')
  if (typeof value !== 'object' || value === null) return value
  if (seen.has(value)) return seen.get(value)
  const simple = leaf(value, seen)
  if (simple !== undefined) {
    seen.set(value, simple)
    return simple
  }
  return container(value, seen)
}

/** Values without members of their own. */
function leaf(value: object, seen: Map<unknown, unknown>): object | undefined {
  if (isArrayBuffer(value)) return value.slice(0)
  if (ArrayBuffer.isView(value)) return cloneView(value, seen)
  if (value instanceof Date) return new Date(value.getTime())
  if (value instanceof RegExp) return new RegExp(value.source, value.flags)
  if (value instanceof Boolean || value instanceof Number || value instanceof String) return Object(value.valueOf())
  if (typeof BigInt !== 'undefined' && value instanceof BigInt) return Object(value.valueOf())
  if (value instanceof WeakMap || value instanceof WeakSet || value instanceof WeakRef || value instanceof Promise)
    throw cannot(`${value.constructor?.name ?? 'The object'}`)
  return undefined
}

function cloneView(view: ArrayBufferView, seen: Map<unknown, unknown>): object {
  const buffer = clone(view.buffer, seen) as ArrayBuffer
  const name = typedArrayName(view)
  if (name === undefined) return new DataView(buffer, view.byteOffset, view.byteLength)
  const make = (globalThis as unknown as Record<string, Uint8ArrayConstructor>)[name]!
  const size = (bytesOf(view)?.byteLength ?? 0) / make.BYTES_PER_ELEMENT
  return new make(buffer, view.byteOffset, size)
}

function container(value: object, seen: Map<unknown, unknown>): object {
  if (value instanceof Map) {
    const copy = new Map()
    seen.set(value, copy)
    for (const [key, member] of [...value]) copy.set(clone(key, seen), clone(member, seen))
    return copy
  }
  if (value instanceof Set) {
    const copy = new Set()
    seen.set(value, copy)
    for (const member of [...value]) copy.add(clone(member, seen))
    return copy
  }
  if (value instanceof Error) return cloneError(value, seen)
  const copy = Array.isArray(value) ? new Array(value.length) : {}
  seen.set(value, copy)
  for (const name of Object.keys(value)) {
    const member = clone((value as Record<string, unknown>)[name], seen)
    Object.defineProperty(copy, name, { value: member, writable: true, enumerable: true, configurable: true })
  }
  return copy
}

function cloneError(error: Error, seen: Map<unknown, unknown>): Error {
  if (error instanceof DOMException) return new DOMException(error.message, error.name)
  const make = errorTypes[error.name] ?? Error
  const copy = Object.create(make.prototype) as Error
  seen.set(error, copy)
  for (const name of ['message', 'stack', 'cause'] as const) {
    if (!Object.hasOwn(error, name)) continue
    const value = clone(error[name], seen)
    Object.defineProperty(copy, name, { value, writable: true, configurable: true, enumerable: false })
  }
  return copy
}
