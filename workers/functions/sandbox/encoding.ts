// biome-ignore-all lint/complexity/noArguments: Web IDL counts arguments, undefined ones too
import { encodeUtf8, fromBase64, putScalar, scalarAt, toBase64 } from './body.ts'
import { DOMException } from './dom-exception.ts'
import { ask } from './host.ts'
import { byteLength, bytesOf, NativeUint8Array, subarray, toText } from './intrinsics.ts'
import { need } from './url.ts'
import { latin1, pack } from './wire.ts'

export class TextEncoder {
  get encoding(): string {
    return 'utf-8'
  }
  encode(text?: unknown): Uint8Array {
    return encodeUtf8(text === undefined ? '' : toText(text))
  }
  encodeInto(text: unknown, into: Uint8Array): { read: number; written: number } {
    need(arguments.length, 2)
    const source = toText(text)
    if (!(into instanceof NativeUint8Array)) throw new TypeError('The destination must be a Uint8Array')
    let written = 0
    let at = 0
    while (at < source.length) {
      const scalar = scalarAt(source, at)
      const size = scalar < 0x80 ? 1 : scalar < 0x800 ? 2 : scalar < 0x10000 ? 3 : 4
      if (written + size > into.length) break
      written = putScalar(into, written, scalar)
      at += scalar > 0xffff ? 2 : 1
    }
    return { read: at, written }
  }
}

let lastDecoder = 0
/** Decoded at a time: the host does it in the thread that all isolates of its process share. */
const PIECE = 262_144

export class TextDecoder {
  readonly #encoding: string
  readonly #fatal: boolean
  readonly #ignoreBOM: boolean
  readonly #id = ++lastDecoder
  /** In the middle of a stream. */
  #open = false
  constructor(label: unknown = 'utf-8', options?: { fatal?: unknown; ignoreBOM?: unknown }) {
    const name = toText(label)
    this.#encoding = name === 'utf-8' ? name : ask('encoding', name)
    this.#fatal = Boolean(options?.fatal)
    this.#ignoreBOM = Boolean(options?.ignoreBOM)
  }
  get encoding(): string {
    return this.#encoding
  }
  get fatal(): boolean {
    return this.#fatal
  }
  get ignoreBOM(): boolean {
    return this.#ignoreBOM
  }
  decode(input?: unknown, options?: { stream?: unknown }): string {
    const bytes = input === undefined ? new NativeUint8Array(0) : bytesOf(input)
    if (bytes === null) throw new TypeError('The input must be an ArrayBuffer or a view of one')
    const stream = Boolean(options?.stream)
    const length = byteLength(bytes)
    let text = ''
    let at = 0
    for (; length - at > PIECE; at += PIECE) text += this.#decode(subarray(bytes, at, at + PIECE), true)
    return text + this.#decode(subarray(bytes, at), stream)
  }
  #decode(bytes: Uint8Array, stream: boolean): string {
    const goesOn = this.#open
    this.#open = false
    const head = [this.#encoding, this.#fatal, this.#ignoreBOM, this.#id, stream, goesOn]
    const text = ask('decode', pack(head, latin1(bytes)))
    this.#open = stream
    return text
  }
}

/** @throws {DOMException} InvalidCharacterError for characters above U+00FF */
export function btoa(given: unknown): string {
  need(arguments.length, 1)
  const text = toText(given)
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 255) throw invalidCharacter()
  return toBase64(text)
}

/** @throws {DOMException} InvalidCharacterError for what is no base64 */
export function atob(given: unknown): string {
  need(arguments.length, 1)
  const text = toText(given).replace(/[\t\n\f\r ]/g, '')
  const bytes = fromBase64(text)
  if (bytes === null) throw invalidCharacter()
  return latin1(bytes)
}

const invalidCharacter = () => new DOMException('The string contains invalid characters', 'InvalidCharacterError')
