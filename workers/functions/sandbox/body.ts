import { ask } from './host.ts'
import { byteLength, charCodeAt, indexOf, lower, NativeUint8Array } from './intrinsics.ts'
import { fromLatin1, latin1, pack } from './wire.ts'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
let values: Uint8Array | null = null

function sextets(): Uint8Array {
  if (values !== null) return values
  values = new NativeUint8Array(128)
  for (let at = 0; at < 128; at++) values[at] = 255
  for (let at = 0; at < 64; at++) values[charCodeAt(ALPHABET, at)] = at
  return values
}

/** Base64 of Latin-1 text. */
export function toBase64(text: string): string {
  let out = ''
  for (let at = 0; at < text.length; at += 3) {
    const left = text.length - at
    const bits =
      (charCodeAt(text, at) << 16) |
      (left > 1 ? charCodeAt(text, at + 1) << 8 : 0) |
      (left > 2 ? charCodeAt(text, at + 2) : 0)
    out += ALPHABET[bits >> 18]! + ALPHABET[(bits >> 12) & 63]!
    out += (left > 1 ? ALPHABET[(bits >> 6) & 63]! : '=') + (left > 2 ? ALPHABET[bits & 63]! : '=')
  }
  return out
}

/** The bytes of base64 without white space; null when it is none. Padding may be left out. */
export function fromBase64(given: string): Uint8Array<ArrayBuffer> | null {
  let length = given.length
  if (length % 4 === 0 && length > 0 && given[length - 1] === '=') length -= given[length - 2] === '=' ? 2 : 1
  if (length % 4 === 1) return null
  const table = sextets()
  const bytes = new NativeUint8Array((length * 3) >> 2)
  let bits = 0
  let to = 0
  for (let at = 0; at < length; at++) {
    const code = charCodeAt(given, at)
    const value = code < 128 ? table[code]! : 255
    if (value === 255) return null
    bits = (bits << 6) | value
    const phase = at & 3
    if (phase > 0) bytes[to++] = (bits >> (6 - phase * 2)) & 255
  }
  return bytes
}

/** UTF-8 length of text, lone surrogates counted as U+FFFD. */
export function utf8Length(text: string): number {
  let length = text.length
  for (let at = 0; at < text.length; at++) {
    const code = charCodeAt(text, at)
    if (code < 0x80) continue
    if (code < 0x800) length += 1
    else {
      length += 2
      if (isPair(text, at, code)) at++
    }
  }
  return length
}

function isPair(text: string, at: number, code: number): boolean {
  if (code < 0xd800 || code > 0xdbff || at + 1 >= text.length) return false
  const next = charCodeAt(text, at + 1)
  return next >= 0xdc00 && next <= 0xdfff
}

/** The code point at a place, U+FFFD for a lone surrogate. */
export function scalarAt(text: string, at: number): number {
  const code = charCodeAt(text, at)
  if (code < 0xd800 || code > 0xdfff) return code
  return isPair(text, at, code) ? 0x10000 + ((code - 0xd800) << 10) + charCodeAt(text, at + 1) - 0xdc00 : 0xfffd
}

/** Writes the UTF-8 form of a scalar value; answers the place behind it. */
export function putScalar(bytes: Uint8Array, to: number, scalar: number): number {
  if (scalar < 0x80) {
    bytes[to++] = scalar
    return to
  }
  if (scalar < 0x800) bytes[to++] = 0xc0 | (scalar >> 6)
  else {
    if (scalar < 0x10000) bytes[to++] = 0xe0 | (scalar >> 12)
    else {
      bytes[to++] = 0xf0 | (scalar >> 18)
      bytes[to++] = 0x80 | ((scalar >> 12) & 63)
    }
    bytes[to++] = 0x80 | ((scalar >> 6) & 63)
  }
  bytes[to++] = 0x80 | (scalar & 63)
  return to
}

export function encodeUtf8(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new NativeUint8Array(utf8Length(text))
  let to = 0
  for (let at = 0; at < text.length; at++) {
    const scalar = scalarAt(text, at)
    to = putScalar(bytes, to, scalar)
    if (scalar > 0xffff) at++
  }
  return bytes
}

/** UTF-8 without errors (U+FFFD for what is none). */
export function decodeUtf8(bytes: Uint8Array): string {
  if (byteLength(bytes) === 0) return ''
  return ask('decode', pack(['utf-8', false, false, 0, false, false], latin1(bytes)))
}

/** The body of a call, as text or as bytes, whichever is asked for. */
export class CallBody {
  readonly #given: string
  readonly #kind: number
  constructor(given: string, kind: number) {
    this.#given = given
    this.#kind = kind
  }
  get text(): string {
    return this.#kind === 0 ? this.#given : decodeUtf8(this.bytes)
  }
  get bytes(): Uint8Array<ArrayBuffer> {
    if (this.#kind === 0) return encodeUtf8(this.#given)
    if (this.#kind === 2) return fromLatin1(this.#given)
    return fromBase64(this.#given) ?? new NativeUint8Array(0)
  }
}

export const isJson = (type: string | undefined): boolean =>
  type !== undefined && (indexOf(type, 'application/json') >= 0 || indexOf(lower(type), 'application/json') >= 0)
