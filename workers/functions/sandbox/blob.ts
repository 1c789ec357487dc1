// biome-ignore-all lint/complexity/noArguments: Web IDL counts arguments, undefined ones too
import { decodeUtf8, encodeUtf8 } from './body.ts'
import { bytesOf, clock, NativeUint8Array, toText } from './intrinsics.ts'
import { need, scalarText } from './url.ts'

export let blobBytes: (blob: Blob) => Uint8Array<ArrayBuffer>
export let isBlob: (value: unknown) => value is Blob

export function concatenated(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  let length = 0
  for (const part of parts) length += part.length
  const bytes = new NativeUint8Array(length)
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

export class Blob {
  #bytes: Uint8Array<ArrayBuffer>
  #type: string
  static {
    blobBytes = (blob) => blob.#bytes
    isBlob = (value): value is Blob => typeof value === 'object' && value !== null && #bytes in value
  }
  constructor(parts: Iterable<unknown> = [], options?: { type?: unknown }) {
    const all: Uint8Array[] = []
    for (const part of parts) all.push(isBlob(part) ? part.#bytes : (bytesOf(part) ?? encodeUtf8(toText(part))))
    this.#bytes = concatenated(all)
    const type = options?.type === undefined ? '' : toText(options.type)
    this.#type = /^[\x20-\x7e]*$/.test(type) ? type.toLowerCase() : ''
  }
  get size(): number {
    return this.#bytes.length
  }
  get type(): string {
    return this.#type
  }
  slice(from?: number, to?: number, type?: unknown): Blob {
    const part = new Blob([], { type: type ?? '' })
    part.#bytes = this.#bytes.slice(from, to)
    return part
  }
  async text(): Promise<string> {
    return decodeUtf8(this.#bytes)
  }
  async arrayBuffer(): Promise<ArrayBuffer> {
    return this.#bytes.slice().buffer
  }
  async bytes(): Promise<Uint8Array> {
    return this.#bytes.slice()
  }
}

export class File extends Blob {
  readonly #name: string
  readonly #lastModified: number
  constructor(parts: Iterable<unknown>, name: unknown, options?: { type?: unknown; lastModified?: unknown }) {
    need(arguments.length, 2)
    super(parts, options)
    this.#name = scalarText(name)
    this.#lastModified = options?.lastModified === undefined ? clock() : Number(options.lastModified)
  }
  get name(): string {
    return this.#name
  }
  get lastModified(): number {
    return this.#lastModified
  }
}

type Entry = [string, string | File]

export class FormData {
  #entries: Entry[] = []
  append(name: unknown, value: unknown, fileName?: unknown): void {
    need(arguments.length, 2)
    this.#entries.push([scalarText(name), entryValue(value, fileName)])
  }
  set(name: unknown, value: unknown, fileName?: unknown): void {
    need(arguments.length, 2)
    const key = scalarText(name)
    const entry: Entry = [key, entryValue(value, fileName)]
    const at = this.#entries.findIndex((known) => known[0] === key)
    if (at < 0) this.#entries.push(entry)
    else
      this.#entries = [
        ...this.#entries.slice(0, at),
        entry,
        ...this.#entries.slice(at).filter(([other]) => other !== key),
      ]
  }
  delete(name: unknown): void {
    const key = scalarText(name)
    this.#entries = this.#entries.filter((known) => known[0] !== key)
  }
  get(name: unknown): string | File | null {
    const key = scalarText(name)
    return this.#entries.find((known) => known[0] === key)?.[1] ?? null
  }
  getAll(name: unknown): (string | File)[] {
    const key = scalarText(name)
    return this.#entries.filter((known) => known[0] === key).map((known) => known[1])
  }
  has(name: unknown): boolean {
    const key = scalarText(name)
    return this.#entries.some((known) => known[0] === key)
  }
  forEach(visit: (value: string | File, name: string, form: FormData) => void, self?: unknown): void {
    for (const [name, value] of this.#entries) visit.call(self, value, name, this)
  }
  *entries(): IterableIterator<Entry> {
    for (const [name, value] of this.#entries) yield [name, value]
  }
  *keys(): IterableIterator<string> {
    for (const [name] of this.#entries) yield name
  }
  *values(): IterableIterator<string | File> {
    for (const [, value] of this.#entries) yield value
  }
  [Symbol.iterator](): IterableIterator<Entry> {
    return this.entries()
  }
}

function entryValue(value: unknown, fileName: unknown): string | File {
  if (!isBlob(value)) return scalarText(value)
  if (value instanceof File && fileName === undefined) return value
  return new File([value], fileName === undefined ? 'blob' : fileName, { type: value.type })
}
