/**
 * The built-in functions as they were before any user code ran.
 * Everything that stands between the user's values and the host calls these, so that a poisoned prototype changes only
 * what its own function sees. Also loaded by the host side of the wire, where it captures Node's.
 */
const { bind, call, toString: sourceText } = Function.prototype
const uncurry = bind.bind(call) as <This, Args extends unknown[], Result>(
  method: (this: This, ...args: Args) => Result,
) => (self: This, ...args: Args) => Result

export const { parse: jsonParse, stringify: jsonStringify } = JSON
export const { apply, construct } = Reflect
export const { create, defineProperty, freeze, getPrototypeOf, setPrototypeOf, keys: objectKeys } = Object
export const toText = String
export const toNumber = Number
export const isArray = Array.isArray
export const { max: maximum, min: minimum } = Math
export const clock = Date.now
export const fromCharCode = String.fromCharCode
export const NativePromise = Promise
export const NativeError = Error
export const NativeTypeError = TypeError
export const NativeRangeError = RangeError
export const NativeArrayBuffer = ArrayBuffer
export const NativeUint8Array = Uint8Array
export const NativeMap = Map
const isView = ArrayBuffer.isView

const sourceOf = uncurry(sourceText)
/** A function that can be called without `new`. */
export const isCallable = (value: unknown): boolean =>
  typeof value === 'function' && slice(sourceOf(value as never), 0, 5) !== 'class'

export const charCodeAt = uncurry(String.prototype.charCodeAt)
export const indexOf = uncurry(String.prototype.indexOf) as (text: string, part: string, from?: number) => number
export const slice = uncurry(String.prototype.slice) as (text: string, from: number, to?: number) => string
export const split = uncurry(String.prototype.split) as unknown as (text: string, separator: string) => string[]
export const lower = uncurry(String.prototype.toLowerCase)
export const toWellFormed = uncurry(String.prototype.toWellFormed)
export const join = uncurry(Array.prototype.join) as (items: readonly unknown[], separator: string) => string
export const push = uncurry(Array.prototype.push) as <Item>(items: Item[], item: Item) => number
export const mapGet = uncurry(Map.prototype.get) as <K, V>(map: Map<K, V>, key: K) => V | undefined
export const mapSet = uncurry(Map.prototype.set) as <K, V>(map: Map<K, V>, key: K, value: V) => Map<K, V>
export const mapDelete = uncurry(Map.prototype.delete) as <K, V>(map: Map<K, V>, key: K) => boolean
const sizeOf = Object.getOwnPropertyDescriptor(Map.prototype, 'size')!.get!
export const mapSize = uncurry(sizeOf as (this: Map<unknown, unknown>) => number) as (map: Map<never, never>) => number
export const mapForEach = uncurry(Map.prototype.forEach) as <K, V>(
  map: Map<K, V>,
  visit: (value: V, key: K) => void,
) => void

const typedArray = Object.getPrototypeOf(Uint8Array.prototype)
const getterOf = (prototype: object, name: string) =>
  uncurry(Object.getOwnPropertyDescriptor(prototype, name)!.get as (this: unknown) => unknown)
export const subarray = uncurry(Uint8Array.prototype.subarray) as (
  bytes: Uint8Array,
  from: number,
  to?: number,
) => Uint8Array
/** The class name of a typed array ('Uint8Array', …), undefined for every other value, whatever the value claims. */
export const typedArrayName = getterOf(typedArray, Symbol.toStringTag as unknown as string) as (
  value: unknown,
) => string | undefined
const viewBuffer = getterOf(typedArray, 'buffer')
const viewOffset = getterOf(typedArray, 'byteOffset')
const viewLength = getterOf(typedArray, 'byteLength')
const dataViewBuffer = getterOf(DataView.prototype, 'buffer')
const dataViewOffset = getterOf(DataView.prototype, 'byteOffset')
const dataViewLength = getterOf(DataView.prototype, 'byteLength')
const bufferLength = getterOf(ArrayBuffer.prototype, 'byteLength') as (buffer: unknown) => number

/** True for an ArrayBuffer. Its prototype is asked first, since a getter that throws costs microseconds. */
export function isArrayBuffer(value: unknown): value is ArrayBuffer {
  if (!(value instanceof NativeArrayBuffer)) return false
  try {
    bufferLength(value)
    return true
  } catch {
    return false
  }
}

/** The bytes an ArrayBuffer, typed array or DataView shows (no copy); null for any other value. */
export function bytesOf(value: unknown): Uint8Array | null {
  if (typeof value !== 'object' || value === null) return null
  if (isView(value)) {
    if (typedArrayName(value) !== undefined)
      return new NativeUint8Array(
        viewBuffer(value) as ArrayBuffer,
        viewOffset(value) as number,
        viewLength(value) as number,
      )
    return new NativeUint8Array(
      dataViewBuffer(value) as ArrayBuffer,
      dataViewOffset(value) as number,
      dataViewLength(value) as number,
    )
  }
  return isArrayBuffer(value) ? new NativeUint8Array(value) : null
}
/** The length of a Uint8Array by the captured getter. */
export const byteLength = viewLength as (bytes: Uint8Array) => number
