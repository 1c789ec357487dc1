// biome-ignore-all lint/complexity/noArguments: Web IDL counts arguments, undefined ones too
import { apply, lower, toText } from './intrinsics.ts'
import { need } from './url.ts'

const namePattern = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const valuePattern = /^[\t\x20-\x7e\x80-\xff]*$/
const { exec } = RegExp.prototype

function nameOf(given: unknown): string {
  const name = toText(given)
  if (apply(exec, namePattern, [name]) === null) throw new TypeError(`"${name}" is not a header name`)
  return lower(name)
}

function headerValue(given: unknown): string {
  const value = toText(given).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '')
  if (apply(exec, valuePattern, [value]) === null)
    throw new TypeError('A header value has characters that are not allowed')
  return value
}

/** The headers as pairs, `set-cookie` one each, sorted by name. */
export let headerPairs: (headers: Headers) => [string, string][]

export class Headers {
  #pairs: [string, string][] = []
  static {
    headerPairs = (headers) => headers.#sorted()
  }
  constructor(init?: unknown) {
    if (init === undefined) return
    if ((typeof init !== 'object' && typeof init !== 'function') || init === null)
      throw new TypeError('Headers are made of an object, pairs or other Headers')
    if (#pairs in init) {
      this.#pairs = init.#pairs.map(([name, value]) => [name, value])
      return
    }
    if (typeof (init as { [Symbol.iterator]?: unknown })[Symbol.iterator] === 'function') {
      for (const pair of init as Iterable<Iterable<unknown>>) {
        const [...both] = pair
        if (both.length !== 2) throw new TypeError('Each header pair must be an iterable [name, value] tuple')
        this.append(both[0], both[1])
      }
    } else for (const name of Object.keys(init)) this.append(name, (init as Record<string, unknown>)[name])
  }
  #sorted(): [string, string][] {
    const single = new Map<string, string>()
    const cookies: [string, string][] = []
    for (const [name, value] of this.#pairs) {
      if (name === 'set-cookie') cookies.push([name, value])
      else single.set(name, single.has(name) ? `${single.get(name)}, ${value}` : value)
    }
    return [...single, ...cookies].sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0))
  }
  append(name: unknown, value: unknown): void {
    need(arguments.length, 2)
    this.#pairs.push([nameOf(name), headerValue(value)])
  }
  delete(name: unknown): void {
    need(arguments.length, 1)
    const key = nameOf(name)
    this.#pairs = this.#pairs.filter((pair) => pair[0] !== key)
  }
  get(name: unknown): string | null {
    need(arguments.length, 1)
    const key = nameOf(name)
    const values = this.#pairs.filter((pair) => pair[0] === key).map((pair) => pair[1])
    return values.length === 0 ? null : values.join(', ')
  }
  getSetCookie(): string[] {
    return this.#pairs.filter((pair) => pair[0] === 'set-cookie').map((pair) => pair[1])
  }
  has(name: unknown): boolean {
    need(arguments.length, 1)
    const key = nameOf(name)
    return this.#pairs.some((pair) => pair[0] === key)
  }
  set(name: unknown, value: unknown): void {
    need(arguments.length, 2)
    const key = nameOf(name)
    const text = headerValue(value)
    const first = this.#pairs.find((pair) => pair[0] === key)
    if (first === undefined) this.#pairs.push([key, text])
    else {
      first[1] = text
      this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== key)
    }
  }
  forEach(visit: (value: string, name: string, headers: Headers) => void, self?: unknown): void {
    for (const [name, value] of this.#sorted()) visit.call(self, value, name, this)
  }
  *entries(): IterableIterator<[string, string]> {
    yield* this.#sorted()
  }
  *keys(): IterableIterator<string> {
    for (const [name] of this.#sorted()) yield name
  }
  *values(): IterableIterator<string> {
    for (const [, value] of this.#sorted()) yield value
  }
  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries()
  }
}
