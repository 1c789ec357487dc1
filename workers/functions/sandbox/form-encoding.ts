import { encodeUtf8 } from './body.ts'
import { ask } from './host.ts'
import { apply, charCodeAt, fromCharCode } from './intrinsics.ts'
import { latin1, pack } from './wire.ts'

/** application/x-www-form-urlencoded: Source: WHATWG URL, section 5. */
export function parseForm(text: string): [string, string][] {
  const pairs: [string, string][] = []
  for (const part of text.split('&')) {
    if (part === '') continue
    const at = part.indexOf('=')
    pairs.push(at < 0 ? [decodePart(part), ''] : [decodePart(part.slice(0, at)), decodePart(part.slice(at + 1))])
  }
  return pairs
}

const plain = /^[\x20-\x24\x26-\x7f]*$/
const { exec } = RegExp.prototype

function decodePart(given: string): string {
  const text = given.includes('+') ? given.replaceAll('+', ' ') : given
  if (apply(exec, plain, [text]) !== null) return text
  const bytes = encodeUtf8(text)
  let to = 0
  let ascii = true
  for (let at = 0; at < bytes.length; at++) {
    let byte = bytes[at]!
    if (byte === 0x25 && at + 2 < bytes.length) {
      const high = hex(bytes[at + 1]!)
      const low = hex(bytes[at + 2]!)
      if (high >= 0 && low >= 0) {
        byte = high * 16 + low
        at += 2
      }
    }
    if (byte > 0x7f) ascii = false
    bytes[to++] = byte
  }
  const decoded = latin1(bytes.subarray(0, to))
  return ascii ? decoded : ask('decode', pack(['utf-8', false, true, 0, false, false], decoded))
}

function hex(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const lower = byte | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}

const unreserved = /^[0-9A-Za-z*\-._]*$/
const HEX = '0123456789ABCDEF'

function encodePart(text: string): string {
  if (apply(exec, unreserved, [text]) !== null) return text
  const bytes = encodeUtf8(text)
  let out = ''
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (byte === 0x20) out += '+'
    else if (isUnreserved(byte)) out += fromCharCode(byte)
    else out += `%${HEX[byte >> 4]}${HEX[byte & 15]}`
  }
  return out
}

const isUnreserved = (byte: number): boolean =>
  (byte >= 0x30 && byte <= 0x39) ||
  (byte >= 0x41 && byte <= 0x5a) ||
  (byte >= 0x61 && byte <= 0x7a) ||
  byte === charCodeAt('*', 0) ||
  byte === 0x2d ||
  byte === 0x2e ||
  byte === 0x5f

export function serialiseForm(pairs: readonly (readonly [string, string])[]): string {
  let out = ''
  for (let at = 0; at < pairs.length; at++) {
    const [name, value] = pairs[at]!
    out += `${at === 0 ? '' : '&'}${encodePart(name)}=${encodePart(value)}`
  }
  return out
}
