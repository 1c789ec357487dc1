import {
  apply,
  byteLength,
  charCodeAt,
  fromCharCode,
  indexOf,
  jsonParse,
  jsonStringify,
  NativeUint8Array,
  slice,
  subarray,
} from './intrinsics.ts'

/** One packet: the head as JSON, a line feed, the rest as it is. */
export const pack = (head: unknown, rest = ''): string => `${jsonStringify(head)}\n${rest}`

/** A reply of JSON, as `pack` would make it: most replies are such. */
export function jsonReply(status: number, waiting: boolean, body: string): string {
  return `{"ok":true,"status":${status},"headers":{"content-type":"application/json"},"binary":false,"waiting":${waiting}}\n${body}`
}

/** @throws {SyntaxError} when the text is no packet. */
export function unpack<Head>(text: string): { readonly head: Head; readonly rest: string } {
  const end = indexOf(text, '\n')
  if (end < 0) return { head: jsonParse(text) as Head, rest: '' }
  return { head: jsonParse(slice(text, 0, end)) as Head, rest: slice(text, end + 1) }
}

const CHUNK = 8192

/** Bytes as text of one character a byte. */
export function latin1(bytes: Uint8Array): string {
  const length = byteLength(bytes)
  if (length <= CHUNK) return apply(fromCharCode, null, bytes) as string
  let text = ''
  for (let at = 0; at < length; at += CHUNK)
    text += apply(fromCharCode, null, subarray(bytes, at, at + CHUNK)) as string
  return text
}

/** The bytes of Latin-1 text. */
export function fromLatin1(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new NativeUint8Array(text.length)
  for (let at = 0; at < text.length; at++) bytes[at] = charCodeAt(text, at)
  return bytes
}
